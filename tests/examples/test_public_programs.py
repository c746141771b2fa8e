"""The public programs run unchanged from the project's root, without a warning, and print what they say."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAMS = ROOT / "tests" / "programs"
PUBLISHED = ROOT.parent / "shared" / "programs"
NAMES = ["async_groups.py", "deadlines.py", "http_service.py", "thread_groups.py"]


def run(program: Path, cwd: Path = ROOT) -> list[str]:
    """Run a program as its readers do, and return the lines that it printed: nothing else may be printed."""
    done = subprocess.run(
        [sys.executable, "-W", "error", str(program)],
        cwd=cwd,
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.stderr == ""
    assert done.returncode == 0
    return done.stdout.splitlines()


def test_no_program_is_missing() -> None:
    """Each of the four is here, and nothing else."""
    assert sorted(path.name for path in PROGRAMS.glob("*.py")) == NAMES


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.shared_files
def test_the_programs_are_those_that_were_published(name: str) -> None:
    """Byte for byte."""
    assert (PROGRAMS / name).read_bytes() == (PUBLISHED / name).read_bytes()


def test_deadlines() -> None:
    """Eight doubled items, the counts, and two batches reported.

    Its deadlines are half a second and one: where the machine stands still in the middle, it is run once more.
    """
    try:
        results, stats, telemetry = run(PROGRAMS / "deadlines.py")
    except AssertionError:
        results, stats, telemetry = run(PROGRAMS / "deadlines.py")
    assert results == "[0, 2, 4, 6, 8, 10, 12, 14]"
    counts = ast.literal_eval(stats)
    assert isinstance(counts, dict)
    assert counts["accepted"] == counts["succeeded"] == 8
    ends = ("succeeded", "failed", "withdrawn", "abandoned", "expired", "stopped", "waiting", "running")
    assert counts["accepted"] == sum(counts[name] for name in ends)
    assert counts["batches"] == 2
    assert telemetry == "{'telemetry_sent': 2, 'failed': 0, 'dropped': 0}"


def test_async_groups() -> None:
    """Two tenants, interleaved: each caller gets its own tenant's value."""
    assert run(PROGRAMS / "async_groups.py") == ["[('a', 2), ('b', 4), ('a', 6), ('b', 8)]"]


def test_thread_groups() -> None:
    """The same over a caller's own threads; the program ends."""
    assert run(PROGRAMS / "thread_groups.py") == ["[('a', 2), ('b', 4)]"]


def test_http_service_leaves_no_file_behind(tmp_path: Path) -> None:
    """To import the module and to build the app opens nothing, wherever the program is started."""
    before = set(ROOT.iterdir())
    assert run(PROGRAMS / "http_service.py") == ["app FastAPI"]
    assert set(ROOT.iterdir()) == before
    assert run(PROGRAMS / "http_service.py", cwd=tmp_path) == ["app FastAPI"]
    assert list(tmp_path.iterdir()) == []


def test_the_examples_import_wherever_a_program_lies(tmp_path: Path) -> None:
    """A copy of a program somewhere else runs from there: the editable install has the root on its path."""
    elsewhere = tmp_path / "tenants.py"
    elsewhere.write_bytes((PROGRAMS / "async_groups.py").read_bytes())
    assert run(elsewhere, cwd=tmp_path) == ["[('a', 2), ('b', 4), ('a', 6), ('b', 8)]"]
