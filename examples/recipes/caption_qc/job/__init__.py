"""The batch job around the checker: lock, scan, pool, ledger, projections."""

from typing import Final

# The version that stands in every record; raised when a check may say something else than before.
TOOL_VERSION: Final = "0.1.0"
