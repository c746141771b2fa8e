"""The run's span, for whoever asks for traces by OpenTelemetry's variables.

1. Without a variable that asks, nothing of OpenTelemetry's SDK is imported, and nothing is done.
2. The span is current while the run works: each batch of its batchers is linked to it, and told of in it.
3. It is no part of a run: what a variable gets wrong, or is not installed, is a warning.
4. What is left is sent when the lock has been given back, in a tenth of the drain's budget, 2 s at most. A
   collector that hangs holds up neither the next fire nor the drain.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Final, Self

from examples.recipes.otel_settings import Settings, TelemetryMisconfigured

from .errors import Exit, exit_code_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from opentelemetry.trace import Span

    from .plan import Plan
    from .totals import Ended

SERVICE_NAME: Final = "caption_qc"
"""Where no variable says one."""
SHARE_OF_THE_DRAIN: Final = 0.1


class Tracing:
    """One run's span. Mutable state: the span, once it has begun, and what is to be undone at the end."""

    def __init__(self, plan: Plan, warn: Callable[[str], None]) -> None:
        self._plan = plan
        self._warn = warn
        self._span: Span | None = None
        self._undo = contextlib.ExitStack()

    def begin(self) -> None:
        """Begin the span, where a variable asks for traces: the run is really done."""
        try:
            settings = Settings.of(os.environ)
            if settings:
                self._begin(settings)
        except (ImportError, TelemetryMisconfigured) as error:
            self._warn(f"this run has no traces: {error}")

    def end(self, ended: Ended) -> None:
        """Tell in the span how the run ended."""
        if self._span is not None:
            totals = ended.totals
            counts = {"found": totals.found, "checked": totals.checked, "dead_letters": totals.dead_letters}
            self._span.set_attributes({f"caption_qc.assets.{name}": count for name, count in counts.items()})
            self._span.set_attribute("caption_qc.drained", ended.drained)
            self._tell(ended.code, _name_of(ended.code))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """End the span, and send what is left."""
        with self._undo:
            if isinstance(error, Exception):
                code = exit_code_of(error)
                self._tell(code, type(error).__name__ if code == 1 else _name_of(code))

    def _begin(self, settings: Settings) -> None:
        # Here, because a run that is asked for no traces needs none of it.
        from opentelemetry import trace  # noqa: PLC0415

        from examples.recipes.otel_export import FLUSH_TIMEOUT, exporting  # noqa: PLC0415

        budget = min(FLUSH_TIMEOUT, self._plan.drain_timeout * SHARE_OF_THE_DRAIN)
        self._undo.enter_context(exporting(settings, service_name=SERVICE_NAME, flush_timeout=budget))
        self._span = self._undo.enter_context(
            trace.get_tracer("caption_qc").start_as_current_span(
                "caption_qc run",
                attributes={"caption_qc.run_id": self._plan.run_id},
                record_exception=False,  # its text may hold an asset's name
                set_status_on_exception=False,
            )
        )

    def _tell(self, code: int, error_type: str) -> None:
        """Say by the conventions' names how the process ends."""
        if self._span is None:
            return
        self._span.set_attribute("process.exit.code", code)
        if code != Exit.OK:
            from opentelemetry.trace import StatusCode  # noqa: PLC0415 - loaded long since

            self._span.set_attribute("error.type", error_type)
            self._span.set_status(StatusCode.ERROR)


def _name_of(code: int) -> str:
    try:
        return Exit(code).name
    except ValueError:
        return str(code)
