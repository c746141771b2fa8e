"""The plot of `http.py`: requests a second and latencies, a bar a side."""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from http_sides import Answers

PERCENTS = (50, 90, 99)
OURS, OTHERS = "#1b6ca8", "#b8c4ce"
SHADES = ("#9ecae1", "#4292c6", "#08519c")


def draw(sides: Mapping[str, Answers], path: Path) -> None:
    """Draw the sides, the slowest at the bottom, and save them as a PNG."""
    names = sorted(sides, key=lambda side: sides[side].rate)
    rows = range(len(names))
    with mpl.rc_context({"axes.spines.top": False, "axes.spines.right": False, "font.size": 9}):
        figure = Figure(figsize=(9, 3.6), layout="constrained")
        left, right = figure.subplots(1, 2, sharey=True)
        rates = [sides[name].rate for name in names]
        bars = left.barh(rows, rates, color=[OURS if n in {"ours", "recipe"} else OTHERS for n in names])
        left.bar_label(bars, fmt="{:,.0f}", padding=3)
        left.set_yticks(rows, names)
        left.set_title("requests a second", loc="left")
        left.margins(x=0.15)
        for number, percent in enumerate(PERCENTS):
            height = 0.8 / len(PERCENTS)
            places = [row + (1 - number) * height for row in rows]
            values = [sides[name].percentile(percent) * 1000 for name in names]
            drawn = right.barh(places, values, height, color=SHADES[number], label=f"{percent} %")
            right.bar_label(drawn, fmt="{:,.0f}", padding=3, fontsize=7)
        right.set_xscale("log")
        right.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        right.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        right.xaxis.set_minor_locator(NullLocator())
        right.margins(x=0.2)
        right.set_title("milliseconds, for so many of 100", loc="left")
        figure.legend(frameon=False, loc="upper right", ncols=len(PERCENTS))
        figure.suptitle("one random forest behind FastAPI, 64 clients on loopback", x=0.01, ha="left")
        figure.savefig(path, dpi=120)
