"""What one run does: its options, checked, and the figures that follow from them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

if TYPE_CHECKING:
    from pathlib import Path

    from examples.recipes.caption_qc.check.profiles import Profile

    from .queues import Queue
    from .reports import Reports
    from .scan import Shard

# What stands in the state folder beside the lock.
TAKEN_NAMES: Final = frozenset(
    {"ledger.sqlite", "ledger.sqlite-wal", "ledger.sqlite-shm", "ledger.sqlite-journal"}
    | {"ledger.checked", "skips.log", "owner.txt", "state.id"}
    | {"telemetry", "dashboard.json", "dashboard.html", "dead-letter", "metrics.prom", "metrics-skips.prom"}
)
# What a run may be asked to exit with 65 for.
FailOn: TypeAlias = Literal["dead-letter", "error", "warn"]
FAIL_ON: Final[tuple[FailOn, ...]] = get_args(FailOn)
WINDOW_FORMAT: Final = "%Y-%m-%dT%H%MZ"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One run. Durations are seconds."""

    run_id: str
    queue: Queue
    """Where the assets lie."""
    state: Path
    """The folder of lock, ledger and skips, resolved."""
    out: Reports
    """The place of `telemetry/` and the two dashboards; the state folder by default."""
    lock: Path
    metrics_file: Path
    """`metrics.prom` in the state folder by default; resolved."""
    profile: Profile
    started: datetime
    window: datetime
    """The start of the window that this run's records belong to."""
    workers: int
    settle: float
    asset_timeout: float
    drain_timeout: float
    max_attempts: int
    ping_url: str | None = None
    redo: tuple[datetime, datetime] | None = None
    """The starts of the first and the last window whose assets are checked again."""
    shard: Shard | None = None
    fail_on: frozenset[FailOn] = frozenset()
    json_logs: bool = False
    scheduler: str | None = None
    """`local`, or the address of a Dask scheduler whose workers check; `None` for processes of the run's own."""

    @property
    def ledger(self) -> Path:
        """The one truth."""
        return self.state / "ledger.sqlite"

    @property
    def skips(self) -> Path:
        """A line for each run that was refused."""
        return self.state / "skips.log"

    @property
    def metrics_skips(self) -> Path:
        """The refused runs in a row, beside the metrics and named after them."""
        return self.metrics_file.with_stem(f"{self.metrics_file.stem}-skips")


def window_of(time: datetime, seconds: float) -> datetime:
    """Round `time` down to a window of `seconds`, counted from 1970 in UTC."""
    since = time - _EPOCH
    return time - since % type(since)(seconds=seconds)


def microseconds(time: datetime) -> int:
    """Write `time` as the ledger does: whole microseconds since 1970, exactly."""
    since = time - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def time_of(stamp: int) -> datetime:
    """Read what `microseconds` wrote."""
    return _EPOCH + (datetime.resolution * stamp)


def window_name(window: datetime) -> str:
    """Name a window as its folder is named."""
    return window.strftime(WINDOW_FORMAT)
