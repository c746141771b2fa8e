"""The dashboard as a page: one HTML file that opens from disk, without network.

`fragment_of` is asked once a change of the records, `html_of` by every run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .document import html_of

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["fragment_of", "html_of"]


def fragment_of(summary: Mapping[str, Any]) -> str:
    """Return the parts of the page that show records.

    Args:
        summary: What `dashboard.json` says of records and ledger, of its assets at least the worst hundred.
    """
    from .fragment import fragment_of as made  # noqa: PLC0415 - a run without a change has no use for it

    return made(summary)
