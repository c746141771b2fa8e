"""Profiles: what a TOML file may say, and the one line that says what is wrong with it."""

from __future__ import annotations

import math
import pickle
import re
import subprocess
import sys
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING

import pytest
from caption_cues import popon
from caption_reports import ROOT

from examples.recipes.caption_qc.check import Override, Profile, ProfileError, check, load, parse
from examples.recipes.caption_qc.check.profiles import built_in
from examples.recipes.caption_qc.check.rules import RULES

if TYPE_CHECKING:
    from pathlib import Path

MINIMAL = b'name = "ours"\n'


# The numbers that each profile sets itself, less those that it has from the rules.
NUMBERS = {
    "bbc": {"LAY_ROWS": 2, "RATE_WPM": 180},
    "dcmp": {"RATE_WPM": 160},
    "dcmp-lower": {"RATE_WPM": 130},
    "dcmp-middle": {"RATE_WPM": 140},
    "house": {name: rule.threshold for name, rule in RULES.items() if rule.threshold is not None},
    "netflix": {"LAY_ROWS": 2, "CUE_SHORT": 5 / 6, "CUE_LONG": 7, "CUE_GAP": 2, "RATE_CPS": 20},
    "netflix-children": {"LAY_ROWS": 2, "CUE_SHORT": 5 / 6, "CUE_LONG": 7, "CUE_GAP": 2, "RATE_CPS": 17},
}


def test_house_is_the_default() -> None:
    """CC1, eight million bytes, every rule as it is, and the digest of its file."""
    house = load("house")

    data = (files("examples.recipes.caption_qc.check") / "profiles" / "house.toml").read_bytes()
    assert (house.name, house.sha256) == ("house", sha256(data).hexdigest())
    assert (house.channel, house.max_bytes, house.colours) == ("CC1", 8_000_000, None)
    for name, override in house.overrides.items():
        assert override.severity in {None, RULES[name].severity}, name


def test_profiles_that_come_with_the_recipe_are_known() -> None:
    """Each audience is a profile of its own, since the digest of its bytes is in the key of a record."""
    assert built_in() == list(NUMBERS)
    assert len({load(name).sha256 for name in built_in()}) == len(NUMBERS)
    assert [load(name).name for name in built_in()] == built_in()


@pytest.mark.parametrize("name", NUMBERS)
def test_every_number_of_a_profile_has_its_source(name: str) -> None:
    """And is the one that its source gives; no law sets any."""
    profile = load(name)

    numbers = {rule: change.threshold for rule, change in profile.overrides.items()}
    assert {rule: number for rule, number in numbers.items() if number is not None} == NUMBERS[name]
    assert profile.source
    for rule, change in profile.overrides.items():
        assert change.source, rule
        assert "FCC" not in change.source


@pytest.mark.parametrize("name", ["dcmp", "bbc"])
def test_rate_that_a_guide_does_not_give_is_told_and_not_judged(name: str) -> None:
    """A guide that counts words fails no file by its characters."""
    fast = popon((100, 130, "X" * 32))

    assert {finding.severity for finding in check(fast, load(name)).findings} == {"info"}


def test_audience_decides() -> None:
    """150 words a minute are too fast for pupils, 19 characters a second for children."""
    words = popon((100, 136, "I AM ON"))  # 149.85 a minute.
    characters = popon((100, 130, "X" * 19))  # 18.98 a second.

    slow = {name: check(words, load(name)).status for name in ("dcmp-lower", "dcmp-middle", "dcmp")}
    assert slow == {"dcmp-lower": "warn", "dcmp-middle": "warn", "dcmp": "pass"}
    assert [check(characters, load(name)).status for name in ("netflix", "netflix-children")] == [
        "pass",
        "warn",
    ]


def test_profile_is_read_from_a_file(tmp_path: Path) -> None:
    """By its path; what it leaves out is as the rules say."""
    path = tmp_path / "ours.toml"
    path.write_bytes(MINIMAL)

    assert load(str(path)) == Profile(name="ours", sha256=sha256(MINIMAL).hexdigest())


def test_profile_may_say_everything() -> None:
    """Source, channel, size limit and colours, and severity, threshold and source by rule."""
    profile = parse(
        MINIMAL + b'source = "Us"\nchannel = "CC3"\nmax_bytes = 10\ncolours = ["white", "cyan"]\n'
        b'[rules.TC_JUMP]\nseverity = "info"\nthreshold = 1.5\nsource = "Page 4"\n'
        b'[rules.608_PARITY]\nseverity = "warn"\n[rules.FMT_BOM]\n',
        "ours.toml",
    )

    assert (profile.source, profile.channel, profile.max_bytes) == ("Us", "CC3", 10)
    assert profile.colours == ("white", "cyan")
    assert profile.overrides == {
        "TC_JUMP": Override("info", 1.5, "Page 4"),
        "608_PARITY": Override("warn", None),
        "FMT_BOM": Override(None, None),
    }


def test_profile_goes_to_worker_processes() -> None:
    """It is pickled whole."""
    profile = parse(MINIMAL + b'[rules.TC_JUMP]\nseverity = "info"\n', "ours.toml")

    assert pickle.loads(pickle.dumps(profile)) == profile  # noqa: S301 - our own bytes


@pytest.mark.parametrize(
    ("data", "wanted"),
    [
        (b"", 'no name; write name = "..."'),
        (b"name = 5", "name is 5; it must be 1 to 64"),
        (b'name = ""', "name is ''"),
        (b'name = "two\\nlines"', r"name is 'two\\nlines'"),
        (b'name = "' + b"x" * 65 + b'"', "it must be 1 to 64 letters"),
        (
            b"name = ",
            r"Invalid value \(at end of document\); write lines like channel = .CC1. and tables like ",
        ),
        (MINIMAL + b"[rules.TC_JUMP\n", r"\(at line 2, column 15\); write lines like"),
        (b"\xff", "byte 0 is not UTF-8, which TOML must be; save it as UTF-8"),
        (b"a = " + b"[" * 5000, "recursion"),
        (
            MINIMAL + b"colour = 1",
            r"line 2: unknown key 'colour'; did you mean colours\?",
        ),
        (MINIMAL + b"colours = 1", "colours is 1; write a list of some of white, green, blue, "),
        (MINIMAL + b"colours = []", r"colours is \[\]; write a list"),
        (
            MINIMAL + b'colours = ["white", "orange"]',
            "unknown colour 'orange'; known are white, green, blue, ",
        ),
        (MINIMAL + b'colours = ["white", ""]', "unknown colour ''; known are"),
        (MINIMAL + b"colours = [[]]", r"unknown colour \[\]; known are"),
        (
            MINIMAL + b"source = 1",
            "line 2: source is not text of one line, of 1 to 500 characters; write who says so",
        ),
        (MINIMAL + b'source = "two\\nlines"', "source is not text of one line"),
        (
            MINIMAL + b'[rules.TC_JUMP]\nsource = "' + b"x" * 501 + b'"',
            "line 3: source of TC_JUMP is not text of one line",
        ),
        (MINIMAL + b'channel = "CC5"', "channel is 'CC5'; it must be one of CC1, CC2, CC3, CC4"),
        (MINIMAL + b"channel = []", r"channel is \[\]"),
        (MINIMAL + b"max_bytes = 0", "max_bytes is 0; it must be a whole number from 1 to 1000000000"),
        (MINIMAL + b"max_bytes = -1", "max_bytes is -1"),
        (MINIMAL + b"max_bytes = 1_000_000_001", "max_bytes is 1000000001"),
        (MINIMAL + b"max_bytes = 1" + b"0" * 30, "max_bytes is of over 18 digits; it must be a whole number"),
        (MINIMAL + b"max_bytes = true", "max_bytes is True"),
        (MINIMAL + b"max_bytes = 1.5", "max_bytes is 1.5"),
        (MINIMAL + b"rules = 1", r"rules is 1; write tables: \[rules.TC_JUMP\]"),
        (MINIMAL + b"[rules.TC_JUMPS]", r"line 2: unknown rule 'TC_JUMPS'; did you mean TC_JUMP\?"),
        (MINIMAL + b"[rules.X]", "line 2: unknown rule 'X'; known are FMT_HEADER, "),
        (
            MINIMAL + b"zebra = 1",
            "line 2: unknown key 'zebra'; known are name, source, channel, max_bytes, colours",
        ),
        (MINIMAL + b"x" * 1000 + b" = 1", r"line 2: unknown key 'x{79}\.\.\.; known are name"),
        (MINIMAL + b'rules.TC_JUMP = "warn"', r"rules.TC_JUMP is 'warn'; write a table: \[rules.TC_JUMP\]"),
        (
            MINIMAL + b"[rules.TC_JUMP]\nlimit = 1",
            "unknown key of TC_JUMP 'limit'; known are severity, threshold, source",
        ),
        (
            MINIMAL + b'[rules.TC_JUMP]\nseverity = "fatal"',
            "severity of TC_JUMP is 'fatal'; it must be one of info",
        ),
        (MINIMAL + b"[rules.TC_JUMP]\nseverity = {}", "severity of TC_JUMP is {}"),
        (
            MINIMAL + b"[rules.TC_JUMP]\nthreshold = -1",
            "threshold of TC_JUMP is -1; it must be a number of seconds",
        ),
        (MINIMAL + b"[rules.TC_JUMP]\nthreshold = nan", "threshold of TC_JUMP is nan"),
        (MINIMAL + b"[rules.TC_JUMP]\nthreshold = inf", "threshold of TC_JUMP is inf"),
        (
            MINIMAL + b"[rules.TC_JUMP]\nthreshold = 1_000_000_001",
            "threshold of TC_JUMP is 1000000001; it must be a number of seconds, from 0 to 1000000000",
        ),
        (
            MINIMAL + b"[rules.TC_LOAD_OVERLAP]\nthreshold = 1" + b"0" * 30,
            "threshold of TC_LOAD_OVERLAP is of over 18 digits; it must be a number of frames",
        ),
        (MINIMAL + b"[rules.TC_JUMP]\nthreshold = 0x" + b"f" * 9000, "threshold of TC_JUMP is of over 18"),
        (MINIMAL + b"[rules.TC_JUMP]\nthreshold = 1e300", r"threshold of TC_JUMP is 1e\+300"),
        (MINIMAL + b"[rules.TC_JUMP]\nthreshold = true", "threshold of TC_JUMP is True"),
        (MINIMAL + b'[rules.TC_JUMP]\nthreshold = "1"', "threshold of TC_JUMP is '1'"),
        (MINIMAL + b"[rules.FMT_BOM]\nthreshold = 1", "FMT_BOM has no threshold; leave it out"),
        (MINIMAL + b"[rules.FMT_TOO_LARGE]\nthreshold = 1", "FMT_TOO_LARGE has no threshold"),
    ],
)
def test_wrong_profile_is_one_line_that_says_what_is_wanted(data: bytes, wanted: str) -> None:
    """It names the file, what was found and what is wanted."""
    with pytest.raises(ProfileError, match=rf"^profile 'ours\.toml': .*{wanted}") as caught:
        parse(data, "ours.toml")

    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b'channel = "X"', 2),
        (b'# channel\n\nchannel = "X"', 4),
        (b"max_bytes = 0", 2),
        (b"[rules.FMT_BOM]\n[rules.TC_JUMP]\nthreshold = -1", 4),
        (b"[rules.TC_LOAD_OVERLAP]\nthreshold = 1\n[rules.TC_JUMP]\nthreshold = true", 5),
        (b'[rules]\nFMT_BOM.severity = "info"\nTC_JUMP.severity = "high"', 4),
        (b"[rules]\nTC_JUMP = { threshold = -1 }\nTC_FRAME_RATE = { threshold = 1 }", 3),
        (b'source = "TC_JUMP"\n[rules.TC_JUMP] # threshold = 3\nthreshold = -1', 4),
        (b"[rules.TC_JUMP]\nlimit = 1", 3),
        (b"rules = 3", 2),
    ],
)
def test_wrong_profile_names_the_line(data: bytes, line: int) -> None:
    """Of the key that is wrong, in whatever way it is written; neither of a comment nor of another rule's."""
    with pytest.raises(ProfileError, match=rf"^profile 'ours\.toml': line {line}: "):
        parse(MINIMAL + data, "ours.toml")


@pytest.mark.parametrize("threshold", [10**30, 1_000_000_001, -1, math.inf, math.nan])
def test_no_profile_has_a_threshold_out_of_bounds(threshold: float) -> None:
    """Made without a file, too: such a number would only fail where it is stored."""
    with pytest.raises(
        ProfileError, match=r"^threshold of TC_JUMP is .*; it must be a number of seconds, from 0"
    ):
        Profile(name="ours", sha256="", overrides={"TC_JUMP": Override(threshold=threshold)})


@pytest.mark.parametrize("max_bytes", [1 << 20_000, 1_000_000_001, 0], ids=["huge", "over", "none"])
def test_no_profile_has_a_size_limit_out_of_bounds(max_bytes: int) -> None:
    """Made without a file, too."""
    with pytest.raises(
        ProfileError, match=r"^max_bytes is .*; it must be a whole number from 1 to 1000000000$"
    ):
        Profile(name="ours", sha256="", max_bytes=max_bytes)


def test_greatest_numbers_of_a_profile_are_those_of_the_bound() -> None:
    """A threshold of 0 and of the bound are allowed."""
    most = 1_000_000_000
    profile = parse(MINIMAL + b"max_bytes = %d\n[rules.TC_JUMP]\nthreshold = %d" % (most, most), "ours.toml")

    assert (profile.max_bytes, profile.overrides) == (most, {"TC_JUMP": Override(threshold=most)})


def test_profile_that_cannot_be_read_names_the_ways_out(tmp_path: Path) -> None:
    """A missing file, a folder, a path that is none, a file that is too large."""
    large = tmp_path / "large.toml"
    large.write_bytes(b"#" * 1_000_001)
    reasons = {
        "nowhere": "No such file or directory",
        str(tmp_path): "Is a directory",
        "a\0b": "embedded null byte",
        "": "Is a directory",
        str(large): "over 1000000 bytes, which no profile needs",
    }

    for name, reason in reasons.items():
        with pytest.raises(ProfileError, match=re.escape(f"profile {name!r}: {reason}")) as caught:
            load(name)
        assert str(caught.value).endswith(f"give a TOML file's path, or a name: {', '.join(NUMBERS)}")
        assert str(caught.value).isprintable()


def test_unreadable_profile_says_so(tmp_path: Path) -> None:
    """Without the right to read it, it is one line too."""
    path = tmp_path / "secret.toml"
    path.write_bytes(MINIMAL)
    path.chmod(0)
    program = f"from examples.recipes.caption_qc.check import load; load({str(path)!r})"
    without = "-dac_override,-dac_read_search"
    plain_user = ["setpriv", f"--bounding-set={without}", f"--inh-caps={without}"]

    run = subprocess.run(
        [*plain_user, sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert "ProfileError: profile" in run.stderr
    assert "Permission denied; give a TOML file's path" in run.stderr
