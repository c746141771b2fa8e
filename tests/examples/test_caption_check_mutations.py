"""Five thousand files with random faults: none raises, and each report keeps its promises."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from caption_encoder import (
    BS,
    CHANNEL_2,
    CR,
    DER,
    EDM,
    ENM,
    EOC,
    FIELD_2,
    FON,
    RCL,
    RDC,
    RTD,
    RU2,
    RU4,
    TO1,
    TR,
    word,
)
from caption_reports import CASES, CORPUS, ROOT, SAMPLES, assert_sound, checked

if TYPE_CHECKING:
    from pathlib import Path

RULE_EXAMPLES = ROOT / "examples" / "recipes" / "caption_qc" / "check" / "examples"
MUTATIONS = 5_000
BATCHES = 10
LONGEST = 900  # Bytes of a large file that are taken at a time, so that all of it is quick.

# Codes that change most: all kinds, those of another channel and field too.
CODES = (RCL, BS, DER, RU2, RU4, FON, RDC, TR, RTD, EDM, CR, ENM, EOC, TO1, RCL + CHANNEL_2, RCL + FIELD_2)
ROWS_AND_CHARACTERS = (0x1470, 0x1140, 0x112E, 0x1137, 0x1221, 0x1021, 0x172E, 0x1430)


def originals() -> list[Path]:
    """Samples, cases, the rules' examples, and the corpus where it is."""
    folders = (SAMPLES, CASES, RULE_EXAMPLES, CORPUS)
    return [path for folder in folders for path in sorted(folder.rglob("*.scc"))]


def part_of(data: bytes, chance: random.Random) -> bytes:
    """Take a small file whole; of a large one the header and some lines in a row."""
    if len(data) <= LONGEST:
        return data
    start = data.rfind(b"\n", 0, chance.randrange(len(data))) + 1
    return data[:20] + data[start : start + LONGEST]


def mutated(data: bytes, chance: random.Random) -> bytes:
    """Change a few places of a file: bytes flipped, taken out, put in, moved, words of any kind inserted."""
    changed = bytearray(data)
    for _ in range(chance.randint(1, 12)):
        place = chance.randrange(len(changed) + 1)
        end = min(len(changed), place + chance.randint(1, 40))
        match chance.randrange(8):
            case 0:
                changed[place:place] = chance.randbytes(chance.randint(1, 4))
            case 1:
                del changed[place:end]
            case 2:
                changed[place:place] = changed[chance.randrange(len(changed) + 1) :][:60]
            case 3:
                changed[place:place] = b" %04x " % chance.randrange(1 << 16)
            case 4:
                code = word(chance.choice((*CODES, *ROWS_AND_CHARACTERS))).encode()
                changed[place:place] = b" ".join([b"", *[code] * chance.randint(1, 3), b""])
            case 5:
                changed[place:place] = b"\n%02d:%02d:%02d;%02d\t94" % tuple(chance.choices(range(100), k=4))
            case 6 if place < len(changed):
                changed[place] ^= 1 << chance.randrange(8)
            case _:
                changed[place : place + 1] = chance.choice([b"\0", b"\n", b"\t", b" ", b"g", b"\xe9", b""])
    return bytes(changed)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_mutated_file_is_reported_on(batch: int) -> None:
    """Five hundred of the five thousand, from fixed seeds."""
    files = [path.read_bytes() for path in originals()]
    for seed in range(batch, MUTATIONS, BATCHES):
        chance = random.Random(seed)  # noqa: S311 - not for secrets
        data = mutated(part_of(chance.choice(files), chance), chance)
        assert_sound(checked(data), data)


def test_mutations_reach_what_they_are_for() -> None:
    """Most of the mutated files still show something, and between them they trip most rules."""
    files = [path.read_bytes() for path in originals()]
    tripped: set[str] = set()
    showing = 0
    for seed in range(600):
        chance = random.Random(seed)  # noqa: S311 - not for secrets
        report = checked(mutated(part_of(chance.choice(files), chance), chance))
        tripped |= {finding.rule for finding in report.findings}
        showing += bool(report.cues)

    assert showing > 300
    assert len(tripped) > 35
