"""Dead letters back into the queue: their files to where they lay, their attempts forgotten.

What is to go back stands in the ledger before the first file is moved, so that a crash in the middle is finished
by the next run or replay. The record of an error stays until the next check takes its place. What becomes of those
of another queue path is the law of `strays`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .assets import as_text, printable, shown
from .dead_letters import Letter, letters, mover_of
from .dead_places import below, dead_letter_folder
from .errors import Exit, JobError
from .strays import Stray, strays

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .ledger import Ledger
    from .plan import Plan

_MOST_NAMED: Final = 20


@dataclass(frozen=True, slots=True)
class Replayed:
    """What a replay did."""

    replayed: tuple[str, ...]
    """The asset ids that the next run checks."""
    left: tuple[tuple[str, str], ...]
    """Those that stay dead letters, each with the reason; and those whose file is gone, which are none any more."""
    elsewhere: tuple[tuple[str, str], ...] = ()
    """Those of other queues, which were not asked for by name, each with how it goes back there."""


def replay(plan: Plan, ledger: Ledger, names: Sequence[str] = ()) -> Replayed:
    """Send dead letters back into the queue, where the next run checks them.

    Args:
        plan: Names queue and state folder.
        ledger: Opened by the holder of the run lock.
        names: Asset ids, or paths in the queue or below `dead-letter/`; empty means all of this queue, and those of
            a queue that is gone.

    Raises:
        JobError: A name is no dead letter's, and nothing was moved; or the ledger refused.
    """
    own, others = _chosen(plan, ledger, names)
    left = _adopted(plan, ledger, [stray for stray in others if stray.is_lost])
    elsewhere = tuple((one.letter.asset_id, one.way_out(plan)) for one in others if not one.is_lost)
    asked = {letter[:2] for letter in own} | {one.letter[:2] for one in others if one.is_lost}
    movers = [
        (letter, mover_of(plan, ledger, letter)) for letter in letters(plan, ledger) if letter[:2] in asked
    ]
    with ledger.transaction() as cursor:
        for _, mover in movers:
            mover.ask_back(cursor)
    results = [(letter.asset_id, mover.move_back()) for letter, mover in movers]
    return Replayed(
        tuple(name for name, refused in results if refused is None),
        (
            *((name, refused) for name, refused in results if refused is not None),
            *left,
            *(elsewhere if names else ()),
        ),
        () if names else elsewhere,
    )


def _adopted(plan: Plan, ledger: Ledger, lost: Sequence[Stray]) -> list[tuple[str, str]]:
    """Make those of a queue that is gone letters of this one, and say which can't be, and why."""
    with ledger.transaction() as cursor:
        refused = [(stray.letter.asset_id, stray.adopt(plan, cursor)) for stray in lost]
    return [(name, reason) for name, reason in refused if reason is not None]


def _chosen(plan: Plan, ledger: Ledger, names: Sequence[str]) -> tuple[list[Letter], list[Stray]]:
    own = [(letter, _names_of(plan, letter)) for letter in letters(plan, ledger)]
    others = [(stray, stray.names(plan)) for stray in strays(plan, ledger)]
    if names:
        every = [all_names for _, all_names in (*own, *others)]
        unknown = [name for name in names if not any(_is_one_of(name, all_names) for all_names in every)]
        if unknown:
            known = [letter for letter, _ in own] + [stray.letter for stray, _ in others]
            raise _no_dead_letter(unknown, known)
    return (
        [letter for letter, all_names in own if _is_asked_for(names, all_names)],
        [stray for stray, all_names in others if _is_asked_for(names, all_names)],
    )


def _is_asked_for(names: Sequence[str], all_names: frozenset[str]) -> bool:
    return not names or any(_is_one_of(name, all_names) for name in names)


def _names_of(plan: Plan, letter: Letter) -> frozenset[str]:
    """Return by which names a dead letter can be meant: its id, and the paths where it lay and lies."""
    names = {letter.asset_id, plan.queue.shown(letter.name)}
    if letter.place is not None:
        names.add(shown(below(dead_letter_folder(plan), letter.place)))
    return frozenset(names)


def _is_one_of(name: str, names: frozenset[str]) -> bool:
    # The file itself may be a link, or gone: its folder alone is resolved.
    path = Path(name)
    return not names.isdisjoint(
        {name, as_text(os.fsencode(name)), shown(Path(os.path.realpath(path.parent)) / path.name)}
    )


def _no_dead_letter(unknown: Sequence[str], there: Sequence[Letter]) -> JobError:
    found = ", ".join(printable(name) for name in unknown[:_MOST_NAMED])
    known = sorted({letter.asset_id for letter in there})
    more = f" and {len(known) - _MOST_NAMED} more" if len(known) > _MOST_NAMED else ""
    listed = f"the dead letters are {', '.join(known[:_MOST_NAMED])}{more}" if known else "there is none"
    return JobError(f"no dead letter: {found}; {listed}", Exit.NO_QUEUE)
