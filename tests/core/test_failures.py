"""What a processor raises reaches every caller, as its own copy (contract, rule 5)."""

import gc
import traceback
from collections.abc import Callable
from concurrent.futures import CancelledError as FutureCancelledError
from typing import Any, Self

import anyio
import numpy as np
import pytest
from recording import RecordingProcessor, raises
from scenes import Caller, open_scene

from async_batcher import BatchCancelled

pytestmark = pytest.mark.anyio


class CodeError(Exception):
    """Changes its arguments: calling it again would make "code code 5"."""

    def __init__(self, code: int) -> None:
        super().__init__(f"code {code}")
        self.code = code


class TwoArgumentsError(Exception):
    """Cannot be made from its `args`."""

    def __init__(self, left: int, right: int) -> None:
        super().__init__(f"{left}/{right}")
        self.left, self.right = left, right


class SlottedError(Exception):
    """Keeps state where a copy of `__dict__` does not reach."""

    __slots__ = ("detail",)

    def __init__(self, detail: str) -> None:
        super().__init__()
        self.detail = detail

    def __str__(self) -> str:
        return f"detail {self.detail}"


class NewError(Exception):
    """Has a `__new__` with arguments of its own."""

    def __new__(cls, *, key: str) -> Self:
        error = super().__new__(cls, key)
        error.key = key
        return error

    def __init__(self, *, key: str) -> None:
        super().__init__(key)

    key: str


class UncopyableError(Exception):
    """Refuses to be copied or pickled."""

    def __reduce__(self) -> Any:
        raise TypeError("no copies")

    def __copy__(self) -> Any:
        raise TypeError("no copies")


class TextlessError(Exception):
    """Cannot even be printed."""

    def __str__(self) -> str:
        raise LookupError("no text")


async def callers_of(error: BaseException, size: int = 3, **options: Any) -> list[Caller]:
    """Let a batch of so many items raise this; the next batch must be fine."""
    fn = RecordingProcessor()
    fn.script.append(raises(error))
    async with open_scene(fn, max_batch_size=size, **options) as scene:
        callers = await scene.process(*range(size))
        assert not any(caller.waits for caller in callers)
        after = await scene.process(*range(size))
        assert [caller.result for caller in after] == [item * 10 for item in range(size)]
        assert scene.batcher.stats().failed == size
    return callers


ERRORS = [
    ValueError("no"),
    ValueError(),
    KeyError("key"),
    OSError(2, "No such file", "name"),
    FileNotFoundError(2, "No such file", "name"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
    UnicodeEncodeError("ascii", "é", 0, 1, "ordinal not in range"),
    SyntaxError("bad", ("file", 1, 2, "text")),
    ImportError("no module", name="spam", path="eggs"),
    AttributeError("no", name="spam", obj=3),
    NameError("no", name="spam"),
    ExceptionGroup("several", [ValueError("one"), TypeError("two")]),
    CodeError(5),
    TwoArgumentsError(1, 2),
    SlottedError("deep"),
    NewError(key="value"),
    UncopyableError("no copies"),
    ValueError(np.arange(3)),
    ValueError(float("nan")),
    FutureCancelledError("somebody else's"),
    TimeoutError("the backend's own"),
    EOFError(),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
async def test_every_caller_gets_the_error_as_it_was(error: Exception) -> None:
    """F3: type, text, `args` and attributes are the original's, for each caller, for any kind of error."""
    for caller in await callers_of(error):
        found = caller.failed(type(error))
        assert type(found) is type(error)
        assert str(found) == str(error)
        assert repr(found.args) == repr(error.args)
        assert repr(vars(found)) == repr(vars(error))


@pytest.mark.parametrize(
    ("error", "names"),
    [
        (OSError(2, "No such file", "name"), ("errno", "strerror", "filename")),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), ("encoding", "object", "start", "end", "reason")),
        (ImportError("no", name="spam", path="eggs"), ("msg", "name", "path")),
        (SyntaxError("bad", ("file", 1, 2, "text")), ("msg", "filename", "lineno", "offset", "text")),
        (AttributeError("no", name="spam", obj=3), ("name", "obj")),
        (NameError("no", name="spam"), ("name",)),
        (SlottedError("deep"), ("detail",)),
        (CodeError(5), ("code",)),
        (ExceptionGroup("several", [ValueError("one")]), ("message", "exceptions")),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_state_outside_the_dict_is_kept_too(error: Exception, names: tuple[str, ...]) -> None:
    """Rule 5: what an error keeps in slots or in C reaches every caller as well."""
    for caller in await callers_of(error):
        found = caller.failed(type(error))
        assert [getattr(found, name) for name in names] == [getattr(error, name) for name in names]


async def test_error_that_cannot_be_printed_leaves_nobody_waiting() -> None:
    """An error whose text cannot be had still reaches each caller."""
    for caller in await callers_of(TextlessError(1)):
        assert caller.failed(TextlessError).args == (1,)


async def test_each_caller_has_a_copy_of_its_own() -> None:
    """F7: notes and attributes that one caller adds are not seen by another, nor on the original."""
    error = ValueError("no")
    error.add_note("the backend's")
    callers = await callers_of(error)
    for number, caller in enumerate(callers):
        found = caller.failed(ValueError)
        found.add_note(f"caller {number}")
    notes = [caller.failed(ValueError).__notes__ for caller in callers]
    assert notes == [["the backend's", f"caller {number}"] for number in range(3)]


@pytest.mark.parametrize(
    "make",
    [lambda: ValueError("no"), lambda: CodeError(5), lambda: SlottedError("deep"), lambda: TextlessError(1)],
    ids=["plain", "attributes", "slots", "no text"],
)
async def test_traceback_does_not_grow_with_the_callers(make: Callable[[], Exception]) -> None:
    """F7: fifty siblings that re-raise: each traceback is as long as that of one alone."""

    async def longest(size: int) -> int:
        callers = await callers_of(make(), size)
        return max(len(traceback.extract_tb(caller.failed(Exception).__traceback__)) for caller in callers)

    assert await longest(50) <= await longest(1) + 1


async def test_traceback_shows_where_the_processor_failed() -> None:
    """Every caller sees the processor's own frames."""

    async def deep(batch: list[int]) -> list[int]:
        def the_place_of_the_fault() -> None:
            raise ValueError("no")

        the_place_of_the_fault()
        return batch

    async with open_scene(deep, max_batch_size=3) as scene:
        for caller in await scene.process(1, 2, 3):
            frames = traceback.extract_tb(caller.failed(ValueError).__traceback__)
            assert "the_place_of_the_fault" in [frame.name for frame in frames]


async def test_frames_of_siblings_cannot_be_reached() -> None:
    """F7: my error holds no frame of another caller."""
    callers = await callers_of(ValueError("no"), 5)
    for caller in callers:
        owners = set()
        trace = caller.failed(ValueError).__traceback__
        while trace is not None:
            if "self" in trace.tb_frame.f_locals and isinstance(trace.tb_frame.f_locals["self"], Caller):
                owners.add(trace.tb_frame.f_locals["self"])
            trace = trace.tb_next
        assert owners == {caller}


@pytest.mark.parametrize("suppress", [False, True])
async def test_cause_and_context_are_the_originals(suppress: bool) -> None:
    """Rule 5: `raise ... from` and the error that was being handled are seen by every caller."""
    cause, context = LookupError("cause"), KeyError("context")

    async def fails(batch: list[int]) -> list[int]:
        try:
            raise context
        except KeyError:
            if suppress:
                raise ValueError("no") from cause
            raise ValueError("no")  # noqa: B904 - the context is what this is about

    async with open_scene(fails, max_batch_size=3) as scene:
        for caller in await scene.process(1, 2, 3):
            found = caller.failed(ValueError)
            assert found.__cause__ is (cause if suppress else None)
            assert found.__context__ is context
            assert found.__suppress_context__ is suppress


async def test_stop_iteration_becomes_a_runtime_error() -> None:
    """F1: no future takes it: each caller gets a `RuntimeError` with it as the cause."""
    fn = RecordingProcessor(lambda batch: next(iter([])))
    async with open_scene(fn, max_batch_size=2) as scene:
        for caller in await scene.process(1, 2):
            found = caller.failed(RuntimeError)
            assert isinstance(found.__cause__, StopIteration)


async def test_error_is_not_kept_after_everyone_has_it() -> None:
    """F9: once callers and processor are gone nothing holds the error, or the items in its frames."""
    callers = await callers_of(CodeError(77))
    callers.clear()
    gc.collect()
    assert not [held for held in gc.get_objects() if type(held) is CodeError and held.code == 77]


async def test_timeout_error_of_the_processor_stays_what_it_is() -> None:
    """C6: its own `TimeoutError` is not taken for a deadline of ours."""

    async def slow(batch: list[int]) -> list[int]:
        with anyio.fail_after(1):
            await anyio.sleep(2)
        return batch

    async with open_scene(slow, max_batch_size=1) as scene:
        with pytest.raises(TimeoutError) as caught:
            await scene.batcher.process(1)
        assert type(caught.value) is TimeoutError


async def test_processor_that_cancels_a_scope_of_its_own_is_fine() -> None:
    """A cancellation that the processor itself ends is no business of the batcher's."""

    async def bounded(batch: list[int]) -> list[int]:
        with anyio.move_on_after(1):
            await anyio.sleep(2)
        return batch

    async with open_scene(bounded, max_batch_size=1) as scene:
        assert await scene.batcher.process(1) == 1


async def test_cancellation_is_not_an_error_of_the_batchers_own_kind() -> None:
    """`BatchCancelled` is an `Exception`: no caller takes it for its own cancellation."""
    assert issubclass(BatchCancelled, Exception)
