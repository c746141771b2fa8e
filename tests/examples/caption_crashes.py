"""A step of the job in a process of its own that is killed (SIGKILL) before its n-th act on disk or ledger.

An act is a file opened for writing, renamed, linked or removed, a folder made or removed, as Python tells its
auditors; and each commit of the ledger's writer, of which what stands before it is undone. With n from 1 up,
until the step comes to its end, it is killed at each.
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import sys
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from examples.recipes.caption_qc.job.ledger import Ledger

_WRITING = os.O_WRONLY | os.O_RDWR
_ACTS = frozenset({"os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir", "os.truncate"})


class Killer:
    """Counts acts, and ends this process at once before the one that is to be the last."""

    def __init__(self, last: int) -> None:
        self._left = last

    def act(self) -> None:
        """Count one."""
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Count what is an act on a file."""
        if event in _ACTS or (event == "open" and arguments[2] & _WRITING):
            self.act()

    def watch(self, ledger: Ledger) -> None:
        """Count the ledger's statements too."""
        ledger._writer.set_trace_callback(self._statement)

    def watch_copies(self) -> None:
        """Count each file that is copied to its half: for the rest of this process."""
        copy = shutil.copyfileobj

        def half_and_half(source: IO[bytes], target: IO[bytes]) -> None:
            target.write(source.read(os.fstat(source.fileno()).st_size // 2))
            target.flush()
            self.act()
            copy(source, target)

        shutil.copyfileobj = half_and_half  # type: ignore[assignment]

    def _statement(self, statement: str) -> None:
        if statement.startswith(("COMMIT", "VACUUM")):
            self.act()


def crashes(step: Callable[[Killer], object], before: Callable[[int], object]) -> Iterator[int]:
    """Let `step` be killed at its first act, then at its second, until it is not.

    `before` is called with the number ahead of each; the number is yielded after it.
    """
    for number in itertools.count(1):
        before(number)
        ended = _killed_at(number, step)
        yield number
        if ended:
            return


def _killed_at(number: int, step: Callable[[Killer], object]) -> bool:
    child = os.fork()
    if child == 0:
        code = 1
        try:
            killer = Killer(number)
            sys.addaudithook(killer.audit)
            step(killer)
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return False
    assert os.WEXITSTATUS(status) == 0, "the step failed"
    return True
