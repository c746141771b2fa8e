"""Files of one line that tests of single faults are made of, and what is asked of their findings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from caption_encoder import CR, EDM, ENM, EOC, RCL, RU2, line, preamble, scc, text, twice
from caption_reports import checked, found

from examples.recipes.caption_qc.check import Profile, parse

if TYPE_CHECKING:
    from collections.abc import Iterable

    from examples.recipes.caption_qc.check import Finding, Report

LOAD = [*twice(RCL, ENM), *preamble(15)]
SHOW = [*LOAD, *text("AB"), *twice(EOC)]
ROLL = [*twice(RU2, CR), *preamble(15)]
CLEAR = line("00:00:09:00", twice(EDM))


def one_line(*words: Iterable[str]) -> Report:
    """Send words from 00:00:01:00 on, frame 30, in line 3; line 5 clears the screen at frame 270."""
    return checked(scc(line("00:00:01:00", *words), CLEAR))


def places(report: Report, rule: str) -> list[tuple[int | None, int | None, int | None]]:
    """Give line, word and cue of a rule's findings."""
    return [(finding.line, finding.word, finding.cue) for finding in found(report, rule)]


def only(report: Report, rule: str) -> Finding:
    """Give the only finding of a rule."""
    (finding,) = found(report, rule)
    return finding


def judging(channel: str) -> Profile:
    """Give a profile of another channel."""
    return parse(f'name = "other"\nchannel = "{channel}"\n'.encode(), "other")
