"""The files that `caption_job.py` checks: small ones, and ones as large as real ones are."""

from __future__ import annotations

import random
import sys
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "examples"))  # The encoder, which is apart from the decoder.

from caption_encoder import EDM, ENM, EOC, RCL, line, preamble, scc, text, twice  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# What eleven real caption files had, of 77 that public projects test with; the rest was made for a test.
REAL_SIZES: Final = (387, 387, 472, 489, 560, 1521, 3477, 14_874, 48_092, 165_315, 241_152)
_WORDS: Final = (
    "we",
    "had",
    "no",
    "idea",
    "what",
    "was",
    "behind",
    "the",
    "door",
    "until",
    "somebody",
    "opened",
    "it",
)
_KINDS: Final = 16
_FRAMES: Final = 90


def deliver_small(queue: Path, count: int) -> None:
    """Write `count` files of two captions, a thousand a folder."""
    contents = [_captions(kind, 500) for kind in range(_KINDS)]
    for number in range(count):
        folder = queue / f"{number // 1000:04}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number:06}.scc").write_bytes(contents[number % _KINDS])


def deliver_real_sized(queue: Path, count: int, sizes: Sequence[int] = REAL_SIZES) -> int:
    """Write `count` files whose sizes are `sizes` in turn, real ones', and return the bytes of all."""
    queue.mkdir(parents=True)
    whole = [_captions(kind, max(sizes)) for kind in range(_KINDS)]
    written = 0
    for number, size in enumerate(islice(cycle(sizes), count)):
        content = _cut(whole[number % _KINDS], size)
        written += (queue / f"{number:05}.scc").write_bytes(content)
    return written


def _captions(kind: int, size: int) -> bytes:
    """Write a pop-on file of at least `size` bytes."""
    dice = random.Random(kind)  # noqa: S311 - the same files each time
    lines = []
    length = 0
    for caption in _captions_of(dice):
        lines.append(caption)
        length += len(caption) + 2
        if length >= size:
            break
    return scc(*lines)


def _captions_of(dice: random.Random) -> Iterator[str]:
    frame = 30
    while True:
        rows = [_row(dice) for _ in range(dice.choice((1, 2, 2)))]
        words = [twice(ENM, RCL)]
        for number, row in enumerate(rows):
            words += [preamble(14 + number, dice.choice((1, 5, 9))), text(row)]
        words.append(twice(EDM, EOC))
        yield line(_label(frame), *words)
        frame += _FRAMES


def _row(dice: random.Random) -> str:
    row = ""
    while len(row) < dice.randint(8, 20):
        row = f"{row} {dice.choice(_WORDS)}".strip()
    return row[:23]


def _label(frame: int) -> str:
    seconds, rest = divmod(frame, 30)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}:{rest:02}"


def _cut(content: bytes, size: int) -> bytes:
    """Keep whole captions only, about `size` bytes of them."""
    return content[: content.rfind(b"\n\n", 0, max(size, 300)) + 1]
