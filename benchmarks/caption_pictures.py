"""The pictures of the caption tutorial, of real runs: two terminals, and the dashboard of a house's week.

    python benchmarks/caption_pictures.py      # makes docs/caption-tutorial-*.svg and .png again

Terminals are recorded from a pseudo-terminal and drawn by rich; the dashboard is shown by Chromium. What is checked
are the samples at other speeds and the examples of the rules, delivered over a week of windows.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import pty
import random
import re
import struct
import subprocess
import sys
import tempfile
import termios
from pathlib import Path
from typing import Final

from playwright.sync_api import FloatRect, Page, sync_playwright
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import DEFAULT_TERMINAL_THEME
from rich.text import Text

ROOT: Final = Path(__file__).resolve().parents[1]
DOCS: Final = ROOT / "docs"
RECIPE: Final = ROOT / "examples" / "recipes" / "caption_qc"
JOB: Final = [sys.executable, "-m", "examples.recipes.caption_qc"]
COLUMNS: Final = 96
# Without the fonts that rich's SVG would fetch from elsewhere.
SVG: Final = re.sub(r"@font-face \{\{.*?\n    \}\}\n", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL).replace(
    "Fira Code, monospace", "DejaVu Sans Mono, Menlo, Consolas, monospace"
)
CHROMIUM: Final = "/usr/bin/chromium"
SIZE: Final = (1120, 820)
DAYS: Final = 12
A_DAY: Final = 8
SHOWS: Final = ("harbour", "night-ferry", "lighthouse")
LOUD: Final = ("HEX_BAD_WORD", "608_PARITY", "CUE_SHORT", "LAY_ROWS", "RATE_CPS", "CUE_GAP", "TC_BACKWARD")


def main() -> None:
    """Make all pictures."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "examples").symlink_to(ROOT / "examples")
        draw(folder, "inspect", [*JOB, "inspect", deliver(folder, "reel-2.scc", "popon_parity_error")])
        draw(folder, "run", [*JOB, "run", first_queue(folder), "--state", "state", "--settle", "0"])
        photograph(week(folder))


def deliver(folder: Path, name: str, sample: str) -> str:
    """Copy a faulty sample, and return its new name."""
    (folder / name).write_bytes((RECIPE / "samples" / "faulty" / f"{sample}.scc").read_bytes())
    return name


def first_queue(folder: Path) -> str:
    """Make the queue of the tutorial."""
    (folder / "queue").mkdir()
    for path in (RECIPE / "samples").glob("*.scc"):
        (folder / "queue" / path.name).write_bytes(path.read_bytes())
    deliver(folder / "queue", "reel-2.scc", "popon_parity_error")
    deliver(folder / "queue", "reel-3.scc", "popon_load_overlap")
    return "queue"


# Terminals


def draw(folder: Path, name: str, command: list[str]) -> None:
    """Run a command on a terminal, and draw what stands there at its end."""
    printed = on_a_terminal(command, folder).replace(str(folder), "/srv")
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    for line in [*printed.rstrip().split("\r\n"), ""]:
        # A line that is written again, as that of a bar, shows as it was last.
        console.print(Text.from_ansi(line.rpartition("\x1b[2K")[2]))
    title = " ".join(["python", *command[1:]])
    svg = console.export_svg(title=title, theme=DEFAULT_TERMINAL_THEME, code_format=SVG, unique_id=name)
    keep(DOCS / f"caption-tutorial-{name}.svg", re.sub(r"[ \t]+$", "", svg, flags=re.MULTILINE).encode())


def on_a_terminal(command: list[str], folder: Path) -> str:
    """Return all that a command writes to its terminal."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, COLUMNS, 0, 0))
    ends = {"stdin": subprocess.DEVNULL, "stdout": theirs, "stderr": theirs}
    with subprocess.Popen(
        command, cwd=folder, env=os.environ | {"TERM": "xterm-256color"}, **ends
    ) as process:  # type: ignore[call-overload]
        os.close(theirs)
        written = bytearray()
        with os.fdopen(ours, "rb", buffering=0) as terminal, contextlib.suppress(OSError):  # EIO at its end
            while piece := terminal.read(1 << 16):
                written += piece
    if process.returncode:
        sys.exit(written.decode())
    return re.sub(r"\x1b\[\?25[hl]", "", written.decode())


# The dashboard


def week(folder: Path) -> Path:
    """Let a house's deliveries be checked, window by window, and return the dashboard."""
    queue = folder / "captions"
    queue.mkdir()
    chance = random.Random(8)  # noqa: S311 - the same pictures each time
    number = 0
    for day in range(1, DAYS + 1):
        for _ in range(A_DAY if day < DAYS else 3 * A_DAY):
            number += 1
            show = queue / SHOWS[number % len(SHOWS)]
            show.mkdir(exist_ok=True)
            (show / f"episode-{number:03d}.scc").write_bytes(content(chance, number, day))
        check(queue, day)
    stubborn = b"\n".join(((RECIPE / "samples" / "popon_clean.scc").read_bytes(),) * 2000)
    (queue / "harbour" / "trailer.scc").write_bytes(stubborn)
    check(queue, DAYS, "--max-attempts", "1", "--asset-timeout", "0.2s")
    return folder / "week" / "dashboard.html"


def content(chance: random.Random, number: int, day: int) -> bytes:
    """Make a file: mostly a clean one, at some speed; the later in the week, the fewer have a fault."""
    if chance.random() < 0.55 - day / 40:
        return (RECIPE / "check" / "examples" / f"{chance.choice(LOUD)}.scc").read_bytes() + b"\n" * number
    text = (RECIPE / "samples" / "popon_clean.scc").read_text()
    speed = chance.uniform(0.75, 1.15)
    return re.sub(r"(\d\d):(\d\d)(?=\t)", lambda found: slower(found, speed), text).encode() + b"\n" * number


def slower(found: re.Match[str], speed: float) -> str:
    """Move a time code of the first minute."""
    seconds, frames = divmod(round((int(found[1]) * 30 + int(found[2])) / speed), 30)
    return f"{seconds:02d}:{frames:02d}"


def check(queue: Path, day: int, *more: str) -> None:
    """Do the run of one day."""
    options = ["--state", str(queue.parent / "week"), "--settle", "0", "--at", f"2026-03-{day:02d}T06:00Z"]
    subprocess.run([*JOB, "run", str(queue), *options, *more], cwd=ROOT, capture_output=True, check=True)


def photograph(page: Path) -> None:
    """Take the top of the dashboard, and an asset that is opened, in the light theme."""
    text = page.read_text().replace(str(page.parents[1]), "/srv")
    page.write_text(text)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        width, height = SIZE
        sheet = browser.new_page(viewport={"width": width, "height": height}, color_scheme="light")
        sheet.goto(page.as_uri())
        sheet.wait_for_selector("button.open")
        keep(DOCS / "caption-tutorial-dashboard.png", sheet.screenshot())
        keep(DOCS / "caption-tutorial-plots.png", sheet.screenshot(full_page=True, clip=around(sheet)))
        sheet.locator("button.open", has_text="episode").first.click()
        sheet.evaluate("document.getElementById('assets-title').scrollIntoView()")
        keep(DOCS / "caption-tutorial-asset.png", sheet.screenshot())
        browser.close()


def around(sheet: Page) -> FloatRect:
    """Return the place of the two plots, which stand side by side."""
    left, right = (sheet.locator(name).bounding_box() for name in ("#windows", "#reading-speed"))
    if left is None or right is None:
        sys.exit("the page has no plots: is pygal installed?")
    width = right["x"] + right["width"] - left["x"]
    return {"x": left["x"], "y": left["y"], "width": width, "height": max(left["height"], right["height"])}


def keep(path: Path, picture: bytes) -> None:
    """Write a picture, and say how large it is."""
    path.write_bytes(picture)
    print(f"made {path.name}, {len(picture) // 1000} kB")


if __name__ == "__main__":
    main()
