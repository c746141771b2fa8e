"""The tables of `inspect`: they fit where they are shown, and text in them is data."""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import termios
from itertools import chain
from typing import TYPE_CHECKING

import pytest
from caption_encoder import CHANNEL_2, CR, EDM, ENM, EOC, RCL, RDC, RU2, line, preamble, scc, text, twice
from caption_inspect import inspect, objects, printed
from caption_reports import CASES
from caption_runs import COMMAND, ENVIRONMENT, GOOD, SAMPLES, command

from examples.recipes.caption_qc.check import Row
from examples.recipes.caption_qc.check.timecode import Timecode
from examples.recipes.caption_qc.grid import print_grids
from examples.recipes.caption_qc.headline import duration
from examples.recipes.caption_qc.labels import label
from examples.recipes.caption_qc.layout import Page

if TYPE_CHECKING:
    from pathlib import Path

FAULTY = SAMPLES / "faulty" / "popon_load_overlap.scc"
CLEAN = SAMPLES / "popon_clean.scc"
SGR = re.compile(r"\x1b\[[0-9;]*m")


def on_terminal(width: int, *arguments: str | Path, **environment: str) -> str:
    """Run `inspect` on a terminal so wide, and return what it wrote, styles and all."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, width, 0, 0))
    given = {name: value for name, value in ENVIRONMENT.items() if name not in {"COLUMNS", "NO_COLOR"}}
    with subprocess.Popen(
        [*COMMAND, "inspect", *map(str, arguments)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=given | {"TERM": "xterm-256color"} | environment,
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
    return shown.decode().replace("\r\n", "\n")


# What there is


def test_the_headline_says_status_name_and_figures() -> None:
    """A line of figures each, the name behind the status as in a run's log."""
    first, *facts = printed(CLEAN).splitlines()
    assert first == f"pass  {CLEAN}"
    assert [fact.split(maxsplit=1)[0] for fact in facts[:4]] == ["found", "time", "cues", "reading"]
    assert facts[0].split(maxsplit=1)[1] == "nothing  profile house"
    assert facts[1].split(maxsplit=1)[1] == "non-drop  00:00:00:24 to 00:00:32:29  32.27 s"
    assert facts[2].split(maxsplit=1)[1] == "7 on CC1  pop-on  max 2 rows  max 29 columns"
    assert facts[3].split(maxsplit=1)[1].startswith("max 13.4 cps  p95 13.4 cps  ")


def test_a_finding_is_a_row_with_its_place() -> None:
    """Severity, rule, line, word, time code and message, under their names."""
    lines = printed(CASES / "22_parity_error.scc").splitlines()
    head = next(number for number, line in enumerate(lines) if line.startswith("severity"))
    assert lines[head].split() == ["severity", "rule", "line", "word", "timecode", "message"]
    assert lines[head + 1].split()[:5] == ["error", "608_PARITY", "3", "6", "00:00:01:00"]


def test_a_cue_is_a_row_and_each_row_of_text_a_line() -> None:
    """In and out as labels of the file's own time base, and how fast it reads."""
    lines = printed(CLEAN).splitlines()
    (head,) = (number for number, line in enumerate(lines) if line.startswith("cue"))
    assert lines[head].split() == ["cue", "on", "mode", "in", "out", "secs", "cps", "text"]
    first = lines[head + 1]
    assert first.split(maxsplit=7) == [
        *("1", "CC1", "pop-on", "00:00:02:00", "00:00:05:15", "3.50", "13.4", "Good evening, and welcome")
    ]
    assert lines[head + 2] == " " * first.index("Good") + "to the harbour museum."


def test_a_cue_without_an_end_is_open() -> None:
    """And has no duration and no rate."""
    page = printed(CASES / "13_last_cue_never_cleared.scc")
    (row,) = (line for line in page.splitlines() if line.endswith("NO CLEAR"))
    assert row.split() == ["1", "CC1", "pop-on", "00:00:01:10", "open", "NO", "CLEAR"]


def test_cues_of_a_drop_frame_file_have_its_labels() -> None:
    """With the semicolon, and the labels that it leaves out left out."""
    page = printed(CASES / "03_dropped_frame_label.scc")
    (row,) = (line for line in page.splitlines() if line.endswith("BAD LABEL"))
    assert row.split()[3:6] == ["00:01:00;11", "00:01:03;00", "2.64"]


@pytest.mark.parametrize("drop", [False, True])
def test_a_frame_has_the_label_that_counts_it(drop: bool) -> None:
    """A label that exists, and that is the frame's number; at every minute of a day, and on the next day again."""
    a_day = 2_589_408 if drop else 2_592_000
    for frame in (
        Timecode(0, minute, 0, 2, drop).number + near for minute in range(1, 1440) for near in range(-4, 3)
    ):
        hour, minute, second, count = map(int, re.split("[:;]", label(frame, drop=drop)))
        read = Timecode(hour, minute, second, count, drop)
        assert (read.number, read.exists, read.in_range) == (frame, True, True)
        assert label(frame + a_day, drop=drop) == str(read)


def test_many_findings_are_counted_by_rule(tmp_path: Path) -> None:
    """The worst first, then what is said of the whole file, then the most frequent; also what is not listed counts."""
    file = tmp_path / "reel.scc"
    lines = [line(f"00:{number // 60:02}:{number % 60:02}:00", ["94x", "94y"]) for number in range(75)]
    file.write_bytes(
        scc(*lines).replace(b"00:00:01:00\t", b"00:00:01:00 ").replace(b"00:00:02:00\t", b"00:00:02:00 ")
    )
    page = printed(file)
    assert re.search(r"^ +found +151 errors  3 warnings  profile house$", page, re.MULTILINE)
    assert re.search(
        r"^ +rules +error FMT_NO_CAPTIONS x1  error HEX_BAD_WORD x150  warn TC_FRAME_RATE x1  warn FMT_NO_TAB x2$",
        page,
        re.MULTILINE,
    )
    assert page.count("HEX_BAD_WORD") == 1 + 100 + 2
    assert not re.search(r"^ +(rules|file) ", printed(FAULTY), re.MULTILINE)


def test_what_is_found_in_the_whole_file_is_listed_first(tmp_path: Path) -> None:
    """The worst before all; what has a place stays in the order of the file, and what counts the rest stands last."""
    file = tmp_path / "reel.scc"
    file.write_bytes(b"Scenarist_SCC V1.0 \n\n" + b"bad\n" * 200 + b"00:59:00:00\t1420 142e 142e\n" * 60)
    profile = tmp_path / "mild.toml"
    profile.write_text('name = "mild"\n[rules.608_PARITY]\nseverity = "info"\n')
    page = printed("--profile", profile, file)
    rows = [line.split() for line in page.partition("severity")[2].splitlines()[1:]]
    rules = [row[1] for row in rows if row and row[0] in {"error", "warn", "info"}]
    (found,) = objects(file)
    placed = [finding["rule"] for finding in found["findings"] if finding["line"] is not None]
    assert rules == ["FMT_NO_CAPTIONS", "TC_FRAME_RATE", "608_PARITY", *placed, "FMT_BAD_LINE"]


def test_what_is_found_in_the_whole_file_is_said_where_only_cues_are_shown(tmp_path: Path) -> None:
    """In the headline, the worst first: it is about none of them. Else it stands in the list, and not twice."""
    file = tmp_path / "reel.scc"
    file.write_bytes(b"x\n\n" + b"bad\n" * 200)
    headline, _, rest = printed("--cues", "1", file).partition("\n\n")
    said = [line.split(maxsplit=3)[1:] for line in headline.splitlines() if line.startswith("      file")]
    assert said == [
        ["error", "FMT_HEADER", "the first line is 'x'; it must be exactly 'Scenarist_SCC V1.0'"],
        ["error", "FMT_NO_CAPTIONS", "no caption is ever shown, in any channel; caption lines read: 0"],
    ]
    assert "FMT_NO_CAPTIONS" not in rest
    headline, _, rest = printed(file).partition("\n\n")
    assert "      file" not in headline
    assert rest.count("FMT_NO_CAPTIONS") == 1


def test_a_finding_of_a_cue_says_when_it_shows_and_how_it_begins(tmp_path: Path) -> None:
    """Which is what its author knows it by: a time code is that of the line, and a load may be long before."""
    file = tmp_path / "reel.scc"
    load = [
        twice(RCL, ENM),
        preamble(14),
        text("ONE AND"),
        preamble(15),
        text("ANOTHER ONE, AND MORE"),
        twice(EOC),
    ]
    file.write_bytes(scc(line("00:00:01:00", *load), line("00:00:01:29", twice(EDM))))
    (row,) = (line for line in printed(file).splitlines() if "CUE_SHORT" in line)
    *place, appears = row.split()[3:8]
    assert (place, appears) == (["1", "3", "23", "00:00:01:00"], "00:00:01:23")
    assert row.endswith('  "ONE AND ANOTHER ONE,..."')
    narrow = printed(file, COLUMNS="60")
    assert re.search(rf"CUE_SHORT .* cue 1  00:00:01:00\n? +in {appears}\n", narrow)


@pytest.mark.parametrize(
    ("frames", "written"),
    [(0, "0.00 s"), (1798, "59.99 s"), (1799, "0:01:00.03"), (8991, "0:05:00.00"), (215784, "1:59:59.99")],
)
def test_a_duration_is_rounded_before_it_is_parted(frames: int, written: str) -> None:
    """Never 60 seconds beside a minute."""
    assert duration(frames) == written


def test_of_a_file_that_was_not_read_nothing_is_claimed(tmp_path: Path) -> None:
    """Neither that it shows nothing, nor what."""
    profile = tmp_path / "small.toml"
    profile.write_text('name = "small"\nmax_bytes = 20\n')
    for form in ((), ("--grid",)):
        page = printed(*form, "--profile", profile, CLEAN)
        assert page.endswith("\nnot read: what it shows is not known\n\n")
        assert "nothing is ever shown" not in page


def test_cues_of_other_channels_are_counted_apart(tmp_path: Path) -> None:
    """The profile judges one channel; modes and figures are that one's."""
    file = tmp_path / "channels.scc"
    second = [code | CHANNEL_2 for code in (RU2, CR)]
    loads = [
        line("00:00:01:00", twice(RCL, ENM), preamble(15), text("ONE!"), twice(EOC)),
        line("00:00:03:00", twice(*second), text("TWO, OF CHANNEL 2")),
        line("00:01:06:00", twice(EDM, EDM | CHANNEL_2)),
    ]
    file.write_bytes(scc(*loads))
    facts = [re.split(r"  +", line.strip()) for line in printed(file).splitlines()[1:5]]
    assert facts[1] == ["time", "non-drop", "00:00:01:00 to 00:01:06:00", "0:01:05.20"]
    assert facts[2] == ["cues", "1 on CC1", "pop-on", "max 1 row", "max 4 columns", "1 on CC2"]


def test_what_goes_on_in_the_next_line_goes_on_below_its_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name, facts, a message and a cue on 40 columns, to the letter."""
    monkeypatch.chdir(tmp_path)
    name = "a_reel_with_a_name_of_many_characters.scc"
    (tmp_path / name).write_bytes((CASES / "20_load_overlaps_next_line.scc").read_bytes())
    page = printed("--cues", "1", name, COLUMNS="40")
    assert page.partition("\nnote")[0] == NARROW
    assert page.endswith(
        """
  1  CC1  pop-on
     00:00:01:21 - 00:00:01:20  -0.03 s
       THIS LINE NEEDS MANY FRAMES OK

"""
    )


NARROW = """\
fail  a_reel_with_a_name_of_many_charact
      ers.scc
      found   2 errors  profile house
      time    non-drop
              00:00:01:00 to 00:00:05:00
              4.07 s
      cues    2 on CC1  pop-on
              max 1 row  max 30 columns
      reading max 2.4 cps  p95 2.4 cps
              busiest second 2
              36 wpm overall

error CUE_ZERO_OR_NEGATIVE  line 3
      word 21  cue 1  00:00:01:00
      in 00:00:01:21
      cue 1 ends before it starts, by
      frames: 1  "THIS LINE NEEDS
      MANY..."
"""


def test_many_files_are_summed_up(tmp_path: Path) -> None:
    """In a last line; a file that was not read is counted too."""
    said = inspect(CLEAN, FAULTY, CLEAN, tmp_path / "missing")
    assert (said.code, said.out.splitlines()[-1]) == (66, "4 files:  2 pass  1 fail  1 not shown")
    assert "files:" not in printed(CLEAN)
    nothing, something = CASES / "28_header_only.scc", CASES / "01_popon_show_time_is_eoc.scc"
    page = printed(nothing, something, nothing)
    assert page.count("\n\npass  ") == page.count("\n\nfail  ") == 1
    assert page.endswith("\n\n3 files:  1 pass  2 fail\n")


# Where it is shown


@pytest.mark.parametrize("width", [20, 33, 40, 57, 72, 79, 80, 81, 100, 132])
@pytest.mark.parametrize("form", [(), ("--grid",)])
def test_no_line_is_wider_than_the_terminal(width: int, form: tuple[str, ...]) -> None:
    """Of 32 columns or more: what captions take at least, with a frame 36."""
    page = printed(*form, FAULTY, COLUMNS=str(width))
    widest = max(map(len, page.splitlines()))
    assert widest <= max(width, 36 if form else 32)
    assert all(line == line.rstrip() for line in page.splitlines())
    assert all(word in page for word in ("TC_LOAD_OVERLAP", "missing", "So this one comes"))


def test_a_table_gives_way_where_it_does_not_fit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the same is said in a few lines each: nothing is squeezed, nothing is left out."""
    (tmp_path / "reel.scc").write_bytes(FAULTY.read_bytes())
    monkeypatch.chdir(tmp_path)
    wide, narrow = (printed("reel.scc", COLUMNS=width) for width in ("150", "60"))
    assert "severity  rule" in wide
    assert "severity" not in narrow
    titles = {"severity", "rule", "channel", "timecode", "message", "on", "mode", "in", "out", "secs", "text"}
    assert words(narrow) | titles >= words(wide)


def test_columns_come_closer_before_a_table_gives_way() -> None:
    """Two columns apart, then one; then without what is the same in every row."""
    apart = "cue  on   mode    in           out          secs   cps  text"
    close = "cue on  mode   in          out         secs  cps text"
    spared = "cue  in           out          secs   cps  text"
    widths = {85: apart, 84: close, 78: close, 77: spared, 72: spared, 66: "no table"}
    assert {width: head_of_cues(printed(CLEAN, COLUMNS=str(width))) for width in widths} == widths


def head_of_cues(page: str) -> str:
    return next((line for line in page.splitlines() if line.startswith("cue")), "no table")


def words(page: str) -> set[str]:
    return set(re.findall(r"[\w.:;>]+", page))


def test_in_a_pipe_a_finding_and_a_row_of_text_are_one_line() -> None:
    """However long: what looks for words in it finds whole sentences."""
    (found,) = (line for line in printed(FAULTY).splitlines() if "TC_LOAD_OVERLAP" in line)
    assert found.endswith("line 3 has 43 words but only 24 frames until 00:00:02:24: 19 are missing")
    assert all(line == line.rstrip() for line in printed(FAULTY, CLEAN).splitlines())


def test_a_terminal_has_colours_and_a_pipe_has_none() -> None:
    """NO_COLOR takes them away; what is bold stays."""
    page = on_terminal(100, FAULTY)
    assert "\x1b[1;31mfail" in page
    assert "\x1b" not in printed(FAULTY)
    plain = on_terminal(100, FAULTY, NO_COLOR="1")
    assert {code for code in SGR.findall(plain) if code != "\x1b[0m"} <= {"\x1b[1m", "\x1b[2m"}
    assert SGR.sub("", plain) == SGR.sub("", page)


def test_what_would_act_on_a_terminal_is_escaped(tmp_path: Path) -> None:
    """Escapes, line ends, marks that turn the direction of writing, and bytes that are no text: in names."""
    name = os.fsdecode(b"[red]\x1b[31m\n\xff") + "\N{RIGHT-TO-LEFT OVERRIDE}\N{ZERO WIDTH SPACE}.scc"
    (tmp_path / name).write_bytes(GOOD)
    for form in ([], ["--grid"]):
        first, *rest = printed(*form, tmp_path / name).splitlines()
        assert first == f"pass  {tmp_path}/[red]%1B[31m%0A%FF%E2%80%AE%E2%80%8B.scc"
        assert all(line.isprintable() for line in rest)


def test_a_cue_has_the_colour_of_the_worst_that_is_found_in_it(tmp_path: Path) -> None:
    """Too wide and too short a time is red, the short time alone yellow, and nothing is white."""
    file = tmp_path / "reel.scc"
    loads = {"00:00:01:00": "A" * 36, "00:00:03:00": "SHORT", "00:00:05:00": "LONG ENOUGH"}
    ends = ["00:00:02:00", "00:00:03:20", "00:00:08:00"]
    lines = [
        (line(at, twice(RCL, ENM), preamble(15), text(says), twice(EOC)), line(end, twice(EDM)))
        for (at, says), end in zip(loads.items(), ends, strict=True)
    ]
    file.write_bytes(scc(*chain.from_iterable(lines)))
    page = on_terminal(120, file)
    assert re.findall(r"^\x1b\[([0-9;]+)m +(\d)  ", page, re.MULTILINE) == [
        ("1;31", "1"),
        ("1;33", "2"),
        ("1", "3"),
    ]


def test_no_text_acts_on_a_terminal_wherever_it_comes_from() -> None:
    """Whatever a message or a row might hold, in a line, in a wrapped one, and in a grid."""
    odd = "\x1b[2J\n\N{RIGHT-TO-LEFT OVERRIDE}"
    written = io.StringIO()
    with contextlib.redirect_stdout(written):
        Page().line((odd, "bold"))
        Page().hanging(((odd, ""),), (odd * 40, ""))
        print_grids(Page(), [((odd,), [Row(row=1, column=1, text=odd)])])
    assert all(line.isprintable() for line in written.getvalue().split("\n"))


@pytest.mark.parametrize("form", [(), ("--grid",)])
def test_a_reader_that_has_gone_is_no_error(form: tuple[str, ...]) -> None:
    """`inspect | head` says nothing of it, in tables as in JSON."""
    many = " ".join(["inspect", *form, *[str(CLEAN)] * 40])
    done = command(prefix=["sh", "-c", f'"$@" {many} | head -c 4', "sh"])
    assert (done.stdout, done.stderr) == ("pass", "")


def test_a_full_disk_is_one_line_and_74(tmp_path: Path) -> None:
    """Tables that could not be written whole are no success."""
    done = command(prefix=["sh", "-c", f'"$@" inspect {CLEAN} >/dev/full', "sh"])
    assert (done.returncode, len(done.stderr.splitlines())) == (74, 1)


# The grid


def pictures(page: str) -> list[list[str]]:
    """Read grids that stand under each other: the 15 rows of each."""
    rows = [match[1] for match in re.finditer(r"^ ?\d+[│|](.{32})[│|]$", page, re.MULTILINE)]
    return [rows[first : first + 15] for first in range(0, len(rows), 15)]


def test_the_grid_has_15_rows_of_32_columns_with_the_text_in_its_place() -> None:
    """Row 14 from column 4 on, row 15 from column 6 on."""
    (first,) = pictures(printed("--grid", "--cues", "1", CLEAN, COLUMNS="40"))
    assert first[13] == "   Good evening, and welcome".ljust(32)
    assert first[14] == "     to the harbour museum.".ljust(32)
    assert first[:13] == [" " * 32] * 13


def test_the_grid_shows_the_whole_screen(tmp_path: Path) -> None:
    """Of a roll-up the rows above, and of a burst of paint-on what it was painted beside."""
    file = tmp_path / "screen.scc"
    rolled = line("00:00:01:00", twice(RU2, CR), preamble(15), text("ONE"))
    more = line("00:00:03:00", twice(CR), preamble(15), text("TWO"))
    painted = line("00:00:05:00", twice(RDC), preamble(2, 5), text("THREE"))
    file.write_bytes(scc(rolled, more, painted, line("00:00:09:00", twice(EDM))))
    screens = pictures(printed("--grid", file, COLUMNS="40"))
    assert [
        {number: row.rstrip() for number, row in enumerate(rows, 1) if row.strip()} for rows in screens
    ] == [
        {15: "ONE"},
        {14: "ONE", 15: "TWO"},
        {2: "    THREE", 14: "ONE", 15: "TWO"},
    ]


def test_grids_stand_beside_each_other_where_they_fit() -> None:
    """Two on 80 columns, three on 120; in a pipe two, as on a terminal of 80."""
    widths = {"40": 1, "80": 2, "120": 3, "": 2}
    assert {width: across(printed("--grid", CLEAN, COLUMNS=width)) for width in widths} == widths


def across(page: str) -> int:
    """Count the grids in the first row of them."""
    titles = next(line for line in page.splitlines() if line.startswith("cue "))
    return titles.count("cue ")


def test_the_grid_keeps_its_columns_in_ascii() -> None:
    """What such an output has no character for is one `?`, and the frame is made of what it has."""
    done = command(
        *("inspect", "--grid", str(CASES / "42_special_character.scc")),
        prefix=["env", "PYTHONIOENCODING=ascii", "COLUMNS=40"],
    )
    assert pictures(done.stdout)[0][14] == "? A".ljust(32)
    assert done.stdout.count("+--------------------------------+") == 2


def test_the_grid_shows_colours_and_italics(tmp_path: Path) -> None:
    """As the file sets them, where the terminal has them."""
    file = tmp_path / "styles.scc"
    green, italics = 0x1122, 0x112E
    load = [twice(RCL, ENM), preamble(15), twice(green), text("GO"), twice(italics), text("ON"), twice(EOC)]
    file.write_bytes(scc(line("00:00:01:00", *load), line("00:00:05:00", twice(EDM))))
    page = on_terminal(80, "--grid", file)
    assert re.search(r"\x1b\[32;40mGO", page)
    assert re.search(r"\x1b\[3;32;40m ?ON", page)
