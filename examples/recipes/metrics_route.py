"""`GET /metrics`: what Prometheus scrapes, of everything in prometheus_client's registry.

OpenTelemetry's `PrometheusMetricReader` puts itself there (`otel_export.py`), beside the process's own numbers and
whatever else the process counts with prometheus_client. One server process answers for itself alone: with several,
scrape each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import anyio
from fastapi import APIRouter, Request, Response
from prometheus_client import REGISTRY
from prometheus_client.exposition import choose_encoder

if TYPE_CHECKING:
    from collections.abc import Callable

    from prometheus_client.registry import Collector

_TEXT: Final[dict[str, Any]] = {"schema": {"type": "string"}}
PAGE: Final[dict[int | str, dict[str, Any]]] = {
    200: {
        "description": "Every metric of this process, in the format that the scraper asks for.",
        "content": {"text/plain": _TEXT, "application/openmetrics-text": _TEXT},
    }
}


def metrics_router() -> APIRouter:
    """Build the route, for one app."""
    router = APIRouter()
    # Two scrapes that overlap would each find series of the other's in OpenTelemetry's reader.
    one_at_a_time = anyio.CapacityLimiter(1)

    @router.get("/metrics", response_class=Response, responses=PAGE)
    async def metrics(request: Request) -> Response:
        """Give every metric of this process, for Prometheus."""
        encode, media_type = _encoder_for(request.headers.get("accept", ""))
        # In a thread, so that many series do not hold up requests.
        page = await anyio.to_thread.run_sync(encode, REGISTRY, limiter=one_at_a_time)
        return Response(page, media_type=media_type)

    return router


def _encoder_for(accept: str) -> tuple[Callable[[Collector], bytes], str]:
    """Choose the format; who asks for a version that is no number gets the one of those who ask for nothing."""
    try:
        return choose_encoder(accept)
    except (TypeError, ValueError):
        return choose_encoder("")
