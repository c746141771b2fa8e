"""Files whose cues last exactly so many frames: tests of the rules over cues are made with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from caption_encoder import EDM, ENM, EOC, RCL, line, preamble, scc, text, twice

if TYPE_CHECKING:
    from collections.abc import Iterable


def at(frame: int, *, separator: str = ":") -> str:
    """Write a frame as a non-drop label (or, before the first minute, as a drop-frame one)."""
    seconds, number = divmod(frame, 30)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{separator}{number:02}"


def load(*rows: str) -> list[str]:
    """Load rows from the bottom up to the last one, row 15."""
    words = twice(RCL, ENM)
    for number, characters in enumerate(rows, 16 - len(rows)):
        words += [*preamble(number), *text(characters)]
    return words


def shown(start: int, *rows: str) -> str:
    """Write the line that shows rows from a frame on."""
    words = load(*rows)
    return line(at(start - len(words)), words, twice(EOC))


def cleared(frame: int) -> str:
    """Write the line that clears the screen in a frame."""
    return line(at(frame), twice(EDM))


def popon(*cues: tuple[int, int, str]) -> bytes:
    """Write a file of cues of one row: the first frame of each, the first after it, and its text."""
    return scc(*lines_of(cues))


def lines_of(cues: Iterable[tuple[int, int, str]]) -> list[str]:
    """Write a line to show each cue and one to clear it."""
    return [written for start, end, row in cues for written in (shown(start, row), cleared(end))]


SHOW = [*twice(RCL, ENM), *preamble(15), *text("TEXT"), *twice(EOC)]
SHOWN = [*SHOW, *["8080"] * 25, *twice(EDM)]
CLEAN = scc(line("00:00:01:00", SHOW), line("00:00:04:00", twice(EDM)))


def padded(timecode: str, words: int = 1) -> str:
    """Write a line of padding: its time code is all that matters."""
    return line(timecode, ["8080"] * words)


def timed(*timecodes: str) -> bytes:
    """Write a file that shows a caption for 27 frames at its start, then lines at these time codes."""
    return scc(line("00:00:00:00", SHOWN), *(padded(timecode) for timecode in timecodes))
