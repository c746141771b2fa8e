"""The run's news for programs: one JSON object a line on standard error, one an asset, the summary last.

`log.schema.json` describes the lines. What is added later is a new field; readers pass over what they don't know.
"""

from __future__ import annotations

import json
import logging
import traceback
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from examples.recipes.caption_qc.check.tally import tally

from .assets import printable
from .errors import Exit
from .masking import masked
from .outcomes import Checked, DeadLetter
from .reports import DASHBOARD_HTML
from .rows import findings_of
from .screen import reason_of, say_to_cron, status_of
from .streams import say

if TYPE_CHECKING:
    from .errors import JobError
    from .outcomes import Ending
    from .plan import Plan
    from .totals import Ended, Totals


class JsonScreen:
    """JSON lines on standard error."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        # What libraries say would be plain lines.
        self._logged = _Logged(self)
        logging.getLogger().addHandler(self._logged)

    def show(self, ending: Ending) -> None:
        """Write one line."""
        self._write("asset", **_asset(ending))

    def warn(self, text: str) -> None:
        """Write one line."""
        self._write("warning", message=printable(text))

    def redraw(self, totals: Totals) -> None:
        """Do nothing: a log has no bar."""

    def finish(self, plan: Plan, ended: Ended) -> None:
        """Write the summary."""
        self._sum_up(
            "drained" if ended.drained else "complete",
            ended.code,
            seconds=round(ended.seconds, 3),
            queue=plan.queue.name,
            dashboard=plan.out.shown(DASHBOARD_HTML),
            totals=_totals(ended.totals),
        )

    def refuse(self, error: JobError) -> None:
        """Write a summary that says why, and to cron what is cron's."""
        say_to_cron(error)
        status = "skipped" if error.code is Exit.LOCK_HELD else "failed"
        self._sum_up(status, error.code, error=printable(str(error)))

    def crash(self, error: Exception) -> None:
        """Write where it was as a warning, and a summary: no line is anything else than an object."""
        self.warn("".join(traceback.format_exception(error)))
        self._sum_up("failed", 1, error=printable(f"{type(error).__name__}: {error}; please report this"))

    def close(self) -> None:
        """Give back what libraries log."""
        logging.getLogger().removeHandler(self._logged)

    def _sum_up(self, status: str, code: int, **known: Any) -> None:
        fields = dict.fromkeys(("error", "seconds", "queue", "dashboard", "totals"))
        self._write("summary", status=status, exit_code=int(code), **(fields | known))

    def _write(self, event: str, **fields: Any) -> None:
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        say(json.dumps({"event": event, "at": at, "run_id": self._run_id, **fields}))


class _Logged(logging.Handler):
    """What libraries have to say, as warnings of ours."""

    def __init__(self, screen: JsonScreen) -> None:
        super().__init__(logging.WARNING)
        self._screen = screen

    def emit(self, record: logging.LogRecord) -> None:
        """Write one line, whatever its message quotes."""
        self._screen.warn(masked(f"{record.name}: {self.format(record)}"))


def _asset(ending: Ending) -> dict[str, Any]:
    digest, size, seconds = None, ending.asset.stat.size, None
    rules: list[dict[str, Any]] = []
    if isinstance(ending, Checked | DeadLetter):
        digest = ending.content_sha256
        rules = [
            {"rule": found.rule, "severity": found.severity, "count": found.count}
            for found in tally(findings_of(ending))
        ]
    if isinstance(ending, Checked):
        seconds = round(ending.seconds, 6)
    return {
        "asset_id": ending.asset.asset_id,
        "status": status_of(ending),
        "reason": printable(reason_of(ending)) or None,
        "content_sha256": digest,
        "size_bytes": size,
        "check_seconds": seconds,
        "rules": rules,
    }


def _totals(totals: Totals) -> dict[str, Any]:
    counts: dict[str, Any] = json.loads(totals.as_json())
    return counts
