"""What is noticed of one channel while it is decoded, each with its place and the cue that it is about.

Text is loaded before its cue is on screen, or begins one in the roll-up and paint-on modes: what is noticed
of it then waits for the cue to open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from examples.recipes.caption_qc.check.notes import Note

if TYPE_CHECKING:
    from collections.abc import Sequence

    from examples.recipes.caption_qc.check.notes import NotedRule, Notes
    from examples.recipes.caption_qc.check.report import Mode, Row
    from examples.recipes.caption_qc.check.showings import Showing


class Witness:
    """Sees what a channel does; `notes` take what is to be told."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._cue: Showing | None = None
        """The cue on screen that text now goes to; none in pop-on."""
        self._last_cue: Showing | None = None
        self._about_load: list[Note] = []
        self._about_row: list[Note] = []
        self._waiting = self._about_row
        """Notes about text whose cue is not on screen yet; in pop-on those about the load."""
        self._overflow: Note | None = None
        """About the row that the cursor is past the end of."""
        self._unshown: tuple[int, int] | None = None
        """Line and frame in which text began to be loaded after the last end of caption."""

    # Modes and cues

    def selected(self, before: Mode | None, mode: Mode, frame: int) -> None:
        """See a mode selected, the same one or another."""
        if mode == "pop-on":
            self._cue, self._waiting = None, self._about_load
        else:
            self._waiting = self._about_row
        if before not in {None, mode}:
            self._about_row.clear()
            self._notes.add("608_MODE_CHANGE", self._here(frame, f"{before} to {mode}"))

    def opened(self, cue: Showing) -> None:
        """See a cue appear."""
        self._last_cue = cue
        waiting = self._about_load if cue.mode == "pop-on" else self._about_row
        for note in waiting:
            note.cue = cue.place
        waiting.clear()
        if cue.mode != "pop-on":
            self._cue = cue

    def closed(self) -> None:
        """See the cue on screen end."""
        self._cue = None

    def moved(self) -> None:
        """See the cursor go to another row, or the row go away: what is lost from now on is lost elsewhere."""
        self._overflow = None

    def erased_load(self) -> None:
        """See the hidden memory emptied."""
        self._about_load.clear()
        self.moved()

    def text_mode(self, frame: int) -> None:
        """See text mode selected."""
        self._notes.add("608_TEXT_MODE", self._here(frame))

    # Pop-on

    def load_began(self, frame: int, old: Sequence[Row]) -> None:
        """See the first text of a load, and what stood in the memory before."""
        self._unshown = self._notes.here.line, frame
        if old:
            self._about_text("608_LOAD_ON_OLD_TEXT", self._here(frame, old[0].text, len(old)))

    def shown(self) -> None:
        """See an end of caption."""
        self._unshown = None
        self.moved()

    def shown_again(self, cue: Showing) -> None:
        """See a caption that an end of caption has shown before."""
        self._notes.shown_again.append(cue.place)
        self._about_cue("608_OLD_CAPTION_SHOWN", cue)

    def shown_blank(self, spaces: int, frame: int) -> None:
        """See an end of caption that shows nothing, or spaces alone."""
        self._about_load.clear()
        if spaces:
            self.blank("EOC", spaces, frame)
        else:
            self._notes.add("608_EOC_EMPTY", self._here(frame))

    # Roll-up

    def deepened(self, before: int, depth: int, frame: int) -> None:
        """See the depth change while text rolls."""
        self._about_text("608_ROLLUP_DEPTH_CHANGE", self._here(frame, f"{before} to {depth}", depth))

    def too_high(self, row: int, depth: int, frame: int) -> None:
        """See a base row that has no room for so many rows."""
        self._about_text("608_ROLLUP_BASE_ROW", Note(self._notes.here.line, frame, "", row, depth))

    def blank(self, code: str, spaces: int, frame: int) -> None:
        """See a code show or end what is spaces alone."""
        self._notes.add("CUE_BLANK", self._here(frame, code, spaces))

    # Text

    def nowhere(self, text: str, frame: int) -> None:
        """See text before any mode; spaces print nothing."""
        printing = len(text) - text.count(" ")
        self._notes.add_to_line("608_TEXT_NO_MODE", self._here(frame, measured=printing))

    def lost(self, characters: int, row: int, style_columns: int, frame: int) -> None:
        """See characters overwritten in the last column of a row, in which codes of style took so many."""
        if self._overflow is None:
            where = f"row {row}"
            if style_columns:
                codes = (
                    "a code of style takes a column" if style_columns == 1 else "codes of style take columns"
                )
                where += f", in which {codes},"
            self._overflow = self._about_text(
                "LAY_OVER_32_COLS", Note(self._notes.here.line, frame, where, characters, 0)
            )
        else:
            self._overflow.grow(characters)

    def extended_alone(self, character: str, frame: int) -> None:
        """See an extended character with nothing before it."""
        self._about_text("608_EXT_NO_BASE_CHAR", self._here(frame, character))

    def extended_at_the_end(self, character: str, frame: int) -> None:
        """See an extended character whose base stands in the last column."""
        self._about_text("LAY_EXT_COL_32", self._here(frame, character))

    def flash(self, frame: int) -> None:
        """See flashing begin."""
        self._about_text("608_FLASH", self._here(frame))

    # The end

    def finished(self, on_screen: Sequence[Row]) -> None:
        """See the end of the file."""
        if on_screen and self._last_cue:
            self._about_cue("608_NO_FINAL_CLEAR", self._last_cue)
        if self._unshown:
            self._notes.add("608_LOADED_NEVER_SHOWN", Note(*self._unshown))

    def _here(self, frame: int, detail: str = "", measured: int | None = None) -> Note:
        return Note(self._notes.here.line, frame, detail, measured)

    def _about_cue(self, rule: NotedRule, cue: Showing) -> None:
        self._notes.add(rule, Note(cue.line, cue.start_frame, cue=cue.place))

    def _about_text(self, rule: NotedRule, note: Note) -> Note:
        """Note something of the text that is sent now."""
        self._notes.add(rule, note)
        if self._cue:
            note.cue = self._cue.place
        elif note.listed:
            self._waiting.append(note)
        return note
