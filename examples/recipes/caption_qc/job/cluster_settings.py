"""Dask's configuration of this machine, as the job reads it: what can't be is one line, and Dask itself says nothing.

Dask reads it while it is imported, so `prepare` comes before any import of `distributed`.
"""

# mypy: allow-untyped-calls
# Dask's own functions have few types.

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Final

from .assets import printable
from .errors import Exit, JobError, lacks_thread_or_memory

if TYPE_CHECKING:
    from collections.abc import Mapping

# Its lines and warnings would stand between ours on standard error.
_QUIET: Final = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"nowhere": {"class": "logging.NullHandler"}},
    "loggers": {name: {"handlers": ["nowhere"], "propagate": False} for name in ("distributed", "tornado")},
}
MEND_SETTINGS: Final = "mend Dask's configuration (DASK_ variables, ~/.config/dask, /etc/dask)"


def prepare(settings: Mapping[str, object] | None = None) -> None:
    """Import Dask with the machine's configuration, but for these settings and for where it logs.

    Raises:
        JobError: The configuration can't be read, or is one that Dask can't be imported with.
    """
    try:
        with warnings.catch_warnings():
            # A setting by an older name of it is no matter of ours.
            warnings.simplefilter("ignore", FutureWarning)
            _import(settings or {})
    except (ImportError, OSError):
        raise
    except Exception as error:
        if lacks_thread_or_memory(error):
            raise
        said = printable(" ".join(str(error).split())) or type(error).__name__
        found = f"Dask cannot be imported with its configuration: {said}"
        raise JobError(f"{found}; {MEND_SETTINGS}, then run again", Exit.BAD_CONFIG) from error


def _import(settings: Mapping[str, object]) -> None:
    import dask  # noqa: PLC0415 - it reads the files

    ours: dict[str, Any] = {"distributed.logging": _QUIET, **settings}
    dask.config.set(ours)
    # Dask takes either a file or `logging`.
    dask.config.get("distributed").pop("logging-file-config", None)
    import distributed  # noqa: F401, PLC0415 - it reads the settings
