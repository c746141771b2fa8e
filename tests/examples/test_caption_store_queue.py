"""A queue on an object store: what is listed, under which names, and what is read."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

import pytest
from caption_ledgers import plan_in, sha256
from caption_stores import StorePlace, asked_here, store_place
from hypothesis import given
from hypothesis import strategies as st
from object_server import object_server

from examples.recipes.caption_qc.job import object_store
from examples.recipes.caption_qc.job.assets import Asset, NotAsSeenError, WithheldError
from examples.recipes.caption_qc.job.digest import digest, holds
from examples.recipes.caption_qc.job.errors import Exit, JobError
from examples.recipes.caption_qc.job.object_store import Bucket, Stored, bucket_named
from examples.recipes.caption_qc.job.outcomes import Left
from examples.recipes.caption_qc.job.queue_store import StoreQueue, captions
from examples.recipes.caption_qc.job.reports_store import InBucket
from examples.recipes.caption_qc.job.scan import Seen, Shard, Terms

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from object_server import ObjectServer

    from examples.recipes.caption_qc.job.plan import Plan

NOW = datetime(2100, 1, 1, tzinfo=UTC)
ODD_NAMES = [
    "../up.scc",
    "./here.scc",
    "/lead.scc",
    "a//double.scc",
    "a/../b.scc",
    "amp&lt<q>.scc",
    "ends.in.two.scc",
    "esc\x1b[31m.scc",
    "line\nfeed.scc",
    "nul-like%00.scc",
    "per%41cent.scc",
    "plus+and space?#.scc",
    "tab\t.scc",
    "\u65e5\u672c\u202e.scc",
]


@pytest.fixture(scope="module")
def server() -> Iterator[ObjectServer]:
    with asked_here(object_server()):
        yield object_server()


@pytest.fixture
def here(server: ObjectServer, tmp_path: Path) -> StorePlace:
    return store_place(server, tmp_path)


@pytest.fixture
def plan(here: StorePlace) -> Plan:
    return replace(plan_in(here.queue.parent), queue=StoreQueue(here.bucket))


def scanned(plan: Plan, seen: Seen | None = None, **terms: object) -> list[Asset]:
    asked = Terms(**({"settle": 0.0, "now": NOW} | terms))  # type: ignore[arg-type]
    return [asset for page in plan.queue.scan(plan, asked, seen or Seen()) for asset in page]


def names(plan: Plan, **terms: object) -> list[str]:
    return sorted(asset.name.decode() for asset in scanned(plan, None, **terms))


def only(plan: Plan) -> Asset:
    (asset,) = scanned(plan)
    return asset


def stored(key: str) -> Stored:
    return Stored(key, len(key), NOW, key)


def test_every_key_is_a_name_that_can_be_turned_back(here: StorePlace, plan: Plan) -> None:
    """A key is text that may hold anything; its asset_id is one line, and names the very object again."""
    for name in ODD_NAMES:
        here.put(name, name.encode())
    assets = scanned(plan)
    for asset in assets:
        assert asset.asset_id.isprintable()
        found = unquote_to_bytes(asset.asset_id)
        assert plan.queue.fetched(asset, 9.0).data() == found
        assert plan.queue.find([found]) == [asset]
    assert {asset.name.decode() for asset in assets} == set(ODD_NAMES)


def test_what_is_no_caption_is_passed_over(here: StorePlace, plan: Plan) -> None:
    """Hidden and temporary names, folders' own objects and other kinds are none; `.scc` counts in any case."""
    for name in ("a.scc", "b.SCC", "sub/deep/c.sCc", "empty.scc"):
        here.put(name, b"" if "empty" in name else b"x")
    for name in (".a.scc", "~a.scc", ".hidden/a.scc", "sub/~tmp/a.scc", "folder.scc/", "a.scc.part", "scc"):
        here.put(name, b"")
    here.server.put(f"{here.prefix}-beside/a.scc", b"x")
    assert names(plan) == ["a.scc", "b.SCC", "empty.scc", "sub/deep/c.sCc"]


def test_a_million_objects_are_never_a_list(
    here: StorePlace, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next page of the listing is asked for when the one before it has been used."""
    monkeypatch.setattr(object_store, "KEYS_A_PAGE", 2)
    monkeypatch.setattr("examples.recipes.caption_qc.job.scan.PAGE_SIZE", 2)
    for number in range(7):
        here.put(f"{number}.scc", b"x")
    here.server.forget()
    pages = plan.queue.scan(plan, Terms(settle=0.0, now=NOW), Seen())
    asked = []
    for page in pages:
        assert len(page) <= 2
        asked.append(len(here.server.calls("GET")))
    assert asked == [2, 3, 4, 4]


def test_a_drain_ends_the_listing(here: StorePlace, plan: Plan) -> None:
    """No page is asked for once a run was asked to end."""
    here.put("a.scc", b"x")
    assert names(plan, stopped=lambda: True) == []


def test_an_asset_that_came_just_now_is_left(here: StorePlace, plan: Plan) -> None:
    """`--settle` counts from the time that the store says, in both directions."""
    here.put("a.scc", b"x")
    came = here.bucket.get("a.scc")[1].modified
    for after, found in ((9.0, 0), (10.0, 1), (-9.0, 0), (-10.0, 1)):
        seen = Seen()
        assert len(scanned(plan, seen, settle=10.0, now=came + timedelta(seconds=after))) == found
        assert (seen.assets, seen.settling) == (1, 1 - found)


def test_each_asset_is_in_one_shard(here: StorePlace, plan: Plan) -> None:
    """The shards of a queue are its parts, whatever the listing's pages are."""
    for number in range(8):
        here.put(f"{number}.scc", b"x")
    parts = [names(plan, shard=Shard(index, 3)) for index in (1, 2, 3)]
    assert sorted(name for part in parts for name in part) == names(plan)
    assert all(len(part) < 8 for part in parts)


def test_our_own_reports_are_not_listed(
    here: StorePlace, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reports below the queue's prefix are passed over as a whole: a page of them is followed by what comes after."""
    monkeypatch.setattr(object_store, "KEYS_A_PAGE", 2)
    for name in ("a.scc", *(f"reports/{number}.scc" for number in range(9)), "z.scc"):
        here.put(name, b"x")
    here.server.forget()
    ours = replace(plan, out=InBucket(Bucket(here.bucket.name, f"{here.bucket.prefix}reports/")))
    assert names(ours) == ["a.scc", "z.scc"]
    assert len(here.server.calls("GET")) == 2
    assert len(names(plan)) == 11


def test_two_writes_in_one_second_are_two_contents(here: StorePlace, plan: Plan) -> None:
    """A store keeps whole seconds, so the tag tells contents of one length apart; the same bytes keep theirs."""
    found = []
    for data in (b"one", b"two", b"one"):
        here.put("a.scc", data)
        found.append(only(plan).stat)
    assert [stat.size for stat in found] == [3, 3, 3]
    assert found[0].inode == found[2].inode != found[1].inode


KEYS = st.lists(
    st.tuples(
        st.lists(st.sampled_from(["a", "a.scc", "a.s", "a.toml", "b", "A"]), min_size=1, max_size=3),
        st.sampled_from([".scc", ".SCC", ".Scc", ".toml", ".scc.toml", ".srt", ""]),
    ).map(lambda parts: "/".join(parts[0]) + parts[1]),
    max_size=30,
    unique=True,
).map(sorted)


@given(KEYS)
def test_each_caption_has_the_sidecar_beside_it(keys: list[str]) -> None:
    """However far apart NAME.scc and NAME.toml are listed, each caption gets its own, once."""
    found = {asset.name.decode(): asset.sidecar for asset in captions(map(stored, keys))}
    assert sorted(found) == [key for key in keys if key.lower().endswith(".scc")]
    for key, sidecar in found.items():
        beside = f"{key[:-4]}.toml"
        assert (None if sidecar is None else sidecar.size) == (len(beside) if beside in keys else None)


def test_few_captions_wait_for_their_sidecars() -> None:
    """Those that wait are given on as soon as the listing is past where their sidecars would be."""
    listed: list[str] = []

    def listing() -> Iterator[Stored]:
        for key in ["a.scc", *(f"a.t/{number:05}.scc" for number in range(10_000)), "a.toml"]:
            listed.append(key)
            yield stored(key)

    waited = [len(listed) - number for number, _ in enumerate(captions(listing()), 1)]
    assert max(waited) <= 2


def test_a_listing_in_no_order_is_refused() -> None:
    """A sidecar would be missed there, and with it what the asset is judged by."""
    with pytest.raises(
        JobError, match=r"lists a\.scc after b\.scc, and a sidecar may be missed so"
    ) as raised:
        list(captions(map(stored, ["b.scc", "a.scc"])))
    assert raised.value.code == Exit.BAD_CONFIG


def test_an_object_that_is_another_by_now_is_not_read(here: StorePlace, plan: Plan) -> None:
    """The answer says of itself that it is not what was seen, before its bytes are read; gone is gone."""
    here.put("a.scc", b"seen")
    asset = only(plan)
    here.put("a.scc", b"else")
    with pytest.raises(NotAsSeenError, match="it changed since it was seen"):
        plan.queue.fetched(asset, 9.0)
    assert not holds(plan.queue, asset, "0" * 64, seconds=9.0)
    here.server.delete(f"{here.prefix}/a.scc")
    with pytest.raises(FileNotFoundError):
        plan.queue.fetched(asset, 9.0)
    assert plan.queue.find([b"a.scc"]) == [None]
    assert plan.queue.gone([b"a.scc"]) == [b"a.scc"]
    assert plan.queue.is_empty(plan)


def test_a_sidecar_that_is_gone_is_a_change(here: StorePlace, plan: Plan) -> None:
    """The asset is not gone with it: it is left, and seen without one by the next fire."""
    here.put("a.scc", b"seen")
    here.put("a.toml", b"x")
    asset = only(plan)
    assert plan.queue.fetched(asset, 9.0).sidecar() == b"x"
    here.server.delete(f"{here.prefix}/a.toml")
    with pytest.raises(NotAsSeenError, match="its sidecar is not there any more"):
        plan.queue.fetched(asset, 9.0)


def test_a_digest_takes_no_longer_than_it_may(here: StorePlace, plan: Plan) -> None:
    """An object that is too large for a check is read piece by piece, until its time is over or a drain comes."""
    here.put("a.scc", b"x" * 200_000)
    asset = only(plan)
    assert digest(plan.queue, asset, seconds=9.0, stopped=bool) == sha256(b"x" * 200_000)
    late = digest(plan.queue, asset, seconds=0.0, stopped=bool)
    assert isinstance(late, Left)
    assert (late.why, late.detail) == ("unreadable", "it could not be read in time")
    drained = digest(plan.queue, asset, seconds=9.0, stopped=lambda: True)
    assert isinstance(drained, Left)
    assert drained.why == "stopped"
    with pytest.raises(WithheldError):
        plan.queue.fetched(asset, 0.0)


REFUSALS = [
    ("503 Slow Down", Exit.UNREACHABLE, "cannot reach s3://"),
    ("500 Internal Error", Exit.UNREACHABLE, "cannot reach s3://"),
    ("429 Too Many Requests", Exit.UNREACHABLE, "cannot reach s3://"),
    ("drop", Exit.UNREACHABLE, "cannot reach s3://"),
    ("403 Access Denied", Exit.NO_PERMISSION, "no permission for s3://"),
    ("403 Expired Token", Exit.NO_PERMISSION, "no good credentials for s3://"),
    ("403 Signature Does Not Match", Exit.NO_PERMISSION, "no good credentials for s3://"),
    ("301 Permanent Redirect", Exit.BAD_CONFIG, "set AWS_DEFAULT_REGION to the bucket's region"),
    ("400 Authorization Header Malformed", Exit.BAD_CONFIG, "set AWS_DEFAULT_REGION"),
    ("404 No Such Bucket", Exit.NO_QUEUE, "no bucket at s3://"),
    ("400 Bad Request", Exit.IO_ERROR, "the store refused s3://"),
    ("200 OK", Exit.UNREACHABLE, "see the network and AWS_ENDPOINT_URL"),
]


def test_each_refusal_has_its_line_and_code(here: StorePlace, plan: Plan) -> None:
    """A store's refusal of the whole queue is one line that says what to do, and the code that fits."""
    for answer, code, says in REFUSALS:
        here.server.forget()
        here.server.rule("GET", here.server.bucket, answer)
        with pytest.raises(JobError) as raised:
            plan.queue.require()
        assert says in str(raised.value)
        assert "\n" not in str(raised.value)
        assert raised.value.code == code, answer


def test_one_object_s_refusal_is_its_own(here: StorePlace, plan: Plan) -> None:
    """What the store refuses of one object is that asset's; what it says of itself is the queue's."""
    here.put("a.scc", b"x")
    asset = only(plan)
    for answer, kind in {
        "403 Access Denied": PermissionError,
        "403 Invalid Object State": PermissionError,
        "400 Bad Request": PermissionError,
        "200 OK": PermissionError,
        "404 No Such Key": FileNotFoundError,
        "503 Slow Down": OSError,
        "drop": OSError,
        "403 Expired Token": JobError,
    }.items():
        here.server.forget()
        here.rule("GET", "a.scc", answer)
        with pytest.raises(kind):
            plan.queue.fetched(asset, 9.0)


ADDRESSES = [
    ("s3://b-1", Bucket("b-1"), "s3://b-1"),
    ("s3://b/", Bucket("b"), "s3://b"),
    ("s3://b/a", Bucket("b", "a/"), "s3://b/a"),
    ("s3://b/a/", Bucket("b", "a/"), "s3://b/a"),
    ("s3://b//", Bucket("b", "/"), "s3://b//"),
    ("s3://b/a//", Bucket("b", "a//"), "s3://b/a//"),
    ("s3://b/a?x=%41#y", Bucket("b", "a?x=%41#y/"), "s3://b/a?x=%41#y"),
]


def test_an_address_says_which_keys_it_means() -> None:
    """Nothing of an address is decoded or mended: keys may hold anything, and the address comes back."""
    for text, bucket, url in ADDRESSES:
        assert bucket_named(text) == bucket
        assert bucket.url == url
        assert bucket_named(url) == bucket


def test_an_address_of_no_bucket_is_refused() -> None:
    """What can't be a bucket or a key is told at once."""
    for text in ("s3://", "s3:///a", "s3://a b/c", "s3://..//", os.fsdecode(b"s3://b/\xff")):
        with pytest.raises(JobError, match=r"names no bucket|is not UTF-8") as raised:
            bucket_named(text)
        assert raised.value.code == Exit.USAGE
