"""The package that is built installs and imports in a clean environment, without what the recipes need."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from pathlib import Path  # noqa: TC003  (pytest looks at the annotations)

import pytest
from pages import ROOT, Block, python_blocks

UV = os.environ.get("UV") or shutil.which("uv")
pytestmark = [
    pytest.mark.skipif(UV is None, reason="uv is not to be found, which builds"),
    pytest.mark.timeout(300),
]
DEPENDENCIES = {"anyio", "attrs", "opentelemetry-api"}


def uv(*arguments: str | Path, cwd: Path = ROOT) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    command = [str(UV), *map(str, arguments)]
    done = subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build both from the tree as it is, and return their folder."""
    folder = tmp_path_factory.mktemp("dist")
    uv("build", "--quiet", "--out-dir", folder)
    return folder


def wheel_of(built: Path) -> Path:
    (found,) = built.glob("*.whl")
    return found


def test_the_wheel_holds_the_library_alone(built: Path) -> None:
    """Nothing of the recipes, the tests or the benchmarks; the types are marked as such."""
    with zipfile.ZipFile(wheel_of(built)) as wheel:
        names = wheel.namelist()
    sources = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src" / "async_batcher").glob("*.py")}
    assert {name for name in names if ".dist-info/" not in name} == sources | {"async_batcher/py.typed"}
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_source_distribution_builds_the_same_wheel(built: Path, tmp_path: Path) -> None:
    """It has all that a build needs."""
    (source,) = built.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path, filter="data")
    (unpacked,) = tmp_path.iterdir()
    uv("build", "--quiet", "--wheel", "--out-dir", tmp_path / "again", cwd=unpacked)
    with (
        zipfile.ZipFile(wheel_of(built)) as first,
        zipfile.ZipFile(wheel_of(tmp_path / "again")) as second,
    ):
        assert {(info.filename, info.CRC) for info in first.infolist()} == {
            (info.filename, info.CRC) for info in second.infolist()
        }


def test_the_metadata_says_what_it_is_and_needs(built: Path) -> None:
    """Three dependencies, Python 3.11, the licence, and the README as its page."""
    with zipfile.ZipFile(wheel_of(built)) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = Parser().parsestr(wheel.read(name).decode())
    assert metadata["Name"] == "async-batcher"
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["License-Expression"] == "MIT"
    needed = {re.split(r"[^\w-]", line)[0] for line in metadata.get_all("Requires-Dist", [])}
    assert needed == DEPENDENCIES
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata.get_payload() == (ROOT / "README.md").read_text()


def test_it_imports_and_runs_in_a_clean_environment(built: Path, tmp_path: Path) -> None:
    """The README's own program prints what it says there; no recipe's dependency is installed."""
    environment = tmp_path / "clean"
    uv("venv", "--quiet", "--python", sys.executable, environment)
    python = environment / "bin" / "python"
    uv("pip", "install", "--quiet", "--python", python, wheel_of(built))
    listed = uv("pip", "list", "--python", python, "--format", "freeze")
    installed = {line.partition("==")[0] for line in listed.splitlines()}
    assert {"async-batcher", *DEPENDENCIES} <= installed
    assert not installed & {"pyarrow", "rich", "fastapi", "uvicorn", "opentelemetry-sdk", "trio", "numpy"}
    example = first_program()
    done = subprocess.run(
        [python, "-W", "error", "-c", example.program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stderr, done.stdout.splitlines()) == ("", example.output)


def first_program() -> Block:
    return next(block for block in python_blocks() if block.page.name == "README.md")
