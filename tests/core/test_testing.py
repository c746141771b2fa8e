"""What the library gives to users' tests: the recording processor, and that its documentation is true."""

import asyncio
import io
import textwrap
from contextlib import redirect_stdout
from typing import Any

import anyio
import pytest
from scenes import Caller, enter_scene, open_scene
from virtual_time import settle

from async_batcher import AsyncBatcher, testing
from async_batcher.testing import RecordingProcessor, VirtualEventLoop, raising, returning, run_virtual

pytestmark = pytest.mark.anyio


def negated(numbers: list[int]) -> list[int]:
    return [-number for number in numbers]


async def called(fn: RecordingProcessor[Any, Any], *items: Any, **options: Any) -> list[Caller]:
    """Send these items in one batch, in this order, and return their callers."""
    async with open_scene(fn, max_batch_size=len(items), **options) as scene:
        return await scene.process(*items)


async def test_batches_are_recorded_as_they_were_given() -> None:
    """Each batch, in the order of the items; what the processor does to its list later changes nothing."""

    def clear(numbers: list[int]) -> list[int]:
        answers = negated(numbers)
        numbers.clear()
        return answers

    fn = RecordingProcessor(clear)
    assert [caller.result for caller in await called(fn, 1, 2)] == [-1, -2]
    assert (fn.batches, fn.seen, fn.ended, fn.running) == ([[1, 2]], [1, 2], [0], 0)


async def test_answer_may_be_the_real_async_processor() -> None:
    """To look over the shoulder of what is used in production."""

    async def real(numbers: list[int]) -> list[int]:
        await anyio.sleep(1)
        return negated(numbers)

    fn = RecordingProcessor(real)
    async with AsyncBatcher.from_callable(fn, max_queue_time=0) as batcher:
        assert await batcher.process(1) == -1
    assert fn.batches == [[1]]


async def test_scripted_batches_come_first() -> None:
    """Each of the script serves one batch, then `answer` does; more can be scripted at any time."""
    fn = RecordingProcessor(negated, raising(KeyError("first")), returning(["second"]))
    async with open_scene(fn, max_batch_size=1) as scene:
        first, second, third = await scene.process(1, 2, 3)
        fn.script.append(returning(None))
        (fourth,) = await scene.process(4)
    assert first.failed(KeyError).args == ("first",)
    assert [caller.result for caller in (second, third, fourth)] == ["second", -3, None]


async def test_batches_wait_at_gates_of_their_own() -> None:
    """`hold` stops what begins from then on; one gate may be opened, or all."""
    fn = RecordingProcessor(negated)
    async with open_scene(fn, max_batch_size=1, concurrency=None) as scene:
        (before,) = await scene.process(0)
        fn.hold()
        one, two, three = await scene.process(1, 2, 3)
        fn.release(2)
        await settle()
        assert [caller.waits for caller in (before, one, two, three)] == [False, True, False, True]
        assert (fn.running, fn.most_at_once) == (2, 3)
        fn.release()
        (after,) = await scene.process(4)
        assert after.result == -4
    assert (fn.ended[:2], set(fn.ended[2:4]), fn.ended[4:]) == ([0, 2], {1, 3}, [4])


async def test_gate_that_no_batch_has_come_to_is_named() -> None:
    """To release what has not begun is a slip of the test, not a wish for later."""
    fn = RecordingProcessor(negated)
    fn.hold()
    async with open_scene(fn, max_batch_size=1) as scene:
        await scene.process(1)
        with pytest.raises(LookupError, match=r"batch 1 is at no gate.*\[0\]"):
            fn.release(1)
        fn.release()


async def test_begun_waits_for_so_many_batches() -> None:
    """It returns when the batch begins, not when it ends, and at once where it has begun."""
    fn = RecordingProcessor(negated)
    fn.hold()
    async with open_scene(fn, max_batch_size=1, concurrency=2) as scene:
        waits = scene.start(lambda: fn.begun(2))
        await scene.process(1)
        assert waits.waits
        await scene.process(2)
        assert waits.result is None
        await fn.begun(1)
        assert fn.running == 2
        fn.release()


async def test_cancelled_batches_are_told_apart() -> None:
    """A batch that a forced stop cancels has ended, and is named."""
    fn = RecordingProcessor(negated)
    fn.hold()
    async with open_scene(fn, max_batch_size=1) as scene:
        await scene.process(1)
        await scene.stop(force=True)
        fn.release()
    assert (fn.cancelled, fn.ended) == ([0], [0])


async def test_item_fails_alone() -> None:
    """An error in an item's place is its caller's alone, in every batch; other results stay in their places."""
    fn = RecordingProcessor(negated)
    fn.fail_item(2, ValueError("two"))
    for _ in range(2):
        one, two, three = await called(fn, 1, 2, 3)
        assert two.failed(ValueError).args == ("two",)
        assert (one.result, three.result) == (-1, -3)


async def test_item_fails_alone_among_results_of_none() -> None:
    """A processor that returns nothing can have a failed item, too."""
    fn: RecordingProcessor[int, None] = RecordingProcessor(lambda _: None)
    fn.fail_item(2, ValueError("two"))
    one, two = await called(fn, 1, 2)
    assert one.result is None
    two.failed(ValueError)


async def test_item_fails_its_whole_batch() -> None:
    """As one bad row fails a bulk insert: whoever shares a batch with it fails, others don't."""
    fn = RecordingProcessor(negated)
    fn.fail_batch_of(2, ValueError("bad row"))
    bad = await called(fn, 1, 2)
    (good,) = await called(fn, 1)
    assert [caller.failed(ValueError).args for caller in bad] == [("bad row",)] * 2
    assert good.result == -1


async def test_weights_of_batches_are_recorded() -> None:
    """With the function that weighs items for the batcher, what each batch came to can be looked at."""

    def shout(texts: list[str]) -> list[str]:
        return [text.upper() for text in texts]

    fn = RecordingProcessor(shout, weigh=len)
    await called(fn, "a", "bcd")
    await called(fn, "ef")
    assert fn.weights == [4, 2]


def test_processor_is_used_in_one_loop_after_another() -> None:
    """Nothing of it is bound to the loop of the test before, not even by a wait that was given up."""
    fn = RecordingProcessor(negated)

    async def give_up() -> None:
        with anyio.move_on_after(0.001):
            await fn.begun(1)

    async def main() -> None:
        async with (
            AsyncBatcher.from_callable(fn, max_queue_time=0) as batcher,
            anyio.create_task_group() as group,
        ):
            group.start_soon(fn.begun, len(fn.batches) + 1)
            await settle()
            assert await batcher.process(1) == -1

    for backend in ("asyncio", "trio", "asyncio"):
        anyio.run(give_up, backend=backend)
        anyio.run(main, backend=backend)
    assert fn.batches == [[1]] * 3


def test_loop_that_nobody_can_wake_says_so_after_its_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A caller that is never told is a failure of the test, and no hang."""
    monkeypatch.setattr(VirtualEventLoop, "real_patience", 0.01)
    fn = RecordingProcessor(negated)
    fn.hold()

    async def main() -> None:
        await AsyncBatcher.from_callable(fn, max_queue_time=0).process(1)

    with pytest.raises(RuntimeError, match="no timer is armed"):
        run_virtual(main)


def test_blocking_code_moves_the_clock_by_hand() -> None:
    """`set_time_aside` is what blocking code does to the loop: the window is over when it comes back."""

    async def main() -> float:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualEventLoop)
        async with enter_scene(
            AsyncBatcher.from_callable(RecordingProcessor(negated), max_queue_time=1)
        ) as scene:
            (caller,) = await scene.process(1)
            loop.set_time_aside(3)
            await caller.end()
            return loop.time()

    assert run_virtual(main) == 3


@pytest.mark.parametrize("documented", [testing, RecordingProcessor], ids=["the module", "the processor"])
def test_examples_in_the_docstrings_are_true(documented: Any) -> None:
    """Each is a whole program, and prints what stands in its last comments."""
    program = _program_in(documented.__doc__)
    expected = [line.removeprefix("# ") for line in program.splitlines() if line.startswith("# ")]
    with redirect_stdout(io.StringIO()) as printed:
        exec(program, {})  # noqa: S102 - our own documentation
    assert printed.getvalue().splitlines() == expected
    assert expected


def _program_in(docstring: str) -> str:
    lines = docstring.splitlines()
    first = next(number for number, line in enumerate(lines) if line.strip() == "import asyncio")
    indent = len(lines[first]) - len(lines[first].lstrip())
    last = next(
        (n for n, line in enumerate(lines[first:], first) if line and not line.startswith(" " * indent)),
        len(lines),
    )
    return textwrap.dedent("\n".join(lines[first:last]))


def test_names_are_all_there() -> None:
    """`__all__` names what users need, and nothing that is not there."""
    assert sorted(testing.__all__) == testing.__all__
    assert all(hasattr(testing, name) for name in testing.__all__)
