"""What a run that did its work exits with: 65 where it found what `--fail-on` names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .errors import Exit

if TYPE_CHECKING:
    from .ledger import Ledger
    from .plan import Plan
    from .totals import Totals

# As bad as that, or worse: an error is the severity of a `fail`; `error` is what could not be checked.
_STATUSES: Final = {"error": ("fail", "error"), "warn": ("warn", "fail", "error")}


def verdict(plan: Plan, ledger: Ledger, totals: Totals) -> Exit:
    """Return the code of a run that came to its end, or to that of a drain.

    A drained run is judged like any other: what it found is found once, and no later run finds it again.
    """
    found = any(totals.statuses[status] for name in plan.fail_on for status in _STATUSES.get(name, ()))
    if found or ("dead-letter" in plan.fail_on and ledger.dead_letters()):
        return Exit.FOUND
    return Exit.OK
