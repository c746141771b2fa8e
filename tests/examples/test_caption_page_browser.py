"""The caption dashboard in a browser: what is shown, found, sorted and opened, of none to 10,000 assets."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from caption_pages import asset, dead_letter, finding, many, page_of, summary_of
from chromium import chromium, opened
from playwright.sync_api import expect

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

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
    """A column sorts up, then down; numbers as numbers, and what is unknown below all."""
    assets = [asset("b.scc", p95_cps=9.5), asset("a.scc", p95_cps=None), asset("c.scc", p95_cps=18.0)]
    with opened(browser, write(tmp_path, page_of(summary_of(assets)))) as page:
        listed(page, "b.scc", "a.scc", "c.scc")
        sort(page, "chars/s")
        listed(page, "a.scc", "b.scc", "c.scc")
        sort(page, "chars/s")
        listed(page, "c.scc", "b.scc", "a.scc")
        expect(page.locator("th[aria-sort=descending]")).to_have_text("chars/s")


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


def test_cut_findings_name_the_command_that_shows_all(browser: Browser, tmp_path: Path) -> None:
    """Where findings were cut, the page says how many there are and what shows them, with a path that can be typed."""
    plain, odd = asset("s 1/a.scc", findings=409), asset("it's%E9.scc", findings=409)
    with opened(browser, write(tmp_path, page_of(summary_of([plain, odd])))) as page:
        page.locator("button.open").nth(0).click()
        page.locator("button.open").nth(1).click()
        expect(page.locator(".details .cut")).to_have_count(2)
        told = page.locator(".details .cut").all_inner_texts()
        command = "python -m examples.recipes.caption_qc inspect"
        assert told == [
            f"3 of 409 findings, the worst: {command} '/srv/captions/incoming/s 1/a.scc' shows all.",
            f"3 of 409 findings, the worst: {command} FILE shows all.",
        ]


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
