"""One run from lock to ping. Its order is a law.

    place -> lock -> queue -> ledger -> what was left behind (refused fires, dead letters' moves)
          -> ping -> work (the scan, or a redo; something to check? runner) -> dead letters' moves
          -> end in the ledger -> Parquet (how long it took, a drain that came: again in the ledger)
          -> dashboard -> metrics -> ping -> summary

1. What is written of a run is written by the holder of the lock alone; a refused one notes that it was refused.
2. A run that fails says so wherever it still can, with the code it exits with: ledger, reports, metrics, ping.
   One whose profile can't be read has no work; it does the rest, where runs have been before.
3. Only a run that exits with 0 is a success, to the ping and the metrics as to whoever started it.

A fire that finds nothing to check starts no event loop, no pool, and imports neither.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sqlite3
from dataclasses import replace
from datetime import UTC, datetime
from time import monotonic
from typing import TYPE_CHECKING, Final

from . import metrics, skips
from .dead_letters import move_dead_letters
from .drain import WRITING_SECONDS
from .errors import Exit, JobError, exit_code_of
from .folders import make_reports, make_state
from .hurry import Hurry
from .ledger import left_lost, open_ledger
from .lock import LockHeldError, run_lock
from .owner import require_own_reports
from .ping import Ping
from .projections import unknown_windows, write_dashboard, write_windows
from .scan import Seen, Terms
from .totals import Ended, Totals
from .tracing import Tracing
from .verdict import verdict

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .assets import Asset
    from .drain import Drain
    from .ledger import Ledger
    from .plan import Plan
    from .screen import Screen


def run(plan: Plan, screen: Screen, drain: Drain) -> int:
    """Do one run, and return the code to exit with.

    Raises:
        LockHeldError: another run holds the lock; the skip is noted.
        JobError: the run can't be done; one line says why.
    """
    try:
        ended = Run(plan, screen, drain).under_the_lock()
    except LockHeldError as error:
        try:
            skips.note(plan, error.holder)
        except JobError as unnoted:
            screen.warn(str(unnoted))
        raise
    screen.finish(plan, ended)
    return ended.code


def tell_failure(plan: Plan, screen: Screen, drain: Drain, error: Exception) -> None:
    """Say wherever a run does that one failed before it had a profile; where none has been, in the ping alone.

    Args:
        plan: What the run would have been, with another profile.
        screen: Warned as by any run.
        drain: Hurries the ping.
        error: What the run failed of.
    """
    failed, code = Run(plan, screen, drain), exit_code_of(error)
    if os.path.lexists(plan.ledger):
        with contextlib.suppress(*_REFUSED), run_lock(plan.lock, started=plan.started):
            failed.end_unbegun(code)
    failed.ping.fail(code)


class Run:
    """One run. Mutable state: `totals`, and when its reports were begun."""

    def __init__(self, plan: Plan, screen: Screen, drain: Drain) -> None:
        writing = min(WRITING_SECONDS, plan.drain_timeout / 2)
        self.plan = _in_time(plan, Hurry(drain, plan.drain_timeout - writing))
        self.screen = screen
        self.drain = drain
        self.ping = Ping(plan.ping_url, drain, screen.warn)
        self.totals = Totals(seen=Seen())
        self._began = monotonic()
        self._reports_began: float | None = None

    def under_the_lock(self) -> Ended:
        """Do all that only the holder of the lock may do, to the last ping."""
        with contextlib.ExitStack() as held:
            # Before the lock, and so left after it: a collector that hangs does not hold it.
            tracing = held.enter_context(Tracing(self.plan, self.screen.warn))
            try:
                make_state(self.plan)
                held.enter_context(run_lock(self.plan.lock, started=self.plan.started))
                tracing.begin()
                ended = self._with_ledger()
            except LockHeldError:  # Nothing is told of what is not done.
                raise
            except Exception as error:
                self.ping.fail(exit_code_of(error))
                raise
            tracing.end(ended)
            self._tell(ended.code)
            return ended

    def end_unbegun(self, code: int) -> None:
        """Write down, under the lock, that the run failed with `code` before its work; a lost ledger stays so."""
        try:
            require_own_reports(self.plan)
            with open_ledger(self.plan, self.screen.warn, left_lost) as ledger:
                ledger.begin_run()
                self._close_failed(ledger, code)
        except _REFUSED:
            self._fail_without_ledger(code)

    def _with_ledger(self) -> Ended:
        with contextlib.ExitStack() as opened:
            try:
                require_own_reports(self.plan)  # A lost ledger is made again from what lies there.
                ledger = opened.enter_context(open_ledger(self.plan, self.screen.warn))
                ledger.begin_run()
            except Exception as error:
                self._fail_without_ledger(exit_code_of(error))
                raise
            try:
                self._work(ledger)
                return self._close(ledger)
            except Exception as error:
                self._close_failed(ledger, exit_code_of(error))
                raise

    def _count_skips(self, ledger: Ledger) -> None:
        try:
            skips.fold(self.plan, ledger)
        except JobError as error:  # A count is not worth a run.
            self.screen.warn(str(error))

    def _work(self, ledger: Ledger) -> None:
        make_reports(self.plan)
        if (unknown := unknown_windows(self.plan, ledger, lambda: self.drain.requested)) is not None:
            self.screen.warn(unknown)
        self._count_skips(ledger)
        self.plan.queue.require()
        move_dead_letters(self.plan, ledger, self.screen.warn)
        self.ping.start()
        try:
            self._check(ledger)
        finally:
            for warning in self.totals.seen.warnings:
                self.screen.warn(warning)
        move_dead_letters(self.plan, ledger, self.screen.warn)

    def _close(self, ledger: Ledger) -> Ended:
        """Write down how the run ended, first in the ledger."""
        ended = self._write_reports(ledger, self._ended(verdict(self.plan, ledger, self.totals)))
        metrics.write_metrics(self.plan, ledger, ended)
        return ended

    def _write_reports(self, ledger: Ledger, ended: Ended) -> Ended:
        """Write the ledger's end of the run and what is made of it; return that end, later by what this took.

        Many windows may be behind: in a new place, or after the files were lost.
        """
        ledger.end_run(ended)
        # A second attempt, to say of the first that it failed, has no time of its own.
        began = self._reports_began = self._reports_began or monotonic()
        writing = min(WRITING_SECONDS, self.plan.drain_timeout / 2)
        windows = Hurry(self.drain, writing * WINDOWS_SHARE, began)
        if write_windows(_in_time(self.plan, windows), ledger, windows.over):
            ended = self._ended(ended.code)
            ledger.end_run(ended)
        reports = Hurry(self.drain, writing * REPORTS_SHARE, began)
        write_dashboard(_in_time(self.plan, reports), ledger, ended)
        return ended

    def _close_failed(self, ledger: Ledger, code: int) -> None:
        """Say in ledger, reports and metrics that the run failed, as far as what made it fail allows it."""
        ended = self._ended(code)
        with contextlib.suppress(*_REFUSED):
            ended = self._write_reports(ledger, ended)
        try:
            metrics.write_metrics(self.plan, ledger, ended)
        except _REFUSED:
            self._fail_without_ledger(code)

    def _fail_without_ledger(self, code: int) -> None:
        with contextlib.suppress(*_REFUSED):
            metrics.write_failure(self.plan, code)

    def _tell(self, code: int) -> None:
        if code == Exit.OK:
            self.ping.success()
        else:
            self.ping.fail(code)

    def _ended(self, code: int) -> Ended:
        return Ended(
            totals=self.totals,
            code=code,
            drained=self.drain.requested,
            at=datetime.now(UTC),
            seconds=monotonic() - self._began,
        )

    def _check(self, ledger: Ledger) -> None:
        pages = self._scanned(ledger) if self.plan.redo is None else self._done_again(ledger)
        first = next(pages, None)
        if first is None and not ledger.suspects():
            return
        # Here, because it brings the event loop, the batchers and the pool.
        from .runner import Runner  # noqa: PLC0415

        work = pages if first is None else itertools.chain([first], pages)
        Runner(self.plan, ledger, self.totals, self.screen, self.drain).run(work)

    def _done_again(self, ledger: Ledger) -> Iterator[list[Asset]]:
        """Yield the assets of the windows that are to be done again, until a drain is asked for."""
        # Here, because it is asked for once in a while.
        from .redo import redo_pages  # noqa: PLC0415

        for page in redo_pages(self.plan, ledger, self.totals):
            if self.drain.requested:
                return
            yield page
        self.totals.whole_redo = not self.drain.requested

    def _scanned(self, ledger: Ledger) -> Iterator[list[Asset]]:
        """Yield what is to be checked of each page of the scan, until a drain is asked for."""
        terms = Terms(
            settle=self.plan.settle,
            now=datetime.now(UTC),
            shard=self.plan.shard,
            stopped=lambda: self.drain.requested,
        )
        for page in self.plan.queue.scan(self.plan, terms, self.totals.seen):
            if self.drain.requested:
                return
            if todo := ledger.todo(page):
                yield todo
        self.totals.whole_queue = not self.drain.requested


def _in_time(plan: Plan, hurry: Hurry) -> Plan:
    """Wait for queue and reports that lie over a network no longer than `hurry` allows."""
    return replace(plan, out=plan.out.hurried(hurry), queue=plan.queue.hurried(hurry))


# Of the time that a drain keeps for writing, what older windows may take, and what they and the dashboard may; the
# rest is for the ping.
WINDOWS_SHARE: Final = 0.4
REPORTS_SHARE: Final = 0.6
# What can come of writing where the first error may stand in the way of all that follows.
_REFUSED = (JobError, OSError, sqlite3.Error)
