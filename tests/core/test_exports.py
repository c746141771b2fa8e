"""The public door: what is exported, and what its errors say of themselves."""

import importlib
import inspect
import pickle
import pkgutil
import re
from importlib.util import find_spec

import pytest
from programs import run_program

import async_batcher
from async_batcher import BatcherError, _errors


def test_all_is_sorted_and_complete() -> None:
    """`__all__` names every public name of the package, each once, in order."""
    exported = async_batcher.__all__
    assert list(exported) == sorted(exported)
    assert len(set(exported)) == len(exported)
    public = {
        name
        for name, value in vars(async_batcher).items()
        if not name.startswith("_") and not inspect.ismodule(value)
    }
    assert set(exported) == public - {"annotations"}


def test_names_of_the_contract_are_exported() -> None:
    """What the documents name can be imported from the top."""
    wanted = {"AsyncBatcher", "BatcherGroups", "Submission", "BatchEvent", "BatcherStats", "BatcherError"}
    assert wanted <= set(async_batcher.__all__)


def errors() -> list[type[BaseException]]:
    return [
        value
        for value in vars(_errors).values()
        if inspect.isclass(value) and issubclass(value, BaseException)
    ]


def test_every_error_is_exported_and_in_the_tree() -> None:
    """Each stands under `BatcherError`, at the top, and in the docstring's tree, which names no other."""
    for error in errors():
        assert issubclass(error, BatcherError)
        assert getattr(async_batcher, error.__name__) is error
        assert f"{error.__module__}.{error.__qualname__}" == f"async_batcher.{error.__name__}"
    assert _errors.__doc__ is not None
    in_tree = re.findall(r"[├└]── (\w+)", _errors.__doc__)
    assert sorted(in_tree) == sorted(error.__name__ for error in errors() if error is not BatcherError)


def test_every_error_of_the_package_is_in_the_tree() -> None:
    """No module makes a public exception of its own besides."""
    for module in pkgutil.iter_modules(async_batcher.__path__):
        if module.name == "_simulation_plot" and find_spec("matplotlib") is None:
            continue
        loaded = importlib.import_module(f"async_batcher.{module.name}")
        for name, value in vars(loaded).items():
            if inspect.isclass(value) and issubclass(value, BaseException) and not name.startswith("_"):
                assert value in errors() or not value.__module__.startswith("async_batcher")


@pytest.mark.parametrize(
    ("error", "also"),
    [
        ("BatcherStopped", RuntimeError),
        ("EnqueueTimeout", TimeoutError),
        ("ResultMismatch", TypeError),
    ],
)
def test_error_is_of_the_standard_kind_too(error: str, also: type[Exception]) -> None:
    """Code that knows nothing of this library catches what it means."""
    assert issubclass(getattr(async_batcher, error), also)


def test_no_error_is_a_cancellation_or_leaves_except_exception() -> None:
    """Every one is an `Exception`: no caller takes it for its own cancellation or an exit."""
    for error in errors():
        assert issubclass(error, Exception)


@pytest.mark.parametrize("error", errors(), ids=lambda error: error.__name__)
def test_error_survives_pickling(error: type[Exception]) -> None:
    """Errors cross processes (a pool, a task queue) with their text and their attributes."""
    original = error("what happened")
    original.extra = 3  # type: ignore[attr-defined]
    copy = pickle.loads(pickle.dumps(original))  # noqa: S301 - our own bytes
    assert type(copy) is error
    assert (str(copy), vars(copy)) == (str(original), vars(original))


@pytest.mark.parametrize("withdrawn", [True, False])
def test_what_a_stop_says_survives_pickling(withdrawn: bool) -> None:
    """`withdrawn` decides whether sending again is safe: it must not fall back to its default."""
    original = async_batcher.BatcherStopped("stopped", withdrawn=withdrawn)
    copy = pickle.loads(pickle.dumps(original))  # noqa: S301 - our own bytes
    assert copy.withdrawn is withdrawn


def test_import_is_light() -> None:
    """Importing the library loads neither trio nor the recipes' libraries, and starts nothing."""
    program = (
        "import sys, threading, async_batcher;"
        "print([name for name in ('trio', 'pyarrow', 'rich', 'fastapi', 'numpy') if name in sys.modules],"
        " threading.active_count())"
    )
    assert run_program(program) == (0, "[] 1\n", "")
