"""The way to a scheduler: a connection, or one line that says why there is none.

Dask's own warnings would stand between ours on standard error, as its lines would (`cluster_settings.py`).
"""

# mypy: allow-untyped-calls
# Dask's own functions have few types.

from __future__ import annotations

import asyncio
import contextlib
import socket
import warnings
from typing import Any, Final

from .assets import printable
from .cluster_settings import prepare
from .errors import Exit, JobError

# Seconds. A scheduler answers in some milliseconds; one that is just being started may need a second attempt.
CONNECT_SECONDS: Final = 8.0
# Of that, what Dask may spend on trying again: it then says why there was no connection.
ATTEMPTS_SECONDS: Final = 6.0
ONCE_MORE_SECONDS: Final = 2.0
CLOSE_SECONDS: Final = 2.0
# Before the first import of `distributed`.
prepare()

from distributed import Client  # noqa: E402 - see above
from distributed.versions import VersionMismatchWarning  # noqa: E402


async def connect(address: str) -> Client:
    """Connect to the scheduler at `address`; certificates are those of Dask's own configuration.

    Raises:
        JobError: There is none, or it can't be talked to.
    """
    client: Client | None = None
    try:
        with warnings.catch_warnings():
            # What matters of it is asked of each worker.
            warnings.simplefilter("ignore", VersionMismatchWarning)
            async with asyncio.timeout(CONNECT_SECONDS):
                client = Client(address, asynchronous=True, set_as_default=False, timeout=ATTEMPTS_SECONDS)
                await client
                return client
    except Exception as error:  # Whatever the other end makes Dask raise.
        await disconnect(client)
        raise unreachable(address, await _by_the_system(address, error)) from error
    except BaseException:
        await disconnect(client)
        raise


async def _by_the_system(address: str, error: Exception) -> Exception:
    """Ask why there is no connection where Dask ran out of time: of its attempts the last may have had none left."""
    link: BaseException | None = error
    while link is not None and not isinstance(link, asyncio.CancelledError):
        if not isinstance(link, OSError) or link.errno is not None:
            return error
        link = link.__cause__
    host, _, port = address.partition("://")[2].rpartition(":")
    where = host.strip("[]"), int(port)
    try:
        (await asyncio.to_thread(socket.create_connection, where, ONCE_MORE_SECONDS)).close()
    except TimeoutError:
        return error
    except OSError as refused:
        return refused
    return error


async def workers_of(client: Client) -> list[str]:
    """List the addresses of all workers."""
    scheduler: Any = client.scheduler
    return list((await scheduler.identity(n_workers=-1))["workers"])


async def disconnect(client: Client | None) -> None:
    """Close a connection, whatever became of it."""
    if client is not None:
        with contextlib.suppress(Exception):
            await client.close(CLOSE_SECONDS)


def unreachable(address: str, error: BaseException) -> JobError:
    """Say that there is no way to the scheduler."""
    found = f"cannot reach the scheduler {address}: {reason_of(error)}"
    way_out = (
        "see that one runs there and that its address, protocol and certificates are right, then run again"
    )
    return JobError(f"{found}; {way_out}", Exit.UNREACHABLE)


def lost(address: str, error: BaseException | None = None) -> JobError:
    """Say that the scheduler went away in the middle."""
    why = f" ({reason_of(error)})" if error is not None else ""
    way_out = "start it, then run again: what ran is checked again first, nothing recorded is lost"
    return JobError(f"the scheduler {address} went away{why}; {way_out}", Exit.UNREACHABLE)


def reason_of(error: BaseException) -> str:
    """Say in one line what was at the root of an error."""
    while (cause := error.__cause__ or error.__context__) is not None and not _speaks(error, cause):
        error = cause
    said = printable(" ".join(str(getattr(error, "strerror", None) or error).split()))
    return _PLAINER.get(type(error).__name__, said) or type(error).__name__


def _speaks(error: BaseException, cause: BaseException) -> bool:
    """Whether an error says more than what caused it."""
    return type(cause).__name__ in {"CancelledError", "StreamClosedError"} or (
        not str(cause) and bool(str(error))
    )


_PLAINER: Final = {
    "TimeoutError": "no answer in time",
    "MemoryError": "what answers there is no Dask scheduler",
}
