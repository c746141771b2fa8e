"""The checker never raises, whatever the bytes; it is pure; and it agrees with an oracle on real files."""

from __future__ import annotations

import random
import subprocess
import sys
import tracemalloc
from typing import TYPE_CHECKING

import pytest
from caption_encoder import EDM, ENM, EOC, RCL, line, preamble, scc, text, twice
from caption_reports import CASES, CORPUS, ROOT, SAMPLES, checked

import examples.recipes.caption_qc.check as door

if TYPE_CHECKING:
    from pathlib import Path

    from examples.recipes.caption_qc.check import Report

CORPUS_FILES = sorted(CORPUS.glob("*.scc"))


def assert_sound(report: Report, data: bytes) -> None:
    """Whatever the file, a report keeps these promises."""
    severities = {finding.severity for finding in report.findings}
    assert report.status == ("fail" if "error" in severities else "warn" if "warn" in severities else "pass")
    assert all(finding.message.isprintable() for finding in report.findings)
    assert all(finding.line is None or finding.line >= 1 for finding in report.findings)
    assert [cue.number for cue in report.cues] == list(range(1, len(report.cues) + 1))
    for cue in report.cues:
        assert cue.rows
        assert cue.load_frame <= cue.start_frame or report.status != "pass"
        assert cue.start == cue.start_frame * 1001 / 30000
        for row in cue.rows:
            assert 1 <= row.row <= 15
            assert 1 <= row.column <= row.column - 1 + len(row.text) <= 32
            assert row.text.strip() == row.text != ""
    assert report.figures.words <= len(data)


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


def mutated(data: bytes, chance: random.Random) -> bytes:
    """Change a few places of a file: bytes flipped, taken out, put in, moved, words of any kind inserted."""
    changed = bytearray(data)
    for _ in range(chance.randint(1, 12)):
        place = chance.randrange(len(changed) + 1)
        end = min(len(changed), place + chance.randint(1, 40))
        match chance.randrange(6):
            case 0:
                changed[place:place] = chance.randbytes(chance.randint(1, 4))
            case 1:
                del changed[place:end]
            case 2:
                changed[place:place] = changed[chance.randrange(len(changed) + 1) :][:60]
            case 3:
                changed[place:place] = b" %04x " % chance.randrange(1 << 16)
            case 4:
                changed[place:place] = b"\n%02d:%02d:%02d;%02d\t94" % tuple(chance.choices(range(100), k=4))
            case _:
                changed[place : place + 1] = chance.choice([b"\0", b"\n", b"\t", b" ", b"g", b"\xe9", b""])
    return bytes(changed)


def originals() -> list[Path]:
    small = [path for path in CORPUS_FILES if path.stat().st_size < 20_000]
    return [*sorted(SAMPLES.rglob("*.scc")), *sorted(CASES.glob("*.scc")), *small]


def test_mutated_files_are_reported_on() -> None:
    """Four hundred files with random faults, from fixed seeds."""
    files = [path.read_bytes() for path in originals()]
    for seed in range(400):
        chance = random.Random(seed)  # noqa: S311 - not for secrets
        data = mutated(chance.choice(files), chance)
        assert_sound(checked(data), data)


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


def test_time_is_linear_in_the_file() -> None:
    """Ten times the captions take ten times the calls."""
    calls = [calls_to_check(captions) for captions in (50, 500)]

    assert 9 < calls[1] / calls[0] < 11


def calls_to_check(captions: int) -> int:
    show = [*twice(RCL, ENM), *preamble(15), *text("TEXT"), *twice(EOC)]
    times = [
        f"{second // 60 // 60:02}:{second // 60 % 60:02}:{second % 60:02}:00"
        for second in range(2 * captions)
    ]
    data = scc(*(line(time, twice(EDM) if number % 2 else show) for number, time in enumerate(times)))
    assert len(checked(data).cues) == captions  # Words are read once a process: before the calls are counted.
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
