"""How the caption dashboard looks: light and dark, wide and narrow, printed, to a screen reader, without libraries."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from caption_pages import dead_letter, many, page_of, summary_of
from chromium import chromium, opened, violations
from playwright.sync_api import expect

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from chromium import Scheme
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser

LETTERS = [dead_letter(f"lost-{number}.scc", "the check took over 60 s, 3 times") for number in range(2)]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a page with something in each part."""
    path = tmp_path_factory.mktemp("page") / "dashboard.html"
    summary = summary_of(many(12), dead_letters=LETTERS, truncated=True, assets_total=50)
    failed = {"id": "r", "status": "drained", "exit_code": 74, "drained": True, "redo": False}
    path.write_text(page_of(summary, run=failed, backlog=1204), encoding="utf-8")
    return path


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 360)])
def test_axe_finds_nothing(browser: Browser, full: Path, scheme: Scheme, width: int) -> None:
    """Contrast, names, roles and headings are right in light and dark, wide and narrow, also of an open asset."""
    with opened(browser, full, width=width, color_scheme=scheme) as page:
        page.locator("button.open").first.click()
        page.locator("details > summary").first.click()
        expect(page.locator(".finding").first).to_be_visible()
        assert violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") == width
        assert page.evaluate("document.querySelector('#table table').offsetWidth") <= width
        assert page.locator("th.wide:visible").count() == (0 if width < 400 else 5)
        for part in page.locator("#rules .scrolls, #dead-letters").all():
            assert part.evaluate("one => one.scrollWidth - one.clientWidth") == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_ground_follows_the_scheme(browser: Browser, full: Path, scheme: Scheme) -> None:
    """The page is dark where the reader asked for dark, and follows when that changes."""
    ground = "getComputedStyle(document.body).backgroundColor"
    with opened(browser, full, color_scheme=scheme) as page:
        before = page.evaluate(ground)
        assert page.evaluate("document.documentElement.classList.contains('dark')") == (scheme == "dark")
        page.emulate_media(color_scheme="light" if scheme == "dark" else "dark")
        page.locator("html.dark" if scheme == "light" else "html:not(.dark)").wait_for(state="attached")
        expect(page.locator("body")).not_to_have_css("background-color", before)


def test_urgent_is_seen_without_scrolling(browser: Browser, full: Path) -> None:
    """A failed run, dead letters and the backlog are within the first 720 pixels."""
    with opened(browser, full) as page:
        needs = page.locator(".needs li")
        told = " ".join(needs.all_inner_texts())
        for urgent in ("exit code 74", "2 dead letters", "Backlog of 1,204 assets", "1 asset fails"):
            assert urgent in told
        for part in (*needs.all(), *page.locator(".tiles li").all()):
            box = part.bounding_box()
            assert box is not None
            assert box["y"] + box["height"] <= 720


def test_plots_have_titles_and_figures(browser: Browser, full: Path) -> None:
    """A screen reader is told what a plot shows, and its figures stand beside it as a table."""
    with opened(browser, full) as page:
        rate, speed = page.get_by_role("img").all()
        assert (rate.get_attribute("aria-label") or "").startswith("Pass rate over 30 windows: 58.3 % of 12")
        assert "over the limit of 20" in (speed.get_attribute("aria-label") or "")
        page.locator("#windows summary").click()
        expect(page.locator("#windows tbody tr")).to_have_count(30)
        page.locator("#reading-speed summary").click()
        assert page.locator("#reading-speed tbody tr").last.inner_text().split("\t") == ["40 and over", "0"]


def test_printed_page_has_no_controls(browser: Browser, full: Path) -> None:
    """On paper there is what is known, on white, and nothing to press."""
    with opened(browser, full, color_scheme="dark") as page:
        page.emulate_media(media="print", color_scheme="light")
        for control in (".filters", ".dt-paging", ".dt-length", ".skip"):
            expect(page.locator(control)).to_be_hidden()
        expect(page.locator("#table tbody tr").first).to_be_visible()


def test_nothing_else_may_run_or_be_reached(browser: Browser, full: Path) -> None:
    """The page's policy refuses a script, an inline style, eval and any address, should one ever get into it."""
    tried = """
        const refused = new Set();
        const all = new Promise((done) => document.addEventListener("securitypolicyviolation", (event) => {
          refused.add(event.effectiveDirective);
          if (refused.size === 4) done([...refused].sort());
        }));
        fetch("http://127.0.0.1:9/").catch(() => 0);
        new Image().src = "http://127.0.0.1:9/x.png";
        document.body.insertAdjacentHTML("beforeend", "<p style='color: red' onclick='1'>x</p>");
        return all;"""
    context = browser.new_context()
    try:
        page = context.new_page()
        page.goto(full.as_uri())
        refused = page.evaluate(f"() => {{ {tried} }}")
    finally:
        context.close()
    assert refused == ["connect-src", "img-src", "script-src-attr", "style-src-attr"]


def test_page_without_libraries_is_whole(
    browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without itables and pygal there is a plain table of the worst, and two lines say what to install."""
    for name in ("itables", "pygal"):
        monkeypatch.setitem(sys.modules, name, None)
    path = tmp_path / "dashboard.html"
    path.write_text(page_of(summary_of(many(101), dead_letters=LETTERS)), encoding="utf-8")
    with opened(browser, path) as page:
        told = " ".join(page.locator(".missing").all_inner_texts())
        assert "pip install itables" in told
        assert "pip install pygal" in told
        assert page.locator("#plain tbody tr").count() == 100
        assert "The worst 100 of 101 assets" in page.locator("#plain").inner_text()
        assert violations(page, "color-contrast") == []  # the colours of the other tests
