"""`inspect`: what it is asked, what it answers as JSON, and with which code it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import fields
from itertools import chain
from typing import TYPE_CHECKING, Any

import pytest
from caption_encoder import EDM, ENM, EOC, RCL, line, preamble, scc, text, twice
from caption_inspect import inspect, objects, printed, without_libraries
from caption_reports import CASES, CORPUS, ROOT
from caption_runs import COMMAND, ENVIRONMENT, GOOD, SAMPLES, WITHOUT_ROOTS_RIGHTS, command

from examples.recipes.caption_qc.check import Figures, Finding

if TYPE_CHECKING:
    from pathlib import Path

PASS = CASES / "01_popon_show_time_is_eoc.scc"
WARN = CASES / "13_last_cue_never_cleared.scc"
FAIL = CASES / "22_parity_error.scc"


def captions(*at: str) -> bytes:
    """Write captions of two seconds, one at each time code; the one at 00:00:10:00 says `AT 00001000`."""
    lines: list[str] = []
    for timecode in at:
        minute, second = timecode[:5], int(timecode[6:8])
        says = f"AT {timecode.replace(':', '')}"
        lines += [
            line(timecode, twice(RCL, ENM), preamble(15), text(says), twice(EOC)),
            line(f"{minute}:{second + 3:02}:00", twice(EDM)),
        ]
    return scc(*lines)


# What it answers


def test_json_is_one_object_a_file_with_what_is_promised() -> None:
    """Cues with channel, mode, frames, seconds and rows; findings and figures with all their fields."""
    good, bad = objects(PASS, FAIL)

    assert (good["file"], good["status"], bad["status"]) == (str(PASS), "pass", "fail")
    assert good["cues"] == [
        {
            "number": 1,
            "channel": "CC1",
            "mode": "pop-on",
            "load_frame": 306,
            "start_frame": 312,
            "end_frame": 420,
            "start": 312 * 1001 / 30000,
            "end": 420 * 1001 / 30000,
            "rows": [{"row": 15, "column": 1, "text": "SHOW AT EOC"}],
        }
    ]
    (finding,) = bad["findings"]
    assert set(finding) == {field.name for field in fields(Finding)}
    assert set(good["figures"]) == {field.name for field in fields(Figures)}
    assert (finding["rule"], finding["line"], finding["word"], finding["frame"]) == ("608_PARITY", 3, 6, 36)


def test_json_of_an_open_cue_has_no_end() -> None:
    """It is null, never invented."""
    (found,) = objects(WARN)
    assert (found["cues"][0]["end_frame"], found["cues"][0]["end"]) == (None, None)


def test_json_is_ascii_whatever_the_text() -> None:
    """A music note, in a pipe of any encoding."""
    said = inspect("--json", CASES / "42_special_character.scc")
    assert said.out.isascii()
    assert json.loads(said.out)["cues"][0]["rows"][0]["text"] == "♪ A"


def test_many_files_are_answered_in_their_order() -> None:
    """One line a file, and one file twice is answered twice."""
    files = [FAIL, PASS, WARN, PASS]
    assert [found["file"] for found in objects(*files)] == list(map(str, files))


def test_a_profile_of_ones_own_is_what_is_judged_by(tmp_path: Path) -> None:
    """It is named in the answer, with the digest of its bytes."""
    profile = tmp_path / "mine.toml"
    profile.write_text('name = "mine"\n[rules.608_PARITY]\nseverity = "info"\n')
    (found,) = objects("--profile", profile, FAIL)
    assert (found["status"], found["profile"], len(found["profile_sha256"])) == ("pass", "mine", 64)


def test_json_needs_none_of_the_libraries_of_the_rest() -> None:
    """No tables, no other formats, no records, no batching: it answers where none of them is installed."""
    program = without_libraries("rich", "pysubs2", "pyarrow", "async_batcher", "anyio")
    done = subprocess.run(
        [sys.executable, "-c", program, "inspect", "--json", str(PASS)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["status"] == "pass"


# How it ends


@pytest.mark.parametrize(
    ("fail_on", "codes"),
    [
        ((), {PASS: 0, WARN: 0, FAIL: 0}),
        (("--fail-on", "error"), {PASS: 0, WARN: 0, FAIL: 65}),
        (("--fail-on", "warn"), {PASS: 0, WARN: 65, FAIL: 65}),
    ],
)
@pytest.mark.parametrize("form", [(), ("--json",), ("--grid",)])
def test_findings_change_the_code_where_it_is_asked_for(
    fail_on: tuple[str, ...], codes: dict[Path, int], form: tuple[str, ...]
) -> None:
    """0 whatever is found; with `--fail-on` 65 for a finding that is as bad, or worse."""
    assert {file: inspect(*form, *fail_on, file).code for file in codes} == codes
    said = inspect(*form, *fail_on, *codes)
    assert (said.code, said.errors) == (max(codes.values()), [])


def test_a_file_that_cannot_be_read_weighs_more_than_a_finding(tmp_path: Path) -> None:
    """66, wherever it stands among the others, which are shown."""
    for files in ([tmp_path / "missing", FAIL], [FAIL, tmp_path / "missing"]):
        code, out, errors = inspect("--json", "--fail-on", "warn", *files)
        assert (code, len(out.splitlines()), len(errors)) == (66, 1, 1)


def test_a_file_that_cannot_be_read_weighs_more_than_a_sidecar(tmp_path: Path) -> None:
    """And a sidecar that can't be used more than a finding."""
    (tmp_path / "reel.scc").write_bytes(GOOD)
    (tmp_path / "reel.toml").write_bytes(b"")
    files = [FAIL, tmp_path / "reel.scc", tmp_path / "missing"]
    assert inspect("--fail-on", "error", *files).code == 66
    assert inspect("--fail-on", "error", *files[:2]).code == 78
    assert inspect("--fail-on", "error", *files[:1]).code == 65


def test_a_file_without_rights_is_66(tmp_path: Path) -> None:
    """One line that says why, and the way out."""
    (tmp_path / "closed.scc").write_bytes(GOOD)
    (tmp_path / "closed.scc").chmod(0)
    done = command("inspect", "closed.scc", cwd=tmp_path, prefix=WITHOUT_ROOTS_RIGHTS)
    assert (done.returncode, done.stdout) == (66, "")
    assert (
        done.stderr
        == "caption_qc: cannot read closed.scc: Permission denied; give the path of a caption file\n"
    )


def test_a_file_over_the_limit_is_not_read_and_fails(tmp_path: Path) -> None:
    """It is a finding, in each form."""
    profile = tmp_path / "small.toml"
    profile.write_text('name = "small"\nmax_bytes = 20\n')
    for form in ((), ("--json",), ("--grid",)):
        said = inspect(*form, "--fail-on", "error", "--profile", profile, PASS)
        assert (said.code, "FMT_TOO_LARGE" in said.out) == (65, True)


# Which cues


@pytest.mark.parametrize(
    ("chosen", "numbers"),
    [("1", [1]), ("7,1-2", [1, 2, 7]), ("2-2,2", [2]), ("6-999", [6, 7]), ("999", [])],
)
def test_cues_are_chosen_by_number(chosen: str, numbers: list[int]) -> None:
    """In the order of the file; figures stay those of the whole file."""
    (found,) = objects("--cues", chosen, SAMPLES / "popon_clean.scc")
    assert [cue["number"] for cue in found["cues"]] == numbers
    assert found["figures"]["cues"] == 7


def test_findings_are_those_of_the_chosen_cues(tmp_path: Path) -> None:
    """And of the lines in which these appear; status and figures stay the file's, and how many are left out is said."""
    file = tmp_path / "reel.scc"
    load = [*twice(RCL, ENM), *preamble(15), *text("AN EXAMPLE"), *twice(EOC)]
    lines = [
        (line(f"00:00:0{n}:00", load, ["zz"] * (n == 3)), line(f"00:00:0{n}:26", twice(EDM))) for n in (1, 3)
    ]
    file.write_bytes(scc("no line", *chain.from_iterable(lines)))
    (whole,), (second,), (nothing,) = (
        objects(*form, file) for form in ((), ("--cues", "2"), ("--cues", "9"))
    )

    assert [(found["rule"], found["cue"]) for found in second["findings"]] == [
        ("CUE_SHORT", 2),
        ("RATE_WPM", 2),
        ("HEX_BAD_WORD", None),
    ]
    assert second["findings_left_out"] == len(whole["findings"]) - 3 > 0
    assert (whole["findings_left_out"], nothing["findings"]) == (0, [])
    assert {found["status"] for found in (whole, second, nothing)} == {"fail"}
    page = printed("--cues", "2", file)
    assert (
        f"note  findings of these cues and of the lines in which they appear: 3 of {len(whole['findings'])} listed"
        in page
    )
    assert "FMT_BAD_LINE" not in page
    assert "listed" not in printed(file)


def test_chosen_cues_do_not_hide_that_findings_are_not_listed(tmp_path: Path) -> None:
    """A cue may have one that is among those, so the finding that counts them is shown with every choice."""
    file = tmp_path / "reel.scc"
    file.write_bytes(scc(line("00:00:01:00", ["zz"] * 101)))
    (found,) = objects("--cues", "1", file)
    assert [finding["measured"] for finding in found["findings"]] == [101]


@pytest.mark.parametrize("form", [(), ("--grid",)])
def test_no_chosen_cue_is_said(form: tuple[str, ...]) -> None:
    """With the number of the last one there is."""
    said = inspect(*form, "--cues", "999", SAMPLES / "popon_clean.scc")
    assert (said.code, "none of these cues: the last one is 7" in said.out) == (0, True)


# The programme


def test_cues_outside_the_programme_are_found(tmp_path: Path) -> None:
    """By the option, or by the sidecar of the file's name; the option wins."""
    file = tmp_path / "reel.scc"
    file.write_bytes(captions("00:00:10:00", "00:00:20:00"))
    assert outside(objects(file)) == []
    assert outside(objects("--programme", "00:00:15:00-00:01:00:00", file)) == ["PROG_EARLY"]
    (tmp_path / "reel.toml").write_text('programme = "00:00:00:00-00:00:15:00"\n')
    assert outside(objects(file)) == ["PROG_LATE"]
    assert outside(objects("--programme", "00:00:00:00-00:01:00:00", file)) == []


def test_a_sidecar_lies_beside_the_name_that_was_given(tmp_path: Path) -> None:
    """Not beside the file that a link leads to, and not beside another file."""
    (tmp_path / "away").mkdir()
    (tmp_path / "away" / "reel.scc").write_bytes(captions("00:00:10:00"))
    (tmp_path / "link.scc").symlink_to("away/reel.scc")
    (tmp_path / "away" / "reel.toml").write_text('programme = "00:00:20:00-00:00:30:00"\n')
    assert outside(objects(tmp_path / "link.scc")) == []
    assert outside(objects(tmp_path / "away" / "reel.scc")) == ["PROG_EARLY"]


@pytest.mark.parametrize("length", [250, 251, 255])
def test_a_name_that_can_have_no_sidecar_beside_it_has_none(tmp_path: Path, length: int) -> None:
    """NAME.toml may be longer than any name can be: then there is nothing to read, and nothing wrong."""
    file = tmp_path / ("x" * (length - 4) + ".scc")
    file.write_bytes(GOOD)
    assert inspect("--json", file).code == 0


def test_a_caption_file_is_not_its_own_sidecar(tmp_path: Path) -> None:
    """Whatever its name ends in."""
    file = tmp_path / "reel.toml"
    file.write_bytes(GOOD)
    assert inspect("--json", file).code == 0


def test_a_reader_that_has_gone_ends_it_as_the_shell_expects() -> None:
    """By SIGPIPE, which a shell shows as 141, and without a word."""
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as gone:
        run = subprocess.run(
            [*COMMAND, "inspect", "--json", PASS],
            cwd=ROOT,
            env=ENVIRONMENT,
            stdout=gone,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert (run.returncode, run.stderr) == (-signal.SIGPIPE, b"")


def outside(answers: list[dict[str, Any]]) -> list[str]:
    return [
        finding["rule"] for found in answers for finding in found["findings"] if "PROG_" in finding["rule"]
    ]


@pytest.mark.parametrize(
    "content", [b"", b"programme = 3\n", b"\xff", b'programme = "1-2"\n', b"frobnicate = 1\n"]
)
def test_a_sidecar_that_says_nothing_right_is_78(tmp_path: Path, content: bytes) -> None:
    """The file is not judged without what its owner said of it; the others are shown."""
    (tmp_path / "reel.scc").write_bytes(GOOD)
    (tmp_path / "reel.toml").write_bytes(content)
    code, out, (error,) = inspect("--json", tmp_path / "reel.scc", PASS)
    assert (code, len(out.splitlines()), str(tmp_path / "reel.toml") in error) == (78, 1, True)
    assert inspect("--programme", "00:00:00:00-00:01:00:00", tmp_path / "reel.scc").code == 0


def test_a_sidecar_that_is_no_file_hangs_nothing(tmp_path: Path) -> None:
    """A FIFO, a folder, a loop of links: 78, and what to do."""
    os.mkfifo(tmp_path / "0.toml")
    (tmp_path / "1.toml").mkdir()
    (tmp_path / "2.toml").symlink_to("2.toml")
    for number in range(3):
        (tmp_path / f"{number}.scc").write_bytes(GOOD)
        code, _, (error,) = inspect(tmp_path / f"{number}.scc")
        assert (code, "mend it, move it away, or give --programme" in error) == (78, True)


# The reference


def test_drift_against_a_reference_is_told(tmp_path: Path) -> None:
    """An SCC file against itself has none; without a reference the answer says that it can't be seen."""
    file = tmp_path / "reel.scc"
    file.write_bytes(captions("00:00:10:00", "00:00:20:00", "00:10:20:00"))
    (found,) = objects(file)
    assert found["drift"] is None
    assert any("reference" in note for note in found["notes"])
    (found,) = objects("--reference", file, file)
    assert (found["drift"]["matched"], found["drift"]["spread_ms"]) == (3, 0)


@pytest.mark.parametrize("kind", ["srt", "vtt"])
def test_a_track_of_other_formats_is_a_reference(tmp_path: Path, kind: str) -> None:
    """SubRip and WebVTT, told apart by what is in them and not by their names."""
    file = tmp_path / "reel.scc"
    file.write_bytes(captions("00:00:10:00", "00:10:10:00"))
    point, head = ("," if kind == "srt" else "."), ("" if kind == "srt" else "WEBVTT\n\n")
    track = tmp_path / "track.txt"
    track.write_text(
        f"{head}1\n00:00:09{point}500 --> 00:00:12{point}000\nAT 00001000\n\n"
        f"2\n00:10:09{point}000 --> 00:10:12{point}000\nAT 00101000\n"
    )
    (found,) = objects("--reference", track, file)
    first, last = (cue["start"] * 1000 for cue in found["cues"])
    assert found["drift"]["first_ms"] == pytest.approx(first - 9500)
    assert found["drift"]["last_ms"] == pytest.approx(last - 609000)


@pytest.mark.parametrize("content", [None, b"", b"no captions\n", b"\xff\xfe\xff", b"WEBVTT\n"])
def test_a_reference_that_is_none_is_66(tmp_path: Path, content: bytes | None) -> None:
    """Missing, empty or no captions: nothing is shown, since nothing of it could be believed."""
    track = tmp_path / "track"
    if content is not None:
        track.write_bytes(content)
    code, out, (error,) = inspect("--reference", track, PASS)
    assert (code, out, str(track) in error, "; give " in error) == (66, "", True, True)


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus is not here")
def test_files_from_the_field_are_inspected() -> None:
    """Each is answered in every form, and cues are as many as the figures say, channel by channel."""
    files = sorted(CORPUS.glob("*.scc"))[:12]
    answers = objects(*files)
    assert [found["file"] for found in answers] == list(map(str, files))
    for found in answers:
        assert found["figures"]["cues"] == sum(cue["channel"] == "CC1" for cue in found["cues"])


def test_inspect_goes_on_after_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    """Missing, a folder, a FIFO: a line each and 66; the others are shown; a file too large is not read."""
    os.mkfifo(tmp_path / "fifo")
    with (tmp_path / "large.scc").open("wb") as large:
        large.truncate(1 << 40)
    files = [tmp_path / "missing", tmp_path, tmp_path / "fifo", tmp_path / "large.scc"]

    code, out, errors = inspect("--json", *files)

    assert code == 66
    assert [json.loads(line)["findings"][0]["rule"] for line in out.splitlines()] == ["FMT_TOO_LARGE"]
    assert [f"cannot read {file}: " in line for file, line in zip(files, errors, strict=False)] == [True] * 3
