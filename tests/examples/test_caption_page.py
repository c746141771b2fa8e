"""The caption dashboard's HTML: what it says first, what it lets in, and what it says where something is missing."""

from __future__ import annotations

import base64
import hashlib
import re
import sys
from datetime import UTC, datetime
from html import escape
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest
from caption_pages import COMMANDS, asset, dead_letter, finding, head_of, many, page_of, summary_of
from caption_runs import run_program

from examples.recipes.caption_qc.job.errors import Exit
from examples.recipes.caption_qc.job.page import fragment_of, html_of
from examples.recipes.caption_qc.job.page.commands import commands_of
from examples.recipes.caption_qc.job.rows import DEAD_LETTER_RULE
from examples.recipes.caption_qc.job.sidecar import SIDECAR_RULE
from examples.recipes.caption_qc.options import build_parser
from examples.recipes.caption_qc.planning import plan_of_places

if TYPE_CHECKING:
    from pathlib import Path

LETTER = dead_letter("lost.scc", "the check took over 60 s")


def needs(page: str) -> list[str]:
    """List the page's first lines, the most urgent first."""
    listed = page.partition('<ul class="needs">')[2].partition("</ul>")[0]
    return [" ".join(re.sub(r"<[^>]*>", "", line).split()) for line in listed.strip().splitlines()]


def run_of(code: int = 0, *, drained: bool = False) -> dict[str, Any]:
    return {
        "id": "r",
        "status": "drained" if drained else "complete",
        "exit_code": code,
        "drained": drained,
        "redo": False,
    }


def test_policy_names_each_style_and_script_by_its_hash() -> None:
    """Whatever else gets into the page can't run: the policy has the hashes of what the page itself brings."""
    page = page_of(summary_of(many(3)))
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    own = re.findall(r"<style>(.*?)</style>|<script type=\"module\">(.*?)</script>", page, re.DOTALL)
    hashes = [base64.b64encode(hashlib.sha256("".join(text).encode()).digest()).decode() for text in own]
    assert len(hashes) == 4
    assert re.findall(r"'sha256-([^']*)'", policy[1]) == [*hashes[2:], *hashes[:2]]
    assert policy[1].startswith("default-src 'none'; ")
    assert "unsafe" not in policy[1]


def test_fragment_brings_no_script_style_or_link() -> None:
    """What is kept of the plots and tables has nothing that the policy would refuse, and nothing to load."""
    fragment = fragment_of(summary_of(many(30), dead_letters=[LETTER]))
    assert fragment.count("<svg") > 2
    assert not re.search(
        r"<script|<style|<link|<\?xml|<!--|\sstyle=|\son\w+=|https?:(?!//www\.w3\.org/)", fragment
    )


def test_fragment_of_the_same_is_the_same() -> None:
    """It tells neither the day nor a number drawn by dice: what is kept changes with the records alone."""
    summary = summary_of(many(30), dead_letters=[LETTER])
    assert fragment_of(summary) == fragment_of(summary)


@pytest.mark.parametrize("code", [code for code in Exit if code])
def test_failed_run_comes_first(code: Exit) -> None:
    """Whoever is woken reads the exit code first, and what it means."""
    first = needs(page_of(summary_of(many(30), dead_letters=[LETTER]), run=run_of(int(code))))[0]
    told, meaning = (
        first[: len(f"The run ended with exit code {code}")],
        first[len("The run ended with exit code 64 ") :],
    )
    assert told == f"The run ended with exit code {int(code)}"
    assert meaning
    assert meaning != "see its log"


def test_unknown_exit_code_is_told_too() -> None:
    """A code that has no meaning here is shown all the same."""
    assert (
        needs(page_of(summary_of([]), run=run_of(139)))[0] == "The run ended with exit code 139 see its log"
    )


def test_needs_stand_in_the_order_of_their_urgency() -> None:
    """Dead letters, what could not be checked and what fails come before what only waits for the next run."""
    summary = summary_of([asset("a", "error"), asset("b")], dead_letters=[LETTER])
    assert needs(page_of(summary, run=run_of(drained=True), backlog=None)) == [
        "1 dead letter given up after repeated attempts",
        "1 asset could not be checked of 2 in the window shown; a dead letter of that window counts here too",
        "1 asset fails of 2 in the window shown",
        "The run was stopped early what it did not reach is left to the next one",
        "The backlog is unknown the scan was cut short",
    ]


@pytest.mark.parametrize(
    ("statuses", "told"),
    [
        ([], "Nothing was checked yet the run found no asset that was ready"),
        (["pass"] * 3, "Nothing needs you the run is complete, and no asset of 3 in the window shown fails"),
        (
            ["warn", "pass"],
            "Nothing needs you the run is complete, and no asset of 2 in the window shown fails, 1 with warnings",
        ),
    ],
)
def test_page_says_when_nothing_needs_anybody(statuses: list[str], told: str) -> None:
    """A quiet night is told in so many words, which an empty page would not do."""
    assets = [asset(f"{number}.scc", status) for number, status in enumerate(statuses)]
    assert needs(page_of(summary_of(assets))) == [told]


def test_title_says_the_most_urgent() -> None:
    """Of many tabs the one that needs somebody can be told by its title."""
    assert "<title>3 assets fail · Caption QC</title>" in page_of(summary_of([asset(name) for name in "abc"]))


def test_mended_files_need_nobody() -> None:
    """What fails and was delivered again is no need; that it was is told."""
    summary = summary_of([asset("reel.scc", superseded=True), asset("reel.scc", "pass")])
    told = "Nothing needs you the run is complete, and no asset of 2 in the window shown fails"
    assert needs(page_of(summary)) == [f"{told}; 1 asset that failed was delivered again"]


def test_redo_says_nothing_of_a_backlog() -> None:
    """A redo looks at no new files, so that its backlog is unknown, and nothing was cut short."""
    page = page_of(summary_of([asset("a", "pass")]), run=run_of() | {"redo": True}, backlog=None)
    assert [line[:17] for line in needs(page)] == ["Nothing needs you"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--state", "/srv/a b"], "--state '/srv/a b'"),
        (["--state", "/srv/s", "--out", "/srv/o"], "--state /srv/s --out /srv/o"),
        (["--state", "/srv/s", "--lock", "/run/l"], "--state /srv/s --lock /run/l"),
        (["--state", "/srv/\udce9"], "--state FOLDER"),
    ],
)
def test_dead_letters_command_is_whole(options: list[str], told: str) -> None:
    """The command that is copied names the folders of these runs, as a shell reads them; so does the page."""
    plan = plan_of_places(build_parser({}).parse_args(["replay", *options]), datetime.now(UTC))
    commands = commands_of(plan)
    assert commands.replay == f"python -m examples.recipes.caption_qc replay {told}"
    summary = summary_of([], dead_letters=[LETTER])
    page = "".join(html_of(head_of(summary), fragment_of(summary), commands))
    assert f"<code>{escape(commands.replay)}</code> puts them back" in page
    assert f"lie below <code>{escape(commands.state)}</code>." in page
    assert "dead-letter/lost.scc" in page
    assert "data-hole" not in page


def test_dead_letters_tile_leads_to_them() -> None:
    """The number of dead letters is a link, as the others are."""
    page = page_of(summary_of([], dead_letters=[LETTER]))
    assert '<li class="dead_letters"><a href="#dead-letters-title"><b>1</b> dead letters</a></li>' in page


@pytest.mark.parametrize("rule", [DEAD_LETTER_RULE, SIDECAR_RULE])
def test_rules_of_the_job_say_what_they_find(rule: str) -> None:
    """What no check finds has its words in the table too."""
    row = fragment_of(summary_of([asset("a", "error", first_findings=[finding(rule, "error", "x")])]))
    assert re.search(rf"{rule}.*the asset was not checked|{rule}.*it was not checked", row)


def test_cut_dead_letters_say_so() -> None:
    """Where not all are listed, the page says which they are and what counts them all."""
    summary = summary_of(many(3), dead_letters=[LETTER])
    assert "These are the newest" not in fragment_of(summary)
    assert "These are the newest" in fragment_of(summary | {"dead_letters_truncated": True})


@pytest.mark.parametrize(
    ("passed", "assets", "told"),
    [
        (3, 3, "100 % of 3 passed on"),
        (25_000, 25_001, "99.9 % of 25,001 passed on"),
        (29, 100, "29.0 % of 100 passed on"),
        (1, 2_500, "under 0.1 % of 2,500 passed on"),
        (0, 3, "0.0 % of 3 passed on"),
        (0, 0, "No record is left in the window of"),
    ],
)
def test_pass_rate_is_what_the_counts_say(passed: int, assets: int, told: str) -> None:
    """One of 25,000 that fails is not 100 %, one of 2,500 that passes is not none, and of nothing there is no rate."""
    summary = summary_of(many(1))
    window = summary["trend"][0] | {"pass": passed, "assets": assets, "pass_rate": None}
    assert f"<p>{told} 2026-01-04 00:05 UTC.</p>" in fragment_of(summary | {"trend": [window]})


@pytest.mark.parametrize("limit", [None, 20.0, 17.5, 90.0])
@pytest.mark.parametrize("most", [1, 3, 409, 10_000])
def test_reading_speed_has_its_limit_marked(limit: float | None, most: int) -> None:
    """The plot has the limit where there is one, and whole numbers on its axis, of which the last is not below."""
    summary = summary_of([asset("a.scc", p95_cps=39.5)])
    bins = [one | {"assets": one["assets"] * most} for one in summary["reading_speed"]["bins"]]
    speed = summary["reading_speed"] | {"bins": bins, "threshold": limit}
    fragment = fragment_of(summary | {"reading_speed": speed})
    assert ("limit " in fragment) == (limit is not None)
    plot = fragment.partition('id="reading-speed"')[2].partition("<details")[0]
    axis = [int(text) for text in re.findall(r'<text x="-5"[^>]*>([\d,]+)</text>', plot.replace(",", ""))]
    assert axis[0] == 0
    assert len(set(axis)) == len(axis) <= 6
    assert axis[-1] >= most
    assert ("<title>39 to 40: 1 asset" in plot) == (most == 1)


@pytest.mark.parametrize(
    ("limit", "red"),
    [
        (20.0, {"20 to 21": 2, "33 to 34": 1}),
        (20.05, {"20 to 21": 2, "33 to 34": 1}),
        (20.9, {"33 to 34": 1}),
        (90.0, {}),
        (5.5, {"19 to 20": 1, "20 to 21": 3, "33 to 34": 1}),
    ],
)
def test_speeds_are_counted_and_drawn_as_the_rule_judges(limit: float, red: dict[str, int]) -> None:
    """A speed at the limit is within it; of the bin that the limit falls into, as many are red as are over."""
    speeds = [asset(f"{speed}.scc", p95_cps=speed) for speed in (19.9, 20.0, 20.1, 20.9, 33.0)]
    over = sum(red.values())
    speed = summary_of(speeds)["reading_speed"] | {"threshold": limit, "over": over}
    plot = fragment_of(summary_of(speeds, reading_speed=speed)).partition('id="reading-speed"')[2]
    series = dict(re.findall(r'class="series serie-(\d)[^"]*"><g class="histbars">(.*?)</g></g></g>', plot))
    unit = drawn(series["0"])["19 to 20"]
    heights = {name: round(height / unit) for name, height in drawn(series.get("1", "")).items()}
    assert heights == red
    assert f"; {over} {'asset' if over == 1 else 'assets'} over the limit of {limit:g}" in plot


def drawn(series: str) -> dict[str, float]:
    """Say how high each bar of a series is."""
    bars = re.findall(r'<title>([^:]*):[^<]*</title><rect [^>]*? height="([\d.]+)"', series)
    return {name: float(height) for name, height in bars if float(height)}


def test_pass_rate_stands_where_its_axis_says() -> None:
    """None, half and all that passed are drawn at 0 %, 50 % and 100 %."""
    windows = summary_of(many(1))["trend"][:3]
    trend = [
        window | {"pass": passed, "assets": 2} for window, passed in zip(windows, (0, 1, 2), strict=True)
    ]
    plot = fragment_of(summary_of(many(1), trend=trend)).partition('id="windows"')[2].partition("<details")[0]
    guides = re.findall(r'd="M0\.0+ ([\d.]+) h[^>]*><text [^>]*>(\d+) %', plot)
    lines = {label: float(height) for height, label in guides}
    dots = [float(height) for height in re.findall(r'<circle cx="[\d.]+" cy="([\d.]+)"', plot)]
    assert dots == pytest.approx([lines["0"], lines["50"], lines["100"]], abs=0.001)


def test_hostile_names_are_escaped_in_the_kept_part() -> None:
    """What the browser reads as HTML has no name, message, reason or place in it that is read so."""
    evil = "</section><script>x</script>\"'&"
    bad = asset(evil, first_findings=[finding(evil, "error", evil, timecode=evil)])
    summary = summary_of([bad], dead_letters=[dead_letter(evil, evil)])
    page = page_of(summary, queue=evil, profile=evil, run=run_of() | {"id": evil})
    assert (
        "<script>"
        not in page.partition('<script type="application/json"')[0].partition("</style>\n</head>")[2]
    )
    assert page.count("&lt;/section&gt;&lt;script&gt;x&lt;/script&gt;&quot;&#x27;&amp;") >= 10


@pytest.mark.parametrize(
    ("script", "style"),
    [
        ("var t=1;export{t as default};'</SCRIPT>'", ""),
        ("var t='<!--<script >';export{t as default};", ""),
        ("var t=1;export{t as other};", ""),
        ("var t=1;export{t as default};", "</style>"),
        (None, ""),
    ],
)
def test_bundle_that_does_not_fit_into_a_page_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str | None, style: str
) -> None:
    """Another release of the library, whole or damaged, makes a plain page and never a broken one."""
    folder = tmp_path / "itables" / "html"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").touch()
    (folder / "dt_bundle.css").write_text(style)
    if script is not None:
        (folder / "dt_bundle.js").write_text(script)
    monkeypatch.delitem(sys.modules, "itables", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    page = page_of(summary_of(many(3)))
    assert "pip install itables" in page
    assert '<script type="module">' not in page
    assert "script-src 'none'" in page


def test_bundle_of_another_release_is_taken_by_its_exports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The short name of what it gives away is read from its last export."""
    folder = tmp_path / "itables" / "html"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").touch()
    (folder / "dt_bundle.css").touch()
    (folder / "dt_bundle.js").write_text(
        "var $a=1,b='export{c as default}<script>';export{b as ITable,$a as default,b as x};/* export b */"
    )
    monkeypatch.delitem(sys.modules, "itables", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "globalThis.DataTable = $a;" in page_of(summary_of(many(3)))


def test_page_of_a_run_without_change_imports_no_library() -> None:
    """An empty fire writes a page too: it imports neither pygal nor itables, nor the rules."""
    program = f"""
import sys
from examples.recipes.caption_qc.job.page import html_of
from examples.recipes.caption_qc.job.page.commands import Commands
before, after = html_of({head_of(summary_of(many(3)))!r}, "<p>kept</p>", Commands("replay", "state"))
assert "<p>kept</p>" in before and "DataTable" in after
print([name for name in sys.modules if name.partition(".")[0] in ("pygal", "itables", "lxml")])
print("examples.recipes.caption_qc.check.rules" in sys.modules)
"""
    ran = run_program(program)
    assert ran.stderr == ""
    assert ran.stdout == "[]\nFalse\n"


def test_plots_leave_imports_as_they_were() -> None:
    """The library's own finder of plugins, which warns at each import of what is not there, is taken away again."""
    program = f"""
import sys
from examples.recipes.caption_qc.job.page import fragment_of
assert "pygal-chart" in fragment_of({summary_of(many(3))!r})
print(all(hasattr(finder, "find_spec") for finder in sys.meta_path), "pygal" in sys.modules)
"""
    assert run_program(program).stdout == "True True\n"


def test_package_gives_away_what_the_job_calls() -> None:
    """There are two functions at its door."""
    assert {"fragment_of", "html_of"} <= set(import_module("examples.recipes.caption_qc.job.page").__all__)
    before, after = html_of(head_of(summary_of([])), "", COMMANDS)
    assert before.startswith('<!DOCTYPE html>\n<html lang="en">')
    assert before.endswith('<script type="application/json" id="summary">')
    assert after.startswith("</script>")
