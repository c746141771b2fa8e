"""One caption channel: what each control code does to its memories, its cursor and its cues.

A channel has two memories. Pop-on writes the hidden one, which an end of caption swaps with the displayed
one; roll-up and paint-on write the displayed one at once. A cue is one stretch in which the screen shows the
same text that is not blank, so each mode opens and closes cues in its own way:

- pop-on opens one when the memories are swapped, with the text that is then shown;
- roll-up opens one with the first visible character of a row; its text is that row;
- paint-on opens one with the first visible character of a burst; its text is what the burst wrote.

No code but those of `_ACTS` does anything. In text mode only those of `_ACTS_IN_TEXT` do: the rest is about a
text page, which is no caption.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from examples.recipes.caption_qc.check.codes import Code, Op
from examples.recipes.caption_qc.check.screen import COLUMNS, ROWS, Memory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from examples.recipes.caption_qc.check.report import Mode, Row

_SPACE = " "
_PAST_THE_END = COLUMNS + 1  # The cursor stays in the last column; this says that a character stands there.


@dataclass(slots=True)
class Showing:
    """A cue while the decoder runs: the text of a row or a burst is known only when it leaves the screen."""

    channel: str
    mode: Mode
    load_frame: int
    start_frame: int
    end_frame: int | None = None
    rows: tuple[Row, ...] = ()


_Act: TypeAlias = "Callable[[Channel, Code, int], None]"


class Channel:
    """The state of one channel. Cues are added to `cues` as they appear on screen."""

    def __init__(self, name: str, cues: list[Showing]) -> None:
        self.name = name
        self.mode: Mode | None = None
        self._cues = cues
        self._cue: Showing | None = None
        self._in_text = False
        self._displayed = Memory()
        self._hidden = Memory()
        self._burst = Memory()
        self._written: tuple[Memory, ...] = ()
        """The memories that characters go to, by the mode."""
        self._row = self._base = ROWS
        self._column = 1
        self._depth = 0

    def act(self, code: Code, frame: int) -> None:
        """Do what a control code says."""
        acts = self._ACTS_IN_TEXT if self._in_text else self._ACTS
        if act := acts.get(code.op):
            act(self, code, frame)

    def write(self, text: str, frame: int) -> None:
        """Write characters at the cursor; without a mode, and in text mode, there is nowhere to write to."""
        if not self._written:
            return
        for memory in self._written:
            memory.write(self._row, self._column, text)
        self._column = min(self._column + len(text), _PAST_THE_END)
        if not text.isspace():
            self._appear(frame)

    def finish(self) -> None:
        """End the file: what is still on screen keeps an unknown end."""
        self._close(None)

    # Modes

    def _resume_loading(self, _code: Code, _frame: int) -> None:
        self._select("pop-on")

    def _resume_direct(self, _code: Code, frame: int) -> None:
        self._close(frame)
        self._burst.clear()
        self._select("paint-on")

    def _roll_up(self, code: Code, frame: int) -> None:
        if self.mode != "roll-up":
            self._close(frame)
            self._displayed.clear()
            self._hidden.clear()
            self._base, self._column = ROWS, 1
        self._depth = code.amount
        self._select("roll-up")
        self._set_base(self._base)

    def _end_of_caption(self, _code: Code, frame: int) -> None:
        self._close(frame)
        self._displayed.retire()
        self._displayed, self._hidden = self._hidden, self._displayed
        self._select("pop-on")
        if rows := self._displayed.rows():
            self._open(Showing(self.name, "pop-on", self._displayed.loaded, frame, rows=rows))

    def _text_mode(self, _code: Code, _frame: int) -> None:
        self._in_text = True
        self._written = ()

    def _select(self, mode: Mode) -> None:
        self.mode, self._in_text = mode, False
        match mode:
            case "pop-on":
                self._written = (self._hidden,)
            case "roll-up":
                self._written = (self._displayed,)
            case "paint-on":
                self._written = (self._displayed, self._burst)

    # Memories and rows

    def _erase_displayed(self, _code: Code, frame: int) -> None:
        self._close(frame)
        self._displayed.clear()
        self._burst.clear()

    def _erase_hidden(self, _code: Code, _frame: int) -> None:
        self._hidden.clear()

    def _carriage_return(self, _code: Code, frame: int) -> None:
        if self.mode == "roll-up":
            self._close(frame)
            self._move_rows(-1)
            self._column = 1

    def _set_base(self, row: int) -> None:
        base = max(row, self._depth)
        down, self._base, self._row = base - self._base, base, base
        self._move_rows(down)

    def _move_rows(self, down: int) -> None:
        self._displayed.shift(down, self._base - self._depth + 1, self._base)

    # The cursor and what it writes

    def _preamble(self, code: Code, _frame: int) -> None:
        self._column = code.column
        if self.mode == "roll-up":
            self._set_base(code.row)
        else:
            self._row = code.row

    def _tab(self, code: Code, _frame: int) -> None:
        if self._column < COLUMNS:
            self._column = min(self._column + code.amount, COLUMNS)

    def _backspace(self, _code: Code, _frame: int) -> None:
        if self._column > 1:
            self._column -= 1
            self._erase(self._column, self._column)

    def _delete_to_end(self, _code: Code, _frame: int) -> None:
        self._erase(min(self._column, COLUMNS), COLUMNS)

    def _spacing(self, _code: Code, frame: int) -> None:
        self.write(_SPACE, frame)

    def _background(self, _code: Code, frame: int) -> None:
        if self._before() == _SPACE:
            self._column -= 1
        self.write(_SPACE, frame)

    def _special(self, code: Code, frame: int) -> None:
        self.write(code.character, frame)

    def _extended(self, code: Code, frame: int) -> None:
        if self._before():
            self._column -= 1
        self.write(code.character, frame)

    def _before(self) -> str:
        return self._written[0].read(self._row, self._column - 1) if self._written else ""

    def _erase(self, first: int, last: int) -> None:
        for memory in self._written:
            memory.erase(self._row, first, last)

    # Cues

    def _appear(self, frame: int) -> None:
        self._written[0].mark_loaded(frame)  # Of a burst nobody asks when it was loaded.
        match self.mode:
            case "roll-up" | "paint-on" if self._cue is None:
                self._open(Showing(self.name, self.mode, load_frame=frame, start_frame=frame))

    def _open(self, cue: Showing) -> None:
        self._cue = cue
        self._cues.append(cue)

    def _close(self, frame: int | None) -> None:
        cue, self._cue = self._cue, None
        if cue is None:
            return
        cue.end_frame = frame
        match cue.mode:
            case "roll-up":
                cue.rows = self._displayed.rows_at(self._base)
            case "paint-on":
                cue.rows = self._burst.rows()
            case "pop-on":
                pass  # Its text was whole when it appeared.

    _ACTS_IN_TEXT: ClassVar[Mapping[Op, _Act]] = MappingProxyType(
        {
            Op.RESUME_LOADING: _resume_loading,
            Op.RESUME_DIRECT: _resume_direct,
            Op.ROLL_UP: _roll_up,
            Op.END_OF_CAPTION: _end_of_caption,
            Op.ERASE_DISPLAYED: _erase_displayed,
            Op.ERASE_HIDDEN: _erase_hidden,
        }
    )
    _ACTS: ClassVar[Mapping[Op, _Act]] = MappingProxyType(
        {
            **_ACTS_IN_TEXT,
            Op.TEXT_MODE: _text_mode,
            Op.CARRIAGE_RETURN: _carriage_return,
            Op.PREAMBLE: _preamble,
            Op.TAB: _tab,
            Op.BACKSPACE: _backspace,
            Op.DELETE_TO_END: _delete_to_end,
            Op.FLASH_ON: _spacing,
            Op.MID_ROW: _spacing,
            Op.BACKGROUND: _background,
            Op.SPECIAL: _special,
            Op.EXTENDED: _extended,
        }
    )
