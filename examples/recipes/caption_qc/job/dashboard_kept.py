"""What the dashboards say of records and ledger, kept in the ledger as text and made again after each change.

The text is in parts, read and written one by one. `summary` is written after all of them, so that parts without it
are those of a run that died; it has their checksum, since nothing parses them.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final, NamedTuple
from zlib import crc32

from .dashboard_state import STATUSES, counts_of
from .page import fragment_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .dashboard_state import State
    from .ledger import Ledger


class Kept(NamedTuple):
    """What is kept, but for the JSON."""

    totals: dict[str, int]
    superseded: dict[str, int]
    """Of the totals, those whose file was delivered again and checked since."""
    fragment: str
    """Of the page."""
    checksum: int
    """Of the JSON and the fragment."""


def up_to_date(ledger: Ledger, state: State) -> Kept:
    """Return what is kept, made again if the ledger or the program is another.

    Raises:
        JobError: The ledger can't be read or written.
    """
    made_from = state.digest()
    with ledger.trusted():
        row = ledger.read(_KEPT, (made_from,)).fetchone()
        if row is not None:
            counts, superseded, fragment, checksum = row
            totals, superseded = counts_of(counts), counts_of(superseded)
            return Kept(
                totals=totals,
                superseded=_by_status(superseded),
                fragment=str(fragment),
                checksum=int(checksum),
            )
    return _made(ledger, state, made_from)


def kept_text(ledger: Ledger, kept: Kept) -> Iterator[bytes]:
    """Yield the members of the JSON's object that follow from the ledger, without braces, in ASCII.

    Raises:
        JobError: It is not what was kept; said after the last part.
    """
    checksum = 0
    with ledger.trusted():
        for (content,) in ledger.read("SELECT content FROM summary_text ORDER BY part"):
            part = content.encode("ascii")
            checksum = crc32(part, checksum)
            yield part
        if crc32(kept.fragment.encode(), checksum) != kept.checksum:
            raise ValueError("what it keeps of the dashboard is not what was written")


def _made(ledger: Ledger, state: State, made_from: str) -> Kept:
    # Here, because a fire that changes nothing is over without them.
    from .dashboard_records import survey  # noqa: PLC0415
    from .dashboard_text import Text  # noqa: PLC0415

    checksum = 0
    with ledger.trusted():
        surveyed = survey(ledger, state.window, state.threshold)
    text = Text(ledger, state, surveyed)
    with ledger.transaction() as cursor:
        cursor.execute("DELETE FROM summary")
        cursor.execute("DELETE FROM summary_text")
        for part in text.parts():
            checksum = crc32(part.encode(), checksum)
            cursor.execute("INSERT INTO summary_text (content) VALUES (?)", (part,))
    fragment = fragment_of(text.summary())
    checksum = crc32(fragment.encode(), checksum)
    counts = json.dumps([surveyed.totals, surveyed.superseded])
    values = (state.window, made_from, counts, fragment, checksum)
    with ledger.transaction() as cursor:
        cursor.execute(_KEEP, values)
    return Kept(
        totals=surveyed.totals,
        superseded=_by_status(surveyed.superseded),
        fragment=fragment,
        checksum=checksum,
    )


def _by_status(counts: dict[str, int]) -> dict[str, int]:
    return {status: counts[status] for status in STATUSES}


_KEPT: Final = """
SELECT json_extract(counts, '$[0]'), json_extract(counts, '$[1]'), fragment, checksum
FROM summary WHERE made_from = ?
"""
_KEEP: Final = """
INSERT INTO summary (one, window_start, made_from, counts, fragment, checksum) VALUES (1, ?, ?, ?, ?, ?)
"""
