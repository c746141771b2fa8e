"""The samples that come with the recipe: the clean ones are clean, the faulty ones show what their names say."""

from __future__ import annotations

import pytest
from caption_reports import SAMPLES, checked

CLEAN = {
    "painton_clean.scc": ("paint-on", 3),
    "popon_clean.scc": ("pop-on", 7),
    "popon_dropframe_clean.scc": ("pop-on", 4),
    "rollup_clean.scc": ("roll-up", 6),
}
FAULTY = {
    "faulty/cleared_only.scc": [("FMT_NO_CAPTIONS", None)],
    "faulty/dropframe_bad_label.scc": [("TC_DROPPED_FRAME_LABEL", 5)],
    "faulty/header_wrong.scc": [("FMT_HEADER", 1)],
    "faulty/mixed_timebase.scc": [("TC_MIXED_DF_NDF", 5)],
    "faulty/no_parity.scc": [("608_PARITY", None)],
    # The caption that comes late is shown for three frames.
    "faulty/popon_load_overlap.scc": [
        ("CUE_SHORT", 3),
        ("RATE_CPS", 3),
        ("RATE_WPM", 3),
        ("TC_LOAD_OVERLAP", 5),
    ],
    "faulty/popon_parity_error.scc": [("608_PARITY", 5)],
    "faulty/truncated_word.scc": [("HEX_BAD_WORD", 7)],
}


def test_every_sample_is_known() -> None:
    """At least eight, some in a sub-folder."""
    names = {str(path.relative_to(SAMPLES)) for path in SAMPLES.rglob("*.scc")}

    assert names == set(CLEAN) | set(FAULTY)


@pytest.mark.parametrize("name", CLEAN)
def test_clean_sample_is_clean(name: str) -> None:
    """No finding at all, and every cue of its mode has text and an end after its start."""
    report = checked((SAMPLES / name).read_bytes())

    mode, cues = CLEAN[name]
    assert (report.status, report.findings) == ("pass", ())
    assert [cue.mode for cue in report.cues] == [mode] * cues
    for cue in report.cues:
        assert cue.end is not None
        assert 5 / 6 < cue.end - cue.start < 7
        assert 1 <= len(cue.rows) <= 2
        assert all(row.column - 1 + len(row.text) <= 32 for row in cue.rows)


@pytest.mark.parametrize("name", FAULTY)
def test_faulty_sample_shows_its_fault_and_no_other(name: str) -> None:
    """One error each, and what follows from it; others of severity info may be."""
    report = checked((SAMPLES / name).read_bytes())

    over_info = [finding for finding in report.findings if finding.severity != "info"]
    assert [(finding.rule, finding.line) for finding in over_info] == FAULTY[name]
    assert [finding.severity for finding in over_info].count("error") == 1
    assert report.status == "fail"
