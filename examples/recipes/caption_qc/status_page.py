"""What `status` prints for people: what matters first, then the dead letters and the last runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from .job.assets import shown
from .job.plan import window_name
from .labels import in_bytes
from .layout import QUIET, Column, Page
from .status import DEAD_LETTERS_SHOWN, RUNS_SHOWN, seconds_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from .job.history import DeadLetterFact, KnownQueue, PastRun
    from .layout import Cell, Row
    from .status import Standing

_BAD: Final = "red"
_ODD: Final = "yellow"
_RUNS: Final = (
    Column("run"),
    Column("took", right=True),
    Column("exit", right=True),
    Column("checked", right=True),
    Column("pass", right=True),
    Column("warn", right=True),
    Column("fail", right=True),
    Column("error", right=True),
    Column("end"),
)
_DEAD: Final = (
    Column("dead letter"),
    Column("since"),
    Column("attempts", right=True),
    Column("lies at"),
    Column("why"),
)
_LEAD: Final = max(map(len, ("dead letters", "run time"))) + 2


def print_standing(standing: Standing) -> None:
    """Print all of it."""
    page = Page()
    for name, *cells in _facts(standing):
        page.hanging(((name[0].ljust(_LEAD), QUIET),), *cells)
    if standing.dead_letters:
        page.line()
        _print_table(page, _DEAD, [_dead_row(dead, standing) for dead in standing.dead_letters])
        if standing.dead_letter_count > len(standing.dead_letters):
            page.line((f"and {standing.dead_letter_count - DEAD_LETTERS_SHOWN} more", QUIET))
    if standing.runs:
        page.line()
        _print_table(page, _RUNS, [_run_row(run, standing) for run in standing.runs[:RUNS_SHOWN]])


def _print_table(page: Page, columns: tuple[Column, ...], rows: list[Row]) -> None:
    """Print a table; where none fits, each row in a line of its own."""
    if page.table(columns, lambda: rows, _LEAST):
        return
    for row in rows:
        told = [
            (f"{column.title} {text}", style)
            for column, (text, style) in zip(columns[1:], row[1:], strict=True)
            if text
        ]
        page.flow((row[0], ("  ", "")), told)


_LEAST: Final = 24  # Columns of room for the last one.


def _facts(standing: Standing) -> Iterator[tuple[Cell, ...]]:
    unknown = "not known: nothing of it is recorded yet"
    yield ("queue", ""), (standing.queue or unknown, "")
    for known in standing.queues:
        if known.queue != standing.queue:
            yield ("other queue", ""), (_known(known), _ODD if known.dead_letters else "")
    yield ("state", ""), (shown(standing.plan.state), "")
    yield ("lock", ""), _lock(standing)
    yield ("skipped", ""), *_skipped(standing)
    if standing.last is not None:
        yield ("backlog", ""), _backlog(standing)
        count = standing.dead_letter_count
        yield ("dead letters", ""), (str(count), _BAD if count else "")
        if standing.scan_errors:
            yield ("unreadable", ""), _unreadable(standing.scan_errors)
        yield ("run time", ""), _run_time(standing)
    elif standing.trouble is None:
        yield ("runs", ""), (_no_run(standing), "")
    if standing.kept is not None:
        yield ("kept", ""), _kept(standing)


def _known(known: KnownQueue) -> str:
    records = "1 record" if known.records == 1 else f"{known.records} records"
    letters = "1 dead letter" if known.dead_letters == 1 else f"{known.dead_letters} dead letters"
    return f"{known.queue}, of runs before: {records}, {letters}"


def _lock(standing: Standing) -> Cell:
    lock = standing.lock
    if lock.holder is None:
        return "free", ""
    who = f"pid {lock.holder.pid} since {lock.holder.start} on {lock.holder.host}"
    if lock.held:
        return f"held by {who}", ""
    return (f"free; last held by {who}" if lock.held is False else f"not known here; last taken by {who}"), ""


def _unreadable(number: int) -> Cell:
    what = "1 file or folder" if number == 1 else f"{number} files and folders"
    return f"{what}; the log of the last run has their names", _ODD


def _no_run(standing: Standing) -> str:
    if standing.running:
        return "the first one is running"
    return "none has come to its end yet" if standing.runs else "none yet"


def _skipped(standing: Standing) -> Iterator[Cell]:
    row = standing.skipped_in_a_row
    yield f"{row} {'fire' if row == 1 else 'fires'} in a row", _ODD if row else ""
    if standing.skipped is not None:
        yield f", {standing.skipped} before", ""


def _backlog(standing: Standing) -> Cell:
    if standing.seen_whole is None:
        return "not known: no run has seen the whole queue yet", ""
    assets = "1 asset" if standing.backlog == 1 else f"{standing.backlog} assets"
    return f"{assets} after the run of {_at(standing.seen_whole.started)}", ""


def _run_time(standing: Standing) -> Cell:
    p95, window = standing.p95, standing.window_seconds
    if p95 is None:
        return "not known", ""
    text = f"95 of 100 runs took at most {p95:.1f} s; the window is {window:.0f} s"
    return text, _BAD if p95 > window else ""


def _kept(standing: Standing) -> Cell:
    kept = standing.kept
    if kept is None or kept.oldest is None:
        return "nothing yet", ""
    windows = "1 window" if kept.windows == 1 else f"{kept.windows} windows"
    age = (standing.plan.started - kept.oldest).days
    since = f"since {window_name(kept.oldest)} ({'1 day' if age == 1 else f'{age} days'})"
    return f"{windows} {since}, {kept.records} records, {in_bytes(kept.bytes)}", ""


def _dead_row(dead: DeadLetterFact, standing: Standing) -> Row:
    what = (dead.asset_id, ""), (_at(dead.at), ""), (str(dead.attempts), "")
    return *what, (_lies_at(dead, standing), ""), (dead.reason, "")


def _lies_at(dead: DeadLetterFact, standing: Standing) -> str:
    """Say it in few words: below the state folder, or in which queue."""
    where = "the queue" if dead.place is None else f"dead-letter/{dead.place}"
    return where if dead.queue == standing.queue else f"{where} (of {dead.queue})"


def _run_row(run: PastRun, standing: Standing) -> Row:
    if run is standing.running:
        so_far = (standing.plan.started - run.started).total_seconds()
        return (_at(run.started), ""), *[("", "")] * 7, (f"running, {so_far:.0f} s so far", "")
    took = seconds_of(run)
    if took is None:
        return (_at(run.started), ""), *[("", "")] * 7, ("did not come to its end", _ODD)
    statuses = run.totals.get("statuses", {})
    counts = [
        run.totals.get("checked", 0),
        *(statuses.get(name, 0) for name in ("pass", "warn", "fail", "error")),
    ]
    code = str(run.exit_code)
    return (
        (_at(run.started), ""),
        (f"{took:.1f} s", ""),
        (code, "" if run.exit_code == 0 else _BAD),
        *((str(count), "") for count in counts),
        (" ".join(_ends(run)), ""),
    )


def _ends(run: PastRun) -> Iterator[str]:
    if run.drained:
        yield "drained"
    if run.rebuilt:
        yield "rebuilt the ledger"


def _at(time: datetime) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%SZ")
