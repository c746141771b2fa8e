"""The two plots, drawn by pygal as SVG that stands in the page: no script, no style and no link of its own.

The page's style sheet colours them, so that they are readable in light and dark. Each has the title that a screen
reader reads, and its figures stand in a table beside it.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from .markup import clock, counted, share

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from xml.etree.ElementTree import Element

_WIDTH: Final = 640
_HEIGHT: Final = 250
_MANY: Final = 40
"""Points beyond which a line has no dots."""
_STEPS: Final = 5
_LIMIT_WIDTH: Final = 0.2
"""Of a bin: how wide the mark of the limit is."""
_OPTIONS: Final[dict[str, Any]] = {
    "width": _WIDTH,
    "height": _HEIGHT,
    "margin": 12,
    "js": (),
    "no_prefix": True,
    "disable_xml_declaration": True,
    "show_legend": False,
}


def pass_rate_plot(trend: Sequence[Mapping[str, Any]]) -> str:
    """Draw the share of assets that passed, a point a window.

    Raises:
        ImportError: pygal is not installed.
    """
    points = [
        {"value": 100 * window["pass"] / window["assets"], "label": _said(window)}
        if window["assets"]
        else None
        for window in trend
    ]
    labels = [clock(window["window"]) for window in trend]
    plot = _pygal().Line(
        **_OPTIONS,
        range=(0, 100),
        y_labels=[0, 25, 50, 75, 100],
        value_formatter="{:g} %".format,
        show_dots=len(points) <= _MANY,
        dots_size=4,
        fill=len(points) > 1,
    )
    plot.x_labels = labels
    plot.x_labels_major = [labels[0], labels[-1]]
    plot.show_minor_x_labels = False
    plot.truncate_label = -1
    plot.add("pass rate", points)
    first, last = trend[0], trend[-1]
    title = f"Pass rate over {counted(len(trend), 'window')}: {_said(first)}"
    return _drawn(plot, title if first is last else f"{title}; {_said(last)}")


def reading_speed_plot(speed: Mapping[str, Any]) -> str:
    """Draw how many assets read how fast, with the limit as a line.

    Raises:
        ImportError: pygal is not installed.
    """
    bins, width, limit = speed["bins"], speed["width"], speed["threshold"]
    steps = _whole_steps(max(one["assets"] for one in bins))
    plot = _pygal().Histogram(**_OPTIONS, range=(0, steps[-1]))
    plot.value_formatter = "{:,g}".format
    plot.x_labels = [
        {"value": one["from"], "label": f"{one['from']:g}{'' if one['to'] else '+'}"}
        for one in bins[:: len(bins) // 10 + 1]
    ]
    plot.y_labels = steps
    over = [0] * len(bins) if limit is None else _over(speed)
    plot.add("within", [_bar(one, width, fast) for one, fast in zip(bins, over, strict=True)])
    # In front of the others: of the bin that the limit falls into a part is over.
    plot.add(
        "over",
        [_bar(one, width, fast, fast) for one, fast in zip(bins, over, strict=True) if fast],
    )
    marked = ""
    if limit is not None:
        half = width * _LIMIT_WIDTH / 2
        plot.add("limit", [{"value": (steps[-1], limit - half, limit + half), "label": f"limit {limit:g}"}])
        marked = f"; {counted(sum(over), 'asset')} over the limit of {limit:g}"
    return _drawn(plot, f"Assets by reading speed, 95th percentile in characters a second{marked}")


def _over(speed: Mapping[str, Any]) -> list[int]:
    """Say how many of each bin are over the limit: where it falls into a bin, those that no later bin has."""
    limit, left = speed["threshold"], speed["over"]
    over = []
    for one in reversed(speed["bins"]):
        above = one["to"] is None or one["to"] > limit
        over.append(min(one["assets"], left) if above else 0)
        left -= over[-1]
    return over[::-1]


def bin_name(one: Mapping[str, Any]) -> str:
    """Name a bin of the histogram."""
    return f"{one['from']:g} and over" if one["to"] is None else f"{one['from']:g} to {one['to']:g}"


def _pygal() -> Any:
    """Import it here alone: it costs a third of an empty fire.

    It leaves a finder of plugins behind that knows only how Python 2 asked: each later import of what is not there,
    such as pyarrow's optional parts, would warn.
    """
    import pygal  # noqa: PLC0415

    sys.meta_path[:] = [found for found in sys.meta_path if not type(found).__module__.startswith("pygal")]
    return pygal


def _said(window: Mapping[str, Any]) -> str:
    passed = share(window["pass"], window["assets"])
    return f"{passed} of {window['assets']:,} on {clock(window['window'])}"


def _bar(one: Mapping[str, Any], width: float, over: int, height: int | None = None) -> dict[str, Any]:
    label = f"{bin_name(one)}: {counted(one['assets'], 'asset')}"
    if over:
        label += f", {over:,} over the limit"
    return {
        "value": (one["assets"] if height is None else height, one["from"], one["from"] + width),
        "label": label,
    }


def _whole_steps(most: int) -> list[int]:
    """Choose round numbers for the axis, up to the first that is not below: there is no half an asset."""
    sizes = (number * 10**power for power in range(len(str(most)) + 1) for number in (1, 2, 5))
    step = next(size for size in sizes if size * _STEPS >= most)
    return [*range(0, most + step, step)]


def _drawn(plot: Any, title: str) -> str:
    plot.title = None
    plot.add_xml_filter(lambda root: _bare(root, title))
    text: str = plot.render(is_unicode=True)
    return text


def _bare(root: Element, title: str) -> Element:
    """Take out what the page has no use for, or its policy forbids, and say what the picture shows."""
    for parent in [*root.iter()]:
        for child in [*parent]:
            if (
                not isinstance(child.tag, str)
                or child.tag == "defs"
                or "tooltip-overlay" in child.get("class", "")
            ):
                parent.remove(child)
    for group in root.iter("g"):
        _speak(group)
    root.attrib.pop("id", None)
    root.set("role", "img")
    root.set("aria-label", title)
    for child in root.findall("title"):
        root.remove(child)
    return root


def _speak(group: Element) -> None:
    """Make of the label, which pygal's script would show, the title that a browser shows by itself."""
    data = [child for child in group if child.tag == "desc"]
    label = next((child.text for child in data if child.get("class") == "label"), None)
    for child in data:
        group.remove(child)
    if label:
        title = group.makeelement("title", {})
        title.text = label
        group.insert(0, title)
