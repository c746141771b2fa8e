"""The diagram of an item's states, `docs/states.svg`, drawn from the states that the counts have.

    python tests/docs/state_diagram.py > docs/states.svg

`test_state_diagram.py` sees that every count is in it, that each arrow is one that a real batcher goes, and that the
file is what this writes.
"""

from __future__ import annotations

from html import escape
from typing import NamedTuple


class Node(NamedTuple):
    """A state: where it stands, and whether it is a count of `BatcherStats`."""

    x: int
    y: int
    counted: bool = True


class Arrow(NamedTuple):
    """A step from one state to another, why it is taken, and where the reason is written."""

    start: str
    end: str
    why: str
    x: int
    y: int
    bend: int = 0


NODES = {
    "call": Node(70, 90, counted=False),
    "in_line": Node(300, 90),
    "waiting": Node(540, 90),
    "running": Node(830, 90),
    "rejected": Node(150, 300),
    "left": Node(330, 300, counted=False),
    "withdrawn": Node(450, 300),
    "expired": Node(560, 300),
    "stopped": Node(690, 300),
    "abandoned": Node(810, 300),
    "failed": Node(920, 300),
    "succeeded": Node(1030, 300),
}
ARROWS = (
    Arrow("call", "waiting", "there is room: accepted", 300, 34, bend=-46),
    Arrow("call", "in_line", 'full, and "wait"', 182, 94),
    Arrow("call", "rejected", "full, too heavy, stopped", 108, 180),
    Arrow("in_line", "waiting", "a place is free: accepted", 420, 94),
    Arrow("in_line", "rejected", "enqueue_timeout, too old, stop", 222, 230),
    Arrow("in_line", "left", "its caller leaves", 316, 200),
    Arrow("waiting", "running", "its batch has a slot and a reason", 684, 94),
    Arrow("waiting", "withdrawn", "its caller leaves", 487, 210),
    Arrow("waiting", "expired", "too old", 552, 230),
    Arrow("waiting", "stopped", "by force", 618, 200),
    Arrow("running", "stopped", "by force", 756, 200),
    Arrow("running", "abandoned", "its caller leaves", 820, 230),
    Arrow("running", "failed", "error", 880, 210),
    Arrow("running", "succeeded", "result", 938, 200),
)
_HALF_WIDTH, _HALF_HEIGHT = 46, 17
_STYLE = (
    "text{font:13px sans-serif;text-anchor:middle;fill:#222}"
    ".why{font-size:11px;fill:#555;stroke:#fff;stroke-width:4px;paint-order:stroke}"
    "rect.page{fill:#fff}.now{fill:#dcecfb;stroke:#1b6ca8}.end{fill:#eee;stroke:#888}"
    ".uncounted{fill:#fff;stroke:#888;stroke-dasharray:4 3}path{fill:none;stroke:#888}marker path{fill:#888}"
)


def svg() -> str:
    """Return the diagram."""
    head = '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1100 340" role="img">'
    title = "<title>The states of one caller's item, named as the counts of BatcherStats are</title>"
    marker = (
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0 8 4 0 8z"/></marker></defs>'
    )
    page = '<rect class="page" width="1100" height="340"/>'
    parts = [head, title, f"<style>{_STYLE}</style>", marker, page]
    parts += [_arrow(arrow) for arrow in ARROWS]
    parts += [_node(name, node) for name, node in NODES.items()]
    return "\n".join([*parts, "</svg>", ""])


def _node(name: str, node: Node) -> str:
    kind = "uncounted" if not node.counted else "now" if node.y == NODES["call"].y else "end"
    x, y = node.x - _HALF_WIDTH, node.y - _HALF_HEIGHT
    box = (
        f'<rect class="{kind}" x="{x}" y="{y}" width="{2 * _HALF_WIDTH}" height="{2 * _HALF_HEIGHT}" rx="6"/>'
    )
    return f'{box}<text x="{node.x}" y="{node.y + 4}">{name}</text>'


def _arrow(arrow: Arrow) -> str:
    start, end = NODES[arrow.start], NODES[arrow.end]
    if arrow.bend:
        top = start.y - _HALF_HEIGHT
        line = f"M{start.x} {top} Q{(start.x + end.x) / 2:g} {top + 2 * arrow.bend} {end.x} {end.y - _HALF_HEIGHT}"
    elif start.y == end.y:
        line = f"M{start.x + _HALF_WIDTH} {start.y} {end.x - _HALF_WIDTH} {end.y}"
    else:
        line = f"M{start.x} {start.y + _HALF_HEIGHT} {end.x} {end.y - _HALF_HEIGHT}"
    why = f'<text class="why" x="{arrow.x}" y="{arrow.y}">{escape(arrow.why)}</text>'
    return f'<path d="{line}" marker-end="url(#tip)"/>{why}'


if __name__ == "__main__":
    print(svg(), end="")  # noqa: T201
