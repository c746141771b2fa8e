"""Dead letters back into the queue: their files to where they lay, their attempts forgotten.

What is to go back stands in the ledger before the first file is moved, so that a crash in the middle is finished
by the next run or replay. The record of an error stays until the next check takes its place.
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


def replay(plan: Plan, ledger: Ledger, names: Sequence[str] = ()) -> Replayed:
    """Send dead letters back into the queue, where the next run checks them.

    Args:
        plan: Names queue and state folder.
        ledger: Opened by the holder of the run lock.
        names: Asset ids, or paths in the queue or below `dead-letter/`; empty means all.

    Raises:
        JobError: A name is no dead letter's, and nothing was moved; or the ledger refused.
    """
    movers = [(letter, mover_of(plan, ledger, letter)) for letter in _chosen(plan, ledger, names)]
    with ledger.transaction() as cursor:
        for _, mover in movers:
            mover.ask_back(cursor)
    results = [(letter.asset_id, mover.move_back()) for letter, mover in movers]
    return Replayed(
        tuple(name for name, refused in results if refused is None),
        tuple((name, refused) for name, refused in results if refused is not None),
    )


def _chosen(plan: Plan, ledger: Ledger, names: Sequence[str]) -> list[Letter]:
    there = letters(plan, ledger)
    if not names:
        return there
    known = [(letter, _names_of(plan, letter)) for letter in there]
    unknown = [name for name in names if not any(_is_one_of(name, all_names) for _, all_names in known)]
    if unknown:
        raise _no_dead_letter(unknown, there)
    return [letter for letter, all_names in known if any(_is_one_of(name, all_names) for name in names)]


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
