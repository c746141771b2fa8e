"""A result of the wrong length is named with its true length, and read no further than it must be."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from scenes import open_scene

from async_batcher import ResultMismatch
from async_batcher._results import as_results

pytestmark = pytest.mark.anyio


class Counting(Sequence[int]):
    """Counts what is read of it; only its length ends it."""

    def __init__(self, length: int) -> None:
        self.read = 0
        self._length = length

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: Any) -> Any:
        self.read += 1
        return index


class Endless(Counting):
    """Goes on for ever, though it says that it has one."""

    def __init__(self) -> None:
        super().__init__(1)


@pytest.mark.parametrize("length", [0, 2, 3, 100])
@pytest.mark.parametrize("kind", [list, tuple, np.zeros, range, Counting])
def test_mismatch_names_the_true_length(kind: Any, length: int) -> None:
    """Whatever kind of sequence it is: not how far it was read, but how long it is."""
    returned = kind(range(length)) if kind in (list, tuple) else kind(length)
    with pytest.raises(ResultMismatch, match=rf"got 1 item\(s\) and returned {length} result\(s\)"):
        as_results(returned, 1)


def test_what_is_too_long_is_not_read_to_its_end() -> None:
    """A processor that returns its whole table costs no copy of the table."""
    table = Counting(1_000_000)
    with pytest.raises(ResultMismatch, match="returned 1000000 result"):
        as_results(table, 2)
    assert table.read <= 3


def test_length_that_lies_is_no_way_around() -> None:
    """It says one and goes on: more than one was read, so it does not fit."""
    endless = Endless()
    with pytest.raises(ResultMismatch, match=r"returned 2 result"):
        as_results(endless, 1)
    assert endless.read <= 2


async def test_caller_is_told_the_true_length_of_an_array() -> None:
    """The same through the batcher: an array of a hundred rows for one item."""

    async def whole_table(_batch: list[int]) -> Any:
        return np.zeros(100)

    async with open_scene(whole_table, max_batch_size=1) as scene:
        (caller,) = await scene.process(1)
        assert "got 1 item(s) and returned 100 result(s)" in str(caller.failed(ResultMismatch))
