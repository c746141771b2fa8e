"""OpenTelemetry's instruments: what they are called, and what is recorded of a batch.

Counts are read when a reader collects, in its own thread; what a batch took is recorded once, when it has ended. One
that can't be made is done without: a meter may refuse one and take the others.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from opentelemetry.metrics import Observation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from opentelemetry.context import Context
    from opentelemetry.metrics import CallbackOptions, Histogram, Meter
    from opentelemetry.util.types import AttributeValue

    from async_batcher._events import BatchEvent
    from async_batcher._ledger import Ledger, Reading

    Attributes: TypeAlias = dict[str, AttributeValue]
    Attempt: TypeAlias = Callable[..., object]
    """Calls what it is given; where that raises, it says so in the log."""

ERROR_TYPE: Final = "error.type"

SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
SIZES: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
TENTHS: Final = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1)

MOST_TYPES: Final = 64  # of errors that are series of their own
LONGEST_TYPE: Final = 200
OTHER: Final = "_OTHER"  # the semantic conventions', for what has no name of its own

_SCOPE: Final = "async_batcher"
_HISTOGRAMS: Final = (
    ("queue.oldest_duration", "s", "Wait of the item of a batch that waited longest", SECONDS),
    ("queue.mean_duration", "s", "Wait of the items of a batch, on average", SECONDS),
    ("processing.duration", "s", "Call of the processor until its outcome", SECONDS),
    ("batch.size", "{item}", "Items that the processor was given together", SIZES),
    ("batch.fill_ratio", "1", "Size or weight of a batch, over the most it may be", TENTHS),
)
_COUNTERS: Final = (
    ("rejections", "rejected", "{item}", "Callers that were refused"),
    ("admission.waits", "waited", "{item}", "Callers that got a place after a wait for room"),
    ("admission.time", "waited_seconds", "s", "How long these waited for room, together"),
)
_PRESENT: Final = (
    ("waiting", "Callers whose item is in the queue"),
    ("running", "Callers whose item is in a running batch"),
    ("in_line", "Callers that wait for room"),
)


class Instruments:
    """The instruments of one meter provider.

    Mutable state: which types of errors are series of their own.
    """

    def __init__(self, meter: Meter, ledger: Ledger, attempt: Attempt) -> None:
        self.histograms: dict[str, Histogram] = {}
        self._types: set[str] = set()
        for name, unit, description, buckets in _HISTOGRAMS:
            attempt(self._add_histogram, meter, name, unit, description, buckets)
        counter, gauge = meter.create_observable_counter, meter.create_observable_up_down_counter
        description = "Callers that were accepted, by what became of them"
        attempt(_observe, counter, "items", ledger.read_outcomes, "{item}", description)
        for name, field, unit, description in _COUNTERS:
            attempt(_observe, counter, name, partial(ledger.read, field), unit, description)
        for field, description in _PRESENT:
            attempt(_observe, gauge, f"item.{field}", partial(ledger.read_now, field), "{item}", description)

    def record(
        self,
        event: BatchEvent,
        fill: float | None,
        attributes: Attributes,
        context: Context,
        attempt: Attempt,
    ) -> None:
        """Record a batch, in each of them by itself. `fill` is how full it was, `None` where there is no limit."""
        numbers = {
            "queue.oldest_duration": event.oldest_queue_seconds,
            "queue.mean_duration": event.mean_queue_seconds,
            "processing.duration": event.processing_seconds,
            "batch.size": event.size,
            "batch.fill_ratio": fill,
        }
        for name, histogram in self.histograms.items():
            number = numbers[name]
            of = dict(attributes)  # its own: what it does with that is nobody else's affair
            if name == "processing.duration" and event.error_type is not None:
                of[ERROR_TYPE] = self._bounded(conventional(event.error_type))
            if number is not None:
                attempt(histogram.record, max(0, number), of, context)

    def _add_histogram(
        self, meter: Meter, name: str, unit: str, description: str, buckets: Sequence[float]
    ) -> None:
        self.histograms[name] = meter.create_histogram(
            f"{_SCOPE}.{name}", unit, description, explicit_bucket_boundaries_advisory=buckets
        )

    def _bounded(self, error_type: str) -> str:
        """Name no more types than there may be: classes that are made at run time would be a series each."""
        if error_type not in self._types:
            if len(self._types) >= MOST_TYPES:
                return OTHER
            self._types.add(error_type)
        return error_type


def conventional(error_type: str) -> str:
    """Make of a class's qualified name what every exporter takes, and no longer than a name is."""
    return sendable(error_type.removeprefix("builtins."))[:LONGEST_TYPE]


def sendable(text: str) -> str:
    """Make of a text what every exporter takes: with a lone surrogate, all that it sends along is lost."""
    return str.encode(text, errors="replace").decode()


def _observe(
    create: Callable[..., object],
    name: str,
    read: Callable[[], Iterable[Reading]],
    unit: str,
    description: str,
) -> None:
    def observed(_: CallbackOptions) -> list[Observation]:
        return [Observation(number, attributes) for number, attributes in read()]

    create(f"{_SCOPE}.{name}", [observed], unit, description)
