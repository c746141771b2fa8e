"""The scan: shards, sidecars, folders and files that change or refuse while they are looked at."""

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
from caption_runs import ROOT, WITHOUT_ROOTS_RIGHTS

from examples.recipes.caption_qc.job import assets, scan
from examples.recipes.caption_qc.job.assets import Asset, NotAsSeenError, Stat, read_as_seen, stat_of
from examples.recipes.caption_qc.job.scan import Seen, Shard, Walk, scan_queue

NOW = datetime(2026, 1, 1, 0, 7, 30, tzinfo=UTC)


def deliver(path: Path, content: bytes = b"x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def walk(queue: Path, **more: object) -> Walk:
    return Walk(queue=bytes(queue), settle=0.0, now=NOW, **more)  # type: ignore[arg-type]


def found(queue: Path, seen: Seen | None = None, **more: object) -> list[Asset]:
    return [asset for page in scan_queue(walk(queue, **more), seen or Seen()) for asset in page]


def test_each_asset_is_in_one_shard_by_its_name_alone(tmp_path: Path) -> None:
    """Shards together are the queue, no two share an asset, and other shards' assets are not seen."""
    for number in range(60):
        deliver(tmp_path / f"{number % 3}" / f"{number}.scc")
    names = sorted(asset.asset_id for asset in found(tmp_path))

    shards, counts = [], []
    for index in (1, 2, 3):
        seen = Seen()
        shards.append([asset.asset_id for asset in found(tmp_path, seen, shard=Shard(index, 3))])
        counts.append(seen.assets)

    assert sorted(name for shard in shards for name in shard) == names
    assert counts == [len(shard) for shard in shards]
    assert min(counts) > 8


def test_a_shard_is_the_same_on_every_machine_and_in_every_year() -> None:
    """Ledgers of shards are kept apart, so an asset must never move from one to another."""
    names = [b"a.scc", b"deep/er/b.scc", b"\xe9.scc", b"c.scc", b"d.SCC", b"e.scc"]
    index_of = [next(index for index in range(1, 6) if Shard(index, 5).holds(name)) for name in names]
    assert index_of == [1, 4, 3, 3, 1, 1]


def test_an_asset_is_seen_with_its_sidecar(tmp_path: Path) -> None:
    """NAME.toml beside NAME.scc, a regular file alone; what lies elsewhere is nobody's."""
    for name in ("with.scc", "WITH.SCC", "without.scc", "linked.scc", "folder.scc", "pipe.scc"):
        deliver(tmp_path / name)
    beside = deliver(tmp_path / "with.toml", b"programme = 1")
    upper = deliver(tmp_path / "WITH.toml")
    deliver(tmp_path / "sub" / "without.toml")
    (tmp_path / "linked.toml").symlink_to("with.toml")
    (tmp_path / "folder.toml").mkdir()
    os.mkfifo(tmp_path / "pipe.toml")

    sidecars = {asset.asset_id: asset.sidecar for asset in found(tmp_path)}

    assert sidecars == {
        "with.scc": stat_of(beside.stat()),
        "WITH.SCC": stat_of(upper.stat()),
        "without.scc": None,
        "linked.scc": None,
        "folder.scc": None,
        "pipe.scc": None,
    }


def test_a_name_that_is_too_long_for_a_sidecar_has_none(tmp_path: Path) -> None:
    """With its other ending it would be over the system's 255 bytes."""
    deliver(tmp_path / f"{'x' * 251}.scc")
    assert [asset.sidecar for asset in found(tmp_path)] == [None]


def test_what_the_ledger_knows_of_an_asset_makes_it_again() -> None:
    """Four figures, and the sidecar's as one text, or none; a name of any bytes."""
    for sidecar in (None, Stat(1, -2, 3, -4)):
        asset = Asset(b"\xe9.scc", Stat(5, 6, 7, 8), sidecar)
        assert Asset.known(asset.name, *asset.known_by) == asset


def test_the_scan_ends_where_it_is_when_it_is_told_to(tmp_path: Path) -> None:
    """In a folder of a million other files no page would come in which to ask."""
    for number in range(50):
        deliver(tmp_path / f"{number}.txt")
        deliver(tmp_path / f"{number}.scc")
    asked: list[None] = []

    def stopped() -> bool:
        asked.append(None)
        return len(asked) > 10

    seen = Seen()
    assert len(found(tmp_path, seen, stopped=stopped)) == seen.assets < 11
    assert len(asked) == 11


def test_folders_and_files_that_refuse_are_counted_and_the_rest_goes_on(tmp_path: Path) -> None:
    """A folder that can't be listed, one that can't be entered: one warning each, however many files it has."""
    for name in ("open/a.scc", "locked/b.scc", "listed/c.scc", "listed/d.scc"):
        deliver(tmp_path / name)
    (tmp_path / "locked").chmod(0o300)
    (tmp_path / "listed").chmod(0o600)
    program = f"""
import sys
from datetime import UTC, datetime
from examples.recipes.caption_qc.job.scan import Seen, Walk, scan_queue
seen = Seen()
walk = Walk(queue={bytes(tmp_path)!r}, settle=0.0, now=datetime.now(UTC))
print([asset.asset_id for page in scan_queue(walk, seen) for asset in page], seen.unreadable)
print(*sorted(seen.warnings), sep="\\n")
"""
    command = [*WITHOUT_ROOTS_RIGHTS, sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.splitlines() == [
        "['open/a.scc'] 3",
        "cannot read listed/c.scc: Permission denied",
        "cannot read listed/d.scc: Permission denied",
        "cannot read locked: Permission denied",
    ]


def test_what_goes_while_the_folder_is_read_is_passed_over(tmp_path: Path) -> None:
    """Files and folders that left between the listing and the look at them are no error and no asset."""
    for number in range(3):
        deliver(tmp_path / f"{number}.scc")
        deliver(tmp_path / f"d{number}" / "x.scc")
    seen = Seen()
    pages = scan_queue(walk(tmp_path, stopped=lambda: empty(tmp_path)), seen)
    assert list(pages) == []
    assert (seen.assets, seen.unreadable) == (0, 0)


def empty(folder: Path) -> bool:
    """Take everything away, which the scan's open iterator may already have listed."""
    for path in sorted(folder.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    return False


@pytest.mark.parametrize("way", ["replaced", "grown", "gone", "another's link"])
def test_a_file_that_changes_while_it_is_read_is_not_the_one_that_was_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """It is compared before and after the reading, as the open file that it is."""
    file = deliver(tmp_path / "a.scc", b"seen")
    seen = stat_of(file.stat())
    compare = assets.compare  # the moment between the first look and the reading

    def then_change(descriptor: int, stat: Stat) -> None:
        compare(descriptor, stat)
        monkeypatch.setattr(assets, "compare", compare)
        match way:
            case "replaced":
                deliver(tmp_path / "new", b"news").rename(file)
            case "grown":
                with file.open("ab") as more:
                    more.write(b" and more")
            case "gone":
                file.unlink()
            case _:
                (tmp_path / "other").hardlink_to(file)

    monkeypatch.setattr(assets, "compare", then_change)
    with pytest.raises(NotAsSeenError):
        read_as_seen(bytes(file), seen)


def test_a_page_is_all_that_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of the pages before are let go of: memory is a page's, whatever the queue has."""
    monkeypatch.setattr(scan, "PAGE_SIZE", 10)
    for number in range(95):
        deliver(tmp_path / f"{number}.scc")
    seen = Seen()
    pages = scan_queue(walk(tmp_path), seen)
    for count, page in enumerate(pages, 1):
        assert seen.assets <= 10 * count
        assert [asset.stat.mtime_ns for asset in page] == sorted(asset.stat.mtime_ns for asset in page)
    assert count == 10
