"""The caption dashboard in a browser: what is shown, found, sorted and opened, of none to 10,000 assets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from caption_pages import asset, dead_letter, finding, many, page_of, summary_of
from chromium import chromium, opened
from playwright.sync_api import expect

from examples.recipes.caption_qc.check.timecode import seconds
from examples.recipes.caption_qc.job import page as package
from examples.recipes.caption_qc.labels import label

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

PAGE = Path(package.__file__).parent
HOSTILE = (
    "<img src=x onerror=window.struck=1>.scc",
    "</script><script>window.struck=1</script>",
    "<!-- <script> --><!--",
    "\u202egpj.exe\u2066\u05e2\u05d1\u05e8\u05d9\u05ea",
    "\U0001f3ac\U0001f469\u200d\U0001f680.scc",
    "&lt;b&gt;&amp;amp; \"quoted\" 'single' $policy ${data}",
    "w" * 900,
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


def write(folder: Path, page: str) -> Path:
    path = folder / "dashboard.html"
    path.write_text(page, encoding="utf-8")
    return path


def listed(page: Page, *names: str) -> None:
    """Wait for the table to have these assets: it sorts and filters when it comes to it."""
    expect(page.locator("button.open")).to_have_text(list(names))


def test_page_of_nothing_says_so(browser: Browser, tmp_path: Path) -> None:
    """Before the first asset there is a page, which says that nothing was checked and complains of nothing."""
    with opened(browser, write(tmp_path, page_of(summary_of([])))) as page:
        assert page.locator("#needs .needs").inner_text().startswith("Nothing was checked yet")
        assert page.locator("#assets p").inner_text() == "Nothing was checked yet."
        assert page.locator("svg.pygal-chart").count() == 0


def test_one_asset_is_shown_with_all_that_is_known(browser: Browser, tmp_path: Path) -> None:
    """Opened, an asset shows each finding's place, what is wrong with it, and the caption that shows there."""
    with opened(browser, write(tmp_path, page_of(summary_of([asset("one.scc")])))) as page:
        assert page.locator("svg.pygal-chart").count() == 2
        page.locator("button.open").click()
        first = page.locator("li.finding").first
        told = "2 s before the line above it"
        for known in ("error", "TC_BACKWARD", told, "line 12", "word 3", "00:01:02;05", "cue 7", "CC1"):
            assert known in first.inner_text()
        assert first.locator(".row").all_inner_texts() == [
            "- Where did you put it?",
            "- On the kitchen table.",
        ]
        assert "00:01:02.128 to 00:01:03.500" in first.inner_text()


def test_ten_thousand_assets_render_a_page_at_a_time(browser: Browser, tmp_path: Path) -> None:
    """Of 10,000 assets the rows of one page exist, and no finding before its asset is opened."""
    summary = summary_of(many(10_000), truncated=True, assets_total=34_000)
    with opened(browser, write(tmp_path, page_of(summary))) as page:
        expect(page.locator(".dt-info")).to_have_text("1 to 25 of 10,000 assets")
        expect(page.locator("#table tbody tr")).to_have_count(25)
        assert page.locator("#table .cut").inner_text().startswith("The worst 10,000 of 34,000 assets")
        assert page.locator(".finding").count() == 0
        page.locator("#filter-text").fill("episode-09999")
        listed(page, "show-08/season-1/episode-09999.scc")
        page.locator("#filter-text").fill("")
        sort(page, "asset")
        expect(page.locator("button.open").first).to_have_text("show-00/season-1/episode-00000.scc")


def sort(page: Page, title: str) -> None:
    """Sort by a column as one does by the keyboard."""
    page.locator("th", has_text=title).locator("[role=button]").press("Enter")


def test_columns_sort_both_ways(browser: Browser, tmp_path: Path) -> None:
    """Numbers sort the greatest first, then the least, and what is unknown below all; names by the alphabet first."""
    assets = [asset("b.scc", p95_cps=9.5), asset("a.scc", p95_cps=None), asset("c.scc", p95_cps=18.0)]
    with opened(browser, write(tmp_path, page_of(summary_of(assets)))) as page:
        listed(page, "b.scc", "a.scc", "c.scc")
        sort(page, "chars/s")
        listed(page, "c.scc", "b.scc", "a.scc")
        expect(page.locator("th[aria-sort=descending]")).to_have_text("chars/s")
        sort(page, "chars/s")
        listed(page, "a.scc", "b.scc", "c.scc")
        sort(page, "asset")
        listed(page, "a.scc", "b.scc", "c.scc")


def test_filters_hold_together(browser: Browser, tmp_path: Path) -> None:
    """Status, rule and text each take away what they don't name; clearing brings all back."""
    assets = [
        asset("one/failed.scc", "fail"),
        asset("two/failed.scc", "fail", rules={"LAY_ROWS": 409}, findings=409),
        asset("one/warned.scc", "warn"),
    ]
    with opened(browser, write(tmp_path, page_of(summary_of(assets)))) as page:
        page.locator("#filter-status").select_option("fail")
        listed(page, "one/failed.scc", "two/failed.scc")
        page.locator("#filter-text").fill("ONE kitchen")
        listed(page, "one/failed.scc")
        page.locator("#filter-text").fill("nowhere")
        expect(page.locator("#table tbody")).to_contain_text("No asset passes the filters.")
        page.get_by_role("button", name="Clear filters").press("Enter")
        expect(page.locator("button.open")).to_have_count(3)
        page.locator("#filter-rule").select_option("CUE_GAP")
        listed(page, "one/warned.scc")


def test_rule_filter_knows_findings_that_are_not_listed(browser: Browser, tmp_path: Path) -> None:
    """A rule whose findings are beyond the first ones is found all the same: each asset has all its rules."""
    rules = [{"rule": "LAY_ROWS", "severity": "warn", "count": 409, "assets": 1}]
    assets = [asset("a.scc", rules={"TC_BACKWARD": 30, "LAY_ROWS": 379}, findings=409), asset("b.scc")]
    with opened(browser, write(tmp_path, page_of(summary_of(assets, rules=rules)))) as page:
        page.locator("#rules a", has_text="LAY_ROWS").press("Enter")
        listed(page, "a.scc")
        expect(page.locator("#filter-rule")).to_have_value("LAY_ROWS")
        expect(page.locator("#assets-title")).to_be_focused()


def test_totals_lead_to_their_assets(browser: Browser, tmp_path: Path) -> None:
    """The number of assets that fail is a link to them."""
    assets = [asset("bad.scc"), asset("good.scc", "pass")]
    with opened(browser, write(tmp_path, page_of(summary_of(assets)))) as page:
        page.locator(".needs a").click()
        listed(page, "bad.scc")
        page.locator(".tiles .pass a").click()
        listed(page, "good.scc")


def test_cut_findings_name_the_command_that_shows_more(browser: Browser, tmp_path: Path) -> None:
    """Where findings were cut, a command shows up to 100 of each rule, by the record's own profile, queue and path."""
    own = {"profile": "p55", "profile_sha256": "12" * 32}
    assets = [
        asset("s 1/a.scc", findings=409),
        asset("it's%E9.scc", findings=409, profile="netflix", superseded=True),
        asset("c.scc", findings=409, queue="/mnt/old/", **own),
        asset("d.scc", findings=409, queue="s3://house/in"),
    ]
    command = "python -m examples.recipes.caption_qc inspect --profile"
    more = "shows up to 100 of each rule."
    told = [
        f"{command} house '/srv/captions/incoming/s 1/a.scc' {more}",
        f"{command} netflix FILE {more} It was delivered again since: the command shows the newer file.",
        f"{command} PROFILE /mnt/old/c.scc {more} PROFILE is the TOML file with the name p55 (121212121212).",
        f"{command} house FILE {more}",
    ]
    with opened(browser, write(tmp_path, page_of(summary_of(assets)))) as page:
        for button in page.locator("button.open").all():
            button.click()
        cut = [f"3 of 409 findings, the worst: {line}" for line in told]
        expect(page.locator(".details .cut")).to_have_text(cut)


TIMES = [
    # Time base, the line's time code, start and end in seconds; what is shown of them.
    ("ndf", "00:00:02:00", 2.002, 5.505, "00:00:02:00 to 00:00:05:15", "00:00:02.002 to 00:00:05.505"),
    ("df", "00:01:02;05", 62.128, None, "00:01:02;04 to unknown", "00:01:02.128 to unknown"),
    ("ndf", "23:59:59:00", 86486.4, 86491.438, "00:00:00:00 to 00:00:05:01", "24:01:26.400 to 24:01:31.438"),
    ("mixed", "00:00:12;29", 59.993, 60.06, "00:00:59;28 to 00:01:00;02", "00:00:59.993 to 00:01:00.060"),
    ("mixed", "00:00:13:00", 13.013, 600.6, "00:00:13:00 to 00:10:00:00", "00:00:13.013 to 00:10:00.600"),
]


def test_captions_have_the_time_codes_of_their_file_and_real_time(browser: Browser, tmp_path: Path) -> None:
    """A caption's time is a label of the file's own time base, and real seconds to the nearest millisecond."""
    assets = [
        asset(
            f"{number}.scc",
            time_base=base,
            first_findings=[
                finding("CUE_GAP", "warn", "x", timecode=code, caption_start=start, caption_end=end)
            ],
        )
        for number, (base, code, start, end, *_) in enumerate(TIMES)
    ]
    shown = [f"on screen {labels} real time {real}" for *_, labels, real in TIMES]
    with opened(browser, write(tmp_path, page_of(summary_of(assets)))) as page:
        for button in page.locator("button.open").all():
            button.click()
        expect(page.locator("figcaption")).to_have_text(shown)


def test_labels_are_those_that_inspect_prints(browser: Browser, tmp_path: Path) -> None:
    """Around each minute and ten minutes, where drop-frame labels are left out, page and `inspect` say the same."""
    frames = [
        minute * 1800 - 20 * (minute // 10) + near for minute in range(31) for near in range(-40, 41, 4)
    ]
    frames = [frame for frame in frames if frame >= 0]
    with opened(browser, write(tmp_path, page_of(summary_of([asset("a.scc")])))) as page:
        script = (PAGE / "times.js").read_text(encoding="utf-8")
        for drop in (False, True):
            shown = page.evaluate(
                f"([all, drop]) => {{ {script}; return all.map((one) => label(one, drop)); }}",
                [[round(seconds(frame), 3) for frame in frames], drop],
            )
            assert shown == [label(frame, drop=drop) for frame in frames]


def test_what_was_delivered_again_needs_nobody_and_says_so(browser: Browser, tmp_path: Path) -> None:
    """A record with a newer one of its name is marked, and the number of those that fail leads to the others alone."""
    assets = [
        asset("reel.scc", superseded=True),
        asset("other.scc"),
        asset("reel.scc", "pass", content_sha256="cd" * 32),
    ]
    with opened(browser, write(tmp_path, page_of(summary_of(assets)))) as page:
        told = "1 asset fails of 3 in the window shown; 1 more was delivered again since"
        expect(page.locator(".needs li")).to_have_text([told])
        marks = ["delivered again since; profile house, SHA-256 abababab", "profile house, SHA-256 cdcdcdcd"]
        expect(page.locator("#table .marks")).to_have_text(marks)
        page.locator(".needs a").click()
        listed(page, "other.scc")
        page.get_by_label("without those delivered again since").uncheck()
        listed(page, "reel.scc", "other.scc")
        page.locator(".tiles .fail a").click()
        listed(page, "reel.scc", "other.scc")


def test_each_blank_of_a_name_shows(browser: Browser, tmp_path: Path) -> None:
    """Names that differ by a blank alone look different."""
    names = ["a b.scc", "a  b.scc", " lead.scc"]
    with opened(browser, write(tmp_path, page_of(summary_of([asset(name) for name in names])))) as page:
        assert page.locator("button.open bdi").evaluate_all("all => all.map((one) => one.innerText)") == names


def test_text_filter_says_where_it_looks(browser: Browser, tmp_path: Path) -> None:
    """A time code is found; where findings are not listed, an empty table says that they are not looked into."""
    cut = asset(
        "cut.scc", findings=409, first_findings=[finding("CUE_GAP", "warn", "x", timecode="00:00:17:00")]
    )
    with opened(browser, write(tmp_path, page_of(summary_of([cut, asset("whole.scc")])))) as page:
        page.locator("#filter-text").fill("00:00:17")
        listed(page, "cut.scc")
        page.locator("#filter-text").fill("nowhere")
        expect(page.locator("#table tbody")).to_contain_text(
            "the findings that are listed here, not into all"
        )


def test_asset_that_was_not_checked_has_no_figures(browser: Browser, tmp_path: Path) -> None:
    """It has no count of captions either; and shares are never rounded to none or all."""
    unknown = dict.fromkeys(("time_base", "max_cps", "p95_cps", "wpm", "share_over_cps", "duration_seconds"))
    assets = [asset("a.scc", "error", cues=0, **unknown), asset("b.scc", share_over_cps=0.0004)]
    with opened(browser, write(tmp_path, page_of(summary_of(assets)))) as page:
        for button in page.locator("button.open").all():
            button.click()
        figures = page.locator(".figures")
        expect(figures.nth(0).locator("div", has_text="captions")).to_have_text("captionsunknown")
        expect(figures.nth(1).locator("div", has_text="too fast")).to_have_text("too fastunder 0.1 %")


def test_hostile_text_shows_as_text(browser: Browser, tmp_path: Path) -> None:
    """HTML, script ends, comments, directions, emoji and endless words are text wherever they come: nothing runs."""
    assets = [
        asset(name, first_findings=[finding("TC_BACKWARD", "error", name, timecode=name[:20], caption=name)])
        for name in HOSTILE
    ]
    letters = [dead_letter(name, name) for name in HOSTILE]
    text = page_of(summary_of(assets, dead_letters=letters), queue=HOSTILE[1], profile=HOSTILE[0])
    with opened(browser, write(tmp_path, text), width=360) as page:
        assert page.locator("button.open").evaluate_all("all => all.map(one => one.textContent)") == list(
            HOSTILE
        )
        for button in page.locator("button.open").all():
            button.click()
        expect(page.locator(".finding .message bdi")).to_have_count(len(HOSTILE))
        shown = page.locator(".finding .message bdi").evaluate_all("all => all.map(one => one.textContent)")
        assert shown == list(HOSTILE)
        assert page.locator("#dead-letters td.long bdi").all_text_contents() == list(HOSTILE)
        page.locator("#filter-text").fill("onerror=window")
        expect(page.locator("button.open")).to_have_count(1)
        assert page.evaluate("window.struck") is None
        assert page.evaluate("document.images.length + document.scripts.length") == 3
        assert page.evaluate("document.documentElement.scrollWidth") == 360


def test_keyboard_alone_opens_a_finding(browser: Browser, tmp_path: Path) -> None:
    """From the skip link through the filters to an asset, its findings open and close by Enter, and focus is seen."""
    with opened(browser, write(tmp_path, page_of(summary_of(many(40))))) as page:
        page.keyboard.press("Tab")
        expect(page.locator(":focus")).to_have_text("Skip to the assets")
        page.keyboard.press("Enter")
        passed: list[str] = []
        while not passed or "open" not in passed[-1]:
            page.keyboard.press("Tab")
            focus = page.locator(":focus")
            passed.append(focus.get_attribute("class") or focus.get_attribute("id") or "")
            assert focus.evaluate("one => getComputedStyle(one).outlineStyle") != "none"
            assert len(passed) < 20
        assert passed[:3] == ["filter-text", "filter-status", "filter-rule"]
        page.keyboard.press("Enter")
        expect(page.locator(":focus")).to_have_attribute("aria-expanded", "true")
        opened_by = page.locator(":focus").get_attribute("aria-controls")
        expect(page.locator(f"#{opened_by} .finding").first).to_be_visible()
        page.keyboard.press("Enter")
        expect(page.locator(".finding")).to_have_count(0)
