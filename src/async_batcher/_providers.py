"""Who listens by OpenTelemetry: which providers are set now, and what came of them.

To look is to read two module attributes: the API's public way to ask whether a provider has been set looks it up in
the environment each time, and takes fifty times as long. Where the API keeps them elsewhere, it is asked.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Final, TypeVar
from weakref import WeakKeyDictionary

from opentelemetry import metrics, trace

from async_batcher._instruments import Instruments
from async_batcher._ledger import Ledger

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from opentelemetry.trace import Span, Tracer

T = TypeVar("T")

_SCOPE: Final = "async_batcher"
_LIMIT: Final = 128  # the specification's, of links and of events

_logger = logging.getLogger("async_batcher")


class Hub:
    """Who listens in this process: a tracer and the instruments, where their providers have been set.

    Mutable state: the providers that were seen last, and what came of them; how many events each caller's span has.
    """

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.tracer: Tracer | None = None
        self.instruments: Instruments | None = None
        self.link_limit: int | None = _LIMIT
        self._event_limit: int | None = _LIMIT
        self._events: WeakKeyDictionary[Span, int] = WeakKeyDictionary()
        self._tracers: Any = None
        self._meters: Any = None
        self.renew_locks()
        for ask in (trace.get_tracer_provider, metrics.get_meter_provider):
            _attempt(ask)  # one that the environment names is loaded by the first who asks

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

    # Helpers

    def _change(self, tracers: Any, meters: Any) -> None:
        """Turn to other providers; which they are is noted last, as others go by that."""
        self._changes = True
        try:
            if tracers is not self._tracers:
                self.tracer = None if tracers is None else _attempt(self._tracer_of, tracers)
                self._tracers = tracers
            if meters is not self._meters:
                self.instruments = None if meters is None else _attempt(self._instruments_of, meters)
                self._meters = meters
        finally:
            self._changes = False

    def _tracer_of(self, provider: trace.TracerProvider) -> Tracer | None:
        tracer = provider.get_tracer(_SCOPE, _version())
        if isinstance(tracer, trace.NoOpTracer | trace.ProxyTracer):
            return None
        self.link_limit = _limit_of(tracer, "max_links", "OTEL_SPAN_LINK_COUNT_LIMIT")
        self._event_limit = _limit_of(tracer, "max_events", "OTEL_SPAN_EVENT_COUNT_LIMIT")
        return tracer

    def _instruments_of(self, provider: metrics.MeterProvider) -> Instruments | None:
        meter = provider.get_meter(_SCOPE, _version())
        return None if isinstance(meter, metrics.NoOpMeter) else Instruments(meter, self.ledger, _attempt)


def _attempt(call: Callable[..., T], *arguments: object) -> T | None:
    try:
        return call(*arguments)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:
        with contextlib.suppress(Exception):  # of a handler or a filter of the user's
            _logger.exception("a part of OpenTelemetry can't be used; batchers go on without it")
        return None


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


def _version() -> str:
    try:
        return version("async-batcher")
    except PackageNotFoundError:  # it was copied, not installed
        return ""


_TRACERS: Final = _place_of(trace, "get_tracer_provider", "_TRACER_PROVIDER")
_METERS: Final = _place_of(metrics, "get_meter_provider", "_METER_PROVIDER")
