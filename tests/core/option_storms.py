"""One batcher with any of its options in a storm: weights, shared places, expiry, splitting, lists and flushes.

Besides the law of `storms.py`: no batch is heavier than it may be; what expires, or loses patience in line, does so at
its very time; a batch that is split makes at most 2n - 1 calls for n items, none after a failure that no item caused,
and only the items that caused it fail; and what the events say of callers adds up to the counts.
"""

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import anyio
from blocking import PATIENCE
from scenes import Caller
from storms import OUTCOMES, Call, GatedProcessor, Storm, StormError, tells_withdrawn

from async_batcher import (
    AsyncBatcher,
    BatchCancelled,
    BatcherStopped,
    BatchEvent,
    EnqueueTimeout,
    ItemExpired,
    ItemTooHeavy,
    QueueFull,
    ResultMismatch,
)

GOES_ON = ("poison", "results", "none", "errors within")
"""Ends of a call after which the rest of a split batch may still be called."""
TIMES = ("max_queue_time", "enqueue_timeout", "expires_after")


class PoisonError(Exception):
    """What one item causes."""


class HookError(Exception):
    """What a function of the user's raises over an item, before it is accepted."""


def is_poison(item: int) -> bool:
    return item % 6 == 5


def weigh(item: int) -> int:
    """Weigh 1 to 5; but some items can't be weighed."""
    if item % 9 == 8:
        raise HookError(item)
    return item % 5 + 1


def key_of(item: int) -> int | None:
    """Make three kinds of equal items, and some that are equal to none."""
    return item % 4 or None


def caused_by_an_item(error: Exception) -> bool:
    return isinstance(error, PoisonError)


class PickyProcessor(GatedProcessor):
    """Besides what the driver names, poison fails a call; it notes how each of them ended."""

    def __init__(self, *, poisonous: bool) -> None:
        super().__init__()
        self.poisonous = poisonous
        self.ends: list[str] = []

    async def __call__(self, batch: list[int]) -> Any:
        number = len(self.batches)
        self.ends.append("cut short")
        outcome = await self.wait_for_outcome(batch)
        if poison := [item for item in batch if self.poisonous and is_poison(item)]:
            self.ends[number] = "poison"
            raise PoisonError(*poison)
        self.ends[number] = outcome
        if outcome == "cancels itself":
            await cancel_itself()
        if outcome == "raises":
            raise StormError(number)
        return OUTCOMES[outcome](batch)


async def cancel_itself() -> None:
    """Raise a cancellation that nobody asked for, as a timeout of one's own does when it is handled wrongly."""
    cancellation: BaseException
    with anyio.CancelScope() as scope:
        scope.cancel()
        try:
            await anyio.lowlevel.checkpoint()
        except anyio.get_cancelled_exc_class() as error:
            cancellation = error
            raise
    raise cancellation


@dataclass
class TimedCall(Call):
    """Besides: when it was made, and how long it may wait for a batch."""

    made_at: float = 0
    expires_after: float | None = None


@dataclass
class ListCall:
    """A list of items in one call."""

    items: list[int]
    caller: Caller


@dataclass
class OptionStorm(Storm):
    """A storm over one batcher, whatever its options."""

    poisonous: bool = False
    exact: bool = True
    """Whether time is virtual, so that what is due happens at its very time."""
    lists: list[ListCall] = field(default_factory=list)
    events: list[BatchEvent] = field(default_factory=list)
    sent: int = 0

    def build(self) -> Any:
        """Build it with the storm's options, whose times are in its unit."""
        self.fn: PickyProcessor = PickyProcessor(poisonous=self.poisonous)
        times = {name: self.options[name] * self.unit for name in TIMES if self.options.get(name) is not None}
        self.options = self.options | times
        self.batcher: AsyncBatcher[int, int] = AsyncBatcher.from_callable(
            self.fn, on_batch=self.events.append, **self.options
        )
        return self.batcher

    async def calm_down(self) -> None:
        """Wait for everyone; in real time no longer than it takes."""
        if self.exact:
            await super().calm_down()
            return
        with anyio.fail_after(PATIENCE):
            await self.scene.end_of(
                *(call.caller for call in self.calls), *(sent.caller for sent in self.lists)
            )

    def act_on_calls(self, action: str, choice: int) -> None:
        """Besides: send lists, cancel them, flush, and end batches in more ways."""
        match action:
            case "process":
                item, age = self.next_item(), self.age(choice)
                self.note(item, age, partial(self.batcher.process, item, expires_after=age))
            case "submit":
                self.submit_and_await(choice)
            case "many":
                self.send_list(choice)
            case "cancel a list" if self.lists:
                self.lists[choice % len(self.lists)].caller.cancel()
            case "flush":
                self.batcher.flush()
            case "end":
                self.fn.end(choice, ("results", "raises", "cancels itself", *OUTCOMES)[choice % 7])
            case _:
                super().act_on_calls(action, choice)

    def next_item(self) -> int:
        self.sent += 1
        return self.sent

    def age(self, choice: int) -> float | None:
        """Give some calls an expiry of their own."""
        return 0.75 * self.unit if choice % 4 == 3 else None

    def note(self, item: int, age: float | None, call: Callable[[], Awaitable[int]]) -> TimedCall:
        age = self.options.get("expires_after") if age is None else age
        noted = TimedCall(item, self.scene.start(call), made_at=anyio.current_time(), expires_after=age)
        self.calls.append(noted)
        return noted

    def submit_and_await(self, choice: int) -> None:
        """Submit and then await, in one task, so that its cancellation may hit either."""

        async def call() -> int:
            noted.submission = await self.batcher.submit(item, expires_after=age)
            return await noted.submission

        item, age = self.next_item(), self.age(choice)
        noted = self.note(item, age, call)
        noted.by_submit = True

    def send_list(self, choice: int) -> None:
        items = [self.next_item() for _ in range(1 + choice % 7)]
        send = partial(
            self.batcher.process_many, items, return_exceptions=True, max_pending=(None, 1, 3)[choice % 3]
        )
        self.lists.append(ListCall(items, self.scene.start(send)))

    # What holds

    def check(self) -> None:
        """Besides: places and weights are bounded. An item may be seen again where its batch is split."""
        heaviest = self.options.get("max_batch_weight") or math.inf
        assert self.batcher._runner.collector.places <= (self.options["max_queue_size"] or math.inf)
        for batch in self.fn.batches:
            assert heaviest == math.inf or sum(map(weigh, batch)) <= heaviest
        self.check_limits(self.batcher.stats())
        self.check_calls()

    def check_calls(self) -> None:
        """Each item is in one batch; and that is called again in parts only where an item may have caused a failure."""
        roots: dict[int, int] = {}
        chains: dict[int, list[int]] = {}
        for number, batch in enumerate(self.fn.batches):
            assert len(set(batch)) == len(batch), "an item is twice in a batch"
            root = roots.get(batch[0], number)
            chains.setdefault(root, []).append(number)
            assert {roots.setdefault(item, number) for item in batch} == {root}, "an item was seen twice"
        for root, chain in chains.items():
            assert len(chain) <= 2 * len(self.fn.batches[root]) - 1, "too many calls"
            assert len(chain) == 1 or (self.options["split_on"] and self.fn.ends[root] == "poison")
            assert all(self.fn.ends[number] in GOES_ON for number in chain[:-1]), "called on after a failure"

    def check_outcomes(self) -> None:
        """What each caller was told is true of its item, and came in time."""
        for call in self.calls:
            assert isinstance(call, TimedCall)
            if call.withdrawn:
                assert call.caller.was_cancelled or tells_withdrawn(call.caller.error)
                self.check_unseen(call.item)
            elif not call.caller.was_cancelled:
                error = call.caller.error
                self.check_told(call.item, call.caller.result if error is None else error)
                self.check_in_time(call, error)
        for sent in self.lists:
            self.check_list(sent)
        stats = self.batcher.stats()
        assert sum(event.succeeded for event in self.events) == stats.succeeded
        assert sum(event.failed for event in self.events) == stats.failed
        assert len(self.events) == stats.batches

    def check_list(self, sent: ListCall) -> None:
        if sent.caller.was_cancelled:
            return
        if isinstance(sent.caller.error, BatcherStopped):  # it had been stopped before
            assert sent.caller.error.withdrawn
            return
        results = sent.caller.result
        assert len(results) == len(sent.items)
        for item, result in zip(sent.items, results, strict=True):
            assert not isinstance(result, QueueFull | EnqueueTimeout), "lists wait for room"
            self.check_told(item, result)

    def check_told(self, item: int, told: object) -> None:
        """Check that what a caller was told, a result or an error, fits its item."""
        heaviest = self.options.get("max_batch_weight") or math.inf
        match told:
            case BatcherStopped(withdrawn=withdrawn):
                assert self.stops
                assert self.shares(item) or withdrawn is not self.was_seen(item)
            case QueueFull() | EnqueueTimeout():
                assert self.options["on_full"] == ("reject" if isinstance(told, QueueFull) else "wait")
                self.check_unseen(item)
            case ItemExpired():
                self.check_unseen(item)
            case ItemTooHeavy():
                assert weigh(item) > heaviest
                self.check_unseen(item)
            case HookError():
                assert told.args == (item,)
                self.check_unseen(item)
            case _:
                self.check_ran(item, told)

    def check_ran(self, item: int, told: object) -> None:
        """Check what the processor said of an item, or of its batch."""
        assert self.shares(item) or self.was_seen(item)
        match told:
            case PoisonError(args=poison):
                assert self.poisonous
                assert not self.options["split_on"] or self.is_of(item, *poison)
            case LookupError(args=(other,)):
                assert self.is_of(item, other)
            case StormError() | ResultMismatch() | BatchCancelled() | None:
                pass
            case result:
                assert isinstance(result, int), result
                assert result % 10 == 0
                assert self.is_of(item, result // 10)

    def check_in_time(self, call: TimedCall, error: BaseException | None) -> None:
        if self.exact and isinstance(error, ItemExpired | EnqueueTimeout):
            own = isinstance(error, ItemExpired)
            wait, ended_at = (
                call.expires_after if own else self.options["enqueue_timeout"],
                call.caller.ended_at,
            )
            assert wait is not None
            assert ended_at is not None
            assert abs(ended_at - call.made_at - wait) < 1e-6

    def check_unseen(self, item: int) -> None:
        """An item that others share may be seen for them, though the caller that brought it has left."""
        assert self.shares(item) or not self.was_seen(item)

    def was_seen(self, item: int) -> bool:
        return any(item in batch for batch in self.fn.batches)

    def shares(self, item: int) -> bool:
        return "coalesce_key" in self.options and key_of(item) is not None

    def is_of(self, item: int, *others: int) -> bool:
        """Whether what these came to may be told to the caller of `item`."""
        if self.shares(item):
            return {key_of(other) for other in others} == {key_of(item)}
        return others == (item,)
