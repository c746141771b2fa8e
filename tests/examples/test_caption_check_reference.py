"""What of a reference track is compared: which channel, which text, and in how much time it is read."""

from __future__ import annotations

import time

import pytest
from caption_cues import at, cleared, load, shown
from caption_encoder import CHANNEL_2, EOC, FIELD_2, RDC, line, scc, text, twice
from caption_reports import HOUSE, found
from caption_tracks import drift_of, webvtt

from examples.recipes.caption_qc.check import check, parse, read_reference
from examples.recipes.caption_qc.check.timecode import seconds

VTT = "WEBVTT\n\n00:01.500 --> 00:03.000\n{}\n"
SRT = "1\n00:00:01,500 --> 00:00:03,000\n{}\n"


def read(track: str) -> list[str]:
    return [moment.text for moment in read_reference(track.encode(), "x").moments]


# Channels


@pytest.mark.parametrize(("channel", "matched"), [("CC1", 2), ("CC2", 3), ("CC3", 2)])
def test_channel_that_is_judged_is_compared_with_the_same_one(channel: str, matched: int) -> None:
    """A file against itself matches in each of its channels."""
    second = [
        line(at(4000 + 300 * n), twice(RDC + CHANNEL_2), twice(0x1470 + CHANNEL_2), text(f"TWO {n}"))
        for n in range(3)
    ]
    third = [
        line(at(6000 + 300 * n), twice(RDC + FIELD_2), twice(0x1470), text(f"THREE {n}")) for n in range(2)
    ]
    first = [part for n in range(2) for part in (shown(1000 + 300 * n, f"ONE {n}"), cleared(1100 + 300 * n))]
    data = scc(*first, *second, *third)
    profile = parse(f'name = "x"\nchannel = "{channel}"'.encode(), "x.toml")

    report = check(data, profile, reference=read_reference(data, "itself.scc"))

    assert drift_of(report).matched == matched
    assert found(report, "DRIFT") == []


def test_channel_that_the_reference_lacks_is_compared_with_its_first() -> None:
    """The same captions may be sent on another channel there."""
    words = [*load("ONE"), *twice(EOC)]
    data = scc(line(at(100), words), cleared(200), line(at(300), load("TWO"), twice(EOC)), cleared(400))
    other = scc(
        *(
            line(at(frame), twice(RDC + CHANNEL_2), twice(0x1470 + CHANNEL_2), text(what))
            for frame, what in ((100, "ONE"), (300, "TWO"))
        )
    )

    assert drift_of(check(data, HOUSE, reference=read_reference(other, "x.scc"))).matched == 2


# Texts


@pytest.mark.parametrize("track", [VTT, SRT])
@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("R&amp;B", "R&B"),
        ("&lt;LAUGHS&gt; &quot;a&#39;b&#x27;&quot;", "<LAUGHS> \"a'b'\""),
        ("<LAUGHS> here", "<LAUGHS> here"),
        ("&lt;i&gt;", "<i>"),
        ("AT&T &copy &unheard;", "AT&T &copy &unheard;"),
        ("a < 2 > c <3 <I mean it>", "a < 2 > c <3 <I mean it>"),
        ("<i>one</i> <B>two</B> <u >three< /u>", "one two three"),
        ('<font color="#ff0000" size=3>red</FONT><br/>', "red"),
        ("<v Ann Lee>x</v> <c.yellow.bg_blue>y</c> <lang en-GB>z</lang>", "x y z"),
        ("<ruby>a<rt>b</rt></ruby> <b.loud>c</b>", "ab c"),
        ("one <00:00:02.000>two <00:02.500>three", "one two three"),
        ("{\\an8}top {said}", "top {said}"),
        ("<ion> <cat> <bold>", "<ion> <cat> <bold>"),
    ],
)
def test_markup_is_taken_away_and_nothing_else(track: str, written: str, said: str) -> None:
    """Tags and times of the formats; what else stands in brackets is said, and entities are what they mean."""
    assert read(track.format(written)) == [said]


def test_what_follows_a_blank_line_of_webvtt_is_no_text() -> None:
    """The next cue's name, or a note."""
    second = "intro-2\n00:04.000 --> 00:05.000\nWorld\n"

    assert read(VTT.format("Hello\n\nNOTE for Ann\n\n\n" + second)) == ["Hello", "World"]


def test_entities_and_sounds_match_what_is_shown() -> None:
    """As the two tracks have them."""
    frames = [1000, 1600]
    data = scc(shown(1000, "R&B"), cleared(1100), shown(1600, "<LAUGHS> here"), cleared(1700))
    for said in ("<LAUGHS> here", "&lt;LAUGHS&gt; <i>here</i>"):
        cues = [
            (seconds(frame) * 1000, words) for frame, words in zip(frames, ("R&amp;B", said), strict=True)
        ]
        report = check(data, HOUSE, reference=read_reference(webvtt(cues), "x.vtt"))
        assert drift_of(report).matched == 2


# Time


@pytest.mark.parametrize("track", [VTT, SRT])
@pytest.mark.parametrize(
    "part",
    [
        "<a ",
        '<font color="',
        "<",
        "< ",
        "{\\",
        "\n",
        "\n ",
        " ",
        "&#",
        "<i ",
        "1",
        "<00:00:01.000>",
        "\n1 ",
        "\r",
    ],
)
def test_time_to_read_a_text_grows_with_its_length(track: str, part: str) -> None:
    """400 KB of any one thing are read at once; what looks for an end from each beginning takes many seconds."""
    hostile = track.format("AB <" + part * (400_000 // len(part)) + "Z")

    before = time.process_time()
    assert len(read(hostile)) >= 1
    assert time.process_time() - before < 2


def test_times_within_a_text_begin_no_cue() -> None:
    """Two of them in a line are what a cue's times look like."""
    words = "sing <00:00:02.000>along <00:00:02.500>now"

    assert read(VTT.format(words)) == ["sing along now"]
