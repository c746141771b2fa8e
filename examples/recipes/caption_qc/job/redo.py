"""What `--redo` checks again: the assets of some windows whose bytes still lie in the queue.

A file that is gone or has other bytes keeps its record; it is counted and not checked. Dead letters are left to
`replay`. What a check replaces is decided where it is written (`recording`).
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote_to_bytes

from .digest import holds
from .exits import BrokenOffError
from .plan import microseconds
from .rows import queue_name
from .scan import PAGE_SIZE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .assets import Asset
    from .ledger import Ledger
    from .plan import Plan
    from .totals import Totals


class _Row(NamedTuple):
    """A record, and what the ledger knows of its file now."""

    asset_id: str
    content_sha256: str
    profile_sha256: str
    known_content: str | None
    known: tuple[object, ...]

    @property
    def name(self) -> bytes:
        """Its asset's name in the queue."""
        return unquote_to_bytes(self.asset_id)


def redo_pages(plan: Plan, ledger: Ledger, totals: Totals) -> Iterator[list[Asset]]:
    """Yield the assets to check again, a page at a time, in the order of their windows.

    Raises:
        JobError: The ledger can't be read.
    """
    first, last = map(microseconds, plan.redo or (plan.window, plan.window))
    with ledger.trusted():
        windows = [window for (window,) in ledger.read(_WINDOWS, (first, last)).fetchall()]
    with contextlib.suppress(BrokenOffError):  # A drain.
        for window in windows:
            yield from _window_pages(plan, ledger, totals, window)


def _window_pages(plan: Plan, ledger: Ledger, totals: Totals, window: int) -> Iterator[list[Asset]]:
    # Each page begins after the last, not in one long read: what runs meanwhile changes these records.
    after: tuple[object, ...] = (queue_name(plan), "", "", "")
    while rows := _page(plan, ledger, window, after):
        last = rows[-1]
        after = (queue_name(plan), last.asset_id, last.content_sha256, last.profile_sha256)
        if found := _as_recorded(plan, rows, totals):
            yield found


def _page(plan: Plan, ledger: Ledger, window: int, after: tuple[object, ...]) -> list[_Row]:
    values = (queue_name(plan), window, plan.run_id, *after, PAGE_SIZE)
    with ledger.trusted():
        rows = ledger.read(_RECORDS, values).fetchall()
        return [_Row._make((*row[:_KNOWN], row[_KNOWN:])) for row in rows]


# Where what is known of the file begins in a row.
_KNOWN: Final = 4


def _as_recorded(plan: Plan, rows: list[_Row], totals: Totals) -> list[Asset]:
    """Return the assets whose files have the bytes of their records, each once, and count the others."""
    ours = [row for row in rows if plan.shard is None or plan.shard.holds(row.name)]
    found: dict[bytes, Asset] = {}
    for row, asset in zip(ours, plan.queue.find([row.name for row in ours]), strict=True):
        if asset is None:
            totals.kept["gone"] += 1
        elif _has_content(plan, row, asset):
            found[row.name] = asset
        else:
            totals.kept["changed"] += 1
    return list(found.values())


def _has_content(plan: Plan, row: _Row, asset: Asset) -> bool:
    """Say whether the file has the record's bytes: by its stat if the ledger knows it, else by reading it."""
    if asset.known_by[: len(row.known)] == row.known:
        return row.known_content == row.content_sha256
    return holds(plan.queue, asset, row.content_sha256, seconds=plan.asset_timeout)


_WINDOWS: Final = "SELECT window_start FROM windows WHERE window_start BETWEEN ? AND ? ORDER BY window_start"
# The plus keeps it to the index by window, in whose order the pages are.
_RECORDS: Final = """
SELECT r.asset_id, r.content_sha256, r.profile_sha256,
    a.content_sha256, a.size, a.mtime_ns, a.ctime_ns, a.inode
FROM records r LEFT JOIN assets a ON a.queue = r.queue AND a.asset_id = r.asset_id AND a.state = 'done'
WHERE +r.queue = ?1 AND r.window_start = ?2 AND r.run_id != ?3 AND r.status != 'error'
    AND NOT EXISTS (SELECT 1 FROM dead_letters d WHERE (d.queue, d.asset_id, d.content_sha256)
        = (r.queue, r.asset_id, r.content_sha256))
    AND (r.queue, r.asset_id, r.content_sha256, r.profile_sha256) > (?4, ?5, ?6, ?7)
ORDER BY r.queue, r.asset_id, r.content_sha256, r.profile_sha256 LIMIT ?8
"""
