"""The rules, as data: a name, a severity, and the function that finds its faults in a decoded track.

A finder yields faults in the order of the file; how many are reported, and how severe they are, is the
checker's decision. It is given the threshold that holds: the profile's, or the one that stands here.
Another rule is another function and another row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from examples.recipes.caption_qc.check import format_rules, timing_rules
from examples.recipes.caption_qc.check.faults import Fault
from examples.recipes.caption_qc.check.scc import Track

if TYPE_CHECKING:
    from examples.recipes.caption_qc.check.report import Severity

Finder = Callable[[Track, float], Iterator[Fault]]


def _never(_track: Track, _limit: float) -> Iterator[Fault]:
    """Find nothing: such a file is refused by its size, and never decoded."""
    return iter(())


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule under the profile `house`."""

    name: str
    severity: Severity
    find: Finder
    threshold: float | None = None
    """A profile may set it; `None` where the rule has no number of its own."""
    unit: str | None = None


_ALL = (
    Rule("FMT_HEADER", "error", format_rules.header),
    Rule("FMT_BOM", "info", format_rules.byte_order_mark),
    Rule("FMT_HEADER_TRAILING_WS", "info", format_rules.header_trailing_blanks, unit="blanks"),
    Rule("FMT_CR_ONLY", "info", format_rules.cr_only, unit="lines"),
    Rule("FMT_NUL", "error", format_rules.nul, unit="bytes"),
    Rule("FMT_ENCODING", "error", format_rules.encoding, unit="bytes"),
    Rule("FMT_BAD_LINE", "error", format_rules.bad_line),
    Rule("FMT_NO_TAB", "warn", format_rules.no_tab),
    Rule("FMT_NO_CAPTIONS", "error", format_rules.no_captions, unit="cues"),
    Rule("FMT_TOO_LARGE", "error", _never, unit="bytes"),
    Rule("HEX_BAD_WORD", "error", format_rules.bad_word),
    Rule("TC_RANGE", "error", timing_rules.out_of_range),
    Rule("TC_BACKWARD", "error", timing_rules.backward, unit="frames"),
    Rule("TC_DUPLICATE", "warn", timing_rules.duplicate),
    Rule("TC_LOAD_OVERLAP", "error", timing_rules.load_overlap, threshold=0, unit="frames"),
    Rule("TC_WRAP", "info", timing_rules.wrap),
    Rule("TC_HOUR_OFFSET", "info", timing_rules.hour_offset, unit="hours"),
    Rule("TC_DROPPED_FRAME_LABEL", "error", timing_rules.dropped_label),
    Rule("TC_MIXED_DF_NDF", "error", timing_rules.mixed_time_base, unit="lines"),
    Rule("TC_JUMP", "warn", timing_rules.jump, threshold=600, unit="seconds"),
    Rule("TC_FRAME_RATE", "warn", timing_rules.frame_rate, threshold=23, unit="frames"),
    Rule("608_PARITY", "error", format_rules.parity, unit="bytes"),
)
RULES: Mapping[str, Rule] = {rule.name: rule for rule in _ALL}
