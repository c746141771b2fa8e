"""A reference track: what is read of it, and how drift is told from a distance that stays."""

from __future__ import annotations

import random
import subprocess
import sys

import pytest
from caption_cues import at, cleared, load, shown
from caption_encoder import CHANNEL_2, EOC, FIELD_2, RDC, line, scc, text, twice
from caption_reports import HOUSE, ROOT, found
from caption_tracks import apart, drift_of, said, spoken, webvtt

from examples.recipes.caption_qc.check import (
    Drift,
    GivenError,
    Report,
    check,
    parse,
    read_reference,
)
from examples.recipes.caption_qc.check.checker import NO_REFERENCE
from examples.recipes.caption_qc.check.timecode import seconds

# Sixty cues, a minute apart: an hour. Each appears in frame 1800 n + 100.
FRAMES = [1800 * number + 100 for number in range(60)]
DATA = spoken(FRAMES)


def compared(distances: list[float], data: bytes = DATA) -> Report:
    """Check the hour against a reference in which each cue is so many milliseconds earlier."""
    return apart(distances, FRAMES, data=data)


# Drift


def test_without_a_reference_the_report_says_that_drift_is_not_seen() -> None:
    """An SCC file alone cannot show it; with one the report says how far it is."""
    alone = check(DATA, HOUSE)
    assert (alone.drift, alone.notes, found(alone, "DRIFT")) == (None, (NO_REFERENCE,), [])

    assert compared([0.0] * 60).notes == ()


def test_report_says_that_the_channel_that_is_judged_shows_nothing() -> None:
    """Else a file of another channel would pass in silence."""
    cc3 = parse(b'name = "x"\nchannel = "CC3"', "x.toml")

    assert check(DATA, cc3).notes[1:] == ("CC3 shows nothing, and it alone is judged; there are cues on CC1",)
    assert check(b"", cc3).notes == check(DATA, HOUSE).notes == (NO_REFERENCE,)


def test_distance_that_stays_is_no_drift() -> None:
    """The reference may count from another hour; frames and milliseconds are rounded."""
    report = compared([0.0] * 60)

    assert found(report, "DRIFT") == []
    drift = drift_of(report)
    assert drift.matched == 60
    assert drift.first_ms == pytest.approx(-10_000_000, abs=1)
    assert drift.spread_ms == pytest.approx(0, abs=1)
    assert drift.ms_an_hour == pytest.approx(0, abs=1)


@pytest.mark.parametrize("rate", [3600, -3600, 900])
def test_steady_drift_is_found_with_its_rate(rate: float) -> None:
    """So many milliseconds an hour, later or earlier."""
    report = compared([rate * number / 60 for number in range(60)])

    (finding,) = found(report, "DRIFT")
    assert (finding.severity, finding.threshold, finding.unit) == ("error", 0.5, "seconds")
    assert finding.measured == pytest.approx(abs(rate) * 59 / 60 / 1000, abs=0.002)
    assert f"by {rate / 1000:+.1f} s an hour" in finding.message
    assert ("drop-frame" in finding.message) == (abs(rate) == 3600)
    drift = drift_of(report)
    assert drift.steady
    assert drift.ms_an_hour == pytest.approx(rate, abs=8)


@pytest.mark.parametrize(("spread", "findings"), [(499, 0), (502, 1)])
def test_drift_is_over_half_a_second_from_first_to_last(spread: float, findings: int) -> None:
    """Of nine cues in line all are heard."""
    report = compared([spread * n / 8 for n in range(60)], spoken(FRAMES[:9]))

    assert len(found(report, "DRIFT")) == findings


def test_lost_reel_is_a_step() -> None:
    """Two seconds from the twentieth cue on."""
    report = compared([0.0] * 20 + [2000.0] * 40)

    (finding,) = found(report, "DRIFT")
    assert "in steps" in finding.message
    assert finding.measured == pytest.approx(2, abs=0.002)
    assert drift_of(report).steady is False


def test_cues_that_were_moved_tell_nothing_about_the_rest() -> None:
    """Every tenth is five seconds off, and all are a few frames off: no drift, or the one that there is."""
    numbers = random.Random(7)  # noqa: S311 - the same noise each time
    noise = [numbers.uniform(-100, 100) + (5000 if n % 10 == 4 else 0) for n in range(60)]

    assert found(compared(noise), "DRIFT") == []
    drifting = compared([noise[n] + 60 * n for n in range(60)])
    assert drift_of(drifting).ms_an_hour == pytest.approx(3600, abs=150)
    assert len(found(drifting, "DRIFT")) == 1


def test_texts_that_come_twice_are_not_matched() -> None:
    """A refrain in the one may be any of those in the other."""
    doubled = scc(*(part for frame in FRAMES for part in (shown(frame, "same again"), cleared(frame + 90))))
    cues = [(0.0, "same again"), (1000.0, said(1)), (2000.0, said(2))]
    report = check(doubled, HOUSE, reference=read_reference(webvtt(cues), "right.vtt"))

    assert drift_of(report) == Drift(matched=0)


def test_text_without_letters_and_digits_is_not_matched() -> None:
    """Music and dashes say nothing of where they belong."""
    data = scc(shown(100, "--!"), cleared(200), shown(300, said(1)), cleared(400))
    reference = read_reference(webvtt([(0.0, "\N{EIGHTH NOTE}"), (9000.0, said(1))]), "right.vtt")

    assert drift_of(check(data, HOUSE, reference=reference)) == Drift(matched=1)


@pytest.mark.parametrize("written", ["<i>North</i>, north; number\n0!", "NORTH NORTH {\\i1}NUMBER 0{\\i0}"])
def test_text_is_matched_by_letters_and_digits(written: str) -> None:
    """Case, punctuation, line breaks and markup are no difference."""
    cues = [(0.0, written), (60_060.0, said(1))]
    report = check(DATA, HOUSE, reference=read_reference(webvtt(cues), "right.vtt"))

    assert drift_of(report).matched == 2


def test_reference_that_does_not_match_is_found() -> None:
    """It is of another programme, or in another language: nothing was compared, and nobody should think so."""
    report = check(
        DATA, HOUSE, reference=read_reference(webvtt([(0.0, "Bonjour."), (9.0, said(1))]), "fr.vtt")
    )

    (finding,) = found(report, "DRIFT")
    assert (finding.severity, finding.measured, finding.threshold, finding.unit) == ("error", 1, 2, "cues")
    assert report.drift == Drift(matched=1)


def test_file_of_one_cue_has_no_drift_to_find() -> None:
    """There is nothing that could change."""
    data = scc(shown(100, said(0)), cleared(200))

    assert (
        found(check(data, HOUSE, reference=read_reference(webvtt([(0.0, said(0))]), "x.vtt")), "DRIFT") == []
    )
    assert (
        found(check(b"", HOUSE, reference=read_reference(webvtt([(0.0, said(0))]), "x.vtt")), "DRIFT") == []
    )


def test_profile_sets_how_much_drift_is_too_much() -> None:
    """Severity and threshold, and both are in the record."""
    profile = parse(b'name = "x"\n[rules.DRIFT]\nseverity = "warn"\nthreshold = 4', "x.toml")
    cues = [(seconds(frame) * 1000 * 1.002, said(n)) for n, frame in enumerate(FRAMES)]

    (finding,) = found(check(DATA, profile, reference=read_reference(webvtt(cues), "x.vtt")), "DRIFT")
    assert (finding.severity, finding.threshold) == ("warn", 4)


# What is read


def moments(data: bytes) -> list[tuple[float, str]]:
    return [(moment.milliseconds, moment.text.split("\n")[0]) for moment in read_reference(data, "x").moments]


def test_webvtt_and_subrip_are_read() -> None:
    """By their times and texts; settings, notes and styles are passed over."""
    vtt = "WEBVTT - a title\n\nNOTE to self\n\nSTYLE\n::cue {}\n\n1\n00:01.500 --> 00:03.000 line:0\n<v Ann>Hello\n"
    srt = "1\n00:00:01,500 --> 00:00:03,000\n<b>Hello</b>\n\n2\n00:00:04,000 --> 00:00:05,000\nWorld\n"

    assert moments(vtt.encode()) == [(1500, "Hello")]
    assert moments(srt.encode()) == [(1500, "Hello"), (4000, "World")]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_reference_may_have_any_line_end_and_byte_order_mark(encoding: str, end: str) -> None:
    """As editors save them."""
    vtt = "WEBVTT\n\n00:01.500 --> 00:03.000\nHéllo\n".replace("\n", end)

    assert moments(vtt.encode(encoding)) == [(1500, "Héllo")]


def test_scc_is_read_by_the_decoder() -> None:
    """Its first channel that shows anything, whatever else is wrong with it."""
    words = [*twice(0x1420 + CHANNEL_2), *twice(0x1470 + CHANNEL_2), *text("TWO"), *twice(EOC + CHANNEL_2)]
    cc4 = [*twice(RDC + CHANNEL_2 + FIELD_2), *text("FOUR")]
    assert [cue.channel for cue in check(scc(line(at(0), words), line(at(60), cc4)), HOUSE).cues] == [
        "CC2",
        "CC4",
    ]
    assert moments(scc(line(at(0), words), line(at(60), cc4))) == [(seconds(6) * 1000, "TWO")]

    assert moments(DATA)[:2] == [(seconds(100) * 1000, said(0)), (seconds(1900) * 1000, said(1))]
    report = check(DATA, HOUSE, reference=read_reference(DATA, "itself.scc"))
    assert report.drift == Drift(matched=60, first_ms=0, last_ms=0, spread_ms=0, ms_an_hour=0, steady=True)


def test_scc_of_two_rows_matches_a_text_of_two_lines() -> None:
    """Rows are joined as lines are."""
    words = load("NORTH", "SOUTH")
    data = scc(line(at(100 - len(words)), words, twice(EOC)), cleared(160), shown(300, "EAST"), cleared(360))
    cues = [(seconds(100) * 1000, "North\nsouth"), (seconds(300) * 1000, "East")]

    assert drift_of(check(data, HOUSE, reference=read_reference(webvtt(cues), "x.vtt"))).matched == 2


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        (b"", "has no time of a caption; give captions as SCC, WebVTT or SubRip"),
        (b"just words", "has no time of a caption"),
        (b"\xff\x00\xff", "byte 0 is not UTF-8"),
        (b"\xff\xfe\x00", "byte 2 is not UTF-16; give captions as SCC, WebVTT or SubRip"),
        (b"WEBVTT\n\n-->\n", "shows nothing; give captions as SCC, WebVTT or SubRip"),
        (b"Scenarist_SCC V1.0\n\n", "shows nothing"),
        (scc(cleared(10)), "shows nothing"),
    ],
)
def test_reference_that_is_none_is_one_line_that_says_what_is_wanted(data: bytes, wanted: str) -> None:
    """It names the file, what was found and what is wanted."""
    with pytest.raises(GivenError, match=rf"^reference 'right\.vtt'.*{wanted}") as caught:
        read_reference(data, "right.vtt")

    assert str(caught.value).isprintable()


def test_no_bytes_make_a_reference_raise_anything_else() -> None:
    """Cut, doubled and spoiled tracks: moments, or the one error."""
    numbers = random.Random(11)  # noqa: S311 - the same mutations each time
    tracks = [
        webvtt([(0.0, "<i>One</i>"), (5000.0, "{two}")]),
        webvtt([(0.0, "x")]).replace(b"WEBVTT", b"1"),
        DATA[:900],
    ]
    for _ in range(600):
        data = bytearray(numbers.choice(tracks))
        for _ in range(numbers.randint(1, 6)):
            place = numbers.randrange(len(data))
            data[place : place + numbers.randint(0, 3)] = numbers.choice(
                (b"", b"-->", b"\n\n", b"99999999999", b":", b"\xff", b"<", b"{", b"\0", b"00:00:01,000 --> ")
            )
        try:
            reference = read_reference(bytes(data), "x")
        except GivenError as error:
            assert str(error).isprintable()  # noqa: PT017 - most are no error at all
        else:
            check(DATA[:900], HOUSE, reference=reference)


def test_checks_without_a_reference_need_no_library() -> None:
    """Workers start without it; a reference without it is one line."""
    program = (
        "import sys; sys.modules['pysubs2'] = None\n"
        "from examples.recipes.caption_qc.check import read_reference\n"
        "read_reference(b'WEBVTT\\n\\n00:01.000 --> 00:02.000\\nA\\n', 'x.vtt')"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert run.stderr.splitlines()[-1].endswith("needs the library pysubs2; install it, or give SCC")
