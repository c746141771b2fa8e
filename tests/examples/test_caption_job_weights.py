"""What shares a trip to a worker: batches of checks as the pool sees them."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pytest
from caption_inside import StandIn, runner_for
from caption_runs import Place, place

from examples.recipes.caption_qc.job.assets import Asset, Stat
from examples.recipes.caption_qc.job.outcomes import Left, Outcome
from examples.recipes.caption_qc.job.runner import BYTES_A_BATCH, FILES_A_BATCH

pytestmark = [pytest.mark.anyio, pytest.mark.real_time, pytest.mark.backends("asyncio")]


class Recorder(StandIn):
    """Stands where the pool is, and keeps the sizes of the chunks that it was given."""

    def __init__(self) -> None:
        self.chunks: list[list[int]] = []

    async def check(self, chunk: Sequence[Asset]) -> list[Outcome]:
        self.chunks.append([asset.stat.size for asset in chunk])
        return [Left(asset=asset, why="changed", detail="") for asset in chunk]


def assets(sizes: Sequence[int]) -> list[Asset]:
    return [Asset(b"%d.scc" % number, Stat(size, 0, 0, number)) for number, size in enumerate(sizes)]


async def chunks_of(
    here: Place, pages: Iterable[list[Asset]], pool: Recorder | None = None, options: Sequence[str] = ()
) -> list[list[int]]:
    """Run over assets; return the sizes that the pool was given, chunk by chunk."""
    pool = pool or Recorder()
    with runner_for(here, pool, *options) as runner:
        await runner.check_queue(iter(pages))
        await runner.shut_down()
    return pool.chunks


async def test_small_files_share_a_trip(tmp_path: Path) -> None:
    """As many as a batch takes; none is left out and none goes twice."""
    chunks = await chunks_of(place(tmp_path), [assets([100] * (3 * FILES_A_BATCH))])
    assert [len(chunk) for chunk in chunks] == [FILES_A_BATCH] * 3


async def test_a_trip_is_never_over_its_bytes(tmp_path: Path) -> None:
    """Order is kept, and what would be too much waits for the next."""
    third = BYTES_A_BATCH // 3
    chunks = await chunks_of(place(tmp_path), [assets([third, third, third, third, 10, 10])])
    assert sorted(size for chunk in chunks for size in chunk) == [10, 10, *[third] * 4]
    assert max(map(sum, chunks)) <= BYTES_A_BATCH
    assert len(chunks) == 2


@pytest.mark.parametrize("size", [BYTES_A_BATCH, BYTES_A_BATCH + 1, 5_000_000])
async def test_a_large_file_goes_alone(tmp_path: Path, size: int) -> None:
    """It fills a batch by itself, and is refused by none."""
    chunks = await chunks_of(place(tmp_path), [assets([10, 10, size, 10])])
    assert [size] in chunks
    assert sum(map(len, chunks)) == 4


async def test_empty_files_weigh_nothing_and_are_bounded_all_the_same(tmp_path: Path) -> None:
    """By their number."""
    chunks = await chunks_of(place(tmp_path), [assets([0] * (FILES_A_BATCH + 3))])
    assert [len(chunk) for chunk in chunks] == [FILES_A_BATCH, 3]


@pytest.mark.parametrize("limit", [1000, 8_000_000])
async def test_what_is_over_the_profiles_limit_never_reaches_a_worker(tmp_path: Path, limit: int) -> None:
    """It is no part of a chunk, and takes no small one with it, also where the limit itself is small."""
    profile = tmp_path / "profile.toml"
    profile.write_text(f'name = "limited"\nmax_bytes = {limit}\n')
    pages = [assets([10, limit + 1, limit + 1, 10])]
    chunks = await chunks_of(place(tmp_path), pages, options=("--profile", str(profile)))
    assert sorted(size for chunk in chunks for size in chunk) == [10, 10]


async def test_the_scan_is_never_further_ahead_than_a_few_batches(tmp_path: Path) -> None:
    """It is pulled as there is room: what was pulled and is not done is bounded, whatever the queue has."""
    pulled = done = 0
    ahead: list[int] = []

    class Counting(Recorder):
        async def check(self, chunk: Sequence[Asset]) -> list[Outcome]:
            nonlocal done
            ahead.append(pulled - done)
            done += len(chunk)
            return await super().check(chunk)

    def pages() -> Iterator[list[Asset]]:
        nonlocal pulled
        for asset in assets([100] * 800):
            pulled += 1
            yield [asset]

    await chunks_of(place(tmp_path), pages(), Counting())

    assert done == pulled == 800
    batches_in_hand = 2 * 2 * 2  # For each of two workers two, and as many that wait.
    assert max(ahead) <= batches_in_hand * FILES_A_BATCH + 1
