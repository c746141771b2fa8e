"""Reports and metrics are written over files of ours alone: not a device, not a folder, not another ledger's."""

from __future__ import annotations

import os
import shutil
import stat
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from caption_runs import GOOD, Place, command, place

from examples.recipes.caption_qc.cli import main
from examples.recipes.caption_qc.job.drain import Drain
from examples.recipes.caption_qc.job.errors import Exit, JobError
from examples.recipes.caption_qc.job.files import whole_file
from examples.recipes.caption_qc.job.lock import run_lock

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def here(tmp_path: Path) -> Place:
    return place(tmp_path)


def a_device(path: Path) -> None:
    """Make one like /dev/null, which is never tried itself."""
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("no device can be made here: it takes root")


def a_folder(path: Path) -> None:
    path.mkdir()


def a_fifo(path: Path) -> None:
    os.mkfifo(path)


def a_link_to_a_device(path: Path) -> None:
    a_device(path.with_name("device"))
    path.symlink_to("device")


def a_link_to_nothing(path: Path) -> None:
    path.symlink_to("nothing")


OTHERS = [a_device, a_folder, a_fifo, a_link_to_a_device, a_link_to_nothing]
OTHER = pytest.mark.parametrize("other", OTHERS)


def kind(path: Path) -> tuple[int, int]:
    found = path.lstat()
    return stat.S_IFMT(found.st_mode), found.st_rdev


@OTHER
def test_what_is_no_file_is_never_replaced(tmp_path: Path, other: Callable[[Path], None]) -> None:
    """73 before anything is made; it is there afterwards as it was."""
    path = tmp_path / "x.prom"
    other(path)
    before, there = kind(path), sorted(tmp_path.iterdir())
    with pytest.raises(JobError, match=rf"cannot write {path}: it is .*; move it away") as error:
        whole_file(path).__enter__()
    assert error.value.code == Exit.CANNOT_CREATE
    assert (kind(path), sorted(tmp_path.iterdir())) == (before, there)


def test_a_link_to_a_file_is_replaced_and_the_file_is_not(tmp_path: Path) -> None:
    """Renamed over, as any file is."""
    (tmp_path / "theirs").write_bytes(b"theirs")
    (tmp_path / "x.prom").symlink_to("theirs")
    with whole_file(tmp_path / "x.prom") as file:
        file.write(b"ours")
    assert (tmp_path / "x.prom").read_bytes() == b"ours"
    assert (tmp_path / "theirs").read_bytes() == b"theirs"


@pytest.mark.parametrize(
    ("option", "taken"),
    [
        ("--metrics-file", "x.prom"),
        ("--metrics-file", "x-skips.prom"),
        ("--out", "dashboard.json"),
        ("--out", "dashboard.html"),
        ("--out", "owner.txt"),
        ("--out", "telemetry"),
    ],
)
def test_what_stands_where_a_report_goes_ends_the_run_before_its_work(
    option: str, taken: str, here: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line with 73 that names it and the option: not after an hour of checks. It is there as it was."""
    here.fill(1)
    there = tmp_path / "there"
    there.mkdir()
    a_device(there / taken)
    before = kind(there / taken)

    value = there / "x.prom" if option == "--metrics-file" else there
    code = main(here.arguments(option, str(value)), Drain())

    (line,) = capsys.readouterr().err.splitlines()
    assert (code, str(there / taken) in line, option in line) == (73, True, True), line
    assert kind(there / taken) == before
    assert not (here.state / "ledger.sqlite").exists() or here.statuses == {}


@pytest.mark.parametrize("name", ["passwd", "x.scc", "device", "x.PROM", ".prom", "link.prom"])
def test_metrics_have_a_name_that_collectors_read(
    name: str, here: Place, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """64: a file of somebody else's that a slip of the hand names is not written over; nothing is made."""
    (tmp_path / "passwd").write_bytes(b"theirs")
    (tmp_path / "link.prom").symlink_to("passwd")
    a_device(tmp_path / "device")

    code = main(here.arguments("--metrics-file", str(tmp_path / name)), Drain())

    (line,) = capsys.readouterr().err.splitlines()
    assert (code, "ends" in line or ".prom" in line) == (64, True)
    assert (tmp_path / "passwd").read_bytes() == b"theirs"
    assert not here.state.exists()


def test_a_device_is_not_even_opened_for_a_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A watchdog that is opened bites later."""
    a_device(tmp_path / "lock")
    monkeypatch.setattr(os, "open", lambda *args, **kwargs: pytest.fail(f"opened {args}"))
    with pytest.raises(JobError, match="is not a regular file"):
        run_lock(tmp_path / "lock", started=datetime.now(UTC)).__enter__()


# Whose reports


def test_two_state_folders_never_share_their_reports(here: Place, tmp_path: Path) -> None:
    """The second is refused with 73 and the name of the first, which goes on, also under another spelling."""
    here.fill(1)
    out = tmp_path / "out"
    assert here.run("--out", str(out)).returncode == 0
    before = (out / "dashboard.json").read_bytes()
    other = Place(here.queue, tmp_path / "other")

    for _ in range(2):
        refused = other.run("--out", str(out))
        (line,) = refused.stderr.splitlines()
        assert refused.returncode == 73
        assert f"holds the reports of the state folder {here.state};" in line
        assert str(out / "owner.txt") in line
    assert (out / "dashboard.json").read_bytes() == before
    assert not (other.state / "ledger.sqlite").exists(), "made again of the other's records"
    assert "caption_qc_run_exit_code 73" in (other.state / "metrics.prom").read_text()
    (tmp_path / "link").symlink_to("out")
    assert here.run("--out", str(tmp_path / "link")).returncode == 0

    (out / "owner.txt").unlink()
    assert other.run("--out", str(out)).returncode == 0
    assert here.run("--out", str(out)).returncode == 73


def test_a_state_folder_is_nobody_elses_out(here: Place, tmp_path: Path) -> None:
    """Its reports are its own; and what was another's `--out` first is no state folder with reports of its own."""
    here.fill(1)
    assert here.run().returncode == 0
    other = Place(here.queue, tmp_path / "other")
    refused = other.run("--out", str(here.state))
    assert (refused.returncode, "is a state folder itself" in refused.stderr) == (73, True)
    assert not (here.state / "owner.txt").exists()

    assert other.run("--out", str(tmp_path / "third")).returncode == 0
    refused = Place(here.queue, tmp_path / "third").run()
    assert (refused.returncode, f"the state folder {other.state};" in refused.stderr) == (73, True)


@pytest.mark.parametrize("note", [b"", b"\n", b"\0" * 30])
def test_a_note_that_a_power_cut_has_emptied_is_written_again(
    note: bytes, here: Place, tmp_path: Path
) -> None:
    """It names nobody."""
    out = tmp_path / "out"
    out.mkdir()
    (out / "owner.txt").write_bytes(note)
    assert here.run("--out", str(out)).returncode == 0
    assert (out / "owner.txt").read_text().splitlines()[0] == str(here.state)


def test_prune_drops_no_files_of_another_ledger(here: Place, tmp_path: Path) -> None:
    """73, and both have their windows still."""
    (here.queue / "a.scc").write_bytes(GOOD)
    other = Place(here.queue, tmp_path / "other")
    at = ("--at", "2026-01-01T00:07Z")
    assert here.run(*at, "--out", str(tmp_path / "out")).returncode == 0
    assert other.run(*at).returncode == 0
    before = sorted((tmp_path / "out").rglob("*"))
    done = command("prune", "--state", str(other.state), "--keep", "1d", "--out", str(tmp_path / "out"))
    assert (done.returncode, len(done.stderr.splitlines())) == (73, 1)
    assert sorted((tmp_path / "out").rglob("*")) == before
    shutil.rmtree(other.state)
