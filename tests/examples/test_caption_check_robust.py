"""The checker never raises, whatever the bytes; it is pure; and its work grows no faster than the file."""

from __future__ import annotations

import random
import subprocess
import sys
import tracemalloc
from typing import TYPE_CHECKING

import pytest
from caption_encoder import CR, EDM, ENM, EOC, FON, RCL, RDC, RU2, line, preamble, scc, text, twice, word
from caption_reports import CORPUS, ROOT, assert_sound, checked

import examples.recipes.caption_qc.check as door

if TYPE_CHECKING:
    from pathlib import Path


CORPUS_FILES = sorted(CORPUS.glob("*.scc"))


# Any bytes


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n",
        b"\r",
        b"\0",
        b"\xff\xfe",
        b"\xfe\xff\xd8",
        b"\xef\xbb\xbf",
        b"\xff\xfe\0\0",
        b"\t\t",
        b"\x1a",
    ],
)
def test_smallest_files_are_reported_on(data: bytes) -> None:
    """Each is a failed file, not an exception."""
    report = checked(data)

    assert_sound(report, data)
    assert report.status == "fail"


def test_random_words_are_reported_on() -> None:
    """Every code may follow every code, in every channel."""
    for seed in range(10):
        chance = random.Random(seed)  # noqa: S311 - not for secrets
        codes = [
            chance.choice([chance.randrange(0x1000, 0x2000), chance.randrange(0x8000)]) for _ in range(3000)
        ]
        data = scc(*(line(f"00:{minute:02}:00:00", text_of(codes[minute::30])) for minute in range(30)))
        assert_sound(checked(data), data)


def text_of(pairs: list[int]) -> list[str]:
    return [word for pair in pairs for word in twice(pair & 0x7F7F)]


@pytest.mark.parametrize("data", [bytes(10_000_000), bytes(range(256)) * 40_000], ids=["NULs", "every byte"])
def test_ten_megabytes_of_anything_are_reported_on(data: bytes) -> None:
    """The job refuses such a file by its size; the checker would not stumble over it."""
    assert_sound(checked(data), data)


def test_memory_holds_a_file_and_its_cues_but_no_record_a_word() -> None:
    """A hundred thousand words cost less than the file's bytes again and a little for its lines."""
    show = [*twice(RCL, ENM), *preamble(15), *text("x"), *["8080"] * 500, *twice(EOC)]
    data = scc(*(line(f"{hour:02}:{minute:02}:00:00", show) for hour in range(4) for minute in range(50)))
    assert len(checked(data).cues) == 200
    tracemalloc.start()
    try:
        checked(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 2 * len(data)


def test_nothing_of_a_file_is_kept_after_its_report() -> None:
    """A bad word of a million digits is gone with its file."""
    tracemalloc.start()
    try:
        checked(scc(line("00:00:01:00", ["9" * 1_000_000, "z" * 1_000_000])))
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert kept < 100_000


# What a file is filled with, and how many calls each may cost. A record or a message each would cost more.
HOSTILE = {
    "bad lines": (b"x\n", 10),
    "NUL lines": (b"\0\n", 13),
    "lines outside ASCII": (b"\xff\n", 14),
    "bad words": (b"a ", 12),
    "blank lines": (b"\n", 2),
    "CR alone": (b"\r", 2),
    "words at a vertical tab": (b"a\x0b", 1),
    "lines of a bad word": (b"00:00:00:00\ta\n", 110),
    "lines without a tab": (b"00:00:00:00 8080\n", 75),
    "labels out of range": (b"99:99:99;99\t8080\n", 65),
    "lines backward": (b"00:00:01:00\t8080\n00:00:00:00\t8080\n", 135),
    "painted lines": (b"00:00:00:00\t9429 e580\n", 180),
    "rolled words": (b"9425 e580 94ad ", 145),
    "rolled and wiped": (b"9425 e580 94a1 ", 175),
    "painted and wiped": (b"9429 e580 94a1 ", 205),
    "failed copies": (b"9429 e580 9420 1420 ", 195),
    "loaded words": (b"9420 94ae e580 942f ", 170),
    "swapped memories": (b"9420 942f 8080 ", 60),
    "flashing words": (b"9420 94a8 8080 ", 75),
    "words of another channel": (b"1c20 8080 ", 40),
    "reserved codes": (b"9430 8080 ", 30),
    "text before a mode": (b"9470 e580 ", 40),
    "text past column 32": (b"9420 9137 8080 ", 75),
    "coloured words": (b"9420 91a2 e580 ", 100),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_file_costs_few_calls(kind: str) -> None:
    """No kind of line or word makes a file of the largest size a matter of half a minute."""
    unit, calls = HOSTILE[kind]
    units = 24_000 // len(unit)
    label = b"" if unit.endswith((b"\n", b"\r")) else b"00:00:00:00\t"

    assert calls_of(label + unit * units) < calls * units


def test_bad_lines_are_counted_not_kept() -> None:
    """Thirty thousand take no memory but that of the file and of the line that is read."""
    bad = {"lines": b"xy\n" * 30_000, "NULs": b"\0\n" * 30_000}
    for kind, data in bad.items():
        tracemalloc.start()
        try:
            report = checked(data)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()

        assert peak < 3 * len(data), kind
        assert_sound(report, data)


def test_cues_that_show_equal_rows_share_them() -> None:
    """A full screen that is swapped in a thousand times is kept once."""
    full = [word for row in range(1, 16) for word in [*preamble(row), *text("A" * 32)]]
    swaps = [word for _ in range(1000) for word in [*twice(EOC), "8080"]]
    cues = checked(scc(line("00:00:01:00", twice(RCL), full, swaps))).cues

    assert len(cues) == 500
    assert len({id(row) for cue in cues for row in cue.rows}) == 15


def test_cues_that_show_changed_rows_share_their_styles() -> None:
    """A row of many colours of which each cue changes one character keeps the spans that it had."""
    colours = [word for number in range(15) for word in [*twice(0x1122 + 2 * (number % 5)), *text("x")]]
    load = [*twice(RCL), *preamble(15), *colours]
    swaps = [word for number in range(400) for word in [*text("ABC"[number % 3]), *twice(EOC), "8080"]]
    popped = checked(scc(line("00:00:01:00", load, twice(EOC), load, swaps))).cues

    assert len(popped) > 390
    assert len({id(row.styles) for cue in popped for row in cue.rows}) < 10


SECONDS_OF_KINDS = 9


def captions(count: int) -> bytes:
    """Write captions of all modes, with a line that is bad and one that is early, over and over."""
    pop = [*twice(RCL, ENM), *preamble(14), *text("GOOD"), *preamble(15), *text("EVENING"), *twice(EOC)]
    roll = [*twice(RU2, CR), *preamble(15), *text("TO YOU"), *twice(CR), *text("ALL")]
    paint = [*twice(RDC), *preamble(15), *twice(0x112E), *text("GOOD NIGHT"), *twice(EDM)]
    early = [*text("x"), "94", *twice(FON, 0x1430), word(EDM)]
    times = (3600 + SECONDS_OF_KINDS * number for number in range(count))
    return scc(*(row for time in times for row in kinds_of_line(time, pop, roll, paint, early)))


def kinds_of_line(time: int, *kinds: list[str]) -> list[str]:
    minutes, seconds = divmod(time, 60)
    label = f"{minutes // 60:02}:{minutes % 60:02}:{seconds:02}"
    return [*(line(f"{label}:{2 * number:02}", kind) for number, kind in enumerate(kinds)), "no line at all"]


def test_time_is_linear_in_the_file() -> None:
    """A hundred times the captions take at most 110 times the calls, and what is added costs no more each."""
    one, ten, hundred = (calls_of(captions(count)) for count in (4, 40, 400))

    assert hundred <= 110 * one
    assert (hundred - ten) / 360 <= 1.02 * (ten - one) / 36


def test_memory_is_linear_in_the_cues() -> None:
    """Ten times the cues take ten times the memory, and a cue of the least kind takes less than a kilobyte."""
    peaks = [peak_of(scc(line("00:00:01:00", twice(RU2), ["e580", "94ad"] * count))) for count in (400, 4000)]

    assert peaks[1] < 11 * peaks[0]
    assert peaks[1] < 4000 * 700


def peak_of(data: bytes) -> int:
    checked(data)
    tracemalloc.start()
    try:
        checked(data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def calls_of(data: bytes) -> int:
    checked(data)  # Words are read once a process: before the calls are counted.
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    sys.setprofile(count)
    try:
        checked(data)
    finally:
        sys.setprofile(None)
    return calls


# The door


def test_door_is_complete_and_sorted() -> None:
    """What is exported is there, in order."""
    assert door.__all__ == sorted(door.__all__, key=lambda name: (name[0].islower(), name))
    assert all(hasattr(door, name) for name in door.__all__)


def test_import_brings_in_nothing_heavy() -> None:
    """Workers start with this package alone: no event loop, no library but the standard one."""
    program = "import sys, examples.recipes.caption_qc.check; print(*sorted(sys.modules), sep='\\n')"
    shown = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )

    heavy = {
        "anyio",
        "asyncio",
        "async_batcher",
        "attr",
        "concurrent",
        "multiprocessing",
        "pyarrow",
        "rich",
        "sqlite3",
    }
    modules = set(shown.stdout.split())
    assert modules & heavy == set()
    assert "examples.recipes.caption_qc.check.scc" in modules
    assert not any(name.startswith("examples.recipes.caption_qc.job") for name in modules)


# Real files


@pytest.mark.shared_files
@pytest.mark.parametrize("path", CORPUS_FILES, ids=lambda path: path.stem)
def test_real_file_is_reported_on(path: Path) -> None:
    """Whatever tools and people have written."""
    data = path.read_bytes()

    assert_sound(checked(data), data)
