"""The page of the rules is made of the rules: it says what they say, and its examples show what it says of them."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from pages import ROOT, table

from examples.recipes.caption_qc.check import Override, load
from examples.recipes.caption_qc.check.profiles import built_in
from examples.recipes.caption_qc.check.rules import RULES
from examples.recipes.caption_qc.rules_page import page, rules_by_family

PAGE = ROOT / "docs" / "caption-rules.md"
OVERVIEW = ROOT / "docs" / "caption-qc.md"


def sections() -> dict[str, str]:
    """Part the page at its rules."""
    parts = re.split(r"^### (\w+)\n", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_the_page_is_the_one_that_the_rules_make() -> None:
    """Byte by byte; the command that makes it anew stands on it."""
    written = PAGE.read_text(encoding="utf-8")
    (command,) = re.findall(r"<!-- Made by `python (-m [\w.]+)`", written)
    assert command == f"-m {page.__module__}"
    assert written == page(), f"python {command} > docs/{PAGE.name}"


def test_the_command_prints_the_page() -> None:
    """As it stands in the file, in whatever folder and encoding."""
    command = [sys.executable, "-W", "error", "-m", page.__module__]
    made = subprocess.run(
        command, cwd=ROOT, capture_output=True, check=True, env={"PYTHONIOENCODING": "ascii"}
    )
    assert made.stdout.decode() == PAGE.read_text(encoding="utf-8")


def test_every_rule_has_a_row_and_a_section_in_one_order() -> None:
    """No rule is left out by its family, and none is there twice."""
    named = [rule.name for rules in rules_by_family().values() for rule in rules]
    assert sorted(named) == sorted(RULES)
    assert [re.findall(r"`(\w+)`", row[0])[0] for row in table(PAGE, "| rule ")] == named
    assert list(sections()) == named


@pytest.mark.parametrize("name", RULES)
def test_a_rule_shows_its_example_and_what_is_found_in_it(name: str) -> None:
    """A file, and below it a finding of that rule with a severity that the rule may have."""
    rule = RULES[name]
    _, file, found = (block.partition("\n")[2] for block in sections()[name].split("```text")[0:3])
    assert "SCC V" in file
    severity, said = found.split()[:2]
    assert (said, severity in {rule.severity, rule.also}) == (name, True)


def test_every_profile_that_comes_with_the_recipe_is_on_the_page() -> None:
    """With each of its limits, its source, and a source for each of its numbers; and named in the overview."""
    head = next(
        line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| rule | unit")
    )
    assert re.findall(r"`([\w-]+)`", head) == built_in()
    sources = {(row[0].strip("`"), row[1].strip("`")): row[2:] for row in table(PAGE, "| profile ")}
    for profile in map(load, built_in()):
        assert sources[profile.name, ""] == ["", profile.source]
        for name, override in profile.overrides.items():
            assert shown(override) == sources[profile.name, name], (profile.name, name)
        assert f"`{profile.name}`" in OVERVIEW.read_text(encoding="utf-8")


def shown(override: Override) -> list[str]:
    """The number as people write it, else the severity; and whose it is, which is never left out."""
    assert override.source
    number = "" if override.threshold is None else f"{override.threshold:.3f}".rstrip("0").rstrip(".")
    return [number or override.severity or "", override.source]


def test_no_number_is_called_the_fccs() -> None:
    """Its quality rule sets none."""
    for row in table(PAGE, "| profile ") + table(PAGE, "| rule "):
        assert "FCC" not in " ".join(row)
