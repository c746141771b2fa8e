"""The programme that a caption file belongs to: from which time code to which, as an order or a sidecar says.

A sidecar is a TOML file beside the captions, NAME.toml beside NAME.scc:

    programme = "01:00:00;00-01:28:30;00"
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass

from examples.recipes.caption_qc.check.timecode import Timecode

_TIMECODE = r"(\d\d):(\d\d):(\d\d)([:;])(\d\d)"
_PROGRAMME = re.compile(rf"{_TIMECODE}-{_TIMECODE}", re.ASCII)
_EXAMPLE = "01:00:00:00-01:28:30:00 (;00 in drop-frame)"


class GivenError(ValueError):
    """What was given beside a caption file, a programme or a reference, cannot be used; the message is one line."""


@dataclass(frozen=True, slots=True)
class Programme:
    """A stretch of one time base; `end` is the frame after the last one. It may pass midnight."""

    start: Timecode
    end: Timecode

    def __str__(self) -> str:
        return f"{self.start}-{self.end}"

    @property
    def drop(self) -> bool:
        """Whether its time codes are drop-frame."""
        return self.start.drop

    def frames_near(self, frame: int) -> tuple[int, int]:
        """Give its first frame and its end, counted on the day on which it is nearest to `frame`."""
        a_day = self.start.frames_a_day
        first, length = self.start.number, (self.end.number - self.start.number) % a_day
        # The same day comes first: where two are as near, it is the one that is meant.
        days = (first, first + a_day, first - a_day)
        first = min(days, key=lambda start: max(start - frame, frame - start - length, 0))
        return first, first + length


def parse_programme(text: str) -> Programme:
    """Read START-END.

    Raises:
        GivenError: It is no such text, or no such time.
    """
    match = _PROGRAMME.fullmatch(text)
    if match is None:
        raise GivenError(f"programme {_shown(text)} is no START-END; write one like {_EXAMPLE}")
    start, end = _timecode(match.groups()[:5]), _timecode(match.groups()[5:])
    for timecode in (start, end):
        if not (timecode.in_range and timecode.exists):
            raise GivenError(f"programme {text!r}: {timecode} does not exist; write one like {_EXAMPLE}")
    if start.drop != end.drop:
        raise GivenError(
            f"programme {text!r}: {start} and {end} are of two time bases; write both with : or ;"
        )
    if start == end:
        raise GivenError(f"programme {text!r}: it ends where it starts; write one like {_EXAMPLE}")
    return Programme(start, end)


def parse_sidecar(data: bytes, origin: str) -> Programme:
    """Read a sidecar's bytes; `origin` is what messages call it.

    Raises:
        GivenError: They are no such file.
    """
    way_out = f'write programme = "{_EXAMPLE.partition(" ")[0]}"'
    try:
        table = tomllib.loads(data.decode())
    except UnicodeDecodeError as error:
        raise GivenError(
            f"sidecar {origin!r}: byte {error.start} is not UTF-8, which TOML must be; {way_out}"
        ) from error
    except (ValueError, RecursionError) as error:
        raise GivenError(f"sidecar {origin!r}: {' '.join(str(error).split())}; {way_out}") from error
    if unknown := sorted(set(table) - {"programme"}):
        raise GivenError(f"sidecar {origin!r}: unknown key {unknown[0]!r}; {way_out}")
    programme = table.get("programme")
    if not isinstance(programme, str):
        found = "no programme" if programme is None else f"programme is {_shown(programme)}"
        raise GivenError(f"sidecar {origin!r}: {found}; {way_out}")
    try:
        return parse_programme(programme)
    except GivenError as error:
        raise GivenError(f"sidecar {origin!r}: {error}") from error


def _timecode(parts: tuple[str, ...]) -> Timecode:
    hour, minute, second, colon, frame = parts
    return Timecode(int(hour), int(minute), int(second), int(frame), drop=colon == ";")


def _shown(value: object) -> str:
    shown = ascii(value)
    return shown if len(shown) <= _LONGEST_QUOTE else f"{shown[:_LONGEST_QUOTE]}..."


_LONGEST_QUOTE = 60
