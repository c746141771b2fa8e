"""What holds for every caption file, tried on files that are made up of codes and text at random."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from caption_encoder import (
    BS,
    CHANNEL_2,
    CR,
    DER,
    EDM,
    ENM,
    EOC,
    FIELD_2,
    FON,
    RCL,
    RDC,
    RTD,
    RU2,
    RU3,
    RU4,
    TO1,
    TO3,
    TR,
    line,
    preamble,
    scc,
    text,
    twice,
    word,
)
from caption_reports import assert_sound, checked
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from examples.recipes.caption_qc.check.scc import decode, screens

if TYPE_CHECKING:
    from collections.abc import Sequence

    from examples.recipes.caption_qc.check import Report

CODES = (RCL, RCL, BS, DER, RU2, RU3, RU4, FON, RDC, TR, RTD, EDM, CR, CR, ENM, EOC, EOC, TO1, TO3)
OTHERS = (
    0x1120,
    0x1128,
    0x112F,
    0x1137,
    0x1139,
    0x1221,
    0x1332,
    0x1022,
    0x172D,
    0x172F,
    0x1724,
    0x1430,
    0x1461,
)
CHANNELS = (0, 0, 0, CHANNEL_2, FIELD_2, FIELD_2 + CHANNEL_2)
DECODER_RULES = ("608_", "LAY_OVER", "LAY_EXT", "CUE_BLANK")
COUNTS_OF_WORDS = ("608_CTRL_NOT_DOUBLED", "608_CHANNEL2", "608_FIELD2")
A_LINE = 300  # Frames from one line to the next: more than any has words.

Unit = tuple[str, ...]
"""Words that stay side by side: a code with its copy, or some text."""


def codes() -> st.SearchStrategy[int]:
    """All kinds of control codes, of all channels."""
    selecting = st.builds(int.__add__, st.sampled_from(CODES[:17]), st.sampled_from(CHANNELS))
    placing = st.sampled_from(
        [int(preamble(row, column)[0], 16) & 0x7F7F for row in range(1, 16) for column in (1, 9, 29)]
    )
    return st.one_of(selecting, st.sampled_from(CODES), placing, st.sampled_from(OTHERS))


def texts() -> st.SearchStrategy[Unit]:
    """Short text and text of more than a row; spaces alone too."""
    letters = st.text("ABe  ", min_size=1, max_size=40)
    return letters.map(lambda characters: tuple(text(characters)))


def doubled() -> st.SearchStrategy[Unit]:
    return codes().map(lambda code: tuple(twice(code)))


def units() -> st.SearchStrategy[list[Unit]]:
    return st.lists(st.one_of(doubled(), doubled(), texts()), max_size=12)


def files() -> st.SearchStrategy[list[list[Unit]]]:
    """Up to four lines of units."""
    return st.lists(units(), min_size=1, max_size=4)


def label(frames: int) -> str:
    seconds, frame = divmod(frames, 30)
    return f"00:{seconds // 60:02}:{seconds % 60:02}:{frame:02}"


def written(lines: Sequence[Sequence[Unit]], apart: int = A_LINE) -> bytes:
    """Write lines that start so many frames apart; one without words gets padding."""
    return scc(*(line(label(number * apart), *(units or [("8080",)])) for number, units in enumerate(lines)))


def on_screen(report: Report) -> list[object]:
    """Give all that a report says of the screen, less times."""
    return [(cue.channel, cue.mode, cue.rows) for cue in report.cues]


def decoder_findings(report: Report, but: Sequence[str] = ()) -> list[object]:
    """Give what the decoder's own rules say, less places and times; `but` names rules to leave out."""
    return [
        (finding.rule, finding.line, finding.cue, finding.measured)
        for finding in report.findings
        if finding.rule.startswith(DECODER_RULES) and finding.rule not in {"608_PRELOADED", *but}
    ]


quick = settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))


@quick
@given(files())
def test_any_made_up_file_has_a_sound_report(lines: list[list[Unit]]) -> None:
    """And the screens go with its cues."""
    data = written(lines)
    report = checked(data)

    assert_sound(report, data)
    assert len(screens(data)) == len(report.cues)


@quick
@given(st.lists(st.tuples(st.integers(0, 120), units()), min_size=1, max_size=5))
def test_lines_never_go_back_where_labels_do_not(steps: list[tuple[int, list[Unit]]]) -> None:
    """However many words the lines have."""
    at, lines = 0, []
    for step, words in steps:
        at += step
        lines.append(line(label(at), *(words or [("8080",)])))
    frames = [decoded.frame for decoded in decode(scc(*lines)).lines]

    assert all(before <= after for before, after in pairwise(frames))


@quick
@given(files())
def test_time_never_decreases_where_labels_do_not(lines: list[list[Unit]]) -> None:
    """Lines have the time to go out: cues come in order, none ends before it starts, or loads after."""
    cues = checked(written(lines)).cues

    assert all(before.start_frame <= after.start_frame for before, after in pairwise(cues))
    for cue in cues:
        assert cue.load_frame <= cue.start_frame
        assert cue.end_frame is None or cue.start_frame < cue.end_frame
    for channel in {cue.channel for cue in cues}:
        own = [cue for cue in cues if cue.channel == channel]
        assert all((before.end_frame or 0) <= after.start_frame for before, after in pairwise(own))


@quick
@given(files(), st.data())
def test_padding_changes_nothing_but_frames(lines: list[list[Unit]], data: st.DataObject) -> None:
    """Between codes and text, anywhere but between a code and its copy."""
    padded = [
        [part for unit in units for part in [unit, ("8080",) * data.draw(st.integers(0, 2))]]
        for units in lines
    ]
    plain, spread = checked(written(lines)), checked(written(padded))

    assert on_screen(spread) == on_screen(plain)
    assert decoder_findings(spread) == decoder_findings(plain)


@quick
@given(st.lists(st.one_of(codes(), texts()), max_size=25), st.data())
def test_doubling_a_single_code_changes_nothing_on_screen(
    sent: list[int | Unit], data: st.DataObject
) -> None:
    """Any of them, however they are mixed; equal ones are told apart by padding."""
    once: list[str] = []
    some_twice: list[str] = []
    for item in sent:
        single = (word(item),) if isinstance(item, int) else item
        again = isinstance(item, int) and data.draw(st.booleans())
        once += [*single, "8080"]
        some_twice += [*single * (2 if again else 1), "8080"]
    plain = checked(scc(line("00:00:01:00", once)))
    doubled_too = checked(scc(line("00:00:01:00", some_twice)))

    assert on_screen(doubled_too) == on_screen(plain)
    assert decoder_findings(doubled_too, but=COUNTS_OF_WORDS) == decoder_findings(plain, but=COUNTS_OF_WORDS)


@quick
@given(files())
def test_parity_stripped_from_all_changes_one_finding(lines: list[list[Unit]]) -> None:
    """The file is decoded as if it had parity, and 608_PARITY says so."""
    marked = [[("94ae", "94ae"), *lines[0]], *lines[1:]]  # At least one byte has bit 7.
    stripped = [
        [tuple(f"{int(token, 16) & 0x7F7F:04x}" for token in unit) for unit in units or [("8080",)]]
        for units in marked
    ]
    with_parity, without = checked(written(marked)), checked(written(stripped))

    assert without.cues == with_parity.cues
    assert [finding for finding in without.findings if finding.rule != "608_PARITY"] == list(
        with_parity.findings
    )
    assert len(without.findings) == len(with_parity.findings) + 1
