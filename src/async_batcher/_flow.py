"""A job whose results are given out one by one, and where its items come from.

Law: the source is never further than `max_pending` ahead of the results that were given out, and what it raises
comes after the results of all that it gave before.

A plain source is pulled by the task that asks for a result. An async one may wait for ever while results are ready,
so a task of its own pulls it, and closes it: that begins when the first result is asked for.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterable, Iterable
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Protocol

import anyio

from async_batcher._job import Bell, Job

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from async_batcher._loops import Cancellable, EventLoop
    from async_batcher._running import Runner


def check_source(source: object) -> None:
    """Refuse what can't be iterated.

    Raises:
        TypeError: It can't.
    """
    if not isinstance(source, AsyncIterable | Iterable) and not hasattr(source, "__getitem__"):
        raise TypeError(
            f"map takes an iterable or an async iterable of items, and a {type(source).__name__} is neither"
        )


class Flow(Job):
    """A job of which the results are given out one by one.

    Mutable state: as of a job; `results` are those not given out yet, and `next` is the index of the next one.
    """

    def __init__(
        self, runner: Runner, source: Iterable[Any] | AsyncIterable[Any], limit: int, *, ordered: bool
    ) -> None:
        super().__init__(runner, limit)
        self.loop: EventLoop = runner.loop
        self.results: OrderedDict[int, Any] = OrderedDict()
        self.portion = max(1, min(limit // 2, runner.options.max_batch_size or limit))
        """How much room is worth filling: with less, most batches would leave half empty."""
        self._ordered = ordered
        self._next = 0
        self.feed: Feed = (
            _AsyncFeed(source, self) if isinstance(source, AsyncIterable) else _PlainFeed(source, self)
        )

    @property
    def held(self) -> int:
        """How many items are in it: pulled, and not given out."""
        return self.open + len(self.results) + self.feed.kept

    @property
    def room(self) -> int:
        """How many more items it may hold."""
        return self._limit - self.held

    @property
    def ready(self) -> bool:
        """Whether there is a result to give."""
        return self._next in self.results if self._ordered else bool(self.results)

    def give(self) -> tuple[int, Any]:
        """Give the next result away, with its index."""
        if self._ordered:
            given = self._next, self.results.pop(self._next)
            self._next += 1
        else:
            given = self.results.popitem(last=False)
        self.feed.freed()
        return given

    def reserve(self, count: int) -> None:
        """Do nothing: results come into a dict."""

    def take(self, start: int, results: Sequence[Any]) -> None:
        """Take the results of items that stand together."""
        self.results.update(enumerate(results, start))

    def opened(self) -> None:
        """Hear that the item at the door has its place, or was refused."""
        super().opened()
        self.feed.freed()

    def let_go(self) -> None:
        """Drop what was not given out, and the circle with its source: the block has been left."""
        self.results.clear()
        self.errors.clear()
        del self.feed


class Feed(Protocol):
    """Where the items of a flow come from."""

    ended: bool
    """Whether nothing more will come."""

    @property
    def kept(self) -> int:
        """Items that were pulled and not sent yet."""
        ...

    def pull(self) -> None:
        """See to it that the flow is filled, without waiting."""
        ...

    def freed(self) -> None:
        """Hear that the flow may have room."""
        ...

    def raise_error(self) -> None:
        """Raise what the source raised, once."""
        ...

    def leave(self) -> None:
        """Send nothing more."""
        ...

    async def close(self) -> None:
        """Close the source, and wait until nothing of it is left."""
        ...


class _PlainFeed:
    """Pulls a plain iterable, in the task that asks for results."""

    def __init__(self, source: Iterable[Any], flow: Flow) -> None:
        self.ended = False
        self._source = source
        self._iterator: Iterator[Any] | None = None
        self._flow = flow
        self._rest: list[Any] = []
        self._error: BaseException | None = None

    @property
    def kept(self) -> int:
        return len(self._rest)

    def pull(self) -> None:
        flow = self._flow
        if self._rest and flow.door is None:
            self._rest = flow.send(self._rest)
        while not self.ended and flow.door is None and flow.room >= flow.portion:
            pulled = self._pull(flow.room)
            self._rest = flow.send(pulled)

    def _pull(self, count: int) -> list[Any]:
        """Pull up to so many items. Those before an error come before it."""
        pulled: list[Any] = []
        try:
            if self._iterator is None:
                self._iterator = iter(self._source)
            for item in self._iterator:
                pulled.append(item)
                if len(pulled) == count:
                    return pulled
        except Exception as error:  # noqa: BLE001  (raised at its turn)
            self._error = error
        except BaseException:
            self.ended = True
            raise
        self.ended = True
        return pulled

    def freed(self) -> None:
        """Hear nothing: who asks for the next result pulls."""

    def raise_error(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error

    def leave(self) -> None:
        self.ended = True
        self._rest = []

    async def close(self) -> None:
        """Leave the source to its owner, as a plain `for` does."""


class _AsyncFeed:
    """Pulls an async iterable in a task of its own, which also closes it.

    Mutable state: the task, whether it is inside the source, whether the block is being left, and the outcome.
    """

    kept = 0  # each item is sent as it comes

    def __init__(self, source: AsyncIterable[Any], flow: Flow) -> None:
        self.ended = False
        self._source = source
        self._flow = flow
        self._room_bell = Bell(flow.loop)
        self._end_bell = Bell(flow.loop)
        self._task: Cancellable | None = None
        self._begun = self._inside = self._leaving = False
        self._error: BaseException | None = None

    def pull(self) -> None:
        if not self._begun:
            self._begun = True
            self._error = RuntimeError(  # unless it gets as far as to say otherwise
                "the task that pulls the source of this map was cancelled, but not by leaving the block"
            )
            self._task = self._flow.loop.spawn_aside(self._run, copy_context(), self._end)
        elif self.ended and not isinstance(self._error, Exception):  # what ends the program does not wait
            self.raise_error()

    def freed(self) -> None:
        self._room_bell.ring()

    def raise_error(self) -> None:
        error, self._error = self._error, None
        if error is not None:
            raise error

    def leave(self) -> None:
        self._leaving = True
        self._room_bell.ring()
        if self._inside and self._task is not None:
            self._task.cancel()

    async def close(self) -> None:
        if not self._begun:
            await _close_generator(self._source)
            return
        before = self._error
        if not self.ended and not self._flow.loop.closed:
            await self._wait_for_end()
        if self._error is not before or not isinstance(before, Exception):
            self.raise_error()

    async def _wait_for_end(self) -> None:
        cancelled: BaseException | None = None
        with anyio.CancelScope(shield=True):
            while not self.ended:
                try:
                    await self._end_bell.wait()
                except (
                    self._flow.loop.cancelled
                ) as error:  # asyncio's own passes the shield, and is passed on
                    cancelled = error
                    if self._task is not None:
                        self._task.cancel()
        if cancelled is not None:
            raise cancelled

    async def _run(self) -> None:
        try:
            iterator = aiter(self._source)
            try:
                await self._feed(iterator)
            finally:
                if not self._flow.loop.closed:  # else this coroutine is thrown away, and can't await
                    await _close_generator(iterator)
        except (GeneratorExit, self._flow.loop.cancelled):
            raise
        except BaseExceptionGroup as errors:
            # Trio's nurseries wrap the cancellation by which the source is left: that part is the loop's.
            own = errors.split(self._flow.loop.cancelled)[1] if self._leaving else errors
            if own is None:
                raise
            self._error = own
        except BaseException as error:  # noqa: BLE001  (raised where results are asked for)
            self._error = error
        else:
            self._error = None

    async def _feed(self, iterator: AsyncIterator[Any]) -> None:
        """Send what the source gives, until it ends or is no longer wanted."""
        while await self._wait_for_room():
            self._inside = True
            try:
                item = await anext(iterator)
            except StopAsyncIteration:
                return
            finally:
                self._inside = False
            if not self._leaving:
                self._flow.send([item])

    async def _wait_for_room(self) -> bool:
        """Wait until the flow takes another item. False: it never will."""
        while not self._leaving and (self._flow.door is not None or self._flow.room < 1):
            await self._room_bell.wait()
        return not self._leaving

    def _end(self, task: Cancellable) -> None:
        self._flow.loop.look_at(task)
        self.ended = True
        self._task = None
        self._end_bell.ring()
        self._flow.bell.ring()


async def _close_generator(source: object) -> None:
    if isinstance(source, AsyncGenerator):
        await source.aclose()
