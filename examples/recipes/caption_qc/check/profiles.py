"""Profiles: which channel a house checks, how large a file may be, and how severe its rules are.

A profile is a TOML file. What it leaves out is as the rules say; `source` says whose a number is:

    name = "strict"
    source = "House style of 2026"
    channel = "CC1"
    max_bytes = 8_000_000
    colours = ["white", "yellow"]

    [rules.TC_JUMP]
    severity = "error"
    threshold = 300
    source = "Page 4"
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from difflib import get_close_matches
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from examples.recipes.caption_qc.check.report import Severity
from examples.recipes.caption_qc.check.rules import RULES
from examples.recipes.caption_qc.check.scc import CHANNELS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from examples.recipes.caption_qc.check.rule import Rule

DEFAULT_CHANNEL = "CC1"
DEFAULT_MAX_BYTES = 8_000_000  # The largest of 30 real files has 241,152.

COLOURS = ("white", "green", "blue", "cyan", "red", "yellow", "magenta", "black")
"""Those that CEA-608 has for text."""

MOST = 1_000_000_000
"""The greatest threshold and size limit: over 30 years in seconds, and far from what a database can't store."""

_SEVERITIES: tuple[Severity, ...] = get_args(Severity)
_KEYS = ("name", "source", "channel", "max_bytes", "colours", "rules")
_RULE_KEYS = ("severity", "threshold", "source")
_LONGEST_SOURCE = 500
_LONGEST_QUOTE = 80
_LINE, _TABLE = 'channel = "CC1"', "[rules.TC_JUMP]"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_LARGEST_PROFILE = 1_000_000
_BUILT_IN = files("examples.recipes.caption_qc.check") / "profiles"


class ProfileError(ValueError):
    """A profile cannot be used; the message is one line."""

    def __init__(self, message: str, *path: str) -> None:
        super().__init__(message)
        self.path = path
        """The keys that lead to what is wrong, where it is in a file."""


@dataclass(frozen=True, slots=True)
class Override:
    """What a profile changes of one rule; `None` leaves it as it is."""

    severity: Severity | None = None
    threshold: float | None = None
    source: str | None = None
    """Whose number or decision it is."""


_UNCHANGED = Override()


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A profile that was read and found right."""

    name: str
    sha256: str
    """Of the file's bytes: it goes into every record."""
    channel: str = DEFAULT_CHANNEL
    max_bytes: int = DEFAULT_MAX_BYTES
    """A larger file is refused unread."""
    colours: tuple[str, ...] | None = None
    """The colours that text may have; `None` means all."""
    source: str | None = None
    """Where the profile comes from."""
    overrides: Mapping[str, Override] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse numbers out of bounds, wherever the profile comes from.

        Raises:
            ProfileError: One is no number from 0 to `MOST`.
        """
        if not 0 < self.max_bytes <= MOST:
            raise ProfileError(
                f"max_bytes is {_told(self.max_bytes)}; it must be a whole number from 1 to {MOST}",
                "max_bytes",
            )
        for name, override in self.overrides.items():
            if override.threshold is not None and not 0 <= override.threshold <= MOST:
                raise ProfileError(
                    f"threshold of {name} is {_told(override.threshold)}; "
                    f"it must be a number of {RULES[name].unit}, from 0 to {MOST}",
                    name,
                    "threshold",
                )

    def override(self, rule: Rule) -> Override:
        """Say what the profile changes of a rule."""
        return self.overrides.get(rule.name, _UNCHANGED)


def load(name_or_path: str) -> Profile:
    """Read a profile by its built-in name, or else from a file. The only place here that does I/O.

    Raises:
        ProfileError: There is no such profile, or it cannot be read or used.
    """
    try:
        data = _read(name_or_path)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ProfileError(
            f"profile {name_or_path!r}: {reason}; give a TOML file's path, or a name: {_listed(built_in())}"
        ) from error
    return parse(data, name_or_path)


def built_in() -> list[str]:
    """List the names of the profiles that come with the recipe."""
    return sorted(
        entry.name.removesuffix(".toml") for entry in _BUILT_IN.iterdir() if entry.name.endswith(".toml")
    )


def parse(data: bytes, origin: str) -> Profile:
    """Make a profile of a TOML file's bytes; `origin` is what messages call it.

    Raises:
        ProfileError: The bytes are no such profile.
    """
    try:
        text = data.decode()
        table = tomllib.loads(text)
    except UnicodeDecodeError as error:
        raise ProfileError(
            f"profile {origin!r}: byte {error.start} is not UTF-8, which TOML must be; save it as UTF-8"
        ) from error
    except (ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise ProfileError(
            f"profile {origin!r}: {reason}; write lines like {_LINE} and tables like {_TABLE}"
        ) from error
    try:
        return _profile(table, sha256(data).hexdigest())
    except ProfileError as error:
        line = f"line {_line_of(text, error.path)}: " if error.path else ""
        raise ProfileError(f"profile {origin!r}: {line}{error}", *error.path) from error


def _line_of(text: str, path: Iterable[str]) -> int:
    """Find the line of a value by its keys, each in the line of the one before or below it."""
    place = 0
    for key in path:
        name = rf"(?<![\w-]){re.escape(key)}(?![\w-])"
        in_line = re.compile(rf"[^#\n]*?{name}").match(text, place) if place else None
        found = in_line or re.compile(rf"^[^#=\n]*{name}", re.MULTILINE).search(text, place)
        place = found.end() if found else place
    return 1 + text.count("\n", 0, place)


def _read(name_or_path: str) -> bytes:
    if name_or_path in built_in():
        return (_BUILT_IN / f"{name_or_path}.toml").read_bytes()
    with Path(name_or_path).open("rb") as file:
        data = file.read(_LARGEST_PROFILE + 1)
    if len(data) > _LARGEST_PROFILE:
        raise ValueError(f"over {_LARGEST_PROFILE} bytes, which no profile needs")
    return data


def _profile(table: Mapping[str, object], digest: str) -> Profile:
    _refuse_unknown("key", table, _KEYS)
    if "name" not in table:
        raise ProfileError('no name; write name = "..." on its first line')
    return Profile(
        name=_name(table["name"]),
        sha256=digest,
        channel=_channel(table.get("channel", DEFAULT_CHANNEL)),
        max_bytes=_max_bytes(table.get("max_bytes", DEFAULT_MAX_BYTES)),
        colours=_colours(table["colours"]) if "colours" in table else None,
        source=_source(table["source"]) if "source" in table else None,
        overrides=_overrides(table.get("rules", {})),
    )


def _name(value: object) -> str:
    if isinstance(value, str) and _NAME.fullmatch(value):
        return value
    raise ProfileError(f"name is {_quoted(value)}; it must be 1 to 64 letters, digits and ._-", "name")


def _channel(value: object) -> str:
    if isinstance(value, str) and value in CHANNELS:
        return value
    raise ProfileError(f"channel is {_quoted(value)}; it must be one of {_listed(CHANNELS)}", "channel")


def _max_bytes(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise ProfileError(
        f"max_bytes is {_quoted(value)}; it must be a whole number from 1 to {MOST}", "max_bytes"
    )


def _colours(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not value:
        raise ProfileError(
            f"colours is {_quoted(value)}; write a list of some of {_listed(COLOURS)}", "colours"
        )
    if unknown := [name for name in value if name not in COLOURS]:
        raise ProfileError(f"unknown colour {_quoted(unknown[0])}; known are {_listed(COLOURS)}", "colours")
    return tuple(value)


def _source(value: object, *rule: str) -> str:
    if isinstance(value, str) and value.isprintable() and 0 < len(value) <= _LONGEST_SOURCE:
        return value
    what = " of ".join(("source", *rule))
    raise ProfileError(
        f"{what} is not text of one line, of 1 to {_LONGEST_SOURCE} characters; write who says so",
        *rule,
        "source",
    )


def _overrides(value: object) -> Mapping[str, Override]:
    if not isinstance(value, dict):
        raise ProfileError(f"rules is {_quoted(value)}; write tables: {_TABLE}", "rules")
    _refuse_unknown("rule", value, RULES, "rules")
    return {name: _override(RULES[name], changes) for name, changes in value.items()}


def _override(rule: Rule, value: object) -> Override:
    if not isinstance(value, dict):
        raise ProfileError(
            f"rules.{rule.name} is {_quoted(value)}; write a table: [rules.{rule.name}]", rule.name
        )
    _refuse_unknown(f"key of {rule.name}", value, _RULE_KEYS, rule.name)
    severity = _severity(rule, value["severity"]) if "severity" in value else None
    threshold = _threshold(rule, value["threshold"]) if "threshold" in value else None
    source = _source(value["source"], rule.name) if "source" in value else None
    return Override(severity, threshold, source)


def _severity(rule: Rule, value: object) -> Severity:
    if severity := next((known for known in _SEVERITIES if known == value), None):
        return severity
    raise ProfileError(
        f"severity of {rule.name} is {_quoted(value)}; it must be one of {_listed(_SEVERITIES)}",
        rule.name,
        "severity",
    )


def _threshold(rule: Rule, value: object) -> float:
    if rule.threshold is None:
        raise ProfileError(f"{rule.name} has no threshold; leave it out", rule.name, "threshold")
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    raise ProfileError(
        f"threshold of {rule.name} is {_quoted(value)}; it must be a number of {rule.unit}, from 0 to {MOST}",
        rule.name,
        "threshold",
    )


def _quoted(value: object) -> str:
    shown = repr(value)
    return shown if len(shown) <= _LONGEST_QUOTE else f"{shown[:_LONGEST_QUOTE]}..."


def _told(number: float) -> str:
    """Show a number that may have more digits than Python prints."""
    return "of over 18 digits" if isinstance(number, int) and abs(number) >= MOST * MOST else repr(number)


def _refuse_unknown(what: str, found: Iterable[str], known: Iterable[str], *path: str) -> None:
    if unknown := sorted(set(found) - set(known)):
        name = unknown[0]
        near = get_close_matches(name, list(known), n=1)
        way_out = f"did you mean {near[0]}?" if near else f"known are {_listed(known)}"
        raise ProfileError(f"unknown {what} {_quoted(name)}; {way_out}", *path, name)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
