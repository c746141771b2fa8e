"""The browser that the machine has, one a module, for pages that open from disk and give nothing to complain of."""

from __future__ import annotations

import contextlib
import shutil
from typing import TYPE_CHECKING, Any, Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from blocking import PATIENCE
from playwright.sync_api import expect, sync_playwright

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

    Scheme = Literal["light", "dark"]

expect.set_options(timeout=PATIENCE * 1000)

NAMES = ("chromium", "chromium-browser", "google-chrome")


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """Start it for a module, with the one page that shows files after each other: a new one takes a second.

    Its processes and threads have ended when this is left.
    """
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip("chromium is not on this machine")
    with sync_playwright() as playwright:
        # Without its sandbox, because tests run as root too; it is shown files that the tests wrote.
        browser = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox"], timeout=PATIENCE * 1000
        )
        try:
            context = browser.new_context()
            context.set_default_timeout(PATIENCE * 1000)
            context.new_page()
            yield browser
        finally:
            browser.close()


@contextlib.contextmanager
def opened(
    browser: Browser, path: Path, *, width: int = 1280, height: int = 720, color_scheme: Scheme = "light"
) -> Iterator[Page]:
    """Open a file, and fail if the page had an error, said anything on its console, or asked for anything else."""
    (page,) = browser.contexts[0].pages
    complaints: list[str] = []
    listeners: dict[Any, Callable[[Any], None]] = {
        "console": lambda message: complaints.append(f"{message.type}: {message.text}"),
        "pageerror": lambda error: complaints.append(f"error: {error}"),
        "request": lambda request: complaints.append(request.url) if request.url != path.as_uri() else None,
    }
    page.set_viewport_size({"width": width, "height": height})
    page.emulate_media(media="null", color_scheme=color_scheme)
    for event, listener in listeners.items():
        page.on(event, listener)
    try:
        page.goto(path.as_uri())
        yield page
    finally:
        for event, listener in listeners.items():
            page.remove_listener(event, listener)
        page.goto("about:blank")
    assert complaints == []


def violations(page: Page, *unasked: str) -> list[str]:
    """List what axe has against the page as it stands: the rule, and where it is broken; but for rules `unasked`."""
    # Of what passes it would make as long a list.
    options = {"resultTypes": ["violations"], "rules": {rule: {"enabled": False} for rule in unasked}}
    found = Axe().run(page, options=options).response["violations"]
    return [
        f"{one['id']}: {node['target']} {node['failureSummary']}" for one in found for node in one["nodes"]
    ]
