"""The rules of control codes: what the decoder notices in the words of the profile's channel."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import replace
from typing import TYPE_CHECKING

from examples.recipes.caption_qc.check.faults import Fault, plain, worst
from examples.recipes.caption_qc.check.limits import longest
from examples.recipes.caption_qc.check.rule import Finder, Rule, Subject
from examples.recipes.caption_qc.check.timecode import seconds

if TYPE_CHECKING:
    from array import array
    from collections.abc import Iterator

    from examples.recipes.caption_qc.check.notes import Note, NotedRule
    from examples.recipes.caption_qc.check.report import Cue, Severity


def noted(rule: NotedRule, message: str) -> Finder:
    """Make the finder of a rule that the decoder takes notes of; `message` may name what a note holds."""

    def find(subject: Subject, _limit: float) -> Iterator[Fault]:
        kept = subject.track.notes.of(rule)
        for number, note in enumerate(kept.notes, 1):
            fault = _fault(subject, note, message)
            yield replace(fault, count=1 + kept.more) if number == len(kept.notes) else fault

    return find


def _fault(subject: Subject, note: Note, message: str) -> Fault:
    return Fault(
        message=message.format(
            measured=note.measured,
            threshold=note.threshold,
            detail=note.detail,
            channel=note.channel,
            judged=subject.channel,
        ),
        place=subject.track.place(note.line, note.frame),
        measured=note.measured,
        threshold=note.threshold,
        cue=note.cue,
        channel=note.channel,
    )


def preloaded(subject: Subject, limit: float) -> Iterator[Fault]:
    """608_PRELOADED: a long time between the first text of a load and its end of caption."""

    def tell(cue: Cue) -> Fault:
        time = seconds(cue.start_frame - cue.load_frame)
        return Fault(
            message=f"loaded {time:.3f} s before its EOC; decoders may erase what waits over {plain(limit)} s",
            place=subject.track.place_of(cue),
            measured=time,
            cue=cue.number,
        )

    again, most = subject.track.notes.shown_again, longest(limit)
    late = (cue for cue in subject.cues if cue.start_frame - cue.load_frame > most)
    cues = (cue for cue in late if not _is_in(again, cue.number))
    return worst(cues, lambda cue: cue.start_frame - cue.load_frame, tell)


def _is_in(numbers: array[int], number: int) -> bool:
    place = bisect_left(numbers, number)
    return place < len(numbers) and numbers[place] == number


def _row(
    name: NotedRule,
    severity: Severity,
    about: str,
    message: str,
    unit: str | None = None,
) -> Rule:
    return Rule(name, severity, noted(name, message), about, unit=unit)


RULES = (
    _row(
        "608_CTRL_NOT_DOUBLED",
        "info",
        "Control codes of field 1 are sent once, without the second copy that saves them from a lost frame.",
        "control codes that are sent once, without their second copy: {measured}; this is the first",
        "codes",
    ),
    _row(
        "608_UNKNOWN_CTRL",
        "error",
        "A control code is reserved: it has no function, and decoders differ in what they make of it.",
        "{detail} (without parity) is no control code that CEA-608 assigns",
    ),
    _row(
        "608_CHANNEL2",
        "info",
        "There is data for the other channel of the field that is checked.",
        "words for {channel}, of which only this is told while {judged} is checked: {measured}",
        "words",
    ),
    _row(
        "608_FIELD2",
        "info",
        "There is data for the field that is not checked.",
        "words for {channel} or its field, of which only this is told while {judged} is checked: {measured}",
        "words",
    ),
    _row(
        "608_TEXT_MODE",
        "info",
        "The channel goes over to text mode, and what follows is no caption.",
        "text mode is selected (TR or RTD); what follows is no caption until RCL, RU, RDC or EOC",
    ),
    _row(
        "608_TEXT_NO_MODE",
        "warn",
        "Text comes before the first RCL, RU, RDC or EOC, so it shows nowhere.",
        "characters before any RCL, RU, RDC or EOC: {measured}; they show nowhere",
        "characters",
    ),
    _row(
        "608_EXT_NO_BASE_CHAR",
        "warn",
        "An extended character has nothing before it that it could replace.",
        "nothing stands before the extended character {detail}; it must follow a character that it replaces",
    ),
    _row(
        "608_EOC_EMPTY",
        "info",
        "An EOC comes with nothing loaded, which is a usual way to clear the screen.",
        "EOC with nothing loaded: the screen goes blank",
    ),
    _row(
        "608_LOAD_ON_OLD_TEXT",
        "error",
        "Pop-on text is loaded while an older caption still lies in that memory; what it does not cover shows too.",
        "text is loaded over {detail!r} of an older caption, and what it does not cover will show too; "
        "ENM must come before it",
        "rows",
    ),
    _row(
        "608_OLD_CAPTION_SHOWN",
        "error",
        "An EOC comes with nothing loaded since the last one, and an old caption appears again.",
        "EOC with nothing loaded since the last one: an older caption appears again",
    ),
    Rule(
        "608_PRELOADED",
        "warn",
        preloaded,
        "A caption is loaded so long before its EOC that decoders may erase it.",
        threshold=15,
        unit="seconds",
    ),
    _row(
        "608_LOADED_NEVER_SHOWN",
        "warn",
        "Text is loaded after the last EOC, or in a file without one, and never shows.",
        "text is loaded here, and no EOC comes any more to show it",
    ),
    _row(
        "608_NO_FINAL_CLEAR",
        "warn",
        "A caption is still on screen at the end of the file.",
        "this caption is still on screen at the end of the file; EDM must clear it",
    ),
    _row(
        "608_ROLLUP_BASE_ROW",
        "warn",
        "The base row of roll-up text is smaller than the number of its rows, which have no room above it.",
        "base row {measured} has no room for {threshold} rows; it is moved down to row {threshold}",
        "rows",
    ),
    _row("608_MODE_CHANGE", "info", "The channel changes its mode.", "the mode changes from {detail}"),
    _row(
        "608_ROLLUP_DEPTH_CHANGE",
        "info",
        "The number of rows that roll changes.",
        "the rows of roll-up change from {detail}",
        "rows",
    ),
    _row(
        "608_XDS",
        "warn",
        "Bytes 01 to 0f are on field 1: extended data belongs to field 2.",
        "bytes 01 to 0f on field 1 in this line: {measured}; extended data belongs to field 2",
        "bytes",
    ),
    _row(
        "608_FLASH",
        "warn",
        "Text flashes (FON), which takes a column and is hard to read.",
        "FON makes what follows flash, and takes a column",
    ),
    _row(
        "LAY_OVER_32_COLS",
        "error",
        "A row goes past column 32, and the characters there are lost.",
        "{detail} goes past column 32: characters lost {measured}",
        "characters",
    ),
    _row(
        "LAY_EXT_COL_32",
        "warn",
        "An extended character replaces one in column 32, where decoders differ in what they replace.",
        "the extended character {detail} replaces one in column 32; decoders differ there",
    ),
    _row(
        "CUE_BLANK",
        "warn",
        "An EOC or CR shows spaces only.",
        "{detail} with nothing but spaces: {measured}",
        "spaces",
    ),
)
