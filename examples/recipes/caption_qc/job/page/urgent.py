"""What needs somebody, the most urgent first: the first thing that the page says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from .markup import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_CODES: Final = {
    64: "wrong usage: an option that does not exist or a value that it can't have",
    65: "what --fail-on names was found",
    66: "the queue is missing or not a folder",
    69: "the scheduler or the store can't be reached",
    73: "reports can't be created there",
    74: "the disk is full or fails, or the ledger does",
    75: "the run before still holds the lock",
    77: "permission denied",
    78: "a bad profile, place or installation",
}


class Need(NamedTuple):
    """One line of the page's head."""

    level: str
    """bad, warn, good, or quiet where there is nothing yet."""
    title: str
    text: str
    link: str | None = None
    """The part of the page that says more, and what it shows of the assets: "assets fail"."""


def needs_of(head: Mapping[str, Any]) -> list[Need]:
    """List what needs somebody; where nothing does, one line says so."""
    totals = head["totals"]
    found = [*_run(head["run"]), *_dead_letters(totals), *_assets(head), *_backlog(head)]
    return sorted(found, key=lambda need: need.level != "bad") or [_nothing(head)]


def _run(run: Mapping[str, Any]) -> Iterator[Need]:
    code = run["exit_code"]
    if code or run["status"] == "failed":
        why = _CODES.get(code, "see its log")
        yield Need("bad", f"The run ended with exit code {code}", why)
    if run["drained"]:
        yield Need("warn", "The run was stopped early", "what it did not reach is left to the next one")


def _dead_letters(totals: Mapping[str, Any]) -> Iterator[Need]:
    if count := totals["dead_letters"]:
        yield Need("bad", counted(count, "dead letter"), "given up after repeated attempts", "dead-letters")


def _assets(head: Mapping[str, Any]) -> Iterator[Need]:
    """Count what lies in the queue as it was checked: of what was delivered again since nothing is to be mended."""
    totals = head["totals"]
    shown = f"of {totals['assets']:,} in the window shown"
    if count := _current(head, "error"):
        letters = "; a dead letter of that window counts here too" if totals["dead_letters"] else ""
        text = f"{shown}{letters}{_again(head, 'error')}"
        yield Need("bad", f"{counted(count, 'asset')} could not be checked", text, "assets error")
    if count := _current(head, "fail"):
        title = f"{counted(count, 'asset')} {'fails' if count == 1 else 'fail'}"
        yield Need("bad", title, f"{shown}{_again(head, 'fail')}", "assets fail")


def _superseded(head: Mapping[str, Any], status: str) -> int:
    count: int = head["superseded"][status]
    return count


def _current(head: Mapping[str, Any], status: str) -> int:
    count: int = head["totals"][status] - _superseded(head, status)
    return count


def _again(head: Mapping[str, Any], status: str) -> str:
    count = _superseded(head, status)
    return f"; {count:,} more {'was' if count == 1 else 'were'} delivered again since" if count else ""


def _backlog(head: Mapping[str, Any]) -> Iterator[Need]:
    count = head["totals"]["backlog"]
    if head["run"]["redo"]:  # It looks at no new files.
        return
    if count is None:
        yield Need("warn", "The backlog is unknown", "the scan was cut short")
    elif count:
        yield Need("warn", f"Backlog of {counted(count, 'asset')}", "waiting for the next run")


def _nothing(head: Mapping[str, Any]) -> Need:
    if head["window"] is None:
        return Need("quiet", "Nothing was checked yet", "the run found no asset that was ready")
    totals = head["totals"]
    warned = f", {totals['warn']:,} with warnings" if totals["warn"] else ""
    again = sum(_superseded(head, status) for status in ("error", "fail"))
    mended = (
        f"; {counted(again, 'asset')} that failed {'was' if again == 1 else 'were'} delivered again"
        if again
        else ""
    )
    return Need(
        "good",
        "Nothing needs you",
        f"the run is complete, and no asset of {totals['assets']:,} in the window shown fails{warned}{mended}",
    )
