"""The lock where it meets other users, other file systems, and those who read it while it is written."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from caption_runs import COMMAND, ENVIRONMENT, ROOT, WITHOUT_ROOTS_RIGHTS, Place, place

from examples.recipes.caption_qc.job.errors import Exit, JobError
from examples.recipes.caption_qc.job.lock import Holder, LockHeldError, read_holder, run_lock

if TYPE_CHECKING:
    from pathlib import Path

NAMESPACE = ["unshare", "--mount", "sh", "-c"]
NOW = datetime(2026, 1, 1, 0, 7, 30, tzinfo=UTC)


@pytest.fixture
def here(tmp_path: Path) -> Place:
    return place(tmp_path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.lock"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a file to another user")
def test_a_lock_of_another_user_is_permission_denied(here: Place) -> None:
    """Exit 77, one line that names the lock and --lock, and nothing of it is changed."""
    here.state.mkdir()
    lock = here.state / "run.lock"
    lock.write_text("pid 7\nhost there\nstart then\n")
    os.chown(lock, 12345, 12345)
    done = here.run(prefix=WITHOUT_ROOTS_RIGHTS)
    assert (done.returncode, done.stdout) == (Exit.NO_PERMISSION, "")
    assert done.stderr.startswith(f"caption_qc: cannot write the lock {lock}: Permission denied; ")
    assert "--lock" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert lock.read_text() == "pid 7\nhost there\nstart then\n"


@pytest.mark.skipif(shutil.which("unshare") is None, reason="unshare is not on this machine")
def test_a_read_only_place_cannot_be_made_a_state(here: Place) -> None:
    """Exit 73, with a state folder that is there and one that is not; the way out names where else."""
    assert here.run().returncode == 0
    script = 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" || exit 99; shift; exec "$@"'
    for state in (here.state, here.state / "new"):
        arguments = ["run", str(here.queue), "--settle", "0", "--state", str(state)]
        done = subprocess.run(
            [*NAMESPACE, script, "sh", str(here.state), *COMMAND, *arguments],
            capture_output=True,
            text=True,
            cwd=ROOT,
            env=ENVIRONMENT,
            check=False,
        )
        if done.returncode == 99:
            pytest.skip("nothing can be mounted here")
        assert (done.returncode, done.stdout) == (Exit.CANNOT_CREATE, "")
        assert "Read-only file system; choose a place that can be written with --" in done.stderr


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_file_system_without_locks_is_refused(
    path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Exit 78: no space will mend it, another place will. The descriptor is not left open."""

    def none(descriptor: int, operation: int) -> None:
        raise OSError(number, os.strerror(number))

    before = _open_files()
    monkeypatch.setattr(fcntl, "flock", none)
    with pytest.raises(JobError, match=r"has no locks .*; put it on a local disk with --lock") as error:
        run_lock(path, started=NOW).__enter__()
    assert error.value.code == Exit.BAD_CONFIG
    assert _open_files() <= before


def _open_files() -> set[str]:
    """Name what is open in this process but the lists of it, which are open while they are read."""
    links = {os.path.realpath(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")}  # noqa: PTH208 - names
    return {link for link in links if not link.startswith("/proc/")}


def test_the_holder_is_read_without_the_lock(path: Path) -> None:
    """By whoever asks, while it is held and after; asking neither takes it nor makes the file."""
    with pytest.raises(FileNotFoundError):
        read_holder(path)
    assert not path.exists()
    with run_lock(path, started=NOW):
        assert read_holder(path) == Holder.this_run(NOW)
    assert read_holder(path) == Holder.this_run(NOW)
    assert Holder.this_run(NOW).start == "2026-01-01T00:07:30+00:00"


def test_the_holder_is_the_new_one_also_before_the_rest_of_the_old_one_is_cut(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the two steps of writing, lines of a longer name may still stand behind."""
    path.write_text(f"pid 1\nhost {'far-' * 20}away\nstart long ago\n")
    seen: list[Holder] = []
    cut = os.ftruncate

    def look_then_cut(descriptor: int, length: int) -> None:
        seen.append(read_holder(path))
        cut(descriptor, length)

    monkeypatch.setattr(os, "ftruncate", look_then_cut)
    with run_lock(path, started=NOW):
        assert seen == [Holder.this_run(NOW)]


def test_a_run_that_is_killed_leaves_the_lock_free_at_once(path: Path) -> None:
    """The kernel gives it back when the holder ends, whatever it had started."""
    program = """
import subprocess, sys
from datetime import UTC, datetime
from pathlib import Path
from examples.recipes.caption_qc.job.lock import run_lock
with run_lock(Path(sys.argv[1]), started=datetime.now(UTC)):
    child = subprocess.Popen(["sleep", "60"], close_fds=False)
    print(child.pid, flush=True)
    sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, "-c", program, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=ENVIRONMENT,
    ) as holder:
        assert holder.stdout is not None
        child = int(holder.stdout.readline())
        with pytest.raises(LockHeldError):
            run_lock(path, started=NOW).__enter__()
        holder.kill()
        holder.wait()
        try:
            with run_lock(path, started=NOW):
                assert read_holder(path) == Holder.this_run(NOW)
        finally:
            os.kill(child, 9)
