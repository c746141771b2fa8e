"""OpenTelemetry: one span a batch, one record a batch an instrument, and nothing an item unless somebody traces.

Law: nothing here is needed for a result. Whatever a provider, a sampler, a span or an instrument does, the batch and
its callers go on; it is logged once a batcher. Only `KeyboardInterrupt` and `SystemExit` go on.

How it is switched on: by whoever sets a provider up, before or after a batcher is built. `listens` is asked at the
first item of a batch, and once somebody traces `began` looks at each batch, since another provider may come any time.
To look is to read two module attributes: the API's public way to ask whether a provider has been set looks it up in
the environment each time, and takes fifty times as long.

The batch's span is a root, linked to the spans of its callers: in the trace of one of them it would swallow the work
of the others. It is current while the processor runs, so that the backend's own spans are its children. Nothing
points to a span that is not sampled, which is nowhere to be found: only sampled callers are linked, and callers are
told of sampled batches only.

Counts are read when a reader collects, in its own thread. OpenTelemetry keeps one instrument of a name a process, so
`_hub` is this file's one global state, as the providers are OpenTelemetry's.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from contextvars import copy_context
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from opentelemetry import context as otel_context
from opentelemetry import metrics, trace
from opentelemetry.metrics import Observation
from opentelemetry.trace import INVALID_SPAN, Link, SpanContext, StatusCode, TraceFlags

from async_batcher._ledger import Ledger, named

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import ModuleType

    from opentelemetry.context import Context
    from opentelemetry.metrics import CallbackOptions, Histogram, Meter
    from opentelemetry.trace import Span, Tracer
    from opentelemetry.util.types import AttributeValue

    from async_batcher._events import BatchEvent, Reason
    from async_batcher._ledger import Counted, Reading

    Address: TypeAlias = tuple[int, int]
    Note: TypeAlias = tuple[Span, SpanContext, Address]
    """What is remembered of a caller: its span, and who that is, which many objects may stand for."""

T = TypeVar("T")

REASON: Final = "async_batcher.batch.reason"
SIZE: Final = "async_batcher.batch.size"
CALLERS: Final = "async_batcher.batch.callers"
UNLINKED: Final = "async_batcher.batch.unlinked"
ERROR_TYPE: Final = "error.type"
BATCH_EVENT: Final = "async_batcher.batch"
SPLIT_EVENT: Final = "async_batcher.split"

SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
SIZES: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
TENTHS: Final = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1)

_SCOPE: Final = "async_batcher"
_LIMIT: Final = 128  # the specification's, of links and of events
_ROOT: Final = trace.set_span_in_context(
    INVALID_SPAN, otel_context.Context()
)  # an empty one counts as none at all
_SAMPLED: Final = TraceFlags.SAMPLED
_TAKEN_BACK: Final[dict[str, AttributeValue]] = {"async_batcher.batch.taken_back": True}

_logger = logging.getLogger("async_batcher")


class _Instruments:
    """The instruments of one meter provider."""

    def __init__(self, meter: Meter, ledger: Ledger) -> None:
        def histogram(name: str, unit: str, description: str, buckets: Sequence[float]) -> Histogram:
            return meter.create_histogram(
                f"{_SCOPE}.{name}", unit, description, explicit_bucket_boundaries_advisory=buckets
            )

        self.oldest = histogram(
            "queue.oldest_duration", "s", "Wait of the item of a batch that waited longest", SECONDS
        )
        self.mean = histogram("queue.mean_duration", "s", "Wait of the items of a batch, on average", SECONDS)
        self.processing = histogram(
            "processing.duration", "s", "Call of the processor until its outcome", SECONDS
        )
        self.size = histogram("batch.size", "{item}", "Items that the processor was given together", SIZES)
        self.fill = histogram(
            "batch.fill_ratio", "1", "Size or weight of a batch, over the most it may be", TENTHS
        )
        for name, read, unit, description in (
            ("items", ledger.read_outcomes, "{item}", "Callers that were accepted, by what became of them"),
            ("rejections", partial(ledger.read, "rejected"), "{item}", "Callers that were refused"),
            (
                "admission.waits",
                partial(ledger.read, "waited"),
                "{item}",
                "Callers that got a place after a wait for room",
            ),
            (
                "admission.time",
                partial(ledger.read, "waited_seconds"),
                "s",
                "How long these waited for room, together",
            ),
        ):
            meter.create_observable_counter(f"{_SCOPE}.{name}", [_observed(read)], unit, description)
        for field, description in (
            ("waiting", "Callers whose item is in the queue"),
            ("running", "Callers whose item is in a running batch"),
            ("in_line", "Callers that wait for room"),
        ):
            read = partial(ledger.read_now, field)
            meter.create_observable_up_down_counter(
                f"{_SCOPE}.item.{field}", [_observed(read)], "{item}", description
            )


def _observed(read: Callable[[], Iterable[Reading]]) -> Callable[[CallbackOptions], Iterable[Observation]]:
    return lambda _: [Observation(number, attributes) for number, attributes in read()]


class _Hub:
    """Who listens in this process: a tracer and the instruments, where their providers have been set.

    Mutable state: the providers that were seen last, and what came of them; how many events each caller's span has.
    """

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.tracer: Tracer | None = None
        self.instruments: _Instruments | None = None
        self.link_limit: int | None = _LIMIT
        self._event_limit: int | None = _LIMIT
        self._events: WeakKeyDictionary[Span, int] = WeakKeyDictionary()
        self._tracers: Any = None
        self._meters: Any = None
        self.renew_locks()
        for ask in (trace.get_tracer_provider, metrics.get_meter_provider):
            self._attempt(ask)  # one that the environment names is loaded by the first who asks

    def look(self) -> bool:
        """See which providers are set now, and say whether anybody traces."""
        tracers, meters = _TRACERS.get("_TRACER_PROVIDER"), _METERS.get("_METER_PROVIDER")
        if tracers is not self._tracers or meters is not self._meters:
            with self._changing:  # loops in other threads wait meanwhile, or would miss their first batches
                if not self._changes:
                    self._change(tracers, meters)
        return self.tracer is not None

    def renew_locks(self) -> None:
        """Have locks that nobody holds: a fork may have left the old ones held by a thread that is not there."""
        self.ledger.renew_lock()
        self._changing = threading.RLock()  # a provider may build a batcher in what it is asked
        self._changes = False

    def _change(self, tracers: Any, meters: Any) -> None:
        """Turn to other providers; which they are is noted last, as others go by that."""
        self._changes = True
        try:
            if tracers is not self._tracers:
                self.tracer = None if tracers is None else self._attempt(self._tracer_of, tracers)
                self._tracers = tracers
            if meters is not self._meters:
                self.instruments = None if meters is None else self._attempt(self._instruments_of, meters)
                self._meters = meters
        finally:
            self._changes = False

    def takes_event(self, span: Span) -> bool:
        """Say whether a caller's span is to be told of one more batch, and count that.

        A span keeps its last events, so that a caller in many batches would lose those that it made itself: half of
        what a span keeps is the caller's own.
        """
        if self._event_limit is None:
            return True
        try:
            events = self._events.get(span, 0)
            self._events[span] = events + 1
        except TypeError:  # somebody's own kind of span, which can't be a weak key
            return True
        return events < self._event_limit // 2

    def _tracer_of(self, provider: trace.TracerProvider) -> Tracer | None:
        tracer = provider.get_tracer(_SCOPE, _version())
        if isinstance(tracer, trace.NoOpTracer | trace.ProxyTracer):
            return None
        self.link_limit = _limit_of(tracer, "max_links", "OTEL_SPAN_LINK_COUNT_LIMIT")
        self._event_limit = _limit_of(tracer, "max_events", "OTEL_SPAN_EVENT_COUNT_LIMIT")
        return tracer

    def _instruments_of(self, provider: metrics.MeterProvider) -> _Instruments | None:
        meter = provider.get_meter(_SCOPE, _version())
        return None if isinstance(meter, metrics.NoOpMeter) else _Instruments(meter, self.ledger)

    def _attempt(self, call: Callable[..., T], *arguments: object) -> T | None:
        try:
            found = call(*arguments)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:
            _logger.exception("OpenTelemetry's providers can't be used; batchers go on without them")
            return None
        return found


class _Asked:
    """Stands in for the variable in which the API keeps its context, where that is not found."""

    def get(self, _: object) -> Context:
        return otel_context.get_current()


class _Ask:
    """Stands in for where the API keeps a provider, in a version that keeps it elsewhere, or where a mock stands."""

    def __init__(self, api: ModuleType, function: str) -> None:
        self._api, self._function = api, function

    def get(self, _: str) -> object:
        try:
            return getattr(self._api, self._function)()
        except Exception:  # noqa: BLE001  (it has been logged when the hub was made)
            return None


def _place_of(api: ModuleType, function: str, name: str) -> Any:
    """Find where the API keeps a provider, by this name, once it has been set: beside the function that gives it."""
    kept = getattr(getattr(api, function), "__globals__", ())
    return kept if name in kept else _Ask(api, function)


def _limit_of(tracer: Tracer, field: str, variable: str) -> int | None:
    """Say how many of something a tracer's spans keep; `None` is no limit.

    The SDK's tracers have it, wherever it was set. The API has no way to ask, so for another's the variable counts.
    """
    limit: object = getattr(getattr(tracer, "_span_limits", None), field, _LIMIT)
    if hasattr(tracer, "_span_limits") and (limit is None or type(limit) is int):
        return limit
    named = os.environ.get(variable, "").strip()
    return int(named) if named.isdecimal() else _LIMIT


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


def _version() -> str:
    try:
        return version("async-batcher")
    except PackageNotFoundError:  # it was copied, not installed
        return ""


_TRACERS: Final = _place_of(trace, "get_tracer_provider", "_TRACER_PROVIDER")
_METERS: Final = _place_of(metrics, "get_meter_provider", "_METER_PROVIDER")
_hub: Final = _Hub()
_CONTEXT, _SPAN = _place_of_spans()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_hub.renew_locks)


def count_in(name: str | None, counted: Counted) -> None:
    """Have the instruments count these in, until they are gone."""
    _hub.ledger.add(_sendable(name), counted)


def _sendable(name: str | None) -> str | None:
    """Make of a batcher's name what every exporter takes: with a lone surrogate, all that it sends along is lost."""
    return str.encode(name, errors="replace").decode() if name else None


class _Account:
    """What is kept of a batch that has begun.

    Mutable state: the span of the further call that runs now.
    """

    __slots__ = ("context", "instruments", "part", "span", "tracer")

    def __init__(
        self, span: Span, context: Context, tracer: Tracer | None, instruments: _Instruments | None
    ) -> None:
        self.span = span
        self.context = context
        self.tracer = tracer
        self.instruments = instruments
        self.part: Span | None = None


class Telemetry:
    """Tells OpenTelemetry of one batcher: its `Witness`.

    Mutable state: whether anybody listens, the attributes of each reason that was met, and whether anything was logged.
    """

    def __init__(
        self, name: str | None, max_batch_size: int | None, max_batch_weight: float | None, counted: Counted
    ) -> None:
        self._name = _sendable(name)
        label = "" if self._name is None else f" {self._name}"
        self._batch, self._part = f"batch{label}", f"batch part{label}"
        self._max_size, self._max_weight = max_batch_size, max_batch_weight
        self._attributes: dict[Reason, dict[str, AttributeValue]] = {}
        self._logged = False
        self._hub = _hub
        self.awake = False
        count_in(name, counted)
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
        tracer, instruments = self._hub.tracer, self._hub.instruments
        if tracer is None:
            return None if instruments is None else _Account(INVALID_SPAN, _ROOT, None, instruments)
        of_callers = {address: context for _, context, address in notes}.values()
        attributes = {**self._attributes_of(reason), SIZE: size, CALLERS: callers}
        span = self._attempt(self._start, tracer, attributes, list(of_callers))
        span = INVALID_SPAN if span is None else span
        account = _Account(span, trace.set_span_in_context(span), tracer, instruments)
        otel_context.attach(account.context)  # in a task of the batch's own: it ends with that
        if (described := self._attempt(_where, span)) is not None:
            self._tell(notes, described)
        return account

    def split(self, account: _Account, error_type: str, /) -> None:
        """Tell that the batch failed as a whole, and is called again in halves."""
        self._attempt(account.span.add_event, SPLIT_EVENT, {ERROR_TYPE: _conventional(error_type)})

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
            self._record(account.instruments, account.context, event)

    # Helpers

    def _start(
        self, tracer: Tracer, attributes: dict[str, AttributeValue], of_callers: Sequence[SpanContext]
    ) -> Span:
        limit = self._hub.link_limit
        if limit is not None and len(of_callers) > limit:
            attributes[UNLINKED] = len(of_callers) - limit
        links = [Link(context) for context in of_callers[:limit]]
        return tracer.start_span(self._batch, _ROOT, attributes=attributes, links=links)

    def _tell(self, notes: Sequence[Note], described: dict[str, AttributeValue]) -> None:
        """Tell each caller's span once where the batch's is; of objects that stand for one span, the first that can."""
        told: set[Address] = set()
        for span, _, address in notes:
            if address not in told and self._attempt(self._tell_one, span, described):
                told.add(address)

    def _tell_one(self, span: Span, described: dict[str, AttributeValue]) -> bool:
        """Tell a caller's span, unless it has had its share, and say whether it can be told anything."""
        if not span.is_recording():  # one that has ended would log a warning
            return False
        if self._hub.takes_event(span):
            span.add_event(BATCH_EVENT, described)
        return True

    def _record(self, instruments: _Instruments, context: Context, event: BatchEvent) -> None:
        attributes = self._attributes_of(event.reason)
        with_error = (
            attributes
            if event.error_type is None
            else {**attributes, ERROR_TYPE: _conventional(event.error_type)}
        )
        self._attempt(instruments.oldest.record, max(0, event.oldest_queue_seconds), attributes, context)
        self._attempt(instruments.mean.record, max(0, event.mean_queue_seconds), attributes, context)
        self._attempt(instruments.processing.record, max(0, event.processing_seconds), with_error, context)
        self._attempt(instruments.size.record, event.size, attributes, context)
        fill = self._fill_of(event)
        if fill is not None:
            self._attempt(instruments.fill.record, fill, attributes, context)

    def _fill_of(self, event: BatchEvent) -> float | None:
        """Say how full a batch was, by the limit that it came closest to."""
        by_size = None if self._max_size is None else event.size / self._max_size
        if self._max_weight is None or event.weight is None:
            return by_size
        return max(by_size or 0, event.weight / self._max_weight)

    def _attributes_of(self, reason: Reason) -> dict[str, AttributeValue]:
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


def _where(span: Span) -> dict[str, AttributeValue] | None:
    """Say where a batch's span is found, for the callers' spans; `None`: nowhere."""
    context = span.get_span_context()
    if not context.trace_flags & _SAMPLED:
        return None
    return {
        f"{BATCH_EVENT}.trace_id": trace.format_trace_id(context.trace_id),
        f"{BATCH_EVENT}.span_id": trace.format_span_id(context.span_id),
    }


def _described(event: BatchEvent) -> dict[str, AttributeValue]:
    described: dict[str, AttributeValue] = {
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
            span.set_attributes(_TAKEN_BACK if event is None else _described(event))
    finally:
        _end(span, None if event is None else event.error_type)


def _conventional(error_type: str) -> str:
    return error_type.removeprefix("builtins.")


def _end(span: Span, error_type: str | None) -> None:
    """End a span in any case; an error's text might hold a payload, so only its type is told."""
    try:
        if error_type is not None and span.is_recording():
            span.set_attribute(ERROR_TYPE, _conventional(error_type))
            span.set_status(StatusCode.ERROR)
    finally:
        span.end()
