"""Every rule has an example that trips it, and no other: pages are made of them."""

from __future__ import annotations

from typing import get_args

import pytest
from caption_reports import ROOT

from examples.recipes.caption_qc.check import Severity
from examples.recipes.caption_qc.check.rule_examples import example, run_example
from examples.recipes.caption_qc.check.rules import RULES

FOLDER = ROOT / "examples" / "recipes" / "caption_qc" / "check" / "examples"

# What can't be shown without: a line of NUL is none of words; a line in the frame of the one above leaves its
# words no time; and a cue can only end before it starts where lines overlap.
COMPANY = {
    "FMT_NUL": {"FMT_BAD_LINE"},
    "TC_DUPLICATE": {"TC_LOAD_OVERLAP"},
    "CUE_ZERO_OR_NEGATIVE": {"TC_LOAD_OVERLAP"},
}


def test_every_rule_has_an_example_and_no_other_has() -> None:
    """A file each, and what belongs to it."""
    assert {path.name.partition(".")[0] for path in FOLDER.iterdir()} == set(RULES)
    assert {path.stem for path in FOLDER.glob("*.scc")} == set(RULES)


@pytest.mark.parametrize("name", RULES)
def test_example_trips_its_rule_and_no_other(name: str) -> None:
    """Others over info are those that can't be left out."""
    report = run_example(name)

    own = [finding for finding in report.findings if finding.rule == name]
    assert {finding.severity for finding in own} == {RULES[name].severity}
    others = {finding.rule for finding in report.findings if finding.severity != "info"} - {name}
    assert others == COMPANY.get(name, set())


@pytest.mark.parametrize("name", RULES)
def test_example_is_short(name: str) -> None:
    """A page shows it whole; the one of fifty lines is cut there."""
    assert len(example(name).data) < (10_000 if name == "TC_FRAME_RATE" else 800)


@pytest.mark.parametrize("name", RULES)
def test_rule_is_told_in_one_sentence(name: str) -> None:
    """Without its name, and with a full stop."""
    rule = RULES[name]

    assert rule.name == name
    assert rule.about[0].isupper()
    assert rule.about.endswith(".")
    assert rule.about.isprintable()
    assert name not in rule.about
    assert "FCC" not in rule.about


@pytest.mark.parametrize("name", RULES)
def test_rule_with_a_threshold_has_a_unit(name: str) -> None:
    """And a severity of its own, or two that differ."""
    rule = RULES[name]

    assert rule.threshold is None or rule.unit
    assert {rule.severity, rule.also} - {None} <= set(get_args(Severity))
    assert rule.also != rule.severity
