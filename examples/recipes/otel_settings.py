"""What the standard `OTEL_*` variables ask for: `Settings.of(os.environ, ...)`, before any of OpenTelemetry loads.

The SDK's own parts read the most of them themselves when they are built (`OTEL_SERVICE_NAME`,
`OTEL_RESOURCE_ATTRIBUTES`, `OTEL_TRACES_SAMPLER`, `OTEL_BSP_*`, `OTEL_METRIC_EXPORT_INTERVAL`,
`OTEL_SPAN_LINK_COUNT_LIMIT`, `OTEL_EXPORTER_OTLP_HEADERS`, `_TIMEOUT`, `_COMPRESSION`, `_CERTIFICATE`, ...). Which
parts to build is left to the program, and is all that is read here:

| variable                                                        | what it does                                |
|-----------------------------------------------------------------|---------------------------------------------|
| `OTEL_SDK_DISABLED=true`                                        | nothing is built                            |
| `OTEL_EXPORTER_OTLP_ENDPOINT`, `..._{TRACES,METRICS}_ENDPOINT`  | where to send; set, it asks for `otlp`      |
| `OTEL_TRACES_EXPORTER`                                          | `otlp`, `console`, both, or `none`          |
| `OTEL_METRICS_EXPORTER`                                         | the same, and `prometheus` where it is served |
| `OTEL_EXPORTER_OTLP_PROTOCOL`, `..._{TRACES,METRICS}_PROTOCOL`  | `http/protobuf`, the only one here          |

One thing differs from the specification: where no variable names an exporter or an endpoint, nothing is sent, where
it would send to `localhost:4318`. A process that was asked for nothing opens no connection and starts no thread.

Standard library only, so that a program can ask before it pays for the SDK's import.
"""

from __future__ import annotations

import dataclasses
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

OTLP: Final = "otlp"
CONSOLE: Final = "console"
PROMETHEUS: Final = "prometheus"
PUSHED: Final = frozenset({OTLP, CONSOLE})
PROTOCOL: Final = "http/protobuf"
_PLAIN: Final = ("always_on", "always_off", "traceidratio")
SAMPLERS: Final = (*_PLAIN, *(f"parentbased_{name}" for name in _PLAIN))


class TelemetryMisconfigured(ValueError):
    """A variable asks for what is not there: the message says which, what was found, and what to write."""


@dataclasses.dataclass(frozen=True)
class Settings:
    """Which exporters to build, by their standard names."""

    traces: frozenset[str]
    metrics: frozenset[str]

    @classmethod
    def of(cls, environ: Mapping[str, str], metrics_served: Iterable[str] | None = None) -> Settings:
        """Read them; a variable that is empty is one that is not set.

        Args:
            environ: As `os.environ`.
            metrics_served: What the program serves by itself, asked or not: `prometheus` where it has a page for it.
                `None`: it gives traces alone, and what is said of metrics is not read.

        Raises:
            TelemetryMisconfigured: A variable has a value that can't be honoured.
        """
        if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
            return cls(traces=frozenset(), metrics=frozenset())
        traces = _exporters(environ, "TRACES", served=frozenset())
        if metrics_served is None:
            return cls(traces=traces, metrics=frozenset())
        return cls(traces=traces, metrics=_exporters(environ, "METRICS", served=frozenset(metrics_served)))

    def __bool__(self) -> bool:
        """Whether there is anything to build."""
        return bool(self.traces or self.metrics)


def _exporters(environ: Mapping[str, str], signal: str, served: frozenset[str]) -> frozenset[str]:
    variable = f"OTEL_{signal}_EXPORTER"
    named = environ.get(variable, "").strip()
    if not named:
        wanted = served | ({OTLP} if _endpoint(environ, signal)[1] else frozenset())
    elif named.lower() == "none":
        wanted = frozenset()
    else:
        wanted = frozenset(name.strip().lower() for name in named.split(","))
        if unknown := wanted - PUSHED - served:
            known = ", ".join(sorted(PUSHED | served))
            raise TelemetryMisconfigured(
                f"{variable} is {named!r}: there is no {min(unknown)!r} here; "
                f"write one or more of {known}, or none alone"
            )
    if OTLP in wanted:
        _check_otlp(environ, signal)
    if wanted and signal == "TRACES":
        _check_sampler(environ)
    return wanted


def _check_sampler(environ: Mapping[str, str]) -> None:
    """Refuse what the SDK would only warn of, and then sample all: each trace is paid for."""
    named = environ.get("OTEL_TRACES_SAMPLER", "").strip().lower()
    if named and named not in SAMPLERS and not entry_points(group="opentelemetry_traces_sampler", name=named):
        raise TelemetryMisconfigured(
            f"OTEL_TRACES_SAMPLER is {named!r}: there is no such sampler; write one of {', '.join(SAMPLERS)}"
        )
    share = environ.get("OTEL_TRACES_SAMPLER_ARG", "").strip()
    if share and named.endswith("traceidratio") and not _is_share(share):
        raise TelemetryMisconfigured(
            f"OTEL_TRACES_SAMPLER_ARG is {share!r}: write which share of traces to keep, from 0 to 1"
        )


def _is_share(text: str) -> bool:
    try:
        return 0 <= float(text) <= 1
    except ValueError:
        return False


def _check_otlp(environ: Mapping[str, str], signal: str) -> None:
    variable, endpoint = _endpoint(environ, signal)
    if endpoint and not _is_address(endpoint):
        raise TelemetryMisconfigured(
            f"{variable} is {_shown(endpoint)!r}, which is no address of a collector: "
            "write one like http://localhost:4318"
        )
    variable, protocol = _for_signal(environ, signal, "PROTOCOL")
    if protocol not in {"", PROTOCOL}:
        raise TelemetryMisconfigured(
            f"{variable} is {protocol!r}: only {PROTOCOL!r} is spoken here, which collectors take on port 4318"
        )


def _endpoint(environ: Mapping[str, str], signal: str) -> tuple[str, str]:
    return _for_signal(environ, signal, "ENDPOINT")


def _for_signal(environ: Mapping[str, str], signal: str, what: str) -> tuple[str, str]:
    """Return the variable that counts for this signal, and its value: the signal's own goes before the common one."""
    own = f"OTEL_EXPORTER_OTLP_{signal}_{what}"
    variable = own if environ.get(own, "").strip() else f"OTEL_EXPORTER_OTLP_{what}"
    return variable, environ.get(variable, "").strip()


def _shown(endpoint: str) -> str:
    """Leave out who asks: a password may stand there."""
    _, at, rest = endpoint.rpartition("@")
    return f"...@{rest}" if at else rest


def _is_address(endpoint: str) -> bool:
    try:
        parts = urlsplit(endpoint)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, half an IPv6 address
        return False
