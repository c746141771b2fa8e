"""The dead letters' files: moved out of the queue, and back into it, by intents that stand in the ledger.

1. A dead letter is a row of the ledger, written with its record. What is to be done with its file stands in the
   row before it is done, and the row is settled after it: a crash in between is finished by the next run.
2. A file that can't be moved, since the queue is read-only, stays where it is: the fact stands. What the disk
   refuses for now is tried again by the next run.
3. A file that is not the one that died is never moved: its row goes, and the scan sees it as new.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote_to_bytes

from .assets import NotAsSeenError, Stat, as_text, shown, stat_of
from .dead_places import (
    below,
    dead_letter_folder,
    free_place,
    holds,
    leads_elsewhere,
    remove_empty_folders,
)
from .moving import OccupiedError, aside_of, put_back, remove, remove_copy, settle_aside, take_out
from .rows import queue_name

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable
    from pathlib import Path

    from .ledger import Ledger
    from .plan import Plan

# What won't be otherwise the next time.
_FOR_GOOD: Final = frozenset(
    {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG, errno.EEXIST, errno.ENOTDIR, errno.EISDIR}
)


class Letter(NamedTuple):
    """One dead letter."""

    asset_id: str
    content_sha256: str
    seen: Stat
    """The file, as it was when it died."""
    place: bytes | None
    """Where it lies below `dead-letter/`, or is to lie; `None`: in the queue."""
    move: str | None
    """What is to be done with it: `out` of the queue, or `back` into it."""

    @property
    def name(self) -> bytes:
        """Its path in the queue."""
        return unquote_to_bytes(self.asset_id)


def move_dead_letters(plan: Plan, ledger: Ledger, warn: Callable[[str], object]) -> None:
    """Do the moves that the ledger asks for, those that a dead run has begun too.

    Raises:
        JobError: The ledger refused. What a file refuses is a warning.
    """
    for letter in letters(plan, ledger, to_move=True):
        mover = mover_of(plan, ledger, letter)
        refused = mover.move_out() if letter.move == "out" else mover.move_back()
        if refused is not None:
            warn(f"dead letter {letter.asset_id}: {refused}")


def letters(plan: Plan, ledger: Ledger, *, to_move: bool = False) -> list[Letter]:
    """List the dead letters, the newest first; with `to_move` those whose file is to be moved."""
    query = f"{_LETTERS} AND move IS NOT NULL" if to_move else _LETTERS
    rows = ledger.read(f"{query} {_NEWEST_FIRST}", (queue_name(plan),)).fetchall()
    return [
        Letter(name, content, Stat(*stat), None if place is None else unquote_to_bytes(place), move)
        for name, content, place, move, *stat in rows
    ]


def mover_of(plan: Plan, ledger: Ledger, letter: Letter) -> Mover | Keeper:
    """Return what does the moves of `letter` in its kind of queue."""
    folder = plan.queue.folder
    return Keeper(plan, ledger, letter) if folder is None else Mover(plan, ledger, letter, folder)


class Keeper:
    """Does what is to be done with one dead letter of a queue in which nothing is moved: it stays where it lies."""

    def __init__(self, plan: Plan, ledger: Ledger, letter: Letter) -> None:
        self._ledger = ledger
        self._letter = letter
        self._key = (queue_name(plan), letter.asset_id, letter.content_sha256)

    def move_out(self) -> str | None:
        """Let it be a fact alone."""
        self._settle(None)
        return None

    def move_back(self) -> str | None:
        """Forget the dead letter, so that the next run checks what lies there."""
        self._forget()
        return None

    def ask_back(self, cursor: sqlite3.Cursor) -> None:
        """Write down that the file is to go back."""
        cursor.execute(_ASK_BACK, self._key)

    def _settle(self, place: bytes | None) -> None:
        with self._ledger.transaction() as cursor:
            cursor.execute(_SET_PLACE, (None if place is None else as_text(place), None, *self._key))

    def _forget(self) -> None:
        """Let it be a dead letter no more, so that the next run checks what lies there."""
        with self._ledger.transaction() as cursor:
            cursor.execute(_FORGET_LETTER, self._key)
            cursor.execute(_FORGET_ASSET, self._key[:2])


class Mover(Keeper):
    """Moves the file of one dead letter, as far as it is not done yet."""

    def __init__(self, plan: Plan, ledger: Ledger, letter: Letter, queue: Path) -> None:
        super().__init__(plan, ledger, letter)
        self._folder = dead_letter_folder(plan)
        self._in_queue = below(queue, letter.name)

    def move_out(self) -> str | None:
        """Move the file out of the queue, and say why not where it can't be."""
        try:
            self._move_out()
        except (NotAsSeenError, FileNotFoundError):
            self._forget()  # Other bytes, or none: the scan says what comes of them.
        except OccupiedError:
            return f"the file that replaced it is kept as {shown(aside_of(self._in_queue))}"
        except OSError as error:
            if error.errno not in _FOR_GOOD:
                return f"it is moved by the next run: {error.strerror or error}"
            self._settle(self._place_of_a_copy())
            return f"it stays in the queue: {error.strerror or error}"
        return None

    def move_back(self) -> str | None:
        """Move the file back into the queue and forget the dead letter, or say why it stays."""
        place = self._letter.place
        if place is None:
            self._forget()
            return None
        path = self._path(place)
        if leads_elsewhere(self._in_queue):
            self._settle(place)
            return f"a link lies where its folder was, {shown(self._in_queue.parent)}"
        try:
            self._finish_what_was_begun(path)
            found = self._bring_back(path)
        except OccupiedError:
            self._settle(place)
            return "something else lies in its place"
        except OSError as error:
            self._settle(place)
            return f"it can't be moved back: {error.strerror or error}"
        remove_empty_folders(self._folder, path)
        self._forget()
        return None if found else "its file is gone"

    def _finish_what_was_begun(self, path: Path) -> None:
        remove_copy(path)
        remove_copy(self._in_queue)
        settle_aside(self._in_queue, self._letter.content_sha256)

    def _bring_back(self, path: Path) -> bool:
        """Let the file lie in the queue and nowhere else, and say whether there is one."""
        there = holds(self._in_queue, self._letter.content_sha256)
        if not os.path.lexists(path):
            return there
        if there:
            path.unlink()
        else:
            put_back(path, self._in_queue)
        return True

    def _place_of_a_copy(self) -> bytes | None:
        """Return where the same bytes lie that died before."""
        place, content = self._letter.place, self._letter.content_sha256
        return place if place is not None and holds(self._path(place), content) else None

    def _move_out(self) -> None:
        seen, content = self._letter.seen, self._letter.content_sha256
        place = self._letter.place
        if leads_elsewhere(self._in_queue):
            place = self._place_of_a_copy()
            if place is None:
                raise NotAsSeenError
            self._settle(place)
            return
        if place is not None:
            self._finish_what_was_begun(self._path(place))
        if place is not None and holds(self._path(place), content):
            if _is_there(self._in_queue, seen):
                remove(self._in_queue, content)
        else:
            if place is not None and os.path.lexists(self._path(place)):
                self._give_back_what_was_taken(place)
            place = self._begin()
            if place is not None:
                take_out(self._in_queue, self._path(place), seen, content)
        self._settle(place)

    def _give_back_what_was_taken(self, place: bytes) -> None:
        """Undo a move that took other bytes and was killed before it saw that."""
        if not os.path.lexists(self._in_queue):
            put_back(self._path(place), self._in_queue)
            raise NotAsSeenError

    def _begin(self) -> bytes | None:
        """Choose where the file is to lie, and write it down; `None` when it is to stay."""
        if stat_of(self._in_queue.lstat()) != self._letter.seen:
            raise NotAsSeenError
        # Asked first, because a copy from a read-only queue would be one too many.
        if not os.access(self._in_queue.parent, os.W_OK | os.X_OK):
            return None
        place = free_place(self._folder, self._letter.name)
        if place is not None:
            with self._ledger.transaction() as cursor:
                cursor.execute(_SET_PLACE, (as_text(place), "out", *self._key))
        return place

    def _path(self, place: bytes) -> Path:
        return below(self._folder, place)


def _is_there(path: Path, seen: Stat) -> bool:
    try:
        return stat_of(path.lstat()) == seen
    except FileNotFoundError:
        return False


_LETTERS: Final = """
SELECT asset_id, content_sha256, place, move, size, mtime_ns, ctime_ns, inode FROM dead_letters
WHERE queue = ?
"""
_NEWEST_FIRST: Final = "ORDER BY died_at DESC, asset_id, content_sha256"
_KEY: Final = "WHERE queue = ? AND asset_id = ? AND content_sha256 = ?"
_SET_PLACE: Final = f"UPDATE dead_letters SET place = ?, move = ? {_KEY}"  # noqa: S608 - our own text
_ASK_BACK: Final = f"UPDATE dead_letters SET move = 'back' {_KEY}"  # noqa: S608
_FORGET_LETTER: Final = f"DELETE FROM dead_letters {_KEY}"  # noqa: S608
_FORGET_ASSET: Final = "DELETE FROM assets WHERE queue = ? AND asset_id = ? AND state = 'dead'"
