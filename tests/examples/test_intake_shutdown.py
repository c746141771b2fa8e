"""`Intake.shutdown`: an orderly end, whatever cuts it short."""

import asyncio
import contextlib
import functools
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from intakes import bad_timeouts, shout, started, through
from recording import RecordingProcessor
from scenes import assert_counts_add_up, enter_scene, open_scene

from async_batcher import AsyncBatcher, BatcherGroups, BatcherStopped
from examples.recipes.operations import Intake, ResponseDeadlineExceeded

pytestmark = pytest.mark.anyio


async def test_there_is_one_drain_however_often_it_is_called() -> None:
    """Three at once and one after: all return when the one drain has ended, and each item is seen once."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=2, max_queue_time=60) as scene:
        intake = Intake(scene.batcher)
        await through(intake, scene, (1, None), (2, None), (3, None))
        ending = [await started(scene, intake.shutdown) for _ in range(3)]
        assert all(caller.waits for caller in ending)
        fn.release()
        await scene.end_of(*ending)
        assert [caller.error for caller in ending] == [None] * 3
        await intake.shutdown(grace_timeout=1, force_timeout=1)
    assert fn.seen == [1, 2, 3]
    assert scene.batcher.stats().succeeded == 3


async def test_a_cancelled_shutdown_loses_no_drain() -> None:
    """The only caller is cancelled: closed, still draining, and the next call waits for the same drain."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=2, max_queue_time=60) as scene:
        intake = Intake(scene.batcher)
        callers = await through(intake, scene, (1, None), (2, None), (3, None))
        first = await started(scene, intake.shutdown)
        first.cancel()
        await first.end()
        assert first.was_cancelled
        assert intake.closed
        second = await started(scene, intake.shutdown)
        fn.release()
        await scene.end_of(second, *callers)
        assert second.error is None
        assert [caller.result for caller in callers] == [10, 20, 30]


@pytest.mark.parametrize("shield", [True, False], ids=["shielded", "unshielded"])
async def test_shutdown_in_a_cancelled_scope(*, shield: bool) -> None:
    """Shielded it drains; else it is cancelled at once, with the intake closed and the drain begun."""
    fn = RecordingProcessor()
    async with open_scene(fn, max_queue_time=60) as scene:
        intake = Intake(scene.batcher)
        [caller] = await through(intake, scene, (1, None))
        with anyio.CancelScope() as outer:
            outer.cancel()
            with anyio.CancelScope(shield=shield):
                await intake.shutdown(grace_timeout=5)
                await caller.end()
        assert intake.closed
        await caller.end()
        assert caller.result == 10
        assert anyio.current_time() == 0  # the batch was sent by the shutdown, not by its window


async def test_when_the_grace_has_passed_everybody_is_told() -> None:
    """Running: outcome unknown. Waiting and in line: never processed, safe to send again."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn, max_batch_size=1, max_queue_size=1, on_full="wait") as scene:
        intake = Intake(scene.batcher)
        callers = await through(intake, scene, (1, None), (2, None), (3, None))
        await intake.shutdown(grace_timeout=2, force_timeout=1)
        assert anyio.current_time() == pytest.approx(2)
        await scene.end_of(*callers)
        assert [caller.failed(BatcherStopped).withdrawn for caller in callers] == [False, True, True]
    assert fn.cancelled == [0]
    assert fn.seen == [1]


async def test_a_forced_cleanup_that_takes_too_long_is_a_timeout_and_can_be_retried() -> None:
    """`TimeoutError` after both budgets; callers were told; closed; a forced stop and a shutdown then work."""
    fn = Stubborn()
    async with open_scene(fn) as scene:
        intake = Intake(scene.batcher)
        [caller] = await through(intake, scene, (1, None))
        with pytest.raises(TimeoutError) as raised:
            await intake.shutdown(grace_timeout=2, force_timeout=1)
        assert not isinstance(raised.value, ResponseDeadlineExceeded)
        assert anyio.current_time() == pytest.approx(3)
        assert caller.failed(BatcherStopped).withdrawn is False
        with pytest.raises(BatcherStopped):
            await intake.process(2)
        with pytest.raises(TimeoutError):
            await scene.batcher.stop(force=True, timeout=1)
        with pytest.raises(TimeoutError):
            await intake.shutdown(grace_timeout=50, force_timeout=1)
        assert anyio.current_time() == pytest.approx(5)  # the grace has been spent: no second drain
        fn.let_go.set()
        await scene.batcher.stop(force=True, timeout=1)
        await intake.shutdown(grace_timeout=1, force_timeout=1)


async def test_the_first_grace_that_passes_forces_for_all() -> None:
    """Whoever is in a hurry need not wait for one who is not, and both return."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn) as scene:
        intake = Intake(scene.batcher)
        await through(intake, scene, (1, None))
        patient = await started(scene, intake.shutdown)
        hasty = await started(scene, functools.partial(intake.shutdown, grace_timeout=2))
        await scene.end_of(patient, hasty)
        assert (patient.error, hasty.error) == (None, None)
        assert patient.ended_at == pytest.approx(2)


@pytest.mark.parametrize("grace", [None, 60], ids=str)
async def test_who_waits_in_a_grace_goes_on_to_its_force_budget_when_another_forces(
    grace: float | None,
) -> None:
    """A call that does not end: each hears of it when its own `force_timeout` has passed, and none hangs."""
    fn = Stubborn()
    async with open_scene(fn) as scene:
        intake = Intake(scene.batcher)
        await through(intake, scene, (1, None))
        shutdown = functools.partial(intake.shutdown, grace_timeout=grace)
        patient = await started(scene, functools.partial(shutdown, force_timeout=5))
        endless = await started(scene, shutdown)
        hasty = await started(scene, functools.partial(intake.shutdown, grace_timeout=2, force_timeout=1))
        await scene.end_of(patient, hasty)
        hasty.failed(TimeoutError)
        patient.failed(TimeoutError)
        assert [hasty.ended_at, patient.ended_at] == pytest.approx([3, 7])
        assert endless.waits
        fn.let_go.set()
        await endless.end()
        assert endless.error is None


@pytest.mark.backends("asyncio")
@pytest.mark.parametrize("after", [-1e-10, 0, 1e-10], ids=["first", "together", "second"])
async def test_a_cancellation_wins_over_a_grace_that_another_ends(after: float) -> None:
    """In the tick in which it is forced: cancelled, and `cancelling()` counts the one outside."""
    fn = RecordingProcessor()
    fn.hold()
    async with open_scene(fn) as scene:
        intake = Intake(scene.batcher)
        await through(intake, scene, (1, None))
        loop, now = asyncio.get_running_loop(), anyio.current_time()
        patient = asyncio.create_task(intake.shutdown())
        hasty = await started(scene, functools.partial(intake.shutdown, grace_timeout=2))
        loop.call_at(now + 2 + after, patient.cancel)
        with pytest.raises(asyncio.CancelledError):
            await patient
        assert patient.cancelling() == 1
        await hasty.end()
        assert hasty.error is None


async def test_cancelled_while_it_forces_everybody_has_been_told() -> None:
    """The wait for the cleanup is cancelled: callers are settled, and a retry waits for the rest."""
    fn = Stubborn()
    async with open_scene(fn) as scene:
        intake = Intake(scene.batcher)
        [caller] = await through(intake, scene, (1, None))
        with anyio.move_on_after(3) as scope:
            await intake.shutdown(grace_timeout=2)
        assert scope.cancelled_caught
        caller.failed(BatcherStopped)
        fn.let_go.set()
        await intake.shutdown(force_timeout=1)


async def test_a_batch_that_ends_in_the_tick_of_the_grace() -> None:
    """It is drained or forced, never both: its caller has a result or was told, and the shutdown returns."""
    gate = anyio.Event()

    async def processor(items: list[int]) -> list[int]:
        await gate.wait()
        return items

    async with open_scene(processor) as scene:
        intake = Intake(scene.batcher)
        [caller] = await through(intake, scene, (1, None))
        now = anyio.current_time()
        ending = await started(scene, functools.partial(intake.shutdown, grace_timeout=1))
        await anyio.sleep_until(now + 1)
        gate.set()
        await scene.end_of(ending, caller)
        assert ending.error is None
        if caller.error is not None:
            caller.failed(BatcherStopped)
    assert_counts_add_up(scene.batcher.stats())


async def test_two_intakes_share_one_budget_of_time() -> None:
    """Closed both, then drained at the same time: two drains of 0.4 s fit into a grace of 0.5 s."""

    async def processor(items: list[int]) -> list[int]:
        await anyio.sleep(0.4)
        return items

    async with open_scene(processor) as one, open_scene(processor) as two:
        intakes = Intake(one.batcher), Intake(two.batcher)
        callers = [*await through(intakes[0], one, (1, None)), *await through(intakes[1], two, (2, None))]
        start = anyio.current_time()
        for intake in intakes:
            intake.close()
        async with anyio.create_task_group() as group:
            for intake in intakes:
                group.start_soon(functools.partial(intake.shutdown, grace_timeout=0.5))
        assert anyio.current_time() - start <= 0.4
        await one.end_of(*callers)
        assert [caller.result for caller in callers] == [1, 2]


async def test_an_intake_takes_groups_alike() -> None:
    """Deadline, refusal, drain and force in front of a manager of groups."""
    fn = RecordingProcessor()
    fn.hold()
    groups: BatcherGroups[str, int, int] = BatcherGroups(
        lambda _key, items: fn(items), group_key=str, max_groups=4, max_batch_size=1
    )
    intake = Intake(groups)
    async with enter_scene(groups, fn) as scene:
        running, late = await through(intake, scene, (1, None), (1, 0.5))
        await late.end()
        assert late.failed(ResponseDeadlineExceeded).withdrawn is True
        await intake.shutdown(grace_timeout=1, force_timeout=1)
        await running.end()
        assert running.failed(BatcherStopped).withdrawn is False
        with pytest.raises(BatcherStopped):
            await intake.process(2)


async def test_an_intake_that_was_never_used_shuts_down_at_once() -> None:
    """Twice, and outside any `async with`."""
    intake = Intake(AsyncBatcher.from_callable(shout))
    await intake.shutdown(grace_timeout=1, force_timeout=1)
    await intake.shutdown()
    assert anyio.current_time() == 0
    with pytest.raises(BatcherStopped):
        await intake.process(1)


@bad_timeouts
@pytest.mark.parametrize("name", ["grace_timeout", "force_timeout"])
async def test_a_bad_shutdown_timeout_closes_nothing(name: str, value: Any) -> None:
    """A `ValueError`, and the service goes on; 0 is not "at once"."""
    async with open_scene(shout) as scene:
        intake = Intake(scene.batcher)
        with pytest.raises(ValueError, match=f"{name} must be a finite number of seconds over 0"):
            await intake.shutdown(**{name: value})
        assert not intake.closed
        assert await intake.process(1) == 2


class Stubborn:
    """A processor that goes on, however often it is cancelled, until it is let go."""

    def __init__(self) -> None:
        self.let_go = anyio.Event()

    async def __call__(self, items: list[int]) -> list[int]:
        while not self.let_go.is_set():
            # asyncio cancels a batch's task natively, which no scope shields; trio would cancel again at once.
            with contextlib.suppress(asyncio.CancelledError), anyio.CancelScope(shield=True):
                await self.let_go.wait()
        return items
