"""`status`, `replay` and `prune` as commands: what they say, what they leave alone, and when they are refused."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import re
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from caption_runs import COMMAND, ENVIRONMENT, GOOD, ROOT, WITHOUT_ROOTS_RIGHTS, Place, command, place
from caption_storm import ENDS_ITS_WORKER, give_up

from examples.recipes.caption_qc.cli import main
from examples.recipes.caption_qc.job.drain import Drain
from examples.recipes.caption_qc.job.holder import lock_state


@pytest.fixture
def here(tmp_path: Path) -> Place:
    return place(tmp_path)


def told(state: Path, *more: str) -> dict[str, Any]:
    """Ask for the status as an object."""
    done = command("status", "--state", str(state), "--json", *more)
    assert (done.returncode, done.stderr) == (0, "")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def traces(folder: Path) -> dict[str, tuple[int, int, int]]:
    """What a folder and all below it are known by."""
    found = {path: path.lstat() for path in [folder, *folder.rglob("*")]}
    return {str(path): (stat.st_size, stat.st_mtime_ns, stat.st_ino) for path, stat in found.items()}


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """Do one run, of one asset and of one that it gives up, for those that only look at what it left."""
    here = place(tmp_path_factory.mktemp("once"))
    here.fill(1)
    give_up(here, "a\x1b[31m.scc")
    return here


@pytest.fixture
def left(once: Place, tmp_path: Path) -> Place:
    """Give a copy of what a run left."""
    shutil.copytree(once.state, tmp_path / "state")
    return Place(once.queue, tmp_path / "state")


# status


def test_status_of_what_has_never_run_says_so_and_makes_nothing(here: Place) -> None:
    """Neither a state folder nor a file in it."""
    done = command("status", str(here.queue), cwd=here.queue.parent)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.search(r"^lock +free$", done.stdout, re.MULTILINE)
    assert re.search(r"^runs +none yet$", done.stdout, re.MULTILINE)
    assert [path.name for path in here.queue.parent.iterdir()] == ["queue"]
    none = command("status", "--state", str(here.state), "--json")
    assert (none.returncode, json.loads(none.stdout)["runs"]) == (66, [])
    assert none.stderr.startswith(
        f"caption_qc: no run has been here: there is no folder {here.state}; give the"
    )
    assert not here.state.exists()


def test_status_leaves_no_trace(left: Place) -> None:
    """Not even the files that SQLite likes to make beside a ledger."""
    before = traces(left.state)

    for form in ([], ["--json"]):
        assert command("status", "--state", str(left.state), *form).returncode == 0

    assert traces(left.state) == before


def test_status_takes_no_lock(
    left: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not for a moment, in which a run that begins would be refused; nor is the lock's file written."""

    def refuse(descriptor: int, operation: int) -> None:
        pytest.fail(f"flock({descriptor}, {operation})")

    monkeypatch.setattr(fcntl, "flock", refuse)
    assert main(["status", "--state", str(left.state), "--json"], Drain()) == 0
    assert json.loads(capsys.readouterr().out)["lock"]["held"] is False


def test_the_lock_is_seen_as_it_is(tmp_path: Path) -> None:
    """Held, by whoever has it; free once he has let it go; another file's lock is another's."""
    path = tmp_path / "run.lock"
    assert (lock_state(path).held, lock_state(path).holder) == (False, None)
    path.write_text(f"pid {os.getpid()}\nhost here\nstart now\n")
    (tmp_path / "other.lock").touch()
    with path.open("r+") as lock, (tmp_path / "other.lock").open("w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert lock_state(path).held is False
        fcntl.flock(lock, fcntl.LOCK_EX)
        seen = lock_state(path)
        assert (seen.held, seen.holder and seen.holder.host) == (True, "here")
    assert lock_state(path).held is False


def test_status_beside_a_run_names_it_and_counts_whom_it_kept_out(here: Place) -> None:
    """The run that holds the lock is one that has not come to its end yet."""
    here.fill(60)
    with here.held_run() as (holder, _):
        refused = [here.run().returncode for _ in range(2)]
        beside = told(here.state)
        plain = command("status", "--state", str(here.state)).stdout
    assert refused == [75, 75]
    assert beside["lock"] == {"held": True, "holder": beside["lock"]["holder"]}
    assert beside["lock"]["holder"]["pid"] == str(holder.pid)
    assert beside["skipped_in_a_row"] == 2
    assert [(run["finished"], run["running"]) for run in beside["runs"]] == [(None, True)]
    assert re.search(r"^runs +the first one is running$", plain, re.MULTILINE)
    assert re.search(r"running, \d+ s so far$", plain, re.MULTILINE)
    assert "did not come to its end" not in plain
    assert f"held by pid {holder.pid} since" in plain
    assert "2 fires in a row" in plain

    assert here.run().returncode == 0
    after = told(here.state)
    assert (after["lock"]["held"], after["skipped_in_a_row"], after["skipped"]) == (False, 0, 2)
    assert [run["exit_code"] for run in after["runs"]] == [0, None]
    assert not any(run["running"] for run in after["runs"])
    assert "did not come to its end" in command("status", "--state", str(here.state)).stdout
    assert after["run_seconds_p95"] == after["runs"][0]["seconds"]
    assert (after["backlog"], after["kept"]["records"]) == (0, 60)


def test_status_says_how_much_could_not_be_read(here: Place) -> None:
    """By the last run, whose log names it; nothing where all could be."""
    here.fill(1)
    (here.queue / "closed").mkdir(mode=0)
    assert here.run(prefix=WITHOUT_ROOTS_RIGHTS).returncode == 0
    assert told(here.state)["scan_errors"] == 1
    pattern = r"^unreadable +1 file or folder; the log of the last run has their names$"
    assert re.search(pattern, command("status", "--state", str(here.state)).stdout, re.MULTILINE)

    (here.queue / "closed").rmdir()
    assert here.run().returncode == 0
    assert told(here.state)["scan_errors"] == 0
    assert "unreadable" not in command("status", "--state", str(here.state)).stdout


def test_status_can_be_asked_where_nothing_can_be_written(left: Place) -> None:
    """A state folder without the right to write; one without the right to read is one line and 77."""
    left.state.chmod(0o555)
    done = command("status", "--state", str(left.state), "--json", prefix=WITHOUT_ROOTS_RIGHTS)
    assert (done.returncode, json.loads(done.stdout)["kept"]["records"]) == (0, 2)

    left.state.chmod(0)
    done = command("status", "--state", str(left.state), prefix=WITHOUT_ROOTS_RIGHTS)
    assert (done.returncode, done.stdout) == (77, "")
    (line,) = done.stderr.splitlines()
    assert "Permission denied" in line
    left.state.chmod(0o755)


def test_status_of_a_damaged_ledger_says_the_rest(left: Place) -> None:
    """Lock and skips need no ledger; then what is wrong, and its code."""
    (left.state / "ledger.sqlite").write_bytes(b"no database" * 1000)

    done = command("status", "--state", str(left.state))

    assert done.returncode == 74
    assert "free; last held by pid" in done.stdout
    (line,) = done.stderr.splitlines()
    assert "ledger.sqlite" in line


def test_status_shows_dead_letters_with_the_reason(left: Place) -> None:
    """By the name that `replay` takes, which does nothing to a terminal."""
    (dead,) = told(left.state)["dead_letters"]
    assert (dead["asset_id"], dead["attempts"]) == ("a%1B[31m.scc", 1)
    assert dead["reason"]
    plain = command("status", "--state", str(left.state)).stdout
    assert f"a%1B[31m.scc  {dead['at'][:10]}" in plain
    assert dead["reason"] in plain
    assert "\x1b" not in plain


def test_status_on_a_terminal_keeps_to_its_width_and_to_no_color(left: Place) -> None:
    """Tables where they fit, lines where they don't; without colours where that is asked for."""
    for width in (120, 40):
        shown = on_a_terminal(left.state, width)
        assert not re.search(r"\x1b\[[0-9;]*3[0-9]", shown)
        assert max(len(re.sub(r"\x1b\[[0-9;]*m", "", line)) for line in shown.splitlines()) <= width
        assert "a%1B[31m.scc" in shown


def test_status_ends_quietly_where_its_reader_has_gone(here: Place) -> None:
    """As any tool does."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as gone:
        done = subprocess.run(
            [*COMMAND, "status", str(here.queue)],
            stdout=gone,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            env=ENVIRONMENT,
            check=False,
        )
    assert (done.returncode, done.stderr) == (-signal.SIGPIPE, b"")


# replay and prune


def test_a_dead_letter_is_put_back_and_checked_by_the_next_run(here: Place) -> None:
    """By its name or all of them; its queue is that of the state folder."""
    give_up(here, "bad.scc")
    state = ["--state", str(here.state)]
    unknown = command("replay", *state, "good.scc")
    assert (unknown.returncode, unknown.stdout) == (66, "")
    assert "the dead letters are bad.scc" in unknown.stderr

    done = command("replay", *state, "bad.scc")

    assert (done.returncode, done.stdout, done.stderr) == (0, "back in the queue: bad.scc\n", "")
    assert (here.queue / "bad.scc").read_bytes() == ENDS_ITS_WORKER
    assert here.ask("SELECT COUNT(*) FROM dead_letters") == [(0,)]
    assert here.run().returncode == 0
    assert here.statuses["bad.scc"] != "error"
    assert command("replay", *state).stdout == "nothing to do: there are no dead letters\n"


def test_dead_letters_are_no_assets_where_queue_and_state_are_one(tmp_path: Path) -> None:
    """Else each run would give up what the one before it had given up, one folder deeper."""
    both = Place(tmp_path, tmp_path)
    give_up(both, "bad.scc")
    for _ in range(2):
        give_up(both)
    assert [path.relative_to(tmp_path) for path in tmp_path.rglob("*.scc")] == [Path("dead-letter/bad.scc")]
    assert both.ask("SELECT asset_id FROM dead_letters") == [("bad.scc",)]


def test_old_windows_go_when_they_are_told_to(here: Place) -> None:
    """First as it would be; then whole windows, and what is younger stays."""
    here.fill(2)
    assert here.run("--at", "2020-01-01T00:00Z").returncode == 0
    (here.queue / "new.scc").write_bytes(GOOD)
    assert here.run().returncode == 0
    prune = ["prune", "--state", str(here.state), "--keep", "800d"]
    windows = sorted(path.name for path in (here.state / "telemetry" / "assets").iterdir())
    assert windows[0] == "window=2020-01-01T0000Z"

    would = command(*prune, "--dry-run")
    assert (would.returncode, would.stdout.startswith("would delete 1 window with 2 records, ")) == (0, True)
    assert len(here.statuses) == 3

    done = command(*prune)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("deleted 1 window with 2 records, ")
    assert list(here.statuses) == ["new.scc"]
    assert [path.name for path in (here.state / "telemetry" / "assets").iterdir()] == windows[1:]
    assert command(*prune).stdout.startswith("nothing to do: ")
    assert here.run().stderr.startswith("nothing to do: 3 assets seen")


@pytest.mark.parametrize(
    "arguments", [["replay"], ["prune", "--keep", "1d"], ["prune", "--keep", "1d", "--dry-run"]]
)
def test_what_changes_the_state_waits_for_no_run(arguments: list[str], here: Place) -> None:
    """75 beside one, with the line that names it; 66, and nothing made, where none has ever been."""
    missing = command(*arguments, "--state", str(here.state))
    assert (missing.returncode, missing.stdout, here.state.exists()) == (66, "", False)
    here.fill(60)
    with here.held_run() as (holder, _):
        done = command(*arguments, "--state", str(here.state))
    assert (done.returncode, done.stderr) == (75, "")
    assert done.stdout.startswith(f"previous run still active: pid {holder.pid} since ")


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        (["prune"], "--keep"),
        (["prune", "--keep", "0d"], "'0d'"),
        (["prune", "--keep", "800"], "'800'"),
        (["prune", "--keep", "\N{SUPERSCRIPT TWO}d"], "--keep"),
        (["status", "--workers", "2"], "--workers"),
        (["status", "--shard", "2/1"], "'2/1'"),
        (["replay", "--keep", "1d"], "--keep"),
    ],
)
def test_wrong_usage_of_these_is_one_line_too(
    arguments: list[str], wrong: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """64, and where to read more."""
    assert main(arguments, Drain()) == 64
    (line,) = capsys.readouterr().err.splitlines()
    assert wrong in line
    assert f"caption_qc {arguments[0]} --help" in line


def on_a_terminal(state: Path, width: int) -> str:
    """Ask for the status on a terminal of that width."""
    ours, theirs = pty.openpty()
    environment = {**ENVIRONMENT, "TERM": "xterm", "COLUMNS": str(width), "NO_COLOR": "1"}
    ask = [*COMMAND, "status", "--state", str(state)]
    with subprocess.Popen(ask, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as run:
        os.close(theirs)
        shown = b""
        with (
            os.fdopen(ours, "rb", buffering=0) as screen,
            contextlib.suppress(OSError),
        ):  # EIO: it has closed.
            while piece := screen.read(4096):
                shown += piece
    assert run.returncode == 0
    return shown.decode().replace("\r\n", "\n")
