"""Each caller's own copy of an error, without an event loop: how alike it is, and what is shared instead."""

import asyncio
import json
import traceback
from collections.abc import Callable
from typing import Any

import attrs
import pytest
from collector_model import Wait

from async_batcher._results import deliver, deliver_error, own_copy

CANCELLED = asyncio.CancelledError


class OtherArguments(Exception):
    """`__init__` makes its message of something that is not in `args`."""

    def __init__(self, code: int) -> None:
        super().__init__(f"code {code}")
        self.code = code


class Slotted(Exception):
    """Its fields are in slots, one of them private, one never set."""

    __slots__ = ("__hidden", "never", "shown")

    def __init__(self, value: Any) -> None:
        super().__init__("slotted")
        self.shown, self.__hidden = value, value

    @property
    def hidden(self) -> Any:
        return self.__hidden


@attrs.define
class Attrs(Exception):
    code: int


class NoTraceback(Exception):
    """Refuses a traceback."""

    def with_traceback(self, tb: Any) -> Any:
        raise TypeError("no traceback")


def a_json_error() -> BaseException:
    try:
        json.loads("{")
    except json.JSONDecodeError as error:
        return error
    raise AssertionError("unreachable")


def a_noted_error() -> BaseException:
    error = ValueError("noted")
    error.add_note("a note")
    return error


def fields(error: BaseException) -> dict[str, Any]:
    """Everything of an exception that can be asked for."""
    names = [name for name in dir(error) if not name.startswith("__")]
    found = {name: getattr(error, name) for name in names if hasattr(error, name)}
    return {name: value for name, value in found.items() if not callable(value)}


def raise_with_cause_and_context(error: BaseException) -> None:
    try:
        int("context")
    except ValueError:
        raise error from LookupError("cause")


COPIED: list[Callable[[], BaseException]] = [
    ValueError,
    lambda: ValueError("a", 1),
    lambda: KeyError("k"),
    lambda: OSError("plain"),
    lambda: FileNotFoundError(2, "no such", "one", None, "two"),
    lambda: BlockingIOError(11, "busy", 5),
    lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad byte"),
    lambda: UnicodeEncodeError("ascii", "ä", 0, 1, "bad character"),
    lambda: UnicodeTranslateError("ä", 0, 1, "bad character"),
    lambda: ImportError("no module", name="module", path="/path"),
    lambda: SyntaxError("bad", ("file", 3, 7, "text")),
    lambda: AttributeError("none", name="n", obj=3),
    lambda: NameError("none", name="n"),
    lambda: SystemExit(3),
    lambda: ExceptionGroup("two", [ValueError(1), TypeError(2)]),
    lambda: BaseExceptionGroup("one", [KeyboardInterrupt()]),
    lambda: OtherArguments(5),
    lambda: Slotted("here"),
    lambda: Attrs(7),
    lambda: NoTraceback("n"),
    a_json_error,
    a_noted_error,
]


@pytest.mark.parametrize("make", COPIED, ids=lambda make: repr(make()).split("(")[0])
def test_copy_is_the_same_in_everything_that_can_be_asked(make: Callable[[], BaseException]) -> None:
    """Type, `args`, text, fields of the type's own, cause, context, traceback and notes."""
    error = make()
    with pytest.raises(type(error)):
        raise_with_cause_and_context(error)
    copy = own_copy(error)
    assert copy is not error
    assert type(copy) is type(error)
    assert (copy.args, str(copy), repr(copy)) == (error.args, str(error), repr(error))
    assert fields(copy) == fields(error)
    assert copy.__dict__ == error.__dict__
    for name in ("__cause__", "__context__", "__suppress_context__", "__traceback__"):
        assert getattr(copy, name) is getattr(error, name)
    assert "".join(traceback.format_exception(copy)) == "".join(traceback.format_exception(error))


def test_private_slot_is_copied_and_an_unset_one_stays_unset() -> None:
    """A slot is as good as an attribute."""
    copy = own_copy(Slotted("here"))
    assert isinstance(copy, Slotted)
    assert copy.hidden == "here"
    assert not hasattr(copy, "never")


@pytest.mark.parametrize("notes", [[], ["one"]])
def test_notes_are_each_callers_own(notes: list[str]) -> None:
    """A note on a copy is on no other, also where there was an empty list of them."""
    error = ValueError("noted")
    error.__notes__ = list(notes)
    own_copy(error).add_note("mine")
    assert error.__notes__ == notes


def test_a_copys_attributes_are_its_own_and_their_values_shared() -> None:
    """A shallow copy: payloads are not copied."""
    error, payload = OtherArguments(5), object()
    error.payload = payload  # type: ignore[attr-defined]
    copy = own_copy(error)
    assert copy.__dict__["payload"] is payload
    copy.__dict__["payload"] = None
    assert error.__dict__["payload"] is payload


class OnlyByKeyword(Exception):
    """Can't be made of its `args`."""

    def __new__(cls, *, key: str) -> "OnlyByKeyword":  # noqa: PYI034  (as users write it)
        return super().__new__(cls)

    def __init__(self, *, key: str) -> None:
        super().__init__(key)


class Changing(Exception):
    """Is made as something else."""

    def __new__(cls, *args: Any) -> Any:
        return super().__new__(cls) if not args else ValueError(*args)


class Textless(Exception):
    """Has no text that a copy could be compared by."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


class Unusual(BaseException):
    """What nobody expects to be raised."""


class UnusuallyTextless(Exception):
    """Raises what is no `Exception` when it is printed."""

    def __str__(self) -> str:
        raise Unusual


class ByIdentity(Exception):
    """No copy has its text."""

    def __str__(self) -> str:
        return str(id(self))


class NoCause(Exception):
    """Refuses a cause."""

    def __setattr__(self, name: str, value: object) -> None:
        raise TypeError("frozen")


class Chainless(Exception):
    """Refuses a cause, and nothing else."""

    def __setattr__(self, name: str, value: object) -> None:
        if name == "__cause__":
            raise TypeError("no cause")
        super().__setattr__(name, value)


@pytest.mark.parametrize(
    "error",
    [
        OnlyByKeyword(key="k"),
        Textless("t"),
        UnusuallyTextless("t"),
        ByIdentity("i"),
        NoCause("c"),
        Chainless("c"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_cannot_be_copied_faithfully_still_reaches_everyone(error: BaseException) -> None:
    """Then they share the original; nobody is left waiting."""
    callers = [Wait(), Wait(), Wait()]
    assert deliver_error(callers, error) == 3
    assert all(type(caller.error) is type(error) for caller in callers)
    again = [Wait(), Wait()]
    assert deliver(again, [error, error], CANCELLED) == (0, 2)
    assert again[0].error is error


def test_what_is_made_as_something_else_is_not_used() -> None:
    """A copy of another type is no copy."""
    error = Changing()
    error.args = ("as args",)
    assert own_copy(error) is error
