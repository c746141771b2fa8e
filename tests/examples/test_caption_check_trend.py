"""Drift that is told from single cues that were moved, and is measured up to the first and the last cue."""

from __future__ import annotations

import random
from unittest import mock

import pytest
from caption_reports import found
from caption_tracks import apart, drift_of, said

from examples.recipes.caption_qc.check import Drift, Report, parse
from examples.recipes.caption_qc.check.drift import drift_of as measured_of
from examples.recipes.caption_qc.check.drift import find
from examples.recipes.caption_qc.check.reference import Moment
from examples.recipes.caption_qc.check.report import Cue, Row

COUNTS = (4, 5, 7, 9, 10, 12, 19, 20, 21, 30, 40, 61)
ALL_ALONG = 5
"""How many milliseconds apart cues are that nobody moved."""


def every_ten_seconds(count: int) -> list[int]:
    """Give frames whose times are whole milliseconds, so that the reference is not rounded."""
    return [300 * number + 3000 for number in range(count)]


def even(distances: list[float]) -> Report:
    return apart(distances, every_ten_seconds(len(distances)))


def measured(distances: list[float], times: list[float]) -> Drift:
    """Compare cues at these times, in seconds, with a reference that is so many milliseconds earlier."""
    cues = [
        Cue(
            number=number,
            channel="CC1",
            mode="pop-on",
            load_frame=0,
            start_frame=0,
            end_frame=None,
            start=time,
            end=None,
            rows=(Row(row=15, column=1, text=said(number)),),
        )
        for number, time in enumerate(times)
    ]
    moments = [
        Moment(time * 1000 - away, said(n))
        for n, (time, away) in enumerate(zip(times, distances, strict=True))
    ]
    return measured_of(cues, moments)


# A slope up to its ends


@pytest.mark.parametrize("count", [3, *COUNTS, 151, 200])
@pytest.mark.parametrize("change", [501, -501, 560])
def test_steady_drift_is_measured_from_the_first_cue_to_the_last(count: int, change: int) -> None:
    """However many match: the change just over the limit is found, and the ends are where they are."""
    report = even([change * n / (count - 1) for n in range(count)])

    (finding,) = found(report, "DRIFT")
    assert finding.measured == pytest.approx(abs(change) / 1000, abs=0.0012)
    drift = drift_of(report)
    assert drift.steady
    assert drift.first_ms is not None
    assert drift.last_ms is not None
    assert drift.first_ms + 10_000_000 == pytest.approx(0, abs=1.2)
    assert drift.last_ms - drift.first_ms == pytest.approx(change, abs=1.2)


@pytest.mark.parametrize("count", COUNTS)
def test_drift_within_the_limit_is_none(count: int) -> None:
    """However it is measured."""
    assert found(even([498 * n / (count - 1) for n in range(count)]), "DRIFT") == []


@pytest.mark.parametrize("step", [0, 500])
@pytest.mark.parametrize("start", range(3000, 60000, 4500))
def test_distance_of_exactly_the_limit_is_no_drift(start: int, step: int) -> None:
    """Times are binary fractions, whose last bits are no milliseconds."""
    frames = [start + 300 * number for number in range(6)]

    assert found(apart([0.0] * 3 + [float(step)] * 3, frames), "DRIFT") == []
    assert len(found(apart([0.0] * 3 + [step + 502.0] * 3, frames), "DRIFT")) == 1


# Single cues


@pytest.mark.parametrize("count", COUNTS)
def test_one_cue_that_was_moved_is_no_drift(count: int) -> None:
    """Whichever it is, the first and the last too, in either direction."""
    for place in sorted({0, 1, count // 2, count - 2, count - 1}):
        for moved in (2000.0, -700.0):
            distances = [float(n % 3 * ALL_ALONG) for n in range(count)]
            distances[place] += moved
            assert found(even(distances), "DRIFT") == []


@pytest.mark.parametrize("count", COUNTS)
def test_one_cue_that_was_moved_hides_no_drift(count: int) -> None:
    """What the others are in line on is found, and nearly as large as it is."""
    for place in sorted({0, 1, count // 2, count - 2, count - 1}):
        distances = [1800.0 * n / (count - 1) for n in range(count)]
        distances[place] += 4000
        (finding,) = found(even(distances), "DRIFT")
        assert finding.measured is not None
        # At an end it may take that end's share with it.
        assert 1.8 * (count - 2) / (count - 1) - 0.002 <= finding.measured <= 1.802


def test_one_cue_that_was_moved_is_no_drift_wherever_the_others_lie() -> None:
    """Two close together would give a line any slope, and one far away is alone there."""
    numbers = random.Random(5)  # noqa: S311 - the same places each time
    for _ in range(800):
        count = numbers.randint(4, 24)
        times = sorted(numbers.uniform(0, 3600) for _ in range(count))
        distances = [numbers.uniform(-10, 10) for _ in range(count)]
        distances[numbers.choice((0, -1, numbers.randrange(count)))] += 2000
        drift = measured(distances, times)
        assert drift.spread_ms is not None
        assert drift.steady is None or drift.spread_ms < 500


def test_line_is_not_drawn_out_to_a_cue_that_is_not_on_it() -> None:
    """What rounding puts between cues of one minute is no rate that an hour would have."""
    numbers = random.Random(6)  # noqa: S311 - the same places each time
    for _ in range(300):
        count = numbers.randint(4, 40)
        times = [*sorted(numbers.uniform(0, 60) for _ in range(count - 1)), 3600.0]
        drift = measured([numbers.uniform(-34, 34) for _ in times], times)
        assert drift.spread_ms is not None
        assert drift.spread_ms < 200


@pytest.mark.parametrize("count", [5, 8, 10, 19, 20, 40])
def test_step_is_found_wherever_two_cues_or_more_are_on_each_side(count: int) -> None:
    """As large as it is, in steps."""
    for place in range(2, count - 1):
        report = even([0.0] * place + [2000.0] * (count - place))
        (finding,) = found(report, "DRIFT")
        assert finding.measured == pytest.approx(2, abs=0.002)


# Too few


@pytest.mark.parametrize(
    "distances", [[0.0, 2000.0], [0.0, 0.0, 2000.0], [2000.0, 0.0, 0.0], [0.0, 2000.0, 0.0]]
)
def test_too_few_matches_to_tell_drift_from_a_cue_that_was_moved_are_noted(distances: list[float]) -> None:
    """No error that may be none, and no silence: the note says how far apart they are."""
    report = even(distances)

    assert found(report, "DRIFT") == []
    (note,) = report.notes
    assert note == (
        f"cues that match the reference: {len(distances)}, too few to tell drift from a cue that was moved; "
        "their distances differ by 2.000 s"
    )
    assert drift_of(report).steady is None


def test_few_matches_that_agree_need_no_note() -> None:
    """On no drift, or, in line, on one; the limit is the profile's."""
    assert even([0.0, 400.0]).notes == even([0.0, 0.0, 400.0]).notes == even([0.0, 500.0, 1000.0]).notes == ()
    lenient = parse(b'name = "x"\n[rules.DRIFT]\nthreshold = 3', "x.toml")
    frames = every_ten_seconds(2)
    assert apart([0.0, 2000.0], frames, profile=lenient).notes == ()
    assert len(found(even([0.0, 500.0, 1000.0]), "DRIFT")) == 1


def test_nothing_is_minus_zero() -> None:
    """Not in a message, where -0.0004 s would be -0.000 s, and not in what is measured."""
    times = [10.0 * number for number in range(6)]
    drift = measured([-0.4] * 3 + [2000.0] * 3, times)
    assert drift.first_ms == pytest.approx(-0.4)
    subject = mock.Mock(drift=drift)
    (fault,) = find(subject, 0.5)
    assert "+0.000 s at the first" in fault.message

    still = measured([-1e-9] * 6, times)
    assert "-" not in str(still)


def test_three_with_one_a_little_off_the_line_of_the_others_are_too_few() -> None:
    """Half of what it is off by goes into the line."""
    assert measured([0.0, 0.0, 2000.0], [0.0, 10.0, 25.0]).steady is None
    assert measured([0.0, 400.0, 2000.0], [0.0, 10.0, 20.0]).steady is None
    assert measured([0.0, 950.0, 2000.0], [0.0, 10.0, 20.0]).steady


def test_two_moved_cues_side_by_side_are_no_drift_among_many() -> None:
    """Among twenty the medians are of five."""
    for place in range(3, 16):
        distances = [0.0] * 20
        distances[place : place + 2] = [2000.0, 2000.0]
        assert found(even(distances), "DRIFT") == []


@pytest.mark.parametrize(
    ("times", "distances"),
    [
        ([640, 1222, 1681, 1683], [9, 2009, 7, 2]),
        ([811, 1780, 2176, 2181], [1992, -10, 1, -6]),
        ([1936, 2246, 2247, 2353], [6, -10, -2, 1996]),
        ([348, 1594, 1954, 1975, 3375], [2004, 7, 5, -7, -8]),
        ([62, 715, 724, 2637, 3465], [-10, 3, 9, -2, 1997]),
    ],
)
def test_cues_close_together_lend_a_moved_one_no_slope(times: list[float], distances: list[float]) -> None:
    """Nor does one that lies far away."""
    drift = measured(distances, times)
    assert drift.spread_ms is not None
    assert drift.spread_ms < 100


def test_cue_far_away_counts_where_the_others_lead() -> None:
    """It makes the most of what the distances span, but as they foretell."""
    drift = measured([0.0, 10.0, 20.0, 600.0], [0.0, 60.0, 120.0, 3600.0])
    assert drift.steady
    assert drift.spread_ms == pytest.approx(600)
