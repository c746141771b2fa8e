"""The caption command: options, errors as one line with a code, and `inspect`."""

import contextlib
import os
import pty
import re
import signal
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest
from caption_runs import COMMAND, ENVIRONMENT, GOOD, SAMPLES, WITHOUT_ROOTS_RIGHTS, command, place

from examples.recipes.caption_qc.check import check, load
from examples.recipes.caption_qc.cli import main
from examples.recipes.caption_qc.job.assets import Asset, Stat
from examples.recipes.caption_qc.job.drain import Drain
from examples.recipes.caption_qc.job.errors import Exit, refusal_of
from examples.recipes.caption_qc.job.outcomes import Checked
from examples.recipes.caption_qc.job.plan import Plan
from examples.recipes.caption_qc.job.queue_folder import FolderQueue
from examples.recipes.caption_qc.job.scan import Seen
from examples.recipes.caption_qc.job.screen import summary_of
from examples.recipes.caption_qc.job.streams import delivered
from examples.recipes.caption_qc.job.terminal import TerminalScreen, worst_table
from examples.recipes.caption_qc.job.totals import Ended, Totals
from examples.recipes.caption_qc.options import RUN_OPTIONS, build_parser
from examples.recipes.caption_qc.planning import plan_of

NOW = datetime(2026, 1, 1, 0, 7, 30, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the environment's options away."""
    for option in RUN_OPTIONS:
        monkeypatch.delenv(option.variable, raising=False)


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[object, str]:
    """Run a command that is refused; return its code and the one line that it says."""
    code = exit_code(*arguments)
    said = capsys.readouterr()
    assert said.out == ""
    (line,) = said.err.splitlines()
    assert line.startswith("caption_qc")
    assert ";" in line, "no way out"
    return code, line


def exit_code(*arguments: str) -> object:
    try:
        return main(list(arguments), Drain())
    except SystemExit as error:
        return error.code


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        (["run", "--\x1b[31m\n\udcff"], "--%1B[31m%0A%FF"),
        (["run", "one", "\x1b\n"], "%1B%0A"),
        (["run", "--frobnicate"], "--frobnicate"),
        (["--frobnicate"], "--frobnicate"),
        (["run", "one", "two"], "two"),
        (["run", "--work", "2"], "--work"),
        (["run", "--workers", "0"], "'0'"),
        (["run", "--workers", "-1"], "--workers"),
        (["run", "--workers", "True"], "'True'"),
        (["run", "--max-attempts", "1.5"], "'1.5'"),
        (["run", "--settle", "nan"], "'nan'"),
        (["run", "--settle=-1"], "'-1'"),
        (["run", "--settle", "1e9"], "'1e9'"),
        (["run", "--asset-timeout", "0"], "'0'"),
        (["run", "--drain-timeout", "inf"], "'inf'"),
        (["run", "--window", "90s"], "'90s'"),
        (["run", "--window", "0"], "'0'"),
        (["run", "--at", "yesterday"], "'yesterday'"),
        (["run", "--at", "0001-01-01T00:00+14:00"], "--at"),
        (["run", "--state", ""], "--state"),
        (["inspect"], "FILE"),
        (["inspect", "a.scc", "--grid", "--json"], "not allowed with"),
        (["inspect", "a.scc", "--cues", "0"], "'0'"),
        (["inspect", "a.scc", "--cues", "4-3"], "'4-3'"),
        (["inspect", "a.scc", "--cues", "1,,2"], "''"),
        (["inspect", "a.scc", "--cues", "1\x1b"], "--cues"),
        (["inspect", "a.scc", "--cues", "\N{SUPERSCRIPT TWO}"], "--cues"),
        (["inspect", "a.scc", "--programme", "1-2"], "START-END"),
        (["inspect", "a.scc", "--programme", "00:00:02:00-00:00:02:00"], "--programme"),
        (["inspect", "a.scc", "--reference", ""], "--reference"),
        (["inspect", "a.scc", "--fail-on", "info"], "'info'"),
        (["inspect", "a.scc", "--xlsx"], "--xlsx"),
    ],
)
def test_a_usage_error_is_one_line_and_64(
    arguments: list[str], wrong: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was found, what was wanted, the way out."""
    code, line = refused(capsys, *arguments)
    assert code == 64
    assert wrong in line


def test_the_environment_gives_options_and_the_command_line_wins(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each option has its variable, which is checked like the option, and named when it is wrong."""
    monkeypatch.setenv("CAPTION_QC_WORKERS", "3")
    monkeypatch.setenv("CAPTION_QC_WINDOW", "1h")
    options = build_parser().parse_args(["run", "--workers", "2"])
    assert (options.workers, options.window) == (2, 3600)

    monkeypatch.setenv("CAPTION_QC_SETTLE", "soon")
    code, line = refused(capsys, "run")
    assert code == 64
    assert "CAPTION_QC_SETTLE" in line


def test_a_wrong_variable_hurts_only_the_command_that_reads_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`inspect` starts no workers; of `run` the option on the command line wins."""
    monkeypatch.setenv("CAPTION_QC_WORKERS", "many")
    assert exit_code("inspect", "--json", str(SAMPLES / "popon_clean.scc")) == 0
    capsys.readouterr()
    assert build_parser().parse_args(["run", "--workers", "2"]).workers == 2
    code, line = refused(capsys, "run")
    assert (code, "CAPTION_QC_WORKERS" in line) == (64, True)


@pytest.mark.parametrize("command", ["run", "inspect"])
def test_wrong_usage_points_to_the_help_that_lists_what_there_is(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command's own, as it is typed."""
    _, line = refused(capsys, command, "file", "--bogus")
    (shown,) = re.findall(r"; python -m (.*) --help lists what there is$", line)
    assert shown == f"examples.recipes.caption_qc {command}"
    assert exit_code(*shown.split()[1:], "--help") == 0
    assert "--profile" in capsys.readouterr().out


def test_a_mistyped_command_is_no_queue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A word that names nothing here is told what commands there are; a path is told of the folder."""
    monkeypatch.chdir(tmp_path)
    code, line = refused(capsys, "insepct", "a.scc")
    assert (
        code,
        "'insepct' is no command" in line,
        "give run, inspect, status, replay or prune" in line,
    ) == (66, True, True)
    code, line = refused(capsys, "./insepct")
    assert (code, "no queue at" in line) == (66, True)
    (tmp_path / "file").write_bytes(b"")
    code, line = refused(capsys, "file")
    assert (code, "no queue at" in line) == (66, True)


def test_inspect_of_a_folder_points_to_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The other command is the one for it."""
    code, line = refused(capsys, "inspect", str(tmp_path))
    assert (code, "it is a folder; `run` checks" in line) == (66, True)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["run", "{odd}"], 66),
        (["run", "{queue}", "--state", "{file}"], 73),
        (["run", "{queue}", "--state", "{file}/below"], 73),
        (["run", "{queue}", "--lock", "{file}"], 73),
        (["run", "{queue}", "--lock", "{file}/below"], 73),
        (["run", "{queue}", "--profile", "{odd}"], 78),
        (["run", "{queue}", "--profile", "{queue}"], 78),
        (["inspect", "{odd}"], 66),
        (["inspect", "{queue}"], 66),
        (["{odd}"], 66),
    ],
)
def test_a_path_in_a_message_does_nothing_to_the_terminal(
    arguments: list[str],
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Written as an asset's name is: `%1B`, `%0A`, `%FF`; never an escape, and one line."""
    monkeypatch.chdir(tmp_path)
    odd = os.fsdecode(b"\x1b[31m\n\xff")
    (tmp_path / f"{odd}-queue").mkdir()
    (tmp_path / f"{odd}-file").write_bytes(b"theirs")
    given = [word.format(odd=odd, queue=f"{odd}-queue", file=f"{odd}-file") for word in arguments]
    found, line = refused(capsys, *given)
    assert (found, "%1B[31m%0A%FF" in line, line.isprintable()) == (code, True, True)
    assert (tmp_path / f"{odd}-file").read_bytes() == b"theirs"


@pytest.mark.parametrize("option", ["queue", "--state", "--lock", "--profile", "inspect"])
def test_a_loop_of_links_is_one_line(option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the code of what it was given for; `inspect` shows the other files."""
    loop = tmp_path / "loop"
    loop.symlink_to("loop")
    state = ["--state", str(tmp_path / "state")]
    if option == "inspect":
        assert exit_code("inspect", "--json", str(loop), str(SAMPLES / "popon_clean.scc")) == 66
        said = capsys.readouterr()
        assert (len(said.out.splitlines()), len(said.err.splitlines())) == (1, 1)
        return
    for path in (loop, loop / "below"):
        given = [str(path), *state] if option == "queue" else [str(tmp_path), *state, option, str(path)]
        code, line = refused(capsys, "run", *given)
        assert (code, str(path) in line or str(loop) in line) == (
            {"queue": 66, "--profile": 78}.get(option, 73),
            True,
        )


def test_what_is_no_regular_file_hangs_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A FIFO as profile, state folder or lock; a profile without end, or too long to be one."""
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "long.toml").write_bytes(b"#" * 1_000_001)
    here = [str(tmp_path), "--state", str(tmp_path / "state")]
    for option, path, wanted in (
        ("--profile", tmp_path / "fifo", 78),
        ("--profile", Path("/dev/zero"), 78),
        ("--profile", tmp_path / "long.toml", 78),
        ("--state", tmp_path / "fifo", 73),
        ("--lock", tmp_path / "fifo", 73),
        ("--lock", tmp_path / "state" / "ledger.sqlite", 64),
    ):
        code, line = refused(capsys, "run", *here, option, str(path))
        assert (code, str(path) in line) == (wanted, True)


def test_the_plan_fills_in_what_the_options_leave_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Samples settle at once, a queue after 10 s; two queues of one name have two state folders."""
    monkeypatch.chdir(tmp_path)

    def plan(*arguments: str) -> Plan:
        return plan_of(build_parser().parse_args(["run", *arguments]), load("house"), NOW)

    samples, queue, other = plan(), plan("a/in"), plan("b/in")
    assert samples.queue == FolderQueue(SAMPLES)
    assert (samples.settle, queue.settle) == (0, 10)
    assert queue.state.parent == tmp_path / "caption-qc-state"
    assert queue.state != other.state
    assert queue.window == datetime(2026, 1, 1, 0, 5, tzinfo=UTC)


def test_a_queue_that_is_none_is_66(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Missing, or a file; nothing is made."""
    (tmp_path / "file").write_bytes(b"")
    for queue in ("missing", "file", "file/below"):
        code, line = refused(capsys, "run", str(tmp_path / queue), "--state", str(tmp_path / "state"))
        assert (code, queue in line) == (66, True)
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("content", [b"name = ", b"\xff\xfe", b"", b'name = "x"\nfrobnicate = 1\n'])
def test_a_bad_profile_is_78(content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Corrupt or missing: named, and nothing is checked."""
    profile = tmp_path / "house.toml"
    profile.write_bytes(content)
    for name in (str(profile), "no-such-profile"):
        code = main(["run", str(tmp_path), "--profile", name, "--state", str(tmp_path / "state")], Drain())
        said = capsys.readouterr()
        assert (code, said.out) == (78, "")
        (line,) = said.err.splitlines()
        assert name in line
    assert not (tmp_path / "state").exists()


def test_a_state_folder_that_cannot_be_made_is_73(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file stands in the way."""
    (tmp_path / "file").write_bytes(b"")
    for state in ("file", "file/below"):
        code, line = refused(capsys, "run", str(tmp_path), "--state", str(tmp_path / state))
        assert (code, "--state" in line) == (73, True)


@pytest.mark.parametrize(("name", "mode"), [("queue", 0o000), ("queue", 0o444), ("state", 0o555)])
def test_a_folder_without_rights_is_77(name: str, mode: int, tmp_path: Path) -> None:
    """The queue can't be read, or the state can't be written: the way out says which right is missing."""
    here = place(tmp_path)
    here.state.mkdir()
    (tmp_path / name).chmod(mode)

    done = here.run(prefix=WITHOUT_ROOTS_RIGHTS)

    assert (done.returncode, done.stdout) == (77, "")
    (line,) = done.stderr.splitlines()
    assert "Permission denied; give this user the right" in line


def test_a_state_folder_without_rights_is_77_though_its_files_have_them(tmp_path: Path) -> None:
    """SQLite has to make files beside the ledger."""
    here = place(tmp_path)
    assert here.run().returncode == 0
    here.state.chmod(0o555)

    done = here.run(prefix=WITHOUT_ROOTS_RIGHTS)

    assert done.returncode == 77
    assert "Permission denied; give this user the right" in done.stderr


STREAMS = [
    ("run queue --state state --settle 0", "2>&-", 0),
    ("run queue --state state --settle 0", "2>/dev/full", 0),
    ("run --bogus", "2>&-", 64),
    ("run --bogus", "2>/dev/full", 64),
    ("inspect --json caf\N{LATIN SMALL LETTER E WITH ACUTE}.scc", ">/dev/full", 74),
    ("inspect --json caf\N{LATIN SMALL LETTER E WITH ACUTE}.scc", ">&-", 74),
]


@pytest.mark.parametrize(("arguments", "redirection", "code"), STREAMS)
def test_a_stream_that_takes_nothing_changes_no_code(
    arguments: str, redirection: str, code: int, tmp_path: Path
) -> None:
    """Closed or full: no traceback, nothing on the other stream that belongs on this one, the right code."""
    here = place(tmp_path)
    (tmp_path / "caf\N{LATIN SMALL LETTER E WITH ACUTE}.scc").write_bytes(GOOD)
    done = command(prefix=["sh", "-c", f'"$@" {arguments} {redirection}', "sh"], cwd=here.queue.parent)
    assert (done.returncode, done.stdout) == (code, "")
    assert len(done.stderr.splitlines()) == (1 if code == 74 else 0)
    if code == 0:
        assert (here.state / "ledger.sqlite").read_bytes().startswith(b"SQLite format 3")


def test_what_a_terminal_has_no_characters_for_is_escaped(tmp_path: Path) -> None:
    """In the tables and in messages."""
    name = "caf\N{LATIN SMALL LETTER E WITH ACUTE}.scc"
    (tmp_path / name).write_bytes(GOOD)
    done = command("inspect", name, f"no-{name}", cwd=tmp_path, prefix=["env", "PYTHONIOENCODING=ascii"])
    assert done.returncode == 66
    assert done.stdout.startswith("pass  caf\\xe9.scc\n")
    assert done.stderr.startswith("caption_qc: cannot read no-caf\\xe9.scc: ")


def test_a_run_that_is_told_to_end_before_it_begins_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It ends at its first step, and claims nothing of a queue that it has not seen."""
    here = place(tmp_path)
    here.fill(1)
    drain = Drain()
    drain.install()
    signal.raise_signal(signal.SIGTERM)

    assert main(here.arguments(), drain) == 0

    said = capsys.readouterr().err
    assert said.startswith("nothing checked: 0 assets seen so far; drained before the end; ")
    assert here.statuses == {}


@pytest.mark.parametrize(
    ("totals", "said"),
    [
        (Totals(seen=Seen(assets=1), whole_queue=True), "nothing to do: 1 asset seen, none new or changed; "),
        (Totals(seen=Seen(assets=2)), "nothing checked: 2 assets seen so far; "),
        (Totals(seen=Seen(), found=9, checked=2), "checked 2 of 9 found so far: 0 pass, "),
        (Totals(seen=Seen(), found=9, checked=2, whole_queue=True), "checked 2 of 9: 0 pass, "),
    ],
)
def test_a_summary_says_how_far_it_speaks_for_the_queue(totals: Totals, said: str) -> None:
    """A scan that was cut short has not seen the whole."""
    plan = plan_of(build_parser().parse_args(["run", "queue"]), load("house"), NOW)
    ended = Ended(totals=totals, code=Exit.OK, drained=not totals.whole_queue, at=NOW, seconds=1.0)
    assert summary_of(plan, ended).startswith(said)


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("can't start new thread")])
def test_a_limit_of_the_process_is_one_line_and_74(error: Exception) -> None:
    """The system's refusal, not a fault of ours; another RuntimeError is one."""
    refusal = refusal_of(error)
    assert refusal is not None
    assert (refusal.code, "; raise the limits" in str(refusal)) == (Exit.IO_ERROR, True)
    assert refusal_of(RuntimeError("another")) is None


def test_a_table_has_a_name_and_a_reason_each_in_its_place() -> None:
    """Whatever stands in the name."""
    asset = Asset(b"a: b.scc", Stat(size=1, mtime_ns=1, ctime_ns=1, inode=1))
    report = check(b"", load("house"))
    table = worst_table([Checked(asset=asset, content_sha256="", report=report, seconds=0.0)])
    _, name, why = (str(next(iter(column.cells))) for column in table.columns)
    assert name == "a: b.scc"
    assert why.startswith("error FMT_")


def test_a_terminal_gets_a_bar_and_tables(tmp_path: Path) -> None:
    """On a terminal: progress, what to look at first, the counts; then that there is nothing to do."""
    first, second = terminal(tmp_path), terminal(tmp_path)

    assert "what to look at first" in first
    assert "FMT_HEADER" in first
    assert "checked" in first
    assert "nothing to do" in second
    assert "Traceback" not in first + second


def test_a_terminal_that_is_closed_ends_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written to it is lost; the run goes on to its end."""
    ours, theirs = pty.openpty()
    plan = plan_of(build_parser().parse_args(["run", "queue"]), load("house"), NOW)
    totals = Totals(seen=Seen(), found=2, checked=1)
    with os.fdopen(theirs, "w", buffering=1) as closed:
        os.close(ours)
        monkeypatch.setattr("sys.stderr", closed)
        screen = TerminalScreen()
        with contextlib.closing(screen):
            screen.warn("lost")
            screen.redraw(totals)
            screen.finish(plan, Ended(totals=totals, code=Exit.OK, drained=False, at=NOW, seconds=1.0))
        assert delivered(closed) is not None


def terminal(folder: Path) -> str:
    """Run the command on a terminal of its own and return what it showed, without the styles."""
    ours, theirs = pty.openpty()
    environment = {**ENVIRONMENT, "TERM": "xterm", "COLUMNS": "100", "NO_COLOR": "1"}
    with subprocess.Popen(
        COMMAND, stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder, env=environment
    ) as run:
        os.close(theirs)
        shown = b""
        with (
            os.fdopen(ours, "rb", buffering=0) as screen,
            contextlib.suppress(OSError),
        ):  # EIO: it has closed.
            while piece := screen.read(4096):
                shown += piece
    assert run.returncode == 0
    return shown.decode()
