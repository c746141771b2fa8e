"""The operator's page says how fast the disk fills: measured again, by runs over samples and examples of the rules."""

from __future__ import annotations

import contextlib
import sqlite3
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from pages import ROOT, table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

PAGE = ROOT / "docs" / "caption-operate.md"
RECIPE = ROOT / "examples" / "recipes" / "caption_qc"
CLEAN = sorted((RECIPE / "samples").glob("*.scc"))
FAULTY = sorted((RECIPE / "check" / "examples").glob("*.scc"))
FIRES = 300
CLOSE = 0.25
"""How far from what is written a figure may be: messages, digests and pages of the database differ a little."""


_OF_THE_DASHBOARD = """
SELECT (SELECT COALESCE(SUM(LENGTH(content)), 0) FROM summary_text)
    + (SELECT COALESCE(SUM(LENGTH(fragment)), 0) FROM summary)
"""


@dataclass(frozen=True)
class Filled:
    """What one run has left."""

    state: Path

    @property
    def ledger(self) -> int:
        """What the ledger uses, without what it keeps of the last dashboard, which does not grow for ever."""
        with contextlib.closing(sqlite3.connect(self.state / "ledger.sqlite")) as ledger:
            (kept,) = ledger.execute(_OF_THE_DASHBOARD).fetchone()
            size, pages, free = (
                ledger.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("page_size", "page_count", "freelist_count")
            )
        return int(size * (pages - free) - kept)

    def parquet(self, of: str) -> int:
        return sum(path.stat().st_size for path in (self.state / "telemetry" / of).rglob("*.parquet"))

    def rows(self, of: str) -> int:
        with contextlib.closing(sqlite3.connect(self.state / "ledger.sqlite")) as ledger:
            return int(ledger.execute(f"SELECT COUNT(*) FROM {of}").fetchone()[0])  # noqa: S608 - our own


@pytest.mark.timeout(120)
def test_the_sizes_are_those_that_are_measured(tmp_path: Path) -> None:
    """One file, then many without findings, then many with: what is more is the records', then the findings'."""
    written = {what: float(number.replace(",", "")) for what, number, _ in table(PAGE, "| what grows ")}
    assert measured(tmp_path) == pytest.approx(written, rel=CLOSE)


def measured(folder: Path) -> dict[str, float]:
    """Give the bytes of each kind."""
    one, clean, faulty = filled(folder, CLEAN[:1], 1), filled(folder, CLEAN, 125), filled(folder, FAULTY, 12)
    more = clean.rows("records") - one.rows("records")
    record = (clean.ledger - one.ledger) / more
    findings = faulty.rows("findings")
    return {
        "ledger, a record": record,
        "ledger, a finding": (faulty.ledger - one.ledger - record * faulty.rows("records")) / findings,
        "ledger, a run": of_a_run(one),
        "Parquet, a window": one.parquet("assets") + one.parquet("findings"),
        "Parquet, a record in it": (clean.parquet("assets") - one.parquet("assets")) / more,
        "Parquet, a finding in it": (faulty.parquet("findings") - one.parquet("findings")) / findings,
    }


def filled(folder: Path, contents: Sequence[Path], copies: int) -> Filled:
    """Check so many copies of each file, every one of other bytes: a line feed more changes no finding."""
    here = folder / f"{len(contents)}-{copies}"
    queue = here / "queue"
    queue.mkdir(parents=True)
    for path in contents:
        for number in range(copies):
            (queue / f"{path.stem}-{number:03d}.scc").write_bytes(path.read_bytes() + b"\n" * number)
    command = [sys.executable, "-m", "examples.recipes.caption_qc", "run", str(queue), "--settle", "0"]
    done = [*command, "--state", str(here / "state"), "--at", "2026-01-01T00:05Z"]
    subprocess.run(done, cwd=ROOT, capture_output=True, check=True)
    return Filled(here / "state")


def of_a_run(one: Filled) -> float:
    """Give what the row of a run takes: that of the run that was, so many times over."""
    before = one.ledger
    with contextlib.closing(sqlite3.connect(one.state / "ledger.sqlite")) as ledger:
        names = [name for _, name, *_ in ledger.execute("PRAGMA table_info(runs)") if name != "number"]
        new = ", ".join("run_id || ?" if name == "run_id" else name for name in names)
        insert = f"INSERT INTO runs ({', '.join(names)}) SELECT {new} FROM runs LIMIT 1"  # noqa: S608 - our own
        with ledger:
            for number in range(FIRES):
                ledger.execute(insert, (f"{number:03d}",))
        ledger.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return (one.ledger - before) / FIRES
