"""Dead letters of another queue path: what becomes of them when runs have their queue elsewhere by now.

1. A queue under another path is another queue, and its dead letters are its own. While it is there, they go back
   into it alone.
2. Where its folder is gone, the queue has been moved: a file that lies below `dead-letter/` becomes a dead letter
   of the queue that runs have now, under the same name, and goes back as any other does. One that stayed in the
   queue went with it: it is a dead letter no more, and the scan says what comes of it.
3. That is one transaction, before a file is moved.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote_to_bytes

from .assets import Stat, shown
from .dead_letters import Letter
from .dead_places import below, dead_letter_folder
from .queues import queue_named
from .rows import queue_name

if TYPE_CHECKING:
    import sqlite3

    from .ledger import Ledger
    from .plan import Plan
    from .queues import Queue


@dataclass(frozen=True, slots=True)
class Stray:
    """One dead letter of another queue than the plan's."""

    queue: Queue
    letter: Letter

    @property
    def is_lost(self) -> bool:
        """Whether the folder of its queue is gone; what lies on a store is taken to be there."""
        folder = self.queue.folder
        return folder is not None and not folder.is_dir()

    def way_out(self, plan: Plan) -> str:
        """Say whose it is, and how it goes back there, or to where runs have their queue."""
        if not self.is_lost:
            command = f"replay --queue {self.queue.name} --state {shown(plan.state)} {self.letter.asset_id}"
            return f"it is of the queue {self.queue.name}, which is there; `{command}` sends it back"
        where = shown(below(dead_letter_folder(plan), self.letter.place or b""))
        found = f"it is of the queue {self.queue.name}, which is gone, and nothing is put onto a store"
        return f"{found}; bring {where} to {plan.queue.name} yourself"

    def adopt(self, plan: Plan, cursor: sqlite3.Cursor) -> str | None:
        """Make it one of the plan's queue, or say why it is none there."""
        key = (self.queue.name, self.letter.asset_id, self.letter.content_sha256)
        if self.letter.place is None:
            cursor.execute(_DROP, key)
            cursor.execute(_DROP_ASSET, key[:2])
            return f"its file lay in {self.queue.name}, which is gone"
        if plan.queue.folder is None:
            return self.way_out(plan)
        if not cursor.execute(_ADOPT, (queue_name(plan), *key)).rowcount:
            first = f"replay {self.letter.asset_id} first, then again"
            return f"the same bytes are a dead letter of {plan.queue.name} too: {first}"
        cursor.execute(_DROP_ASSET, key[:2])
        return None

    def names(self, plan: Plan) -> frozenset[str]:
        """Return by which names it can be meant: its id, and the paths where it lay, lies, or would lie now."""
        queues = (self.queue.shown(self.letter.name), plan.queue.shown(self.letter.name))
        place = self.letter.place
        lies = () if place is None else (shown(below(dead_letter_folder(plan), place)),)
        return frozenset({self.letter.asset_id, *queues, *lies})


def strays(plan: Plan, ledger: Ledger) -> list[Stray]:
    """List the dead letters of all queues but the plan's, the newest first."""
    with ledger.trusted():
        rows = ledger.read(_STRAYS, (queue_name(plan),)).fetchall()
        return [
            Stray(
                queue_named(queue),
                Letter(name, content, Stat(*stat), None if place is None else unquote_to_bytes(place), move),
            )
            for queue, name, content, place, move, *stat in rows
        ]


_STRAYS: Final = """
SELECT queue, asset_id, content_sha256, place, move, size, mtime_ns, ctime_ns, inode FROM dead_letters
WHERE queue != ? ORDER BY died_at DESC, queue, asset_id, content_sha256
"""
_KEY: Final = "WHERE queue = ? AND asset_id = ? AND content_sha256 = ?"
_DROP: Final = f"DELETE FROM dead_letters {_KEY}"  # noqa: S608 - our own text
_ADOPT: Final = f"UPDATE OR IGNORE dead_letters SET queue = ?, move = NULL {_KEY}"  # noqa: S608
_DROP_ASSET: Final = "DELETE FROM assets WHERE queue = ? AND asset_id = ? AND state = 'dead'"
