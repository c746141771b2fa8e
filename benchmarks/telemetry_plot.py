"""The plot of `telemetry_picture.py`: a bar a span, the callers' traces above the batch's, and the links between."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch
from matplotlib.path import Path

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path as FilePath

    from matplotlib.axes import Axes
    from opentelemetry.sdk.trace import ReadableSpan

CLIENT, SERVER, BATCH, WORK = "#cfd8dc", "#4292c6", "#e6812f", "#f6c28b"
INK, LINK = "#263238", "#b3541e"
BAR: Final = 0.62
BETWEEN: Final = 0.45
"""Rows between two traces."""
LANE: Final = 1.2
"""Milliseconds on the left of the bars, where a link goes up."""
EVENT: Final = "async_batcher.batch"
NANOSECONDS: Final = 1e6
"""In a millisecond."""


@dataclasses.dataclass(frozen=True)
class Bar:
    """One span where it is drawn: times are milliseconds since the first span began."""

    span: ReadableSpan
    row: float
    begin: float
    end: float
    color: str
    depth: int


def draw(spans: Sequence[ReadableSpan], path: FilePath) -> None:
    """Draw all, and save them as a PNG."""
    bars = list(placed(spans))
    with mpl.rc_context({"font.size": 9, "text.color": INK, "axes.edgecolor": INK}):
        figure = Figure(figsize=(9.6, 5.2), layout="constrained")
        axes = figure.subplots()
        for bar in bars:
            _draw_bar(axes, bar)
        _draw_links(axes, bars)
        _finish(axes, bars)
        figure.suptitle(
            "Four requests, each in a trace of its own, and the batch that served them in another",
            x=0.01,
            ha="left",
            fontsize=11,
            fontweight="bold",
        )
        figure.savefig(path, dpi=130)


def placed(spans: Sequence[ReadableSpan]) -> Iterator[Bar]:
    """Give each span its row: trace by trace in the order of their beginnings, the batch's last."""
    origin = min(map(_begin, spans))
    traces: dict[int, list[ReadableSpan]] = {}
    for span in sorted(spans, key=_begin):
        traces.setdefault(span.context.trace_id, []).append(span)
    row = 0.0
    for trace in sorted(traces.values(), key=lambda trace: (bool(trace[0].links), _begin(trace[0]))):
        colors = (BATCH, WORK) if trace[0].links else (CLIENT, SERVER)
        for depth, (span, color) in enumerate(zip(trace, colors, strict=True)):
            yield Bar(span, row, (_begin(span) - origin) / NANOSECONDS, _end(span, origin), color, depth)
            row += 1
        row += BETWEEN


def _begin(span: ReadableSpan) -> int:
    return span.start_time or 0


def _end(span: ReadableSpan, origin: int) -> float:
    return ((span.end_time or 0) - origin) / NANOSECONDS


def _draw_bar(axes: Axes, bar: Bar) -> None:
    axes.barh(bar.row, bar.end - bar.begin, BAR, left=bar.begin, color=bar.color)
    took = f"{bar.span.name}   {bar.end - bar.begin:.1f} ms"
    axes.text(bar.end + 0.5, bar.row, took, va="center", fontsize=8)
    if bar.depth == 0:
        identity = f"trace {bar.span.context.trace_id:032x}"[: len("trace ") + 8] + "…"
        axes.text(
            -0.012, bar.row + 0.5, identity, va="center", ha="right", transform=axes.get_yaxis_transform()
        )
    for event in bar.span.events:
        if event.name == EVENT:
            at = bar.begin + (event.timestamp - _begin(bar.span)) / NANOSECONDS
            axes.plot(at, bar.row, marker="D", color="white", markeredgecolor=INK, markersize=6, zorder=4)


def _draw_links(axes: Axes, bars: Sequence[Bar]) -> None:
    """Lead from the batch to each caller, on the left of every bar between them."""
    by_place = {bar.span.context.span_id: bar for bar in bars}
    [batch] = [bar for bar in bars if bar.span.links]
    callers = [by_place[link.context.span_id] for link in batch.span.links]
    axes.plot([batch.begin] * 2, [callers[0].row, batch.row], color=INK, linestyle=":", linewidth=1, zorder=3)
    for caller in callers:
        lane = min(bar.begin for bar in bars if bar.row >= caller.row) - LANE
        way = [
            (batch.begin, batch.row),
            (lane, batch.row),
            (lane, batch.row),
            (lane, (batch.row + caller.row) / 2),
            (lane, caller.row),
            (lane, caller.row),
            (caller.begin, caller.row),
        ]
        curve = Path([*way], [Path.MOVETO, *[Path.CURVE4] * 6])
        axes.add_patch(FancyArrowPatch(path=curve, arrowstyle="-|>", mutation_scale=9, color=LINK, zorder=3))


def _finish(axes: Axes, bars: Sequence[Bar]) -> None:
    axes.set_ylim(bars[-1].row + 0.7, -0.7)
    axes.set_xlim(-1.5, max(bar.end for bar in bars) * 1.25)
    axes.set_yticks([])
    axes.set_xlabel("milliseconds")
    axes.spines[["top", "right", "left"]].set_visible(False)
    event = Line2D([], [], marker="D", color="none", markerfacecolor="white", markeredgecolor=INK)
    link = Line2D([], [], color=LINK, marker=">", markersize=5)
    axes.legend(
        [event, link],
        ["event in a caller's span, which names the batch's", "link of the batch's span to a caller's"],
        frameon=False,
        loc="upper center",
        bbox_to_anchor=(0.45, 1.08),
        ncols=2,
    )
