"""A fault as a rule's function finds it, before the profile has said how severe it is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from heapq import nlargest
from itertools import count, islice
from operator import itemgetter
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from examples.recipes.caption_qc.check.report import Severity
    from examples.recipes.caption_qc.check.scc import Line

MOST_LISTED = 100
"""Findings of one rule in one file; one more says how many there were."""

_LONGEST_QUOTE = 40
_T = TypeVar("_T")
_Excess = TypeVar("_Excess", float, tuple[bool, int])


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a file; a part that makes no sense for the fault is `None`."""

    line: int | None = None
    word: int | None = None
    timecode: str | None = None
    frame: int | None = None


NOWHERE = Place()
"""The place of a fault of the whole file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """What was found. `None` in threshold, unit and severity means: as the rule says."""

    message: str
    place: Place = NOWHERE
    measured: float | None = None
    threshold: float | None = None
    unit: str | None = None
    severity: Severity | None = None
    cue: int | None = None
    channel: str | None = None
    count: int = 1
    """Over 1: this one and all others that no report lists."""
    mildest: bool = False
    """Whether those others are milder than all that are listed, or as mild; else they come later in the file."""


def each(items: Iterable[_T], tell: Callable[[_T], Fault]) -> Iterator[Fault]:
    """Tell of items that are equally severe one by one; of those that no report lists, how many there are.

    A file may have millions of faults: a message and a place for each would take longer than to find them.
    """
    found = iter(items)
    yield from map(tell, islice(found, MOST_LISTED))
    for first in islice(found, 1):
        yield replace(tell(first), count=1 + sum(1 for _ in found))


def worst(
    items: Iterable[_T], excess: Callable[[_T], _Excess], tell: Callable[[_T], Fault]
) -> Iterator[Fault]:
    """Tell of the items that go furthest over a limit, in the order of the file, and of the others how many.

    Of items that go equally far the first ones are told. Items may have any severity that follows their excess.
    """
    places = count()
    top = nlargest(MOST_LISTED + 1, zip(items, places, strict=False), key=lambda pair: excess(pair[0]))
    found = next(places)
    for item, _ in sorted(top[:MOST_LISTED], key=itemgetter(1)):
        yield tell(item)
    for item, _ in top[MOST_LISTED:]:
        yield replace(tell(item), count=found - MOST_LISTED, mildest=True)


def at_line(line: Line) -> Place:
    """Give the place of a whole caption line."""
    return Place(line.number, None, str(line.timecode), line.frame)


def at_word(line: Line, word: int) -> Place:
    """Give the place of one word of a caption line, with the frame in which it goes out."""
    return Place(line.number, word, str(line.timecode), line.frame + word)


def plain(number: float) -> str:
    """Write a limit as people do: three digits after the point are enough, unless they would be naught."""
    shown = f"{number:.3f}".rstrip("0").rstrip(".")
    return shown if float(shown) or not number else f"{Decimal(repr(number)):f}"


def quote(text: bytes) -> str:
    """Show bytes of a file in a message: cut short, in quotes, and with nothing but printable ASCII."""
    shown = ascii(text[:_LONGEST_QUOTE].decode("latin-1"))
    return shown if len(text) <= _LONGEST_QUOTE else f"{shown}..."
