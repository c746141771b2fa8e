"""What runs in a worker process: a few small files read, checked and reported.

A worker belongs to its parent alone. It takes no signal of the group (systemd and Ctrl-C signal every
process, which would break the pool), it ends when the parent does (an orphan would go on for nothing), and
an asset that hangs or wants too much memory ends the worker, never the run.

It imports the pure check modules and the standard library, so that it starts in a few tens of milliseconds.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import resource
import select
import signal
from dataclasses import dataclass, replace
from multiprocessing import parent_process
from time import perf_counter
from typing import TYPE_CHECKING, Final

from examples.recipes.caption_qc.check import check

from .assets import NotAsSeenError
from .captions import captions_of
from .exits import JobError
from .outcomes import Checked, Left, Outcome, left_because
from .sidecar import given_beside

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from examples.recipes.caption_qc.check import Report
    from examples.recipes.caption_qc.check.profiles import Profile

    from .assets import Asset
    from .queues import Queue
    from .sidecar import Given

# A file of 8 MB, the largest that is checked, was seen to need 91 MB as real captions are, and 603 MB at worst.
ADDRESS_SPACE_BYTES: Final = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """What a worker has to know beside the assets; it travels with each chunk."""

    queue: Queue
    profile: Profile
    asset_timeout: float
    """Seconds that a check may take, and that fetching an asset over a network may take before it."""

    def longest(self, assets: int) -> float:
        """Return the seconds in which so many assets are surely fetched and checked."""
        return (self.asset_timeout + self.queue.slowest(self.asset_timeout)) * assets


def start_worker() -> None:
    """Make this process a worker."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    _end_with_parent()
    _limit_memory()


def check_chunk(orders: Orders, chunk: Sequence[Asset]) -> list[Outcome]:
    """Check each asset of `chunk`, in order; once the queue is away, the rest are left like the one that met that."""
    outcomes: list[Outcome] = []
    for asset in chunk:
        met = outcomes[-1] if outcomes else None
        away = isinstance(met, Left) and met.away is not None
        outcomes.append(
            replace(met, asset=asset) if met is not None and away else process_asset(orders, asset)
        )
    return outcomes


def process_asset(orders: Orders, asset: Asset) -> Outcome:
    """Read and check one asset, or say why it is left."""
    started = perf_counter()
    try:
        source = orders.queue.fetched(asset, orders.asset_timeout)
        with _alarm(orders.asset_timeout):
            data = source.data()
            given = given_beside(asset, orders.profile, source.sidecar)
            report = check(data, orders.profile, programme=given.programme)
            captions = captions_of(report.findings, report.cues, orders.profile.channel)
    except (NotAsSeenError, OSError) as error:
        return left_because(asset, error)
    except JobError as error:
        found = f"the worker on {os.uname().nodename} can't use the queue: {error}"
        return left_because(asset, JobError(found, error.code))
    return Checked(
        asset=asset,
        content_sha256=hashlib.sha256(data).hexdigest(),
        report=_for_the_record(report, given),
        seconds=perf_counter() - started,
        captions=captions,
    )


def _for_the_record(report: Report, given: Given) -> Report:
    """Drop the cues, of which `captions_of` has taken what is kept, and say what the asset was judged by."""
    report = replace(report, cues=(), profile_sha256=given.judged_by)
    if given.finding is None:
        return report
    return replace(report, status="fail", findings=(*report.findings, given.finding))


@contextlib.contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """End this process by SIGALRM's default action unless the block is left within `seconds`."""
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _limit_memory() -> None:
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    wanted = ADDRESS_SPACE_BYTES if hard == resource.RLIM_INFINITY else min(hard, ADDRESS_SPACE_BYTES)
    resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))


def _end_with_parent() -> None:
    """Let the kernel kill this process when the parent's end of our pipe closes.

    A thread that waits for that would need the interpreter, which one long call into C keeps for itself, and
    no other signal than SIGKILL ends a process that was stopped.
    """
    parent = parent_process()
    if parent is None:
        return
    pipe = parent.sentinel
    fcntl.fcntl(pipe, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(pipe, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(pipe, fcntl.F_SETFL, fcntl.fcntl(pipe, fcntl.F_GETFL) | os.O_ASYNC)
    if select.select([pipe], [], [], 0)[0]:
        os._exit(1)  # It closed before the kernel was asked.
