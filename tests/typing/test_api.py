"""The types of the public names, as users' checkers see them.

`api.py` says what is to be inferred, and what is to be refused; both checkers must agree with each of its lines.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def check(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a checker of this environment at the project's root, activated, without which pyright finds nothing."""
    path = os.pathsep.join([str(Path(sys.prefix) / "bin"), os.environ.get("PATH", "")])
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=ROOT,
        env={**os.environ, "VIRTUAL_ENV": sys.prefix, "PATH": path, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_mypy_infers_what_is_written() -> None:
    """Strict, and with an error for each `ignore` that is not needed: so what is refused is checked, too."""
    done = check("mypy", str(HERE / "api.py"))
    assert done.returncode == 0, done.stdout + done.stderr


def test_pyright_infers_what_is_written() -> None:
    """Likewise; mypy's `ignore` counts for nothing here."""
    done = check("pyright", "--project", str(HERE), "--pythonpath", sys.executable)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 errors" in done.stdout


def test_every_public_name_has_a_known_type() -> None:
    """What a checker must guess, two checkers guess differently."""
    done = check("pyright", "--verifytypes", "async_batcher", "--ignoreexternal")
    assert re.search(r"^Type completeness score: 100%$", done.stdout, re.MULTILINE), done.stdout + done.stderr
    found = re.search(r'^Symbols exported by "async_batcher": (\d+)$', done.stdout, re.MULTILINE)
    assert found is not None
    assert int(found[1]) > 0
