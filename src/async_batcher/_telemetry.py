"""OpenTelemetry: one span a batch, one record a batch an instrument, and nothing an item unless somebody traces.

Law: nothing here is needed for a result. Whatever a provider, a sampler, a span or an instrument does, the batch and
its callers go on; it is logged once a batcher. Only `KeyboardInterrupt` and `SystemExit` go on.

How it is switched on: by whoever sets a provider up, before or after a batcher is built. `listens` is asked at the
first item of a batch, and once somebody traces `began` looks at each batch, since another provider may come any time.

The batch's span is a root, linked to the spans of its callers: in the trace of one of them it would swallow the work
of the others. It is current while the processor runs, so that the backend's own spans are its children. Nothing
points to a span that is not sampled, which is nowhere to be found: only sampled callers are linked, and callers are
told of sampled batches only.

OpenTelemetry keeps one instrument of a name a process, so `_hub` is the one global state, as the providers are
OpenTelemetry's.
"""

from __future__ import annotations

import contextlib
import logging
import os
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.trace import INVALID_SPAN, Link, SpanContext, StatusCode, TraceFlags

from async_batcher._instruments import ERROR_TYPE, conventional, sendable
from async_batcher._ledger import named
from async_batcher._providers import Hub

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer

    from async_batcher._events import BatchEvent, Reason
    from async_batcher._instruments import Attributes, Instruments
    from async_batcher._ledger import Counted

    Address: TypeAlias = tuple[int, int]
    Note: TypeAlias = tuple[Span, SpanContext, Address]
    """What is remembered of a caller: its span, and who that is, which many objects may stand for."""

T = TypeVar("T")

REASON: Final = "async_batcher.batch.reason"
SIZE: Final = "async_batcher.batch.size"
CALLERS: Final = "async_batcher.batch.callers"
UNLINKED: Final = "async_batcher.batch.unlinked"
BATCH_EVENT: Final = "async_batcher.batch"
SPLIT_EVENT: Final = "async_batcher.split"

_ROOT: Final = trace.set_span_in_context(
    INVALID_SPAN, otel_context.Context()
)  # an empty one counts as none at all
_SAMPLED: Final = TraceFlags.SAMPLED

_logger = logging.getLogger("async_batcher")


class _Asked:
    """Stands in for the variable in which the API keeps its context, where that is not found."""

    def get(self, _: object) -> Context:
        return otel_context.get_current()


def _place_of_spans() -> tuple[Any, str]:
    """Find where the current span is kept: to ask for it by the API's functions takes ten times as long.

    They are given something once that is recognised, so that nothing here rests on how they are written.
    """
    context = trace.set_span_in_context(INVALID_SPAN, otel_context.Context())
    token = otel_context.attach(context)
    try:
        places: list[Any] = [variable for variable, value in copy_context().items() if value is context]
    finally:
        otel_context.detach(token)
    (key,) = context
    return (*places, _Asked())[0], key


_hub: Final = Hub()
_CONTEXT, _SPAN = _place_of_spans()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_hub.renew_locks)


def count_in(name: str | None, counted: Counted) -> None:
    """Have the instruments count these in, until they are gone."""
    _hub.ledger.add(sendable(name) if name else None, counted)


class _Account:
    """What is kept of a batch that has begun.

    Mutable state: the batch's span, and the context in which it is current; the span of the further call that runs now.
    """

    __slots__ = ("context", "instruments", "part", "span", "tracer")

    def __init__(self, tracer: Tracer | None, instruments: Instruments | None) -> None:
        self.span: Span = INVALID_SPAN
        self.context = _ROOT
        self.tracer = tracer
        self.instruments = instruments
        self.part: Span | None = None

    def enter(self) -> None:
        """Make the batch's span current, in a task of the batch's own: it ends with that."""
        self.context = trace.set_span_in_context(self.span)
        otel_context.attach(self.context)


class Telemetry:
    """Tells OpenTelemetry of one batcher: its `Witness`.

    Mutable state: whether anybody listens, the attributes of each reason that was met, and whether anything was logged.
    """

    def __init__(
        self, name: str | None, max_batch_size: int | None, max_batch_weight: float | None, counted: Counted
    ) -> None:
        self._name = sendable(name) if name else None
        label = "" if self._name is None else f" {self._name}"
        self._batch, self._part = f"batch{label}", f"batch part{label}"
        self._max_size, self._max_weight = max_batch_size, max_batch_weight
        self._attributes: dict[Reason, Attributes] = {}
        self._logged = False
        self._hub = _hub
        self.awake = False
        count_in(self._name, counted)
        self.listens()

    def listens(self) -> bool:
        """Say whether each caller's span is to be noted."""
        traces = self._hub.look()
        self.awake = traces or self._hub.instruments is not None
        return traces

    def note(self) -> Note | None:
        """Note the span of the caller that comes in, unless nobody will ever see it."""
        try:
            here = _CONTEXT.get(None)
            span = None if here is None else here.get(_SPAN)
            if span is None:
                return None
            context = span.get_span_context()
            if not context.trace_flags & _SAMPLED or not isinstance(context, SpanContext):
                return None  # what only looks like one may fail the span of the whole batch, or its export
            address = context.trace_id, context.span_id
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001  (any code may stand behind a span)
            self._log_once(error)
            return None
        return span, context, address

    def began(self, reason: Reason, size: int, callers: int, notes: Sequence[Note], /) -> _Account | None:
        """Start the batch's span, make it current, and tell the spans of the callers."""
        self._hub.look()
        account = _Account(self._hub.tracer, self._hub.instruments)
        if account.tracer is None:
            return None if account.instruments is None else account
        of_callers = {address: context for _, context, address in notes}.values()
        attributes = {**self._attributes_of(reason), SIZE: size, CALLERS: callers}
        span = self._attempt(self._start, account.tracer, attributes, list(of_callers))
        account.span = INVALID_SPAN if span is None else span
        try:
            self._attempt(account.enter)
            if (described := self._attempt(_where, account.span)) is not None:
                self._tell(notes, described)
        except BaseException as error:  # what ends the program: nobody gets the account, to end its span
            self._attempt(_end, account.span, type(error).__name__)
            raise
        return account

    def split(self, account: _Account, error_type: str, /) -> None:
        """Tell that the batch failed as a whole, and is called again in halves."""
        self._attempt(account.span.add_event, SPLIT_EVENT, {ERROR_TYPE: conventional(error_type)})

    def part_began(self, account: _Account, size: int, /) -> Span | None:
        """Start the span of a further call, and make it current."""
        if account.tracer is None:
            return None
        span = self._attempt(account.tracer.start_span, self._part, account.context, attributes={SIZE: size})
        if span is not None:
            account.part = span
            otel_context.attach(trace.set_span_in_context(span, account.context))
        return span

    def part_ended(self, account: _Account, span: Span | None, error_type: str | None, /) -> None:
        """End it."""
        if span is not None:
            if (
                trace.get_current_span() is span
            ):  # else it was thrown away, and this is another task's context
                otel_context.attach(account.context)
            account.part = None
            self._attempt(_end, span, error_type)

    def ended(self, account: _Account, event: BatchEvent | None, /) -> None:
        """End the batch's span, and that of a call which goes on in a thread; record the batch."""
        if account.part is not None and event is not None:
            self._attempt(_end, account.part, event.error_type)
        if account.tracer is not None:
            self._attempt(_end_batch, account.span, event)
        if account.instruments is not None and event is not None:
            attributes, fill = self._attributes_of(event.reason), self._fill_of(event)
            account.instruments.record(event, fill, attributes, account.context, self._attempt)

    # Helpers

    def _start(self, tracer: Tracer, attributes: Attributes, of_callers: Sequence[SpanContext]) -> Span:
        limit = self._hub.link_limit
        if limit is not None and len(of_callers) > limit:
            attributes[UNLINKED] = len(of_callers) - limit
        links = [Link(context) for context in of_callers[:limit]]
        return tracer.start_span(self._batch, _ROOT, attributes=attributes, links=links)

    def _tell(self, notes: Sequence[Note], described: Attributes) -> None:
        """Tell each caller's span once where the batch's is; of objects that stand for one span, the first that can."""
        told: set[Address] = set()
        for span, _, address in notes:
            if address not in told and self._attempt(self._tell_one, span, described):
                told.add(address)

    def _tell_one(self, span: Span, described: Attributes) -> bool:
        """Tell a caller's span, unless it has had its share, and say whether it can be told anything."""
        if not span.is_recording():  # one that has ended would log a warning
            return False
        if self._hub.takes_event(span):
            span.add_event(BATCH_EVENT, {**described})  # its own: it may do with that what it likes
        return True

    def _fill_of(self, event: BatchEvent) -> float | None:
        """Say how full a batch was, by the limit that it came closest to."""
        by_size = None if self._max_size is None else event.size / self._max_size
        if self._max_weight is None or event.weight is None:
            return by_size
        return max(by_size or 0, event.weight / self._max_weight)

    def _attributes_of(self, reason: Reason) -> Attributes:
        found = self._attributes.get(reason)
        if found is None:
            found = self._attributes[reason] = {**named(self._name), REASON: reason}
        return found

    def _attempt(self, call: Callable[..., T], *arguments: Any, **named: Any) -> T | None:
        """Call what is OpenTelemetry's; where it raises, log it once, and return `None`."""
        try:
            return call(*arguments, **named)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001  (any code may stand behind a provider)
            self._log_once(error)
            return None

    def _log_once(self, error: BaseException) -> None:
        if not self._logged:
            self._logged = True
            text = "the telemetry of batcher %r raised; it goes on being called, unlogged"
            with contextlib.suppress(Exception):  # of a handler or a filter of the user's
                _logger.error(text, self._name, exc_info=error)


def _where(span: Span) -> Attributes | None:
    """Say where a batch's span is found, for the callers' spans; `None`: nowhere."""
    context = span.get_span_context()
    if not context.trace_flags & _SAMPLED:
        return None
    return {
        f"{BATCH_EVENT}.trace_id": trace.format_trace_id(context.trace_id),
        f"{BATCH_EVENT}.span_id": trace.format_span_id(context.span_id),
    }


def _described(event: BatchEvent) -> Attributes:
    described: Attributes = {
        "async_batcher.queue.oldest_seconds": event.oldest_queue_seconds,
        "async_batcher.queue.mean_seconds": event.mean_queue_seconds,
        "async_batcher.batch.succeeded": event.succeeded,
        "async_batcher.batch.failed": event.failed,
        "async_batcher.batch.abandoned": event.abandoned,
    }
    if event.weight is not None:
        described["async_batcher.batch.weight"] = float(event.weight)  # of one type, whatever `weigh` returns
    return described


def _end_batch(span: Span, event: BatchEvent | None) -> None:
    try:
        if span.is_recording():
            span.set_attributes({f"{BATCH_EVENT}.taken_back": True} if event is None else _described(event))
    finally:
        _end(span, None if event is None else event.error_type)


def _end(span: Span, error_type: str | None) -> None:
    """End a span in any case; an error's text might hold a payload, so only its type is told."""
    try:
        if error_type is not None and span.is_recording():
            span.set_attribute(ERROR_TYPE, conventional(error_type))
            span.set_status(StatusCode.ERROR)
    finally:
        span.end()
