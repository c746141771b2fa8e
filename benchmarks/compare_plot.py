"""The plot of `compare.py`: percentiles of the time from call to result, a panel a load."""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

SHADES = {"50": "#9ecae1", "90": "#4292c6", "99": "#08519c"}


def draw(found: Mapping[str, Sequence[Mapping[str, float]]], shares: Sequence[float], path: Path) -> None:
    """Draw the sides, ours at the top, and save them as a PNG."""
    names = list(found)[::-1]
    with mpl.rc_context({"axes.spines.top": False, "axes.spines.right": False, "font.size": 9}):
        figure = Figure(figsize=(10, 3.6), layout="constrained")
        panels = figure.subplots(1, len(shares), sharey=True)
        for number, (panel, share) in enumerate(zip(panels, shares, strict=True)):
            for place, (percent, colour) in enumerate(SHADES.items()):
                rows = [row + 0.27 * (1 - place) for row in range(len(names))]
                values = [1000 * found[name][number][percent] for name in names]
                bars = panel.barh(rows, values, 0.25, color=colour, label=f"{percent} %")
                panel.bar_label(bars, fmt="{:,.0f}", padding=2, fontsize=7)
            panel.set_xscale("log")
            panel.margins(x=0.15)
            panel.set_title(f"{share:.0%} of the capacity", loc="left")
            panel.set_xlabel("ms from call to result")
            panel.set_yticks(range(len(names)), names)
        figure.legend(
            *panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False
        )
        figure.savefig(path, dpi=150)
