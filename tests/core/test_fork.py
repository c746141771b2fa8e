"""A batcher on both sides of `os.fork`, in a process of its own."""

from blocking import PATIENCE
from programs import run_python

PROGRAM = """
import asyncio, os
from async_batcher import AsyncBatcher

batcher = AsyncBatcher.from_callable({processor})

async def main(item):
    return await asyncio.wait_for(batcher.process(item), {patience})

{before}
child = os.fork()
if child == 0:
    print("child", asyncio.run(main(2)), flush=True)
    os._exit(0)
_, status = os.waitpid(child, 0)
print("parent", asyncio.run(main(3)), os.waitstatus_to_exitcode(status))
"""


def output_of(processor: str, before: str) -> str:
    """Run the program; a hang in the child is a `TimeoutError` there, and no output."""
    program = PROGRAM.format(processor=processor, before=before, patience=PATIENCE / 2)
    # From 3.12 on CPython itself warns of a fork beside threads; here nothing holds a lock.
    code, out, err = run_python("-W", "ignore::DeprecationWarning", "-c", program)
    assert code == 0, err
    return out


def test_idle_batcher_of_before_the_fork_works_in_the_child() -> None:
    """G6: nothing was made before first use, so both processes make their own."""
    assert output_of("lambda batch: batch", "") == "child 2\nparent 3 0\n"


def test_threads_of_before_the_fork_are_made_anew_in_the_child() -> None:
    """G6: a fork copies the pool and not its threads; the child must not wait for a thread that isn't there."""
    assert output_of("lambda batch: batch", "asyncio.run(main(1))") == "child 2\nparent 3 0\n"
