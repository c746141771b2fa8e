"""The reference of the rules, `docs/caption-rules.md`, made of the rules themselves.

    python -m examples.recipes.caption_qc.rules_page > docs/caption-rules.md

Each rule's example is checked while the page is made, and what the checker says of it stands under it.
"""

from __future__ import annotations

import sys
from itertools import chain
from typing import TYPE_CHECKING, Final

from .check import load
from .check.faults import MOST_LISTED
from .check.profiles import built_in
from .check.rule_examples import example, run_example
from .check.rules import RULES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from .check import Finding, Profile
    from .check.rule import Rule

_FAMILIES: Final = {
    "FMT": "The file",
    "HEX": "Its words",
    "TC": "Time codes",
    "608": "Bytes and codes",
    "LAY": "Layout",
    "CUE": "Cues",
    "RATE": "Reading speed",
    "STYLE": "Style",
    "PROG": "The programme",
    "DRIFT": "Drift",
}
_MOST_LINES: Final = 14
_BESIDE: Final = 3
_HEAD: Final = f"""\
# The rules of caption QC

<!-- Made by `python -m examples.recipes.caption_qc.rules_page`; change the rules, not this page. -->

What `examples/recipes/caption_qc` looks for, with an example each. The examples are files in
`examples/recipes/caption_qc/check/examples`, checked when this page is made: what stands under a file is what
the checker says of it. `inspect` says the same; [caption QC](caption-qc.md) says how it is used.

```console
$ python -m examples.recipes.caption_qc inspect examples/recipes/caption_qc/check/examples/CUE_SHORT.scc
...
warn  CUE_SHORT  line ...
      cue 1 is on screen for ...
...
```

A finding has a rule, a severity, a message, and where they make sense the line, the word, the time code and the
frame, the cue and the channel, what was measured, the limit and the unit. Lines, rows and columns count from 1,
words from 0, so that a word goes out at its line's frame plus its number. The status of a file is `fail` with an
error, `warn` with a warning, else `pass`. Of one rule at most {MOST_LISTED} findings a file are listed, and one more
says how many there were; these are the worst where something is measured against a limit, else the first.

Rules of the families FMT, HEX and TC, and 608_PARITY, read the whole file. All others judge the channel that the
profile names, and of other channels only that they are there.

The records and the dashboard of the job have two more, `JOB_SIDECAR` and `JOB_DEAD_LETTER`, which are
[the job's own](caption-qc.md#findings-of-the-job). Who mends a file by hand finds the
[letters and codes](caption-tutorial.md#letters-and-codes) in the tutorial.

Not looked at: italics that are left on (attributes end with the row), spelling, language, and whether captions
say what was said. The FCC's quality rule, 47 CFR 79.1(j)(2), sets no numbers, so no number here is the FCC's."""


def page() -> str:
    """Write the whole page."""
    families = chain.from_iterable(_family(title, rules) for title, rules in rules_by_family().items())
    return "\n".join(chain([_HEAD, ""], _summary(), families, _profiles()))


def rules_by_family() -> dict[str, list[Rule]]:
    """Part the rules by what their names begin with, in the order of the page."""
    parted: dict[str, list[Rule]] = {title: [] for title in _FAMILIES.values()}
    for rule in RULES.values():
        parted[_FAMILIES[rule.name.partition("_")[0]]].append(rule)
    return parted


def _summary() -> Iterator[str]:
    yield "| rule | severity | limit | what it finds |"
    yield "|---|---|---|---|"
    for rule in chain.from_iterable(rules_by_family().values()):
        cells = (f"[`{rule.name}`](#{rule.name.lower()})", _severities(rule), _limit(rule), _cell(rule.about))
        yield f"| {' | '.join(cells)} |"
    yield ""


def _severities(rule: Rule) -> str:
    return rule.severity if rule.also is None else f"{rule.severity} or {rule.also}"


def _limit(rule: Rule) -> str:
    return "" if rule.threshold is None else f"{_number(rule.threshold)} {rule.unit}"


def _family(title: str, rules: Iterable[Rule]) -> Iterator[str]:
    yield f"## {title}"
    yield ""
    for rule in rules:
        yield from _section(rule)


def _section(rule: Rule) -> Iterator[str]:
    limit = f", limit {_limit(rule)}" if rule.threshold is not None else ""
    yield f"### {rule.name}"
    yield ""
    yield f"*{_severities(rule)}{limit}.* {rule.about}"
    yield ""
    yield "```text"
    yield from _files(rule)
    yield "```"
    yield ""
    yield "```text"
    yield from _told(next(found for found in run_example(rule.name).findings if found.rule == rule.name))
    yield "```"
    yield ""


def _files(rule: Rule) -> Iterator[str]:
    """Show the example, and what stands beside it, each under its name."""
    found = example(rule.name)
    yield from _text(found.data)
    for what, data in (("toml", found.sidecar), ("vtt", found.reference), ("profile.toml", found.profile)):
        if data is not None:
            yield ""
            yield f"--- {rule.name}.{what}"
            yield from _text(data)


def _text(data: bytes) -> list[str]:
    """Show a file's lines, what does not print as an escape; of a long file its beginning and its end."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return ["(UTF-16)", *_text(data.decode("utf-16").encode())]
    lines = [_visible(line) for line in data.decode("latin-1").split("\n")]
    if lines and not lines[-1]:
        lines.pop()
    if len(lines) <= _MOST_LINES:
        return lines
    left_out = len(lines) - 2 * _BESIDE - 2
    return [*lines[: _BESIDE + 2], f"... {left_out} lines more ...", *lines[-_BESIDE:]]


def _visible(line: str) -> str:
    text = "".join(char if char == "\t" or _prints(char) else ascii(char)[1:-1] for char in line)
    blanks = len(text) - len(text.rstrip(" "))
    return text.rstrip(" ") + r"\x20" * blanks


def _prints(char: str) -> bool:
    return char.isascii() and char.isprintable()


def _told(finding: Finding) -> Iterator[str]:
    places = {"line": finding.line, "word": finding.word, "frame": finding.frame, "cue": finding.cue}
    parts = [f"{name} {number}" for name, number in places.items() if number is not None]
    parts += [part for part in (finding.timecode, finding.channel) if part]
    yield "  ".join([f"{finding.severity:<5} {finding.rule}", *parts])
    yield f"      {finding.message}"
    if finding.measured is not None:
        against = "" if finding.threshold is None else f"; limit {_number(finding.threshold)}"
        yield f"      measured {_number(finding.measured)}{against} {finding.unit or ''}".rstrip()


def _profiles() -> Iterator[str]:
    profiles = [load(name) for name in built_in()]
    yield "## Profiles"
    yield ""
    yield "A number is the limit that holds; what a profile does not name is as the rules say above. A severity stands"
    yield "where the profile changes it."
    yield ""
    yield "| rule | unit | " + " | ".join(f"`{profile.name}`" for profile in profiles) + " |"
    yield "|---|---" + "|---" * len(profiles) + "|"
    named = {name for profile in profiles for name in profile.overrides}
    for rule in RULES.values():
        if rule.threshold is not None or rule.name in named:
            cells = (_set(rule, profile) for profile in profiles)
            yield f"| `{rule.name}` | {rule.unit or ''} | " + " | ".join(cells) + " |"
    yield ""
    yield "Whose numbers they are:"
    yield ""
    yield "| profile | rule | number | source |"
    yield "|---|---|---|---|"
    for profile in profiles:
        yield from _sources(profile)
    yield ""


def _set(rule: Rule, profile: Profile) -> str:
    override = profile.override(rule)
    threshold = rule.threshold if override.threshold is None else override.threshold
    words = [] if threshold is None else [_number(threshold)]
    severity = override.severity or rule.severity
    if severity != rule.severity or not words:
        words.append(severity)
    return ", ".join(words)


def _sources(profile: Profile) -> Iterator[str]:
    yield f"| `{profile.name}` | | | {_cell(profile.source or '')} |"
    for name, override in profile.overrides.items():
        number = "" if override.threshold is None else _number(override.threshold)
        cells = (f"`{profile.name}`", f"`{name}`", number or override.severity or "", override.source or "")
        yield f"| {' | '.join(map(_cell, cells))} |"


def _number(number: float) -> str:
    """Write a number as people do: 5/6 is 0.833."""
    return f"{number:.3f}".rstrip("0").rstrip(".")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    sys.stdout.buffer.write(page().encode())  # As the file has to be, whatever a terminal here can show.
