"""HTML of the page's parts. Names and messages come from files that strangers deliver: all text goes through here."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

STATUSES = ("error", "fail", "warn", "pass")
"""Of an asset, the worst first."""
SEVERITIES = ("error", "warn", "info")


def foreign(text: str) -> str:
    """Show text that is not ours, whatever its direction, without an effect on what stands beside it."""
    return f'<bdi dir="auto">{escape(text)}</bdi>'


def code(text: str) -> str:
    """Show a name that is typed as it stands."""
    return f"<code>{foreign(text)}</code>"


def badge(word: str, more: str = "") -> str:
    """Show a status or a severity, by its word and its colour."""
    return f'<span class="badge {escape(word)}{more and " " + more}">{escape(word)}</span>'


def number(value: float | None) -> str:
    """Show a count, or what was measured to one decimal; `None` is unknown."""
    if value is None:
        return "unknown"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


def share(part: int, whole: int) -> str:
    """Show so many of so many in per cent, rounded down: only all of all is 100 %, and only none of them 0 %."""
    if not whole:
        return "none"
    thousandths = part * 1000 // whole
    if part and not thousandths:
        return "under 0.1 %"
    return "100 %" if part == whole else f"{thousandths / 10:.1f} %"


def time(text: str | None) -> str:
    """Show a time of the JSON, which is UTC."""
    if text is None:
        return "unknown"
    return f'<time datetime="{escape(text)}">{escape(clock(text))}</time>'


def clock(text: str) -> str:
    """Write a time of the JSON for people."""
    return text.replace("T", " ").removesuffix("Z").removesuffix(":00") + " UTC"


def counted(count: int, one: str, more: str | None = None) -> str:
    """Write a count with its noun."""
    return f"{count:,} {one if count == 1 else more or one + 's'}"


def section(name: str, title: str, body: str) -> str:
    """Make a part of the page that its heading names."""
    heading = f'<h2 id="{name}-title" tabindex="-1">{title}</h2>'
    return f'<section id="{name}" aria-labelledby="{name}-title">\n{heading}\n{body}\n</section>'


def table(caption: str, columns: Mapping[str, str], rows: Iterable[Sequence[str]]) -> str:
    """Make a table that scrolls by itself where it is too wide.

    Args:
        caption: What it shows, for those who come to it without the heading.
        columns: The class of each by its title.
        rows: Cells that are HTML already.
    """
    head = "".join(f'<th scope="col"{_class(kind)}>{escape(title)}</th>' for title, kind in columns.items())
    kinds = [_class(kind) for kind in columns.values()]
    body = "\n".join(f"<tr>{_cells(kinds, row)}</tr>" for row in rows)
    label = f'role="group" aria-label="{escape(caption)}" tabindex="0"'
    return (
        f'<div class="scrolls" {label}><table><caption class="unseen">{escape(caption)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table></div>"
    )


def folded(title: str, body: str) -> str:
    """Hide what few ask for behind a line that opens it."""
    return f"<details><summary>{escape(title)}</summary>\n{body}\n</details>"


def place_of(finding: Mapping[str, Any]) -> str:
    """Say where in the file a finding is; nothing for one of the whole file."""
    named = [("line", finding["line"]), ("word", finding["word"]), ("at", finding["timecode"])]
    return " ".join(f"{name} {escape(str(value))}" for name, value in named if value is not None)


def _cells(kinds: Iterable[str], row: Sequence[str]) -> str:
    return "".join(f"<td{kind}>{cell}</td>" for kind, cell in zip(kinds, row, strict=True))


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""
