"""The whole page: the template with style, script and data in it, under a policy that lets in nothing else.

The policy names each style and script by its hash. There is no network, no `eval` and no inline style attribute;
data stands in a script element of type `application/json`, which is never run.
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from html import escape
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any, Final

from .bundle import bundle
from .commands import PROGRAM
from .holes import filled_in
from .markup import STATUSES, code, foreign, number, time
from .urgent import Need, needs_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from .commands import Commands

_HERE: Final = Path(__file__).parent
_PROFILES: Final = _HERE.parents[1] / "check" / "profiles"
_SCRIPTS: Final = ("dom.js", "times.js", "findings.js", "table.js")
_TILES: Final = (*STATUSES, "assets", "dead_letters", "backlog", "skipped")
_LEADS: Final = {name: f'#assets-title" data-status="{name}' for name in STATUSES} | {
    "dead_letters": "#dead-letters-title"
}
_DATA: Final = "$data"
_NO_TABLE: Final = """\
<p class="missing">The table below does not sort or filter, because itables, which has DataTables, is not installed:
<code>pip install itables</code>, and the next run writes a page that does.</p>"""


def html_of(head: Mapping[str, Any], fragment: str, commands: Commands) -> tuple[str, str]:
    """Return `dashboard.html` up to its data, and after it.

    Between the two stands the JSON text of one object with all that depends on the records, in which `<` is
    escaped, so that no name in it ends the element.

    Args:
        head: What the run says of itself: schema_version, generated_at, queue, window, run, profile,
            profile_sha256, totals, superseded.
        fragment: What `fragment_of` made of the records.
        commands: What `commands_of` made of the run's plan.
    """
    tables = bundle()
    styles = [*([tables.style] if tables else []), _text("page.css")]
    scripts = [tables.script, "\n".join(map(_text, _SCRIPTS))] if tables else []
    needs = needs_of(head)
    before, after = _text("page.html").split(_DATA)
    filled = Template(before).substitute(
        policy=_policy(styles, scripts),
        title=escape(f"{needs[0].title} · Caption QC"),
        styles="\n".join(f"<style>{style}</style>" for style in styles),
        queue=escape(head["queue"]),
        program=PROGRAM,
        profiles=" ".join(sorted(path.stem for path in _PROFILES.glob("*.toml"))),
        facts=_facts(head),
        needs="\n".join(map(_need, needs)),
        tiles="\n".join(_tile(name, head["totals"][name]) for name in _TILES),
        missing="" if tables else _NO_TABLE,
        fragment=filled_in(fragment, commands),
    )
    run = "\n".join(f'<script type="module">{script}</script>' for script in scripts)
    return filled, Template(after).substitute(scripts=run)


def _policy(styles: Iterable[str], scripts: Iterable[str]) -> str:
    script = " ".join(map(_hash, scripts)) or "'none'"
    style = " ".join(map(_hash, styles))
    return f"default-src 'none'; script-src {script}; style-src {style}; base-uri 'none'; form-action 'none'"


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _need(need: Need) -> str:
    title = escape(need.title)
    if need.link is not None:
        part, _, status = need.link.partition(" ")
        shows = f' data-status="{status}" data-current' if status else ""
        title = f'<a href="#{part}-title"{shows}>{title}</a>'
    return f'<li class="{need.level}"><strong>{title}</strong> <span>{escape(need.text)}</span></li>'


def _facts(head: Mapping[str, Any]) -> str:
    run = head["run"]
    facts = {
        "Queue": foreign(head["queue"]),
        "Window": "none yet" if head["window"] is None else time(head["window"]),
        "Run": f"{code(run['id'])} {escape(run['status'])}, exit code {run['exit_code']}",
        "Profile": f"{foreign(head['profile'])} <small>{escape(head['profile_sha256'][:12])}</small>",
        "Written": f'<span id="written">{time(head["generated_at"])}</span>',
    }
    return "\n".join(f"<div><dt>{name}</dt><dd>{fact}</dd></div>" for name, fact in facts.items())


def _tile(name: str, value: int | None) -> str:
    label = escape(name.replace("_", " "))
    count = f"<b>{number(value)}</b> {label}"
    kind = {None: f"{name} unknown", 0: f"{name} none"}.get(value, name)
    if name in _LEADS and value:
        return f'<li class="{kind}"><a href="{_LEADS[name]}">{count}</a></li>'
    return f'<li class="{kind}"><span>{count}</span></li>'


def _text(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")
