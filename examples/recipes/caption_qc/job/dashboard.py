"""The dashboards: what the last window with records shows, as JSON for programs and as one HTML file.

1. What follows from the ledger alone is made once a change of it, and kept as text (`dashboard_kept`); what a run
   says of itself is put around it. So a fire that finds nothing to check writes both without parsing either.
2. The text is never held whole: with ten thousand assets it has eight million characters.
3. A window that is yet to come, of a clock that was ahead, is shown by its own run alone.

`dashboard.schema.json` describes the JSON. Additions raise the minor version, removals the major one.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from .dashboard_kept import kept_text, up_to_date
from .dashboard_state import VERSION, iso, state_of
from .page import html_of
from .page.commands import commands_of
from .plan import time_of
from .rows import queue_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .dashboard_kept import Kept
    from .dashboard_state import State
    from .ledger import Ledger
    from .plan import Plan
    from .totals import Ended


# What `--fail-on` names is a result, as is a run that found nothing wrong.
_WORK_WAS_DONE: Final = (0, 65)


class Dashboards:
    """The two texts, in parts; each may be asked for once a run."""

    def __init__(self, plan: Plan, ledger: Ledger, ended: Ended) -> None:
        """Bring what is kept up to the ledger."""
        self._ledger = ledger
        self._commands = commands_of(plan)
        state = state_of(plan, ledger, ended)
        self._kept = up_to_date(ledger, state)
        self._head = _head(plan, ended, state, self._kept)

    def json(self) -> Iterator[bytes]:
        """Yield `dashboard.json`."""
        head = json.dumps(self._head, indent=1).removesuffix("\n}")
        yield f"{head},\n".encode()
        yield from kept_text(self._ledger, self._kept)
        yield b"\n}\n"

    def html(self) -> Iterator[bytes]:
        """Yield `dashboard.html`."""
        before, after = html_of(self._head, self._kept.fragment, self._commands)
        totals = json.dumps({"totals": self._kept.totals}).removesuffix("}")
        yield f"{before}{totals},\n".encode()
        yield from kept_text(self._ledger, self._kept)
        yield f"}}{after}".encode()


def _head(plan: Plan, ended: Ended, state: State, kept: Kept) -> dict[str, Any]:
    """Return what a run says of itself, and the counts beside it."""
    totals = ended.totals
    return {
        "schema_version": VERSION,
        "generated_at": iso(ended.at),
        "queue": queue_name(plan),
        "window": None if state.window is None else iso(time_of(state.window)),
        "run": {
            "id": plan.run_id,
            "status": _status(ended),
            "exit_code": int(ended.code),
            "drained": ended.drained,
            "redo": bool(plan.redo),
        },
        "profile": plan.profile.name,
        "profile_sha256": plan.profile.sha256,
        "totals": {
            **kept.totals,
            "skipped": totals.skipped,
            "dead_letters": state.dead_letters_total,
            "backlog": totals.backlog,
        },
        "superseded": kept.superseded,
    }


def _status(ended: Ended) -> str:
    if ended.drained:
        return "drained"
    return "complete" if ended.code in _WORK_WAS_DONE else "failed"
