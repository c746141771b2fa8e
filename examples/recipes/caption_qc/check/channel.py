"""One caption channel: what each control code does to its memories, its cursor and its cues.

A channel has two memories. Pop-on writes the hidden one, which an end of caption swaps with the displayed
one; roll-up and paint-on write the displayed one at once. A cue is one stretch in which the screen shows the
same text that is not blank, so each mode opens and closes cues in its own way:

- pop-on opens one when the memories are swapped, with the text that is then shown;
- roll-up opens one with the first visible character of a row; its text is that row;
- paint-on opens one with the first visible character of a burst; its text is what the burst wrote.

What empties a row of a cue (DER, backspaces, spaces written over it) ends the cue with the text as it stood
before: it was on screen. What is left of it is another cue. A correction that leaves something in the row is
typing, and ends nothing.

No code but those of `_ACTS` does anything. In text mode only those of `_ACTS_IN_TEXT` do: the rest is about a
text page, which is no caption.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, TypeAlias

from examples.recipes.caption_qc.check.characters import printed, word_of
from examples.recipes.caption_qc.check.codes import Code, Op
from examples.recipes.caption_qc.check.report import PLAIN
from examples.recipes.caption_qc.check.screen import COLUMNS, NOTHING_STOOD, ROWS, Light, Memory, Stood

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from examples.recipes.caption_qc.check.report import Mode, Row, Style
    from examples.recipes.caption_qc.check.showings import Showing, Showings
    from examples.recipes.caption_qc.check.witness import Witness

_SPACE = " "
_PAST_THE_END = COLUMNS + 1  # The cursor stays in the last column; this says that a character stands there.

_Act: TypeAlias = "Callable[[Channel, Code, int], None]"


class Channel:
    """The state of one channel. Its cues go to `showings`; `witness` sees what it does."""

    def __init__(self, name: str, field: int, showings: Showings, witness: Witness) -> None:
        self.name = name
        self.field = field
        self.mode: Mode | None = None
        self._showings = showings
        self._witness = witness
        self._cue: Showing | None = None
        self._stood: Stood | None = None
        """What stood before the wipes since the last visible character; without wipes there is nothing to know."""
        self._light = Light()
        self._in_text = False
        self._displayed = Memory()
        self._hidden = Memory()
        self._burst = Memory()
        self._written: tuple[Memory, ...] = ()
        """The memories that characters go to, by the mode."""
        self._row = self._base = ROWS
        self._column = 1
        self._style = PLAIN
        self._style_columns = 0
        """Columns of the row that codes of style have taken since the cursor was placed."""
        self._depth = 0

    def act(self, code: Code, frame: int) -> None:
        """Do what a control code says."""
        acts = self._ACTS_IN_TEXT if self._in_text else self._ACTS
        if act := acts.get(code.op):
            act(self, code, frame)

    def write(self, words: bytes, frame: int) -> None:
        """Write what words print, of which the first goes out in `frame`."""
        if text := printed(words):
            self._print(text, frame, words)

    def finish(self) -> None:
        """End the file: what is still on screen keeps an unknown end."""
        self._witness.finished(self._displayed.rows())
        self._close(None)

    # Modes

    def _resume_loading(self, _code: Code, frame: int) -> None:
        self._select("pop-on", frame)

    def _resume_direct(self, _code: Code, frame: int) -> None:
        self._close(frame)
        self._burst.clear()
        self._select("paint-on", frame)

    def _roll_up(self, code: Code, frame: int) -> None:
        before, self._depth = self._depth, code.amount
        if self.mode != "roll-up":
            self._close(frame)
            self._displayed.clear()
            self._light.look(self._displayed, frame)
            self._erase_hidden(code, frame)
            self._row = self._base = ROWS
            self._go_to(1, PLAIN)
        elif self._depth != before:
            self._witness.deepened(before, self._depth, frame)
            self._set_base(self._base, frame)
        self._select("roll-up", frame)

    def _end_of_caption(self, _code: Code, frame: int) -> None:
        self._close(frame)
        self._displayed.retire()
        self._displayed, self._hidden = self._hidden, self._displayed
        self._select("pop-on", frame)
        self._witness.shown()
        if not self._displayed.rows():
            self._light.look(self._displayed, frame)
            self._witness.shown_blank(self._displayed.spaces(), frame)
            return
        cue = self._open("pop-on", self._displayed.loaded, frame)
        if not self._displayed.fresh:
            self._witness.shown_again(cue)

    def _text_mode(self, _code: Code, frame: int) -> None:
        self._in_text = True
        self._written = ()
        self._witness.text_mode(frame)

    def _select(self, mode: Mode, frame: int) -> None:
        """Select a mode, even if it is selected: the hidden memory may be another one since."""
        self._witness.selected(self.mode, mode, frame)
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
        self._light.look(self._displayed, frame)
        self._burst.clear()
        self._witness.moved()

    def _erase_hidden(self, _code: Code, _frame: int) -> None:
        self._hidden.clear()
        self._witness.erased_load()

    def _carriage_return(self, _code: Code, frame: int) -> None:
        if self.mode != "roll-up":
            return
        if self._cue:
            self._close(frame)
        elif spaces := self._displayed.spaces_at(self._base):
            self._witness.blank("CR", spaces, frame)
        self._move_rows(-1, frame)
        self._go_to(1, PLAIN)

    def _set_base(self, row: int, frame: int) -> None:
        if row < self._depth:
            self._witness.too_high(row, self._depth, frame)
        base = max(row, self._depth)
        down, self._base, self._row = base - self._base, base, base
        self._move_rows(down, frame)

    def _move_rows(self, down: int, frame: int) -> None:
        self._displayed.shift(down, self._base - self._depth + 1, self._base)
        self._light.look(self._displayed, frame)

    # The cursor and what it writes

    def _preamble(self, code: Code, frame: int) -> None:
        self._go_to(code.column, code.style)
        if self.mode == "roll-up":
            self._set_base(code.row, frame)
        else:
            self._row = code.row

    def _go_to(self, column: int, style: Style) -> None:
        self._column, self._style, self._style_columns = column, style, 0
        self._witness.moved()

    def _tab(self, code: Code, _frame: int) -> None:
        if self._column < COLUMNS:
            self._column = min(self._column + code.amount, COLUMNS)

    def _backspace(self, _code: Code, frame: int) -> None:
        if self._column > 1:
            self._column -= 1
            self._erase(self._column, self._column, frame)

    def _delete_to_end(self, _code: Code, frame: int) -> None:
        self._erase(min(self._column, COLUMNS), COLUMNS, frame)

    def _mid_row(self, code: Code, frame: int) -> None:
        self._style = code.restyled(self._style)
        self._style_columns += 1
        self._print(_SPACE, frame)

    def _flash_on(self, code: Code, frame: int) -> None:
        self._witness.flash(frame)
        self._mid_row(code, frame)

    def _background(self, code: Code, frame: int) -> None:
        if self._before() == _SPACE:
            self._column -= 1
            self._style_columns -= 1  # It stands in the column of the space.
        self._mid_row(code, frame)

    def _special(self, code: Code, frame: int) -> None:
        self._print(code.character, frame)

    def _extended(self, code: Code, frame: int) -> None:
        if self._before():
            if self._column > COLUMNS:
                self._witness.extended_at_the_end(code.character, frame)
            self._column -= 1
        elif self._written:
            self._witness.extended_alone(code.character, frame)
        self._print(code.character, frame)

    def _before(self) -> str:
        return self._written[0].read(self._row, self._column - 1) if self._written else ""

    def _erase(self, first: int, last: int, frame: int) -> None:
        wipes = self._begin_wipe(first, last)
        for memory in self._written:
            memory.erase(self._row, first, last)
        if wipes:
            self._wiped(frame)

    def _print(self, text: str, frame: int, words: bytes = b"") -> None:
        """Print at the cursor what one code prints in `frame`, or `words` from then on."""
        visible = text.lstrip(_SPACE)
        if not self._written:
            if visible and not self._in_text:
                self._witness.nowhere(text, frame + word_of(words, len(text) - len(visible)))
            return
        if visible:
            self._appear(frame, words, len(text) - len(visible))
            self._stood = None
        first, self._column = self._column, self._column + len(text)
        if self._column > _PAST_THE_END:
            lost, self._column = self._column - _PAST_THE_END, _PAST_THE_END
            at = frame + word_of(words, len(text) - lost)
            self._witness.lost(lost, self._row, self._style_columns, at)
        wipes = not visible and self._begin_wipe(min(first, COLUMNS), self._column - 1)
        last = self._end_of_row(first, len(text)) if wipes else 0
        for memory in self._written:
            memory.write(self._row, first, text, self._style)
        if wipes:
            self._wiped(frame + word_of(words, last))

    def _end_of_row(self, first: int, spaces: int) -> int:
        """Say which of so many spaces from a column on, from 0, is over the last visible character of the row."""
        rows = self._written[0].rows_at(self._row)
        end = rows[0].column + len(rows[0].text) if rows else 0
        return max(min(end - first, spaces), 1) - 1

    # Cues

    def _appear(self, frame: int, words: bytes, index: int) -> None:
        """Have text appear: character `index` of what `words` print from `frame` on is the first visible one."""
        memory, opens = self._written[0], None if self._cue else self.mode
        if memory.fresh and (opens is None or opens == "pop-on"):
            return  # Nothing begins with it.
        frame += word_of(words, index)
        if self.mode == "pop-on":
            self._witness.load_began(frame, memory.rows())
        elif opens:
            self._open(opens, (self._showings.line, frame), frame)
        if not memory.fresh:
            memory.mark_loaded(self._showings.line, frame)

    def _open(self, mode: Mode, loaded: tuple[int, int], frame: int) -> Showing:
        cue = self._cue = self._showings.open(mode, loaded, frame, self._light.on(frame))
        self._witness.opened(cue)
        return cue

    def _close(self, frame: int | None) -> None:
        cue, self._cue = self._cue, None
        if cue is None:
            return
        self._showings.close(cue, self.name, frame, self._rows_of(cue), self._displayed.rows)
        self._witness.closed()

    def _rows_of(self, cue: Showing) -> tuple[Row, ...]:
        match cue.mode:
            case "pop-on":
                return self._displayed.rows()
            case "roll-up":
                return self._displayed.rows_at(self._base)
            case "paint-on":
                return self._burst.rows()

    def _begin_wipe(self, first: int, last: int) -> bool:
        """Say whether visible text is about to be wiped: as it is now it stood, if no wipe came before.

        What a wipe left over was told of already; it stands by itself if the line ends before it goes, too.
        """
        if self.mode == "pop-on" or not self._written or not self._displayed.shows_at(self._row, first, last):
            return False
        if self._cue:
            left_over = self._stood is NOTHING_STOOD and self._cue.line != self._showings.line
            if self._stood is None or left_over:
                self._stood = Stood(self._rows_of(self._cue), self._showings.screen(self._displayed.rows))
        return True

    def _wiped(self, frame: int) -> None:
        """See something wiped: the cue ends if that emptied a row of it."""
        cue, stood = self._cue, self._stood
        if cue and stood and not self._written[-1].shows_at(self._row):
            left = self._rows_of(cue)
            if not left or self._is_gone(stood.rows, left):
                self._cue, self._stood = None, None
                self._showings.close(cue, self.name, frame, stood.rows, lambda: stood.screen)
                self._witness.closed()
                if left:
                    self._open(cue.mode, (self._showings.line, frame), frame)
                    self._stood = NOTHING_STOOD
        self._light.look(self._displayed, frame)

    def _is_gone(self, before: tuple[Row, ...], left: tuple[Row, ...]) -> bool:
        """Say whether the row of the cursor showed something before, and nothing now."""
        return any(row.row == self._row for row in before) and all(row.row != self._row for row in left)

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
            Op.FLASH_ON: _flash_on,
            Op.MID_ROW: _mid_row,
            Op.BACKGROUND: _background,
            Op.SPECIAL: _special,
            Op.EXTENDED: _extended,
        }
    )
