"""What always holds of a collector and those who call it, whatever has happened: each fact as the model has it."""

from collections.abc import Callable
from itertools import pairwise

from collector_model import Caller, Model

from async_batcher._batch import Batch
from async_batcher._collector import Collector
from async_batcher._options import Options


class Watched:
    """A collector, its model, and those who call it."""

    unbegun: list[Batch]
    begun: list[Batch]

    def __init__(self, options: Options, *, shared: bool) -> None:
        self.collector = Collector(options, shares_slots=shared)
        self.model = Model(options, shared=shared)
        self.now = 0.0
        self.timer: float | None = None
        self.callers: list[Caller] = []
        self.forsaken: list[Caller] = []
        self.unbegun = []
        self.begun = []
        self.seen: list[int] = []
        self.arrived = 0

    def some(self, wanted: Callable[[Caller], bool]) -> bool:
        return any(map(wanted, self.callers))

    def check(self) -> None:
        self.everything_is_in_time()
        self.counts_are_right()
        self.facts_are_right()
        self.no_batch_is_too_heavy_or_too_large()
        self.settled_callers_know_whether_they_ran()

    def everything_is_in_time(self) -> None:
        """Nothing is due before the timer rings."""
        due = self.model.due()
        assert due is None or (self.timer is not None and self.timer <= due), f"{due=} {self.timer=}"

    def counts_are_right(self) -> None:
        stats = self.collector.stats()
        self.model.check_stats(stats)
        assert stats.accepted == (
            stats.succeeded + stats.failed + stats.withdrawn + stats.abandoned + stats.expired + stats.stopped
        ) + (stats.waiting + stats.running)

    def facts_are_right(self) -> None:
        model, limits = self.model, self.model.options
        assert self.collector.slot_free is model.slot_free
        assert self.collector.closed is model.closed
        assert self.collector.places == len(model.row)
        stands = any(not caller.watched.done() for caller in model.line)
        if stands or not model.line:
            assert self.collector.idle is not bool(model.row or stands or model.running or model.reserved)
        assert limits.concurrency is None or len(model.running) + model.reserved <= limits.concurrency
        assert limits.max_queue_size is None or len(model.row) <= limits.max_queue_size
        assert len(self.seen) == len(set(self.seen))

    def no_batch_is_too_heavy_or_too_large(self) -> None:
        options = self.model.options
        for places in self.model.running.values():
            assert options.max_batch_size is None or len(places) <= options.max_batch_size
            weight = sum(place.weight for place in places)
            assert options.max_batch_weight is None or weight <= options.max_batch_weight
            assert all(one.item < other.item for one, other in pairwise(places)), "out of order"

    def settled_callers_know_whether_they_ran(self) -> None:
        for caller in self.callers:
            if caller.waiter.done() and not caller.waiter.cancelled() and not caller.reported:
                assert caller.ticket is not None
                assert self.collector.never_ran(caller.ticket, caller.waiter) is (caller.place != "seen")
