"""The caption job's parts: names, scan, place, lock, files, CPUs."""

import fcntl
import os
import resource
import unicodedata
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath
from urllib.parse import unquote_to_bytes

import pytest

from examples.recipes.caption_qc.job import scan
from examples.recipes.caption_qc.job.assets import (
    NotAsSeenError,
    as_text,
    open_asset,
    printable,
    read_as_seen,
    shown,
    stat_of,
)
from examples.recipes.caption_qc.job.cpus import default_workers
from examples.recipes.caption_qc.job.errors import Exit, JobError, cannot_write
from examples.recipes.caption_qc.job.files import whole_file
from examples.recipes.caption_qc.job.lock import LockHeldError, run_lock
from examples.recipes.caption_qc.job.place import network_type
from examples.recipes.caption_qc.job.plan import microseconds, time_of, window_name, window_of
from examples.recipes.caption_qc.job.scan import Seen, Walk, file_key, scan_queue

NOW = datetime(2026, 1, 1, 0, 7, 30, tzinfo=UTC)


def deliver(path: Path, age: float = 3600.0, content: bytes = b"x") -> Path:
    """Write a file that was changed `age` seconds before now."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    changed = NOW.timestamp() - age
    os.utime(path, (changed, changed))
    return path


def walk(queue: Path, **more: object) -> Walk:
    return Walk(queue=bytes(queue), settle=10.0, now=NOW, **more)  # type: ignore[arg-type]


def names(queue: Path, seen: Seen | None = None, **more: object) -> list[str]:
    pages = scan_queue(walk(queue, **more), seen or Seen())
    return [asset.asset_id for page in pages for asset in page]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (b"plain.scc", "plain.scc"),
        ("\N{LATIN SMALL LETTER E WITH ACUTE}.scc".encode(), "\N{LATIN SMALL LETTER E WITH ACUTE}.scc"),
        (b"\xe9.scc", "%E9.scc"),
        (b"100%.scc", "100%25.scc"),
        (b"a\nb\x1b[31m\x7f.scc", "a%0Ab%1B[31m%7F.scc"),
        ("a\u202eb\u2028.scc".encode(), "a%E2%80%AEb%E2%80%A8.scc"),
    ],
)
def test_a_name_becomes_text_that_can_be_printed_and_turned_back(name: bytes, text: str) -> None:
    """What is not UTF-8, % and what would act on a terminal are escaped; nothing else is, nothing is lost."""
    assert as_text(name) == text
    assert unquote_to_bytes(text) == name
    assert not [char for char in text if unicodedata.category(char)[0] == "C"]


def test_the_scan_takes_regular_caption_files_and_counts_what_it_passes_over(tmp_path: Path) -> None:
    """`.scc` in any case, in sub-folders; no links, hidden or temporary names, FIFOs, or our own state."""
    for name in ("a.scc", "B.SCC", "deep/er/c.Scc", "not.txt", ".hidden.scc", "~x.scc", ".git/d.scc"):
        deliver(tmp_path / name)
    deliver(tmp_path / "state" / "dead-letter" / "e.scc")
    deliver(tmp_path / "caption-qc-state" / "other" / "f.scc")
    (tmp_path / "caption-qc-state" / "other" / "run.lock").touch()
    (tmp_path / "link.scc").symlink_to("a.scc")
    (tmp_path / "folder").symlink_to("deep")
    os.mkfifo(tmp_path / "pipe.scc")
    (tmp_path / "folder.scc").mkdir()
    seen = Seen()

    found = names(tmp_path, seen, skip=frozenset({file_key((tmp_path / "state").stat())}))

    assert sorted(found) == ["B.SCC", "a.scc", "deep/er/c.Scc"]
    assert (seen.assets, seen.links, seen.unreadable) == (3, 2, 0)


def test_a_file_that_changed_a_moment_ago_waits_for_the_next_fire(tmp_path: Path) -> None:
    """It may still be growing; a time far in the future is a wrong clock's and holds nothing up."""
    for age in (9.0, -9.0, 11.0, -86400.0):
        deliver(tmp_path / f"{age}.scc", age)
    seen = Seen()

    assert names(tmp_path, seen) == ["11.0.scc", "-86400.0.scc"]
    assert (seen.assets, seen.settling) == (4, 2)
    assert seen.oldest_settling_ns == (NOW.timestamp() - 9) * 1e9


def test_the_scan_streams_pages_oldest_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A page is yielded when it is full, before the rest is looked at."""
    monkeypatch.setattr(scan, "PAGE_SIZE", 2)
    for number in range(5):
        deliver(tmp_path / f"{number}.scc", age=100.0 + number)
    seen = Seen()
    pages = scan_queue(walk(tmp_path), seen)

    first = next(pages)

    assert seen.assets == 2
    rest = list(pages)
    assert [len(page) for page in (first, *rest)] == [2, 2, 1]
    for page in (first, *rest):
        assert page == sorted(page, key=lambda asset: asset.stat.mtime_ns)


def test_a_file_is_read_only_as_it_was_seen(tmp_path: Path) -> None:
    """Replaced, grown, shortened, a link, a FIFO, gone: each is told apart from a good reading."""
    file = deliver(tmp_path / "a.scc", content=b"seen")
    seen = stat_of(file.stat())
    assert read_as_seen(bytes(file), seen) == b"seen"

    file.write_bytes(b"grown since")
    with pytest.raises(NotAsSeenError, match="changed"):
        read_as_seen(bytes(file), seen)

    os.mkfifo(tmp_path / "fifo.scc")
    with pytest.raises(NotAsSeenError, match="regular"):
        open_asset(bytes(tmp_path / "fifo.scc"))
    (tmp_path / "link.scc").symlink_to("a.scc")
    with pytest.raises(OSError, match="symbolic links"):
        open_asset(bytes(tmp_path / "link.scc"))


MOUNTS = """\
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
40 22 0:30 / /mnt/nas rw - nfs4 server:/export rw
41 22 0:31 / /mnt/with\\040space rw - fuse.sshfs host: rw
42 40 254:1 / /mnt/nas/local rw - xfs /dev/vdb rw
43 22 0:32 / /over rw - cifs //server/share rw
44 22 254:2 / /over rw - ext4 /dev/vdc rw
"""


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/var/state", None),
        ("/mnt/nas/state", "nfs4"),
        ("/mnt/nasty", None),
        ("/mnt/with space/state", "fuse.sshfs"),
        ("/mnt/nas/local/state", None),
        ("/over/state", None),
    ],
)
def test_a_network_file_system_is_known_by_the_mount_that_counts(path: str, found: str | None) -> None:
    """The deepest mount point decides, and of two on one point the later."""
    assert network_type(PurePosixPath(path), MOUNTS) == found


def test_the_lock_is_the_kernels_and_a_refused_run_changes_nothing(tmp_path: Path) -> None:
    """The holder's lines stay in the file, whoever is refused; the descriptor is not inherited."""
    path = tmp_path / "run.lock"
    path.write_text(
        "pid 1\nhost elsewhere\nstart long ago, and a longer line than the next holder writes\n" * 3
    )
    with run_lock(path, started=NOW):
        held = path.read_text()
        with pytest.raises(LockHeldError) as refused:
            run_lock(path, started=NOW).__enter__()
        descriptors = [int(name) for name in os.listdir("/proc/self/fd")]  # noqa: PTH208 - names, not paths
        (ours,) = [number for number in descriptors if _names(number, path)]
        assert fcntl.fcntl(ours, fcntl.F_GETFD) & fcntl.FD_CLOEXEC

    assert held == path.read_text()
    assert held.splitlines()[0] == f"pid {os.getpid()}"
    assert len(held.splitlines()) == 3
    assert refused.value.code == Exit.LOCK_HELD
    assert str(refused.value).startswith(
        f"previous run still active: pid {os.getpid()} since 2026-01-01T00:07"
    )
    with run_lock(path, started=NOW):
        pass


def _names(descriptor: int, path: Path) -> bool:
    try:
        return Path(f"/proc/self/fd/{descriptor}").readlink() == path
    except FileNotFoundError:
        return False


@pytest.mark.parametrize(
    "content",
    [
        b"-- a ledger, say --\n",
        b"Scenarist_SCC V1.0\n",
        b"pid of a pump\n",
        b"pid 1\nhost a\n" * 999,
        b"\0" * 5000,
    ],
)
def test_a_file_of_something_else_is_never_made_a_lock(tmp_path: Path, content: bytes) -> None:
    """`--lock` may name any file: what is not empty and not a holder's is not written."""
    path = tmp_path / "input.scc"
    path.write_bytes(content)
    error = not_locked(path)
    assert error.code == Exit.CANNOT_CREATE
    assert "--lock" in str(error)
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    "content", [b"", b"\0" * 52, b"pid 7\nhost elsewhere\nstart 2026-01-01T00:00:00+00:00\n"]
)
def test_what_a_run_or_a_power_cut_left_is_a_lock(tmp_path: Path, content: bytes) -> None:
    """An empty file, its length without its bytes, the lines of a holder that is gone."""
    path = tmp_path / "run.lock"
    path.write_bytes(content)
    with run_lock(path, started=NOW):
        assert path.read_text().startswith(f"pid {os.getpid()}\n")


def test_what_is_no_file_is_no_lock_and_hangs_nothing(tmp_path: Path) -> None:
    """A device, a FIFO, a folder, a loop of links: one line that names `--lock`."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to("loop")
    for path in (Path("/dev/null"), tmp_path / "fifo", tmp_path, tmp_path / "loop"):
        error = not_locked(path)
        assert error.code == Exit.CANNOT_CREATE
        assert "--lock" in str(error)


def test_a_holder_is_named_as_text(tmp_path: Path) -> None:
    """Whoever held the lock may have written anything into its file."""
    path = tmp_path / "run.lock"
    with path.open("wb") as held:
        held.write(b"pid \x1b[31m\nhost a\x07\n")
        held.flush()
        fcntl.flock(held.fileno(), fcntl.LOCK_EX)
        error = not_locked(path)
    assert str(error).startswith("previous run still active: pid %1B[31m since unknown on a%07, lock ")


def not_locked(path: Path) -> JobError:
    lock = run_lock(path, started=NOW)
    with pytest.raises(JobError) as error:
        lock.__enter__()
    return error.value


def test_a_lock_file_that_was_removed_is_not_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was removed between opening and locking is let go: its path names another file, or none."""
    path = tmp_path / "run.lock"
    lock = fcntl.flock
    removed: list[int] = []

    def remove_then_lock(descriptor: int, operation: int) -> None:
        if len(removed) < 2:
            path.unlink()
            removed.append(descriptor)
        lock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", remove_then_lock)
    with run_lock(path, started=NOW):
        assert len(removed) == 2
        with pytest.raises(LockHeldError):
            run_lock(path, started=NOW).__enter__()


def test_a_file_is_whole_or_not_there(tmp_path: Path) -> None:
    """A failed writing leaves what was there, and no temporary file; a stale one is written over."""
    path = tmp_path / "new" / "dashboard.json"
    with whole_file(path) as file:
        file.write(b"first")
    with pytest.raises(TypeError), whole_file(path) as file:
        file.write(b"half" + file.read)  # type: ignore[operator]
    assert path.read_bytes() == b"first"
    assert list(path.parent.iterdir()) == [path]
    path.with_name(".dashboard.json.tmp").write_bytes(b"of a killed run, and longer")
    with whole_file(path) as file:
        file.write(b"second")
    assert path.read_bytes() == b"second"
    assert list(path.parent.iterdir()) == [path]


def test_what_stands_in_the_place_of_the_temporary_file_hangs_nothing(tmp_path: Path) -> None:
    """A FIFO is not opened, a link not followed; a folder where the file goes is refused."""
    path = tmp_path / "dashboard.json"
    os.mkfifo(tmp_path / ".dashboard.json.tmp")
    with whole_file(path) as file:
        file.write(b"first")
    elsewhere = deliver(tmp_path / "elsewhere", content=b"theirs")
    (tmp_path / ".dashboard.json.tmp").symlink_to("elsewhere")
    with whole_file(path) as file:
        file.write(b"second")
    assert (path.read_bytes(), elsewhere.read_bytes()) == (b"second", b"theirs")

    full = deliver(tmp_path / "full" / "theirs").parent
    with pytest.raises(JobError, match=r"cannot write .*full"), whole_file(full) as file:
        file.write(b"third")
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["dashboard.json", "elsewhere", "full"]


def test_a_path_is_shown_as_text_and_a_message_stays_one_line() -> None:
    """What a path is quoted in, and what quotes it, does nothing to a terminal."""
    assert shown(Path(os.fsdecode(b"/q\x1b[31m\n\xff/100%"))) == "/q%1B[31m%0A%FF/100%25"
    assert printable("50 %: \x1b[31m\n\udcff\ud800 \N{LATIN SMALL LETTER E WITH ACUTE}") == (
        "50 %: %1B[31m%0A%FF%ED%A0%80 \N{LATIN SMALL LETTER E WITH ACUTE}"
    )
    error = cannot_write(OSError(13, "Permission denied"), "there", "--lock")
    assert str(error).endswith("or choose another place with --lock")


def test_a_tree_of_any_depth_takes_few_descriptors(tmp_path: Path) -> None:
    """All of it is seen with fewer descriptors than it has levels."""
    depths = range(200)
    for depth in depths:
        deliver(tmp_path.joinpath(*["d"] * depth, "a.scc"))
    opened = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names, not paths
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (opened + 80, before[1]))
    seen = Seen()
    try:
        found = names(tmp_path, seen)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert len(found) == len(depths)
    assert seen.unreadable == 0


@pytest.mark.parametrize(
    ("number", "code"),
    [(13, 77), (1, 77), (30, 73), (2, 73), (20, 73), (28, 74), (122, 74), (5, 74), (27, 74)],
)
def test_what_the_system_refuses_has_its_exit_code(number: int, code: int) -> None:
    """EACCES and EPERM 77; read-only and missing 73; full, quota, I/O 74."""
    error = cannot_write(OSError(number, os.strerror(number)), "there")
    assert error.code == code
    assert "there" in str(error)
    assert ";" in str(error)


def test_a_window_is_whole_and_times_are_exact() -> None:
    """The window is the floor of the start; a time comes back from the ledger to the microsecond."""
    assert window_name(window_of(NOW, 300)) == "2026-01-01T0005Z"
    assert window_of(NOW - timedelta(microseconds=1), 86400) == NOW.replace(hour=0, minute=0, second=0)
    odd = NOW + timedelta(microseconds=123457)
    assert time_of(microseconds(odd)) == odd


def test_workers_are_as_many_as_cpus_may_be_used(tmp_path: Path) -> None:
    """The quota of any group above counts too; without one the affinity does, and 8 is the most."""
    unlimited = default_workers(tmp_path)
    assert 1 <= unlimited <= 8
    (tmp_path / "cpu.max").write_text("150000 100000\n")
    assert default_workers(tmp_path) == min(2, unlimited)
    (tmp_path / "cpu.max").write_text("10000 100000\n")
    assert default_workers(tmp_path) == 1
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert default_workers(tmp_path) == unlimited


def test_an_error_of_the_job_is_one_line(tmp_path: Path) -> None:
    """The lock in a folder that is not there: what, why, the way out, the code."""
    error = not_locked(tmp_path / "no" / "run.lock")
    assert error.code == Exit.CANNOT_CREATE
    assert str(error).startswith("cannot write the lock ")
    assert ": No such file or directory; " in str(error)
    assert "\n" not in str(error)
