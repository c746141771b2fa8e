"""What the page says is not seen is not seen, and what it says helps does; the names that it gives are there."""

from __future__ import annotations

import re

from pages import ROOT, table

from examples.recipes.caption_qc.check import check, load, parse, parse_programme, read_reference
from examples.recipes.caption_qc.check.rules import RULES
from examples.recipes.caption_qc.options import COMMANDS, RUN_OPTIONS, build_parser

PAGE = ROOT / "docs" / "caption-limits.md"
SAMPLES = ROOT / "examples" / "recipes" / "caption_qc" / "samples"
CLEAN = (SAMPLES / "popon_clean.scc").read_bytes()
DROP = (SAMPLES / "popon_dropframe_clean.scc").read_bytes()
HOUSE = load("house")


def rules(data: bytes, **given: object) -> set[str]:
    """Check a file by the house's limits, and return what it breaks."""
    return {finding.rule for finding in check(data, HOUSE, **given).findings}  # type: ignore[arg-type]


def test_every_rule_that_is_named_exists() -> None:
    """And the page names most of those that help where the file alone is not enough."""
    named = set(re.findall(r"`([A-Z0-9]+_[A-Z0-9_]+|DRIFT)`", PAGE.read_text()))
    assert len(named) > 12
    assert named <= set(RULES)


def test_wrong_labels_are_seen_against_a_programme_alone() -> None:
    """A drop-frame file under non-drop labels is as good as any, until somebody says what the programme is."""
    mislabelled = re.sub(rb"(?m)^(..:..:..);", rb"\1:", DROP)
    assert rules(mislabelled) == set()
    assert rules(mislabelled, programme=parse_programme("00:00:00;00-00:03:00;02")) == {"PROG_TIMEBASE"}


def test_what_is_missing_inside_a_programme_is_not_seen() -> None:
    """A file without its second half passes, with the programme too; what stands outside is found."""
    lines = CLEAN.splitlines(keepends=True)
    half = b"".join(lines[: len(lines) // 2])
    half = half[: half.rindex(b"\n\n00:")] + b"\n\n00:00:16:00\t942c 942c\n"
    whole, short = (parse_programme(f"00:00:00:00-00:00:{end}:00") for end in ("40", "05"))
    assert rules(half, programme=whole) == rules(half) == set()
    assert rules(half, programme=short) == {"PROG_LATE"}


def test_a_constant_distance_is_told_and_is_no_finding() -> None:
    """The figure is in the report; one that grows is a finding."""
    late = re.sub(rb"(?m)^00:00:", b"00:02:", CLEAN)
    report = check(late, HOUSE, reference=read_reference(CLEAN, "reference"))
    assert report.drift is not None
    assert report.drift.first_ms is not None
    assert report.drift.first_ms > 120_000
    assert report.findings == ()


def test_a_reference_of_other_words_is_a_finding() -> None:
    """Nothing matches, so it may be another programme's."""
    assert rules(CLEAN, reference=read_reference(DROP, "reference")) == {"DRIFT"}


def test_a_file_at_25_frames_is_seen_by_a_profile_that_asks() -> None:
    """The house's limit sees 24 a second."""
    strict = parse(b'name = "strict"\n[rules.TC_FRAME_RATE]\nthreshold = 24\n', "strict")
    seen = {}
    for last in (23, 24):
        lines = [f"00:{n // 60:02}:{n % 60:02}:{last}\t8080" for n in range(60)]
        data = "\n\n".join(["Scenarist_SCC V1.0", *lines]).encode()
        seen[last] = [
            "TC_FRAME_RATE" in {finding.rule for finding in check(data, profile).findings}
            for profile in (HOUSE, strict)
        ]
    assert seen == {23: [True, True], 24: [False, True]}


def test_a_run_takes_no_reference_and_reads_sidecars() -> None:
    """As the page says of drift: `inspect` alone compares."""
    assert "reference" not in {option.name for option in RUN_OPTIONS}
    assert build_parser({}).parse_args(["inspect", "--reference", "x", "y.scc"]).reference is not None


def test_options_beside_the_cron_script_are_options() -> None:
    """Each that the table names is one of `run`, `inspect` or another command."""
    rows = table(ROOT / "docs" / "caption-qc.md", "| the script ")
    named = {option for row in rows for option in re.findall(r"`(--[a-z-]+|[a-z]+)[^`]*`", row[2])}
    helps = {f"--{option.name}" for option in RUN_OPTIONS} | {"--csv", *COMMANDS}
    assert len(named) > 12
    assert named <= helps
