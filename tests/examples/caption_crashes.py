"""A step of the job in a process of its own that is killed (SIGKILL) before its n-th act on disk or ledger.

An act is whatever Python tells its auditors of files (open, rename, link, remove, mkdir, rmdir), and each
statement that the ledger's writer runs. With n from 1 up, until the step comes to its end, it is killed at each.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from examples.recipes.caption_qc.job.ledger import Ledger

_ACTS = frozenset({"open", "os.rename", "os.link", "os.remove", "os.mkdir", "os.rmdir", "os.truncate"})


class Killer:
    """Counts acts, and ends this process at once before the one that is to be the last."""

    def __init__(self, last: int) -> None:
        self._left = last

    def act(self, *_: object) -> None:
        """Count one."""
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Count what is an act on a file."""
        del arguments
        if event in _ACTS:
            self.act()

    def watch(self, ledger: Ledger) -> None:
        """Count the ledger's statements too."""
        ledger._writer.set_trace_callback(self.act)


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
