"""Places in the kept part of the page that each run fills: the state folder may be another than when it was made."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .commands import Commands


def hole(name: str) -> str:
    """Leave a place open; text that is not ours is escaped, so that it never has such an element."""
    return f'<code data-hole="{name}"></code>'


def filled_in(fragment: str, commands: Commands) -> str:
    """Fill all of them."""
    for name, text in commands._asdict().items():
        fragment = fragment.replace(hole(name), f"<code>{escape(text)}</code>")
    return fragment
