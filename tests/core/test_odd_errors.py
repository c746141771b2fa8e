"""Errors, results and executors of odd kinds: whatever a user's object answers, every caller gets an outcome."""

import itertools
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any

import anyio
import pytest
from blocking import PATIENCE
from scenes import Caller, open_scene

from async_batcher import BatchEvent, ResultMismatch

pytestmark = pytest.mark.anyio

Place = Callable[[BaseException, Sequence[int]], list[Any]]


class Classless(Exception):
    """Does not say what it is, as a proxy whose target is gone."""

    @property  # type: ignore[misc]  # the very oddity
    def __class__(self) -> Any:
        raise LookupError("no class")


class NamelessKind(type):
    """The type of a type that has neither module nor name."""

    def __getattribute__(cls, name: str) -> Any:
        if name in ("__module__", "__qualname__"):
            raise LookupError(f"no {name}")
        return super().__getattribute__(name)


class Nameless(Exception, metaclass=NamelessKind):
    """Its type can't be named."""


class TracebackToNone(Exception):
    """Answers `None` where it should answer itself."""

    def with_traceback(self, tb: object) -> Any:
        return None


class TracebackRefused(Exception):
    """Refuses a traceback."""

    def with_traceback(self, tb: object) -> Any:
        raise LookupError("no traceback")


def raised(error: BaseException, batch: Sequence[int]) -> list[Any]:
    """Fail the whole batch."""
    raise error


def in_its_place(error: BaseException, batch: Sequence[int]) -> list[Any]:
    """Fail item 1 alone."""
    return [error if item == 1 else item * 10 for item in batch]


async def outcomes(batcher_of: Callable[..., Any], place: Place, error: BaseException) -> list[Caller]:
    """Fail a batch of three in this way; the next batch must be served, and the counts must add up."""
    odd = [error]
    events: list[BatchEvent] = []

    def fails_once(batch: Sequence[int]) -> list[Any]:
        return place(odd.pop(), batch) if odd else list(batch)

    async with open_scene(
        batcher_of(fails_once), max_batch_size=3, max_queue_time=60, on_batch=events.append
    ) as scene:
        callers = [scene.start_process(item) for item in range(3)]
        after = []
        with anyio.fail_after(PATIENCE):
            await scene.end_of(*callers)
            after = [scene.start_process(item) for item in range(3)]
            await scene.end_of(*after)
        assert [caller.result for caller in after] == [0, 1, 2]
        failed = 3 if place is raised else 1
        stats = scene.batcher.stats()
        assert (stats.succeeded, stats.failed) == (6 - failed, failed)
    assert [(event.succeeded, event.failed) for event in events] == [(3 - failed, failed), (3, 0)]
    assert events[0].error_type == (name_of(type(error)) if place is raised else None)
    return callers


def name_of(kind: type) -> str:
    return "unknown" if isinstance(kind, NamelessKind) else f"{kind.__module__}.{kind.__qualname__}"


def as_async(function: Callable[[Sequence[int]], Any]) -> Callable[[list[int]], Awaitable[Any]]:
    async def processor(batch: list[int]) -> Any:
        return function(batch)

    return processor


def as_sync(function: Callable[[Sequence[int]], Any]) -> Callable[[list[int]], Any]:
    return function


def check_everyone_has_it(callers: list[Caller], place: Place, kind: type[BaseException]) -> None:
    """Where it was raised each has the error; where it was returned one has, and the others their results."""
    for item, caller in enumerate(callers):
        if place is raised or item == 1:
            assert not caller.was_cancelled
            assert type(caller.error) is kind
        else:
            assert caller.result == item * 10


odd_kinds = pytest.mark.parametrize("kind", [Classless, Nameless, TracebackToNone, TracebackRefused])
places = pytest.mark.parametrize("place", [raised, in_its_place])


@odd_kinds
@places
async def test_odd_error_of_an_async_processor_reaches_everyone(
    kind: type[BaseException], place: Place
) -> None:
    """Nobody asks an error for its class, its name or its traceback where the answer can raise."""
    check_everyone_has_it(await outcomes(as_async, place, kind("odd")), place, kind)


@pytest.mark.real_time
@odd_kinds
@places
async def test_odd_error_of_a_sync_processor_reaches_everyone(
    kind: type[BaseException], place: Place
) -> None:
    """The same for one that comes out of a thread."""
    check_everyone_has_it(await outcomes(as_sync, place, kind("odd")), place, kind)


class NoErrors(Exception):
    """A list of errors that is empty, so it is falsy."""

    def __len__(self) -> int:
        return 0


class SaysFalse(Exception):
    def __bool__(self) -> bool:
        return False


class SaysNothing(Exception):
    def __bool__(self) -> bool:
        raise LookupError("neither")


class EmptyPool(ThreadPoolExecutor):
    """A pool that counts what it keeps, which is nothing, so it is falsy."""

    def __len__(self) -> int:
        return 0


@pytest.fixture
def pool() -> Iterator[Executor]:
    """A caller-owned pool, kept outside the loop."""
    with EmptyPool(max_workers=1, thread_name_prefix="mine") as executor:
        yield executor


@pytest.mark.real_time
@pytest.mark.parametrize("given", [False, True], ids=["own threads", "given pool"])
@pytest.mark.parametrize("kind", [NoErrors, SaysFalse, SaysNothing])
async def test_falsy_error_of_a_thread_is_an_error(
    kind: type[BaseException], given: bool, pool: Executor
) -> None:
    """A future takes an error that is falsy for none: the callers would get `None` each, as if it had worked."""

    def fails(batch: list[int]) -> list[int]:
        raise kind

    options: dict[str, Any] = {"executor": pool} if given else {}
    async with open_scene(fails, max_batch_size=2, **options) as scene:
        callers = [scene.start_process(item) for item in (1, 2)]
        with anyio.fail_after(PATIENCE):
            await scene.end_of(*callers)
        assert [type(caller.error) for caller in callers] == [kind, kind]
        assert scene.batcher.stats().failed == 2


@pytest.mark.real_time
async def test_falsy_executor_is_used(pool: Executor) -> None:
    """It was given, so the batch runs there, whatever its `__len__` or `__bool__` says."""

    def names(batch: list[int]) -> list[str]:
        return [threading.current_thread().name] * len(batch)

    async with open_scene(names, executor=pool, max_batch_size=1) as scene:
        assert (await scene.batcher.process(1)).startswith("mine")


class Endless:
    """Has the right length, and an iterator that never ends (but for a fuse, so that a fault is no hang)."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.drawn = 0

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, place: int) -> int:
        return place

    def __iter__(self) -> Iterator[int]:
        for number in itertools.count():
            self.drawn += 1
            if self.drawn > 10_000:
                raise MemoryError("it was read without end")
            yield number


async def test_result_that_never_ends_is_a_mismatch_at_once() -> None:
    """It is read one value past the items, whatever its length says, and no further."""
    made: list[Endless] = []

    async def counts(batch: list[int]) -> Any:
        made.append(Endless(len(batch)))
        return made[-1]

    async with open_scene(counts, max_batch_size=2) as scene:
        for caller in await scene.process(1, 2):
            caller.failed(ResultMismatch)
    assert [results.drawn for results in made] == [3]
