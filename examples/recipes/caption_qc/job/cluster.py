"""The workers of a Dask cluster, with the interface of the pool.

1. A chunk is run at one worker's process, by `Client.run`, outside of the graph of tasks: a death is one death, and
   suspects are the driver's to judge, by the ledger. A task would be given to one worker after the other by Dask,
   which reports bystanders too, and costs three times as much.
2. The driver hears of workers that come and leave (events of the topic "all"). One that comes is greeted: it says
   who it is and what it would check by, and another checkout's checks are not taken.
3. Whoever leaves in good order, retired or because it was asked to end, has done its chunk no harm: another worker
   gets it. Any other leaving is a death.
4. No answer is waited for without a bound, and neither is a worker where there is none that has places, whoever is
   still being greeted. A scheduler that goes away ends the run.
"""

# mypy: allow-untyped-calls
# Dask's own functions have few types.

from __future__ import annotations

import asyncio
import contextlib
import functools
import pickle
from typing import TYPE_CHECKING, Any, Final, assert_never

from .assets import printable
from .cluster_connect import connect, disconnect, lost, reason_of, workers_of
from .cluster_held import held
from .cluster_places import PLACES_A_WORKER, Member, Places
from .cluster_task import Death, Refused, Unable, Work, check_there, fingerprint, greet
from .errors import Exit, JobError
from .pool import TRIP_SECONDS, CheckDiedError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from distributed import Client

    from .assets import Asset
    from .checkers import Check
    from .cluster_local import LocalCluster
    from .cluster_task import Answer, Greeting, Told
    from .outcomes import Outcome
    from .worker import Orders

# Seconds that a cluster may be without a worker; those of a machine that is being started are counted in minutes.
WORKER_SECONDS: Final = 60.0
_EVENTS: Final = "all"
_SAME: Final = "give scheduler and workers the checkout and environment that this has, then run again"
_MEND: Final = "see its logs and mend that, then run again: nothing recorded is lost"
_LOST: Final = "died: its worker was lost"


def _no_way(error: Exception) -> bool:
    """Whether a worker could not be asked; what it raised itself of its files has a number, which Dask's own lack."""
    return isinstance(error, OSError) and error.errno is None


class Cluster:
    """Checks chunks of assets in Dask workers.

    Mutable state: the connection, who is being greeted, the places' own, why a worker was not taken.
    """

    def __init__(
        self,
        address: str,
        most: int,
        orders: Orders,
        warn: Callable[[str], None],
        *,
        local: LocalCluster | None,
    ) -> None:
        """Mean the scheduler at `address`, or that of a `local` cluster, which ends with this."""
        self._address = address
        self._local = local
        self._orders = orders
        self._warn = warn
        self._client: Client | None = None
        self._places = Places()
        self._greetings: dict[str, asyncio.Task[None]] = {}
        self._bare: asyncio.TimerHandle | None = None
        self._held: asyncio.Task[None] | None = None
        self._unfit = ""
        self.most = PLACES_A_WORKER * most

    async def open(self) -> None:
        """Connect to the scheduler, and greet the workers that there are."""
        if self._local is not None:
            self._address = await self._local.address()
        client = self._client = await connect(self._address)
        self._wait_for_a_worker()
        self._held = asyncio.ensure_future(self._hold(client))
        client.subscribe_topic(_EVENTS, self._hear)
        try:
            async with asyncio.timeout(TRIP_SECONDS):
                known = await workers_of(client)
        except Exception as error:
            raise lost(self._address, error) from error
        for address in known:
            self._join(address)

    @contextlib.asynccontextmanager
    async def place(self) -> AsyncIterator[Check]:
        """Hold a place at the least busy worker."""
        member = await self._places.take()
        try:
            yield functools.partial(self._check, member)
        finally:
            self._places.give_back(member)

    def close(self) -> None:
        """Give no worker another chunk."""
        self._places.close()

    def kill(self) -> None:
        """End a cluster of this machine; workers elsewhere end their chunks, and nobody waits for them."""
        if self._local is not None:
            self._local.kill()

    async def end(self) -> None:
        """Close the connection, and see a cluster of this machine gone."""
        if self._bare is not None:
            self._bare.cancel()
        for waiting in (self._held, *self._greetings.values()):
            if waiting is not None:
                waiting.cancel()
        try:
            if self._client is not None:
                self._unsubscribe(_EVENTS, *self._greetings)
                await disconnect(self._client)
        finally:
            if self._local is not None:
                await self._local.end()

    def _hear(self, event: tuple[float, Any]) -> None:
        match event:
            case (_, {"action": "add-worker", "worker": address}):
                self._join(address)
            case (_, {"action": "remove-worker", "worker": address, **more}):
                self._leave(address, in_order=bool(more.get("expected")))

    def _hear_of(self, address: str, event: tuple[float, Any]) -> None:
        """Hear what a worker says of itself: that it closes, which the topic of all tells like a death."""
        match event:
            case (_, {"action": "closing-worker"}):
                self._leave(address, in_order=True)

    def _unsubscribe(self, *topics: str) -> None:
        with contextlib.suppress(Exception):  # The connection is closed, by whom ever.
            for topic in topics:
                assert self._client is not None  # noqa: S101 - `open` came first
                self._client.unsubscribe_topic(topic)

    async def _hold(self, client: Client) -> None:
        with contextlib.suppress(Exception):  # Without it the scheduler may end itself, which is told then.
            await held(client)
        if client.status != "running":
            self._places.fail(lost(self._address))

    def _join(self, address: str) -> None:
        if address not in self._greetings:
            assert self._client is not None  # noqa: S101 - `open` came first
            with contextlib.suppress(Exception):  # A connection that is closed ends the greeting too.
                self._client.subscribe_topic(address, functools.partial(self._hear_of, address))
            self._greetings[address] = asyncio.ensure_future(self._greet(address))

    def _leave(self, address: str, *, in_order: bool) -> None:
        if (greeting := self._greetings.pop(address, None)) is not None:
            greeting.cancel()
            self._unsubscribe(address)
        self._places.leave(address, in_order=in_order)
        self._wait_for_a_worker()

    async def _greet(self, address: str) -> None:
        """Give a worker its places, if it checks as this one would."""
        try:
            greeting: Greeting = await self._run(address, greet)
        except JobError:
            return  # Whoever waits has been told.
        except Exception as error:  # noqa: BLE001 - whatever keeps it from importing our code
            if not _no_way(error):  # Else it is about to leave.
                self._refuse(address, f"it has not this job: {reason_of(error)}")
            return
        if greeting.checks != fingerprint():
            self._refuse(address, f"it has another checkout: {greeting.checks}, this is {fingerprint()}")
            return
        if self._bare is not None:
            self._bare.cancel()
            self._bare = None
        self._places.join(Member(address, greeting.worker))

    def _refuse(self, address: str, why: str) -> None:
        """Give a worker no places, and say so; when no other is left or greeted, that ends the run."""
        self._unfit = f"{address}: {printable(why)}"
        self._warn(f"a worker is left out: {self._unfit}")
        self._places.leave(address, in_order=True)
        others = (greeting for known, greeting in self._greetings.items() if known != address)
        if not self._places and all(greeting.done() for greeting in others):
            self._places.fail(self._no_worker())
        self._wait_for_a_worker()

    def _wait_for_a_worker(self) -> None:
        """Set a bound where no worker has places, unless there is one."""
        if not self._places and self._bare is None:
            loop = asyncio.get_running_loop()
            self._bare = loop.call_later(WORKER_SECONDS, lambda: self._places.fail(self._no_worker()))

    def _no_worker(self) -> JobError:
        if self._unfit:
            return JobError(f"no worker can check: {self._unfit}; {_SAME}", Exit.BAD_CONFIG)
        if self._client is not None and self._client.status != "running":
            return lost(self._address)
        found = f"the scheduler {self._address} has had no worker for {WORKER_SECONDS:g} s"
        return JobError(f"{found}; start some, then run again", Exit.UNREACHABLE)

    async def _check(self, member: Member, chunk: Sequence[Asset]) -> list[Outcome]:
        with self._places.busy(member, len(chunk)) as assets:
            answer = await self._answer(member, chunk, self._orders.longest(assets))
        match answer:
            case list():
                return answer
            case Death(reason):
                raise CheckDiedError(reason)
            case Unable(reason):
                self._refuse(member.address, reason)
            case None:
                pass
            case _:
                assert_never(answer)
        async with self.place() as check:
            return await check(chunk)

    async def _answer(self, member: Member, chunk: Sequence[Asset], seconds: float) -> Told | None:
        """Give a worker a chunk; `None` says that it left in good order before it had an answer.

        The trip's time is counted after that of the checks: a machine that stood still in between finds that all is
        over, and what has been answered still to be read.
        """
        work = pickle.dumps(Work(member.process, self._orders, tuple(chunk)))
        answer = asyncio.ensure_future(self._run(member.address, check_there, work))
        try:
            for part in (seconds, TRIP_SECONDS):
                await asyncio.wait({answer, member.left}, timeout=part, return_when=asyncio.FIRST_COMPLETED)
            if answer.done() and (read := self._read(answer)) is not None:
                return read
            if answer.done():  # Its connection broke: the scheduler is about to say how it left.
                await asyncio.wait({member.left}, timeout=TRIP_SECONDS)
            if not member.left.done():
                self._leave(member.address, in_order=False)
                if not answer.done():  # It may have stood still: it answers the greeting when it goes on.
                    self._join(member.address)
                raise CheckDiedError(f"hung: no answer from its worker within {seconds + TRIP_SECONDS:g} s")
        finally:
            answer.cancel()
        if self._places.fault is not None:
            raise self._places.fault
        if member.left.result():
            return None
        raise CheckDiedError(_LOST)

    def _read(self, answer: asyncio.Task[bytes]) -> Told | None:
        """Read an answer; `None` says that there is none: the worker is gone, or is about to go."""
        try:
            told: Answer = pickle.loads(answer.result())  # noqa: S301 - Dask's own way
        except JobError:
            raise
        except OSError:
            return None
        except Exception as error:
            fault = JobError(
                f"the cluster failed: {type(error).__name__}: {reason_of(error)}; {_MEND}", Exit.UNREACHABLE
            )
            self._places.fail(fault)
            raise fault from error
        return None if isinstance(told, Refused) else told

    async def _run(self, address: str, function: Callable[..., Any], *arguments: object) -> Any:
        """Run a function at one worker, once.

        Raises:
            JobError: The scheduler is gone.
            OSError: The worker is, or there is no way to it.
            Exception: What the function raised there, or what kept it from being run.
        """
        assert self._client is not None  # noqa: S101 - `open` came first
        try:
            results = await self._client.run(function, *arguments, workers=[address], on_error="return")
        except Exception as error:
            fault = lost(self._address)
            self._places.fail(fault)
            raise fault from error
        if isinstance(result := results[address], Exception):
            raise result
        return result
