"""A signal after the end: a run that is done exits with its code, however late in the interpreter's end it comes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from caption_runs import place, run_program

if TYPE_CHECKING:
    from pathlib import Path

# What is a module's is let go after Python has taken its signal handlers away.
_PROGRAM = """
import os, runpy, sys
class Late:
    def __del__(self, kill=os.kill, pid=os.getpid(), write=os.write):
        write(1, b"late")
        kill(pid, {signum})
sys.late = Late()
sys.argv[1:] = {arguments}
runpy.run_module("examples.recipes.caption_qc", run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize(
    ("signum", "option", "code"), [(15, "--settle=0", 0), (2, "--profile=nix", 78)], ids=["done", "refused"]
)
def test_a_signal_while_python_ends_changes_no_code(
    tmp_path: Path, signum: int, option: str, code: int
) -> None:
    """Of a run that did its work, and of one that was refused."""
    program = _PROGRAM.format(signum=signum, arguments=place(tmp_path).arguments(option))
    done = run_program(program)
    assert (done.returncode, done.stdout) == (code, "late"), done.stderr
