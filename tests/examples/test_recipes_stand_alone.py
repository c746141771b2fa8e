"""Each recipe of `operations` can be copied by itself, and says what it does and does not promise."""

import ast
import sys
from pathlib import Path

import pytest

import async_batcher
from async_batcher import BatcherError
from examples.recipes import operations
from examples.recipes.operations import BackendDeadlineExceeded, ResponseDeadlineExceeded

OPERATIONS = Path(operations.__file__).parent
RECIPES = sorted(path for path in OPERATIONS.glob("*.py") if path.name != "__init__.py")


def test_the_five_recipes_are_there() -> None:
    """One file each; the package gives their names."""
    names = ["async_groups", "backend_call", "bounded_exporter", "intake", "thread_groups"]
    assert [path.stem for path in RECIPES] == names
    assert all(hasattr(operations, name) for name in operations.__all__)


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_imports_only_what_its_copy_will_find(path: Path) -> None:
    """The standard library, anyio, and what `async_batcher` exports."""
    public = set(async_batcher.__all__)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            modules = [str(node.module)]
        else:
            continue
        for module in modules:
            assert module.partition(".")[0] in {*sys.stdlib_module_names, "anyio", "async_batcher"}
        if isinstance(node, ast.ImportFrom) and node.module == "async_batcher":
            assert {alias.name for alias in node.names} <= public


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_says_what_it_does_not_promise(path: Path) -> None:
    """The problem, the promise, and where it ends."""
    docstring = ast.get_docstring(ast.parse(path.read_text())) or ""
    for part in ("The problem.", "The promise.", "What it does not promise."):
        assert part in docstring


def test_the_two_deadlines_are_distinct_timeouts() -> None:
    """Both are `TimeoutError`s and errors of ours; neither is the other."""
    for error in (ResponseDeadlineExceeded, BackendDeadlineExceeded):
        assert issubclass(error, TimeoutError)
        assert issubclass(error, BatcherError)
    assert not issubclass(ResponseDeadlineExceeded, BackendDeadlineExceeded)
    assert not issubclass(BackendDeadlineExceeded, ResponseDeadlineExceeded)
