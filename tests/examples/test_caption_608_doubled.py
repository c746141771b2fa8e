"""608_CTRL_NOT_DOUBLED where one of the two copies failed its parity."""

from __future__ import annotations

import pytest
from caption_encoder import ENM, EOC, line, preamble, scc, text, twice, word
from caption_one_line import CLEAR, LOAD, one_line, only
from caption_reports import checked, found

FAILED = ("1420", "9520", "9421", "1421", "b420", "84a0")  # One bit of either byte, or of both, is lost.


@pytest.mark.parametrize("failed", FAILED)
@pytest.mark.parametrize("first", [True, False])
def test_code_whose_other_copy_failed_was_sent_twice(failed: str, *, first: bool) -> None:
    """It lost its parity on the way; 608_PARITY tells of that."""
    copies = [failed, "9420"] if first else ["9420", failed]
    report = one_line(["8080"], copies, twice(ENM), preamble(15), text("AB"), twice(EOC))

    assert found(report, "608_CTRL_NOT_DOUBLED") == []
    assert len(found(report, "608_PARITY")) == 1


@pytest.mark.parametrize(
    ("words", "count"),
    [
        (["9420", "8080", "1420", "94ae", "94ae"], 1),  # Not in the next frame.
        (["9420", "9429", "94ae", "94ae"], 2),  # Another code, whose parity is right.
        (["9420", "142e", "94ae"], 1),  # The other copy of ENM.
        (["9420", "1420", "9420", "94ae", "94ae"], 1),  # One copy is the other of one code alone.
        (["9420", "1420", "9429", "94ae", "94ae"], 1),  # What was failed before says nothing of the next.
        (["9420", "1520", "94ae", "94ae"], 1),  # Two bits differ, so the parity is right.
        (["9420", "1020", "94ae", "94ae"], 2),
    ],
)
def test_what_is_no_failed_copy_leaves_a_code_single(words: list[str], count: int) -> None:
    """A copy stands beside its code and differs by what parity notices."""
    report = one_line(words, preamble(15), text("AB"), twice(EOC))

    assert only(report, "608_CTRL_NOT_DOUBLED").measured == count


@pytest.mark.parametrize(("label", "singles"), [("00:00:01:08", []), ("00:00:01:09", [1])])
def test_failed_copy_may_begin_the_next_line(label: str, singles: list[int]) -> None:
    """If no frame lies between."""
    first = line("00:00:01:00", LOAD, text("AB"), [word(EOC)])
    report = checked(scc(first, line(label, ["142f"]), CLEAR))

    assert [finding.measured for finding in found(report, "608_CTRL_NOT_DOUBLED")] == singles
