"""`@batched` on methods: one batcher an instance, which keeps no instance alive and outlives none."""

import asyncio
import contextvars
import copy
import dataclasses
import functools
import gc
import inspect
import multiprocessing
import pickle
import threading
import weakref
from abc import ABC, abstractmethod
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

import anyio
import attrs
import pytest
from blocking import PATIENCE
from scenes import enter_scene
from virtual_time import run_virtual, settle

from async_batcher import BatcherStopped, _decorator, batched

pytestmark = pytest.mark.anyio

request_id = contextvars.ContextVar("request_id", default="none")


class Service:
    """Adds its own number, and records its batches."""

    def __init__(self, number: int = 0) -> None:
        self.number = number
        self.batches: list[list[int]] = []

    @batched(max_batch_size=2, max_queue_time=0.5)
    async def add(self, items: list[int]) -> list[int]:
        """Add the number."""
        self.batches.append(items)
        return [self.number + item for item in items]

    @batched
    def add_in_a_thread(self, items: list[int]) -> list[int]:
        return [self.number + item for item in items]


class Louder(Service):
    @batched(max_batch_size=2, max_queue_time=0)
    async def add(self, items: list[int]) -> list[int]:
        return [100 * await super(Louder, self).add(item) for item in items]


def scene_of(service: Service) -> Any:
    return enter_scene(service.add.batcher)


async def test_each_instance_has_its_own_batches() -> None:
    """No batch mixes instances, and each gets its own results."""
    one, two = Service(10), Service(20)
    async with scene_of(one) as scene, enter_scene(two.add.batcher):
        callers = [
            scene.start(functools.partial(service.add, item)) for item in (1, 2) for service in (one, two)
        ]
        await scene.end_of(*callers)
        assert [caller.result for caller in callers] == [11, 21, 12, 22]
    assert (sorted(map(len, one.batches)), sorted(map(len, two.batches))) == ([2], [2])


async def test_batcher_of_an_instance_stays_the_same() -> None:
    """Stopping it is final for this instance, and no other's concern."""
    one, two = Service(10), Service(20)
    assert one.add.batcher is one.add.batcher
    assert one.add.batcher is not two.add.batcher
    async with two.add.batcher:
        await one.add.batcher.stop()
        with pytest.raises(BatcherStopped):
            await one.add(1)
        assert await two.add(1) == 21


@pytest.mark.real_time
async def test_sync_method_runs_in_a_thread() -> None:
    """A sync method is as good as an async one."""
    service = Service(10)
    async with service.add_in_a_thread.batcher:
        assert await service.add_in_a_thread(1) == 11


async def test_async_method_makes_no_thread() -> None:
    """It runs on the loop, as any async processor."""
    service, before = Service(10), set(threading.enumerate())
    async with service.add.batcher:
        assert await service.add(1) == 11
        assert set(threading.enumerate()) <= before  # one of an earlier test may end meanwhile


async def test_subclass_has_the_method_and_super_works() -> None:
    """An override is a batcher of its own, over that of the method that it overrides."""
    louder = Louder(10)
    async with louder.add.batcher, super(Louder, louder).add.batcher:
        assert await louder.add(1) == 1100
        assert await Service.add(louder, 1) == 11
        assert louder.add.batcher is not super(Louder, louder).add.batcher
    assert louder.batches == [[1], [1]]


async def test_idle_instance_goes_at_once_and_its_batcher_with_it() -> None:
    """Reference counts are enough: no cycle, nothing that only the collector finds."""
    service = Service(10)
    async with service.add.batcher:
        assert await service.add(1) == 11
    await settle()
    gone = weakref.ref(service), weakref.ref(service.add.batcher)
    gc.disable()
    try:
        del service
        assert gone[0]() is None
    finally:
        gc.enable()
    gc.collect()
    assert gone[1]() is None
    assert Service.add._batchers == {}


@pytest.mark.backends("asyncio")
async def test_waiting_item_keeps_its_instance_alive() -> None:
    """What was accepted is processed, though nobody but the batcher has the instance, or awaits the result."""
    service, batches = Service(10), list[Any]()
    service.batches = batches
    gone = weakref.ref(service)
    await service.add.batcher.submit(1)
    del service
    gc.collect()
    assert gone() is not None
    await anyio.sleep(1)
    assert batches == [[1]]
    assert gone() is None


@pytest.mark.backends("asyncio")
async def test_running_batch_keeps_its_instance_alive() -> None:
    """The instance goes when the batch has ended, not before."""
    gate, ended = anyio.Event(), list[Any]()

    class Held:
        @batched(max_queue_time=0)
        async def wait(self, items: list[int]) -> list[int]:
            await gate.wait()
            ended.append(self)
            return items

    held = Held()
    gone = weakref.ref(held)
    submission = await held.wait.batcher.submit(1)
    del held
    await settle()
    gc.collect()
    assert gone() is not None
    gate.set()
    assert await submission == 1
    assert ended.pop() is gone()
    await settle()
    assert gone() is None


@pytest.mark.backends("asyncio")
async def test_call_keeps_its_instance_alive() -> None:
    """As the call of any method does: a temporary instance is enough."""
    assert await Service(10).add(1) == 11


@pytest.mark.backends("asyncio")
async def test_refused_item_keeps_no_instance_alive() -> None:
    """What was never accepted holds nothing: the instance goes, though its batcher was called in vain."""
    service = Service(10)
    batcher, gone = service.add.batcher, weakref.ref(service)
    await batcher.stop()
    with pytest.raises(BatcherStopped):
        await batcher.submit(1)
    del service
    assert gone() is None


@pytest.mark.backends("asyncio")
async def test_withdrawn_item_keeps_no_instance_alive() -> None:
    """An item that left the queue holds nothing any more."""
    service = Service(10)
    gone = weakref.ref(service)
    submission = await service.add.batcher.submit(1)
    del service
    assert gone() is not None
    assert submission.withdraw()
    gc.collect()
    assert gone() is None


@pytest.mark.backends("asyncio")
async def test_forced_stop_lets_the_instance_go() -> None:
    """Callers that are told are no reason to hold it."""
    service = Service(10)
    batcher, gone = service.add.batcher, weakref.ref(service)
    submission = await batcher.submit(1)
    del service
    await batcher.stop(force=True)
    with pytest.raises(BatcherStopped):
        await submission
    gc.collect()
    assert gone() is None


@pytest.mark.backends("asyncio")
async def test_batcher_whose_instance_is_gone_says_so() -> None:
    """Whoever keeps the batcher only is told what to keep."""
    batcher = Service(10).add.batcher
    gc.collect()
    with pytest.raises(RuntimeError, match="instance of this batched method is gone"):
        await batcher.process(1)


class Anything:
    """Equal to all others, and not hashable."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return True

    @batched(max_queue_time=0)
    async def whose(self, items: list[int]) -> list[int]:
        return [id(self)] * len(items)


@pytest.mark.backends("asyncio")
async def test_equal_and_unhashable_instances_have_one_batcher_each() -> None:
    """Instances are told apart by what they are, not by what they say."""
    one, two = Anything(), Anything()
    assert [await one.whose(0), await two.whose(0)] == [id(one), id(two)]


@attrs.frozen
class Frozen:
    number: int

    @batched(max_queue_time=0)
    async def add(self, items: list[int]) -> list[int]:
        return [self.number + item for item in items]


@dataclasses.dataclass(slots=True, weakref_slot=True)
class Slotted:
    number: int

    @batched(max_queue_time=0)
    async def add(self, items: list[int]) -> list[int]:
        return [self.number + item for item in items]


@dataclasses.dataclass(slots=True)
class NoWeakrefs:
    number: int

    @batched(max_queue_time=0)
    async def add(self, items: list[int]) -> list[int]:
        return [self.number + item for item in items]


@pytest.mark.backends("asyncio")
@pytest.mark.parametrize("kind", [Frozen, Slotted])
async def test_instance_may_be_frozen_and_have_slots(kind: Any) -> None:
    """Nothing is written into an instance."""
    instance = kind(10)
    assert await instance.add(1) == 11


@pytest.mark.backends("asyncio")
async def test_instance_without_weak_references_is_refused_with_the_way_out() -> None:
    """It could only be kept alive for ever."""
    with pytest.raises(TypeError, match=r"NoWeakrefs objects.*__weakref__.*weakref_slot=True"):
        await NoWeakrefs(10).add(1)


@pytest.mark.backends("asyncio")
async def test_copy_and_pickle_of_an_instance_have_batchers_of_their_own() -> None:
    """An instance that has been called is copied and pickled as one that has not."""
    service = Service(10)
    assert await service.add(1) == 11
    assert set(vars(service)) == {"number", "batches"}
    for twin in (copy.copy(service), copy.deepcopy(service), pickle.loads(pickle.dumps(service))):  # noqa: S301
        twin.number, twin.batches = 20, []
        assert await twin.add(2) == 22
        assert twin.add.batcher is not service.add.batcher
    assert service.batches == [[1]]


def test_bound_method_is_copied_pickled_and_compared_as_bound_methods_are() -> None:
    """It stands for its instance and its name."""
    service = Service(10)
    assert service.add == service.add
    assert hash(service.add) == hash(service.add)
    assert service.add != Service(10).add
    assert service.add != service.add_in_a_thread
    assert service.add != 3
    assert Anything().whose != Anything().whose, "equal instances are not the same"
    twin = pickle.loads(pickle.dumps(service.add))  # noqa: S301 - our own bytes
    assert (twin.__self__.number, twin.__func__) == (10, Service.add)
    assert copy.deepcopy(service.add).__self__ is not service
    assert pickle.loads(pickle.dumps(Service.add)) is Service.add  # noqa: S301 - our own bytes


def test_method_looks_as_it_did() -> None:
    """Name, documentation and the rest stay; the signature is of one item."""
    methods: list[Any] = [Service.add, Service().add]
    for method in methods:
        assert (method.__name__, method.__doc__) == ("add", "Add the number.")
        assert method.__wrapped__.__annotations__["items"] == list[int]
    assert Service.add.__module__ == __name__
    assert str(inspect.signature(Service.add)) == "(self, item, /)"
    assert str(inspect.signature(Service().add)) == "(item, /)"
    assert repr(Service.add) == "<batched Service.add>"
    assert repr(Service().add).startswith("<bound batched Service.add of <")


def test_abstract_method_stays_abstract() -> None:
    """A class whose batched method is still to be written can't be instantiated."""

    class Base(ABC):
        @batched
        @abstractmethod
        async def add(self, items: list[int]) -> list[int]: ...

    with pytest.raises(TypeError, match="abstract"):
        Base()  # type: ignore[abstract]


def test_looking_at_an_instance_builds_nothing() -> None:
    """What walks over all attributes, as debuggers do, leaves no batcher behind."""
    service = Service()
    inspect.getmembers(service)
    assert repr(service.add)
    assert id(service) not in Service.add._batchers


def test_class_has_no_batcher() -> None:
    """Who asks the class is told whom to ask."""
    with pytest.raises(AttributeError, match=r"Service\.add has one batcher an instance"):
        _ = Service.add.batcher


class Static:
    @staticmethod
    @batched(max_queue_time=0)
    async def double(items: list[int]) -> list[int]:
        return [item * 2 for item in items]

    @classmethod
    @batched(max_queue_time=0)
    async def of_class(cls, items: list[int]) -> list[int]:
        return items


@pytest.mark.backends("asyncio")
async def test_static_method_is_a_function() -> None:
    """With `@staticmethod` above, there is one batcher for all."""
    assert [await Static.double(1), await Static().double(2)] == [2, 4]
    static: Any = Static
    assert static.double.batcher is static().double.batcher


async def test_class_method_is_refused() -> None:
    """In both orders, and on every Python, with what to write instead."""
    static: Any = Static
    for one in (static, static()):
        with pytest.raises(TypeError, match=r"class method can't be batched.*@staticmethod above"):
            await one.of_class(1)
    wrong_way_round: Any = batched
    with pytest.raises(TypeError, match=r"class method can't be batched.*@staticmethod above"):
        wrong_way_round(classmethod(Service.add._function))
    with pytest.raises(TypeError, match=r"write @staticmethod above @batched"):
        wrong_way_round(staticmethod(Static.double))


async def test_context_is_that_of_the_decoration() -> None:
    """The first caller of an instance leaks nothing into its batches."""
    seen = []

    class Looking:
        @batched(max_queue_time=0)
        async def look(self, items: list[int]) -> list[int]:
            seen.append(request_id.get())
            return items

    request_id.set("of the caller")
    looking = Looking()
    async with looking.look.batcher:
        await looking.look(1)
    assert seen == ["none"]


def test_method_is_used_in_one_loop_after_another() -> None:
    """An instance of the module's, decorated at import, is bound to no loop for good."""
    service = Service(10)

    async def both() -> list[int]:
        return list(await asyncio.gather(service.add(1), service.add(2)))

    assert [run_virtual(both), asyncio.run(both())] == [[11, 12], [11, 12]]


def test_threads_that_ask_at_once_get_the_same_batcher(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first access is safe from any thread: here both have found none, and build one each."""
    together, build = threading.Barrier(2, timeout=PATIENCE), _decorator._build

    def build_together(*arguments: Any) -> Any:
        together.wait()
        return build(*arguments)

    monkeypatch.setattr(_decorator, "_build", build_together)
    service = Service()
    with ThreadPoolExecutor(2) as pool:
        one, two = pool.map(lambda _: service.add.batcher, range(2))
    assert one is two is service.add.batcher


@pytest.mark.real_time
@pytest.mark.backends("asyncio")
async def test_sync_method_runs_in_another_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The instance goes there with each batch, as with any bound method."""
    # Spawned: a fork copies what other threads hold at that moment.
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as executor:
        in_process = batched(executor=executor)(Service.add_in_a_thread._function)
        monkeypatch.setattr(Service, "add_in_a_thread", in_process)
        service = Service(10)
        async with service.add_in_a_thread.batcher:
            assert await service.add_in_a_thread(1) == 11
