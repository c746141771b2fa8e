"""The plot of `simulate`: answers, batches and refusals, over what varies first. Needs matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib.figure import Figure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    from async_batcher._simulation import Summary

_ONLY = "all"


def draw(points: Sequence[tuple[Mapping[str, str], Summary]], path: Path) -> None:
    """Draw what came of each combination, and save it in the format that the file's name asks for.

    Args:
        points: The combinations, as text for the axis and the legend, with what came of each.
        path: The file.

    Raises:
        OSError: It can't be written.
        ValueError: Its name asks for a format that there is none of.
    """
    lines: dict[str, dict[str, Summary]] = {}
    axis = next(iter(points[0][0]), "")
    for varied, summary in points:
        rest = ", ".join(f"{name} {value}" for name, value in varied.items() if name != axis)
        lines.setdefault(rest, {})[varied.get(axis, _ONLY)] = summary
    with mpl.rc_context({"axes.spines.top": False, "axes.spines.right": False, "font.size": 9}):
        figure = Figure(figsize=(11, 3.8), layout="constrained")
        answers, batches, lost = figure.subplots(1, 3)
        for number, (label, summaries) in enumerate(lines.items()):
            _draw_line((answers, batches, lost), label, summaries, f"C{number}")
        answers.set_yscale("log")
        _dress(answers, "call to result in ms: median (line), p99 (dashes)", axis)
        _dress(batches, "items of a batch, on average", axis)
        _dress(lost, "% of the items refused or expired", axis)
        for panel in (batches, lost):
            panel.set_ylim(bottom=0)
        if len(lines) > 1:
            figure.legend(
                *batches.get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False
            )
        figure.savefig(path, dpi=150)


def _draw_line(panels: tuple[Axes, Axes, Axes], label: str, line: Mapping[str, Summary], colour: str) -> None:
    answers, batches, lost = panels
    places, found = list(line), list(line.values())
    answers.plot(places, [1000 * summary.answers[0] for summary in found], "o-", color=colour)
    answers.plot(places, [1000 * summary.answers[2] for summary in found], "o--", color=colour)
    batches.plot(places, [summary.batch_size for summary in found], "o-", color=colour, label=label)
    lost.plot(places, [100 * (summary.refused + summary.expired) for summary in found], "o-", color=colour)


def _dress(panel: Axes, title: str, axis: str) -> None:
    panel.set_title(title, loc="left", fontsize=8)
    panel.set_xlabel(axis)
    panel.grid(axis="y", alpha=0.3)
