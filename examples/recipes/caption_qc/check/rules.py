"""All rules, in the order in which a report lists those of one place. Another rule is another row of its file."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from examples.recipes.caption_qc.check import (
    code_rules,
    cue_rules,
    drift,
    format_rules,
    programme_rules,
    rate_rules,
    timing_rules,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from examples.recipes.caption_qc.check.rule import Rule

RULES: Mapping[str, Rule] = {
    rule.name: rule
    for rule in chain(
        format_rules.RULES,
        timing_rules.RULES,
        code_rules.RULES,
        cue_rules.RULES,
        rate_rules.RULES,
        programme_rules.RULES,
        drift.RULES,
    )
}
