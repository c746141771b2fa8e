"""A load on batchers, in virtual time: the collector decides as it does for real, and nothing waits.

Law: what is simulated are the decisions themselves, not a model of them. The collector is asked as the runner asks
it; only the callers, the clock and the processor are made up. So what this says of options is what they do, as far
as the processor's time is what it was said to be.

Not in it: what the batcher itself costs (microseconds a batch), a timer that rings late, and a backend that gets
slower because several replicas share it.
"""

from __future__ import annotations

import heapq
import math
import random
import statistics
from typing import TYPE_CHECKING, Literal, TypeAlias

import attrs

from async_batcher._collector import Collector
from async_batcher._errors import BatcherError, EnqueueTimeout, ItemExpired, QueueFull
from async_batcher._steps import Rest, Start, Tell

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from async_batcher._batch import Batch
    from async_batcher._options import Options
    from async_batcher._steps import Step

Pattern: TypeAlias = Literal["poisson", "even", "bursts"]


@attrs.frozen(kw_only=True)
class Load:
    """Who comes, and when."""

    rate: float
    """Items a second, at all replicas together."""
    pattern: Pattern = "poisson"
    """`poisson`: independent callers; `even`: one at a time, like a clock; `bursts`: `burst` at once, at times that
    are as those of independent callers."""
    burst: int = 32
    """Items of a burst."""
    seconds: float = 60.0
    """How long they come."""
    replicas: int = 1
    """Batchers, each with a queue and slots of its own; an item goes to any of them, by chance."""
    seed: int = 0
    """Of the random numbers: the same seed is the same load."""

    def arrivals(self) -> Iterator[tuple[float, int]]:
        """Yield the time and the replica of each item, in order."""
        chance = random.Random(self.seed)  # noqa: S311  (a load, no secret)
        together = self.burst if self.pattern == "bursts" else 1
        mean = together / self.rate
        now = 0.0
        while (
            now := now + (mean if self.pattern == "even" else chance.expovariate(1 / mean))
        ) < self.seconds:
            for _ in range(together):
                yield now, chance.randrange(self.replicas)


@attrs.frozen(kw_only=True)
class Cost:
    """How long the processor takes, in seconds: `per_batch + per_item * n` for a batch of `n`."""

    per_batch: float
    per_item: float = 0.0


@attrs.define(eq=False, slots=False)
class Call:
    """One caller, as the collector knows it: a waiter. Times are seconds since the load began."""

    arrived: float
    began: float | None = None
    """When its batch began."""
    ended: float | None = None
    """When it got its result."""
    error: BaseException | None = None
    """Why it got none."""

    def done(self) -> bool:
        """Say whether it is settled."""
        return self.ended is not None or self.error is not None

    def cancelled(self) -> bool:
        """Say no: nobody gives up here."""
        return False

    def cancel(self) -> None:
        """Do nothing: nobody gives up here."""

    def set_result(self, ended: float) -> None:
        """Note when its result came."""
        self.ended = ended

    def set_exception(self, error: BaseException) -> None:
        """Note why it got none."""
        self.error = error

    def exception(self) -> BaseException | None:
        """Return what it was settled with."""
        return self.error


@attrs.frozen
class Ran:
    """A batch that ran."""

    began: float
    ended: float
    size: int


class Replica:
    """One batcher under load. Mutable state: its time, its timer, and the batches that run."""

    def __init__(self, options: Options, cost: Cost) -> None:
        self.calls: list[Call] = []
        self.batches: list[Ran] = []
        self._collector = Collector(options)
        self._expires_after = options.expires_after
        self._cost = cost
        self._rings_at = math.inf
        self._running: list[tuple[float, int, Batch]] = []

    def offer(self, now: float) -> None:
        """Let one caller come, after all that happens before."""
        self.go_on_until(now)
        call = Call(now)
        self.calls.append(call)
        expires = None if self._expires_after is None else now + self._expires_after
        try:
            self._collector.admit(call, call, now, expires=expires)
        except BatcherError as refusal:
            call.error = refusal
        if self._collector.undecided:
            self._act(now)

    def go_on_until(self, end: float) -> None:
        """Let happen what happens up to this time; `math.inf`: until nothing is left to happen."""
        while (now := min(self._next_end, self._rings_at)) <= end and now != math.inf:
            if self._next_end == now:
                self._end(heapq.heappop(self._running)[-1], now)
            else:
                self._rings_at = math.inf
            self._act(now)

    @property
    def _next_end(self) -> float:
        return self._running[0][0] if self._running else math.inf

    def _act(self, now: float) -> None:
        self._do(self._collector.next_step(now), now)
        while self._collector.undecided:
            self._do(self._collector.next_step(now), now)

    def _do(self, step: Step, now: float) -> None:
        match step:
            case Start(batch):
                self._begin(batch, now)
            case Rest(until):
                if until is not None:
                    self._rings_at = min(self._rings_at, until)
            case Tell():
                step.settle()
            case _:
                raise AssertionError(f"{step!r} is of shared slots, and here are none")

    def _begin(self, batch: Batch, now: float) -> None:
        self._collector.begin(batch)
        size = len(batch.items)
        for call in batch.waiters:
            call.began = now
        ends = now + self._cost.per_batch + self._cost.per_item * size
        self.batches.append(Ran(now, ends, size))
        heapq.heappush(self._running, (ends, len(self.batches), batch))

    def _end(self, batch: Batch, now: float) -> None:
        for call in batch.waiters:
            call.set_result(now)
        self._collector.settled(len(batch.waiters), 0)
        self._collector.ended(batch)


def run(load: Load, cost: Cost, options: Options) -> list[Replica]:
    """Simulate a load to its end, until the last caller has an outcome.

    Args:
        load: Who comes.
        cost: What the processor takes.
        options: Those of each replica's batcher; `weigh` and `coalesce_key` change nothing here.

    Returns:
        The replicas, with each call and each batch of theirs.
    """
    replicas = [Replica(options, cost) for _ in range(load.replicas)]
    for now, where in load.arrivals():
        replicas[where].offer(now)
    for replica in replicas:
        replica.go_on_until(math.inf)
    return replicas


@attrs.frozen(kw_only=True)
class Summary:
    """What came of the callers of a load, without those of its first tenth, which find an empty queue.

    Times are seconds, shares are from 0 to 1; a figure about what never happened is NaN.
    """

    offered: float
    """Items a second that came."""
    served: float
    """Items a second that got their result while others still came."""
    refused: float
    """The share that found the queue full, or lost patience in line."""
    expired: float
    """The share that was too old before a batch took it."""
    batch_size: float
    """Items of a batch, on average."""
    busy: float
    """The share of the time of all slots in which a batch ran."""
    waits: tuple[float, float, float]
    """From the call until the batch began: the 50th, 95th and 99th percentile."""
    answers: tuple[float, float, float]
    """From the call to the result: the same percentiles."""


def summarize(load: Load, replicas: Sequence[Replica], options: Options) -> Summary:
    """Sum a simulated load up."""
    warm = load.seconds / 10
    calls = [call for replica in replicas for call in replica.calls if call.arrived >= warm]
    batches = [
        batch for replica in replicas for batch in replica.batches if warm <= batch.began < load.seconds
    ]
    span = load.seconds - warm
    served = sum(
        call.ended is not None and warm <= call.ended < load.seconds for r in replicas for call in r.calls
    )
    slots = math.inf if options.concurrency is None else options.concurrency * load.replicas
    return Summary(
        offered=len(calls) / span,
        served=served / span,
        refused=_share(calls, QueueFull, EnqueueTimeout),
        expired=_share(calls, ItemExpired),
        batch_size=_mean([batch.size for batch in batches]),
        busy=sum(min(batch.ended, load.seconds) - batch.began for batch in batches) / (slots * span),
        waits=_percentiles(call.began - call.arrived for call in calls if call.began is not None),
        answers=_percentiles(call.ended - call.arrived for call in calls if call.ended is not None),
    )


def _share(calls: Sequence[Call], *errors: type[BaseException]) -> float:
    return sum(isinstance(call.error, errors) for call in calls) / len(calls) if calls else math.nan


def _mean(values: Sequence[float]) -> float:
    return statistics.fmean(values) if values else math.nan


def _percentiles(values: Iterable[float]) -> tuple[float, float, float]:
    found = sorted(values)
    if not found:
        return (math.nan,) * 3
    return tuple(found[math.ceil(len(found) * share / 100) - 1] for share in (50, 95, 99))  # type: ignore[return-value]
