"""What `dashboard.json` says of a window's records: true counts, the worst first, within a bound."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest
from caption_dashboards import SCHEMA, looked_at, recorded, reported, sampled
from caption_ledgers import FAULTY, PROFILE, STAT, A, B, checked, died, ended, finish, new_run, plan_in

from examples.recipes.caption_qc.check import Finding, Report, check
from examples.recipes.caption_qc.check.tally import COUNTED, tally
from examples.recipes.caption_qc.job import dashboard_text
from examples.recipes.caption_qc.job.assets import Asset
from examples.recipes.caption_qc.job.projections import write_dashboard

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from examples.recipes.caption_qc.job.ledger import Ledger
    from examples.recipes.caption_qc.job.outcomes import Checked, Ending
    from examples.recipes.caption_qc.job.plan import Plan

MANY = 10_001
STATUSES = ("error", "fail", "warn", "pass")
SEVERITIES = ("error", "warn", "info")


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return plan_in(tmp_path)


def subschemas(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield the schema of each field, and all below."""
    if isinstance(schema, dict):
        yield from schema.get("properties", {}).values()
        yield from schema.get("$defs", {}).values()
        for below in schema.values():
            yield from subschemas(below)


def test_the_schema_describes_every_field_and_demands_all() -> None:
    """A reader of it needs nothing else; what a run always writes is required."""
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    found = list(subschemas(SCHEMA))
    assert len(found) > 60
    assert [field for field in found if len(field.get("description", "")) < 4] == []
    objects = [field for field in (SCHEMA, *found) if "properties" in field]
    assert [field for field in objects if list(field["properties"]) != field["required"]] == []


def fields_of(schema: dict[str, Any], value: Any) -> Iterator[str]:
    """Yield what a value has and its schema does not name."""
    schema = SCHEMA["$defs"].get(schema.get("$ref", "").rpartition("/")[2], schema)
    if isinstance(value, dict) and "properties" in schema:
        yield from value.keys() - schema["properties"].keys()
        for name, part in value.items():
            yield from fields_of(schema["properties"].get(name, {}), part)
    if isinstance(value, list):
        for item in value:
            yield from fields_of(schema["items"], item)


def test_the_samples_dashboard_has_no_field_that_the_schema_does_not_name(plan: Plan) -> None:
    """Findings, captions, dead letters, trend: all of it is published."""
    endings = [ending for _, ending in sampled().values()]
    found = recorded(plan, "run-1", *endings, died(Asset(b"dead.scc", STAT), "2" * 64))
    assert list(fields_of(SCHEMA, found)) == []
    assert (found["schema_version"], len(found["dead_letters"]), found["dead_letters_truncated"]) == (
        "1.2.0",
        1,
        False,
    )
    assert found["dead_letters"][0] | {"died_at": ""} == {
        "asset_id": "dead.scc",
        "content_sha256": "2" * 64,
        "reason": "hung",
        "attempts": 3,
        "died_at": "",
        "place": None,
    }


@pytest.mark.parametrize("count", [0, 1])
def test_no_assets_and_one_are_shown(plan: Plan, count: int) -> None:
    """With none there is no window; nothing is left out."""
    found = recorded(plan, "run-1", checked(A, report=FAULTY)) if count else looked_at(plan, "run-1")
    assert (found["window"] is None) == (count == 0)
    assert (found["totals"]["assets"], found["assets_total"], len(found["assets"])) == (count, count, count)
    assert (len(found["profiles"]), len(found["trend"]), found["truncated"]) == (count, count, False)
    speed = found["reading_speed"]
    assert sum(one["assets"] for one in speed["bins"]) + speed["unknown"] == count


def multiply(ledger: Ledger, name: str, count: int) -> None:
    """Let there be so many records like that of `name`, which go on counting from it."""
    with ledger.transaction() as cursor:
        for table in ("records", "findings"):
            columns = [row[1] for row in cursor.execute("SELECT * FROM pragma_table_info(?)", (table,))]
            copied = ", ".join("printf('%06d.scc', i)" if one == "asset_id" else one for one in columns)
            numbers = "WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)"
            rows = f"SELECT {copied} FROM {table}, n WHERE asset_id = ?"  # noqa: S608 - our own names
            cursor.execute(f"{numbers} INSERT INTO {table} {rows}", (count - 1, name))


def test_ten_thousand_assets_are_shown_in_about_eight_megabytes(plan: Plan) -> None:
    """Each with its worst finding; the one more, which is the least bad, is counted and said to be left out."""
    _, ending = sampled()["faulty/popon_load_overlap.scc"]
    with new_run(plan) as ledger:
        finish(ledger, ending, checked(A))
        multiply(ledger, ending.asset.asset_id, MANY - 1)
        write_dashboard(plan, ledger, ended())
    path = plan.state / "dashboard.json"
    assert path.stat().st_size < 1.3 * dashboard_text.MOST_TEXT
    found = json.loads(path.read_bytes())
    # All were made alike, and to validate one takes a millisecond.
    jsonschema.validate(found | {"assets": found["assets"][:20] + found["assets"][-20:]}, SCHEMA)
    assert (found["totals"]["assets"], found["assets_total"], len(found["assets"])) == (MANY, MANY, 10_000)
    assert found["truncated"] is True
    assert {asset["status"] for asset in found["assets"]} == {"fail"}
    assert [len(asset["first_findings"]) for asset in found["assets"][:5000]] == [1] * 5000
    assert {asset["findings"] for asset in found["assets"]} == {4}
    assert found["rules"][0] == {
        "rule": "TC_LOAD_OVERLAP",
        "severity": "error",
        "count": 10_000,
        "assets": 10_000,
    }


def test_counts_are_those_of_the_reports(plan: Plan) -> None:
    """By severity and by rule, of each sample and of all; `findings` is their sum."""
    endings = {name: ending for name, (_, ending) in sampled().items()}
    found = recorded(plan, "run-1", *endings.values())
    everything: dict[tuple[str, str], int] = {}
    for asset in found["assets"]:
        tallies = tally(endings[asset["asset_id"]].report.findings)
        for one in tallies:
            key = (one.rule, one.severity)
            everything[key] = everything.get(key, 0) + one.count
        assert asset["findings"] == sum(one.count for one in tallies) == sum(asset["rules"].values())
        by_severity = {name: sum(one.count for one in tallies if one.severity == name) for name in SEVERITIES}
        assert asset["counts"] == by_severity
        figures = endings[asset["asset_id"]].report.figures
        assert (asset["cues"], asset["time_base"]) == (figures.cues, figures.time_base)
        assert asset["p95_cps"] == (None if figures.p95_cps is None else round(figures.p95_cps, 3))
    assert {(rule["rule"], rule["severity"]): rule["count"] for rule in found["rules"]} == everything


def with_many(count: int) -> Report:
    """Check a file with so many faults of one rule, of which a report lists a hundred."""
    lines = b"".join(b"00:00:%02d:%02d\t94zz\n\n" % divmod(number, 30) for number in range(count))
    return check(b"Scenarist_SCC V1.0\n\n" + lines, PROFILE)


def test_what_a_report_does_not_list_is_counted_too(plan: Plan) -> None:
    """So 900 faults weigh more than 150 of which the ledger has as many rows."""
    small, large = with_many(150), with_many(900)
    listed = [sum(one.rule == "HEX_BAD_WORD" for one in report.findings) for report in (small, large)]
    assert listed == [101, 101]
    found = recorded(plan, "run-1", checked(A, report=small), checked(B, report=large))
    assert [asset["asset_id"] for asset in found["assets"]] == ["b/%E9.scc", "a.scc"]
    assert [asset["rules"]["HEX_BAD_WORD"] for asset in found["assets"]] == [900, 150]
    (rule,) = [rule for rule in found["rules"] if rule["rule"] == "HEX_BAD_WORD"]
    assert (rule["count"], rule["assets"]) == (1050, 2)


ERRORS_AND_WARNINGS = replace(
    FAULTY,
    findings=(
        *(Finding(rule="X", severity="error", message="x", line=line) for line in range(100)),
        Finding(rule="X", severity="warn", message="x 400", measured=400, unit=COUNTED),
    ),
)


def test_a_sum_in_another_severity_than_those_listed_counts_what_is_left(plan: Plan) -> None:
    """A hundred errors are listed and three hundred warnings are not: 100 and 300."""
    found = recorded(plan, "run-1", checked(A, report=ERRORS_AND_WARNINGS))
    assert found["assets"][0]["counts"] == {"error": 100, "warn": 300, "info": 0}
    assert found["assets"][0]["rules"] == {"X": 400}
    assert [(rule["severity"], rule["count"]) for rule in found["rules"]] == [("error", 100), ("warn", 300)]


def test_what_is_counted_of_findings_is_what_is_kept_beside_the_record(plan: Plan) -> None:
    """A record that was taken from Parquet has no counts of its own; the dashboard is the same, to the byte."""
    endings = [ending for _, ending in sampled().values()]
    large = [checked(A, report=with_many(150)), checked(B, report=ERRORS_AND_WARNINGS)]
    with new_run(plan) as ledger:
        finish(ledger, *endings, *large, died(Asset(b"dead.scc", STAT), "2" * 64))
        texts = []
        for statement in ("UPDATE windows SET changes = 2", "UPDATE records SET tally = NULL"):
            with ledger.transaction() as cursor:
                cursor.execute(statement)
                cursor.execute("DELETE FROM summary")
            write_dashboard(plan, ledger, ended())
            texts.append((plan.state / "dashboard.json").read_bytes())
    assert b'"rules":{"HEX_BAD_WORD":150' in texts[0]
    assert texts[0] == texts[1]


def test_the_worst_come_first(plan: Plan) -> None:
    """By status, then by counts of errors, warnings and infos, then by name."""
    error, warn, info = (f"E_{name}" for name in SEVERITIES)
    endings: list[Ending] = [
        reported("p.scc", "pass", (info, "info")),
        reported("o.scc", "pass", (info, "info"), (info, "info")),
        reported("w2.scc", "warn", (warn, "warn"), (warn, "warn")),
        reported("w1.scc", "warn", (warn, "warn"), (info, "info")),
        reported("b.scc", "fail", (error, "error"), (warn, "warn")),
        reported("a.scc", "fail", (error, "error"), (warn, "warn")),
        reported("z.scc", "fail", (error, "error"), (error, "error")),
        died(Asset(b"dead.scc", STAT)),
    ]
    found = recorded(plan, "run-1", *endings)
    names = [asset["asset_id"].partition(".")[0] for asset in found["assets"]]
    assert names == ["dead", "z", "a", "b", "w2", "w1", "o", "p"]


def test_of_an_asset_what_is_said_of_the_whole_file_comes_first_of_its_severity(plan: Plan) -> None:
    """A header that is none before a hundred parity errors; a warning after all errors, wherever it stands."""
    findings = (
        Finding(rule="EARLY", severity="warn", message="x", line=1),
        *(Finding(rule="MANY", severity="error", message="x", line=line) for line in range(2, 102)),
        Finding(rule="FILE", severity="error", message="x"),
        Finding(rule="MANY", severity="error", message="x", measured=300, unit=COUNTED),
    )
    found = recorded(plan, "run-1", checked(A, report=replace(FAULTY, findings=findings)))
    (asset,) = found["assets"]
    assert [one["rule"] for one in asset["first_findings"]] == ["FILE", *["MANY"] * 19]
    assert [one["line"] for one in asset["first_findings"]][:3] == [None, 2, 3]
    assert asset["findings"] == 302


def test_a_file_judged_by_two_profiles_says_which(plan: Plan) -> None:
    """It stands there twice, once a profile; a rule that both found is in one file."""
    other = replace(plan, profile=replace(PROFILE, name="strict", sha256="f" * 64))
    report = replace(FAULTY, profile="strict", profile_sha256="f" * 64)
    with new_run(plan) as ledger:
        finish(ledger, checked(A, report=FAULTY))
    with new_run(other, "run-2") as ledger:
        finish(ledger, checked(A, report=report))
    found = looked_at(plan, "run-3")
    judged = {(asset["asset_id"], asset["profile"], asset["profile_sha256"]) for asset in found["assets"]}
    assert judged == {("a.scc", "house", PROFILE.sha256), ("a.scc", "strict", "f" * 64)}
    assert found["profiles"] == [
        {"name": "house", "sha256": PROFILE.sha256, "assets": 1},
        {"name": "strict", "sha256": "f" * 64, "assets": 1},
    ]
    assert (found["profile"], found["totals"]["assets"]) == ("house", 2)
    assert {rule["assets"] for rule in found["rules"]} == {1}


def test_reading_speeds_are_counted_by_bin(plan: Plan) -> None:
    """By what 95 % of the cues do not exceed; the last bin has no end, and who has no cue no speed."""

    def at(name: bytes, speed: float | None) -> Checked:
        figures = replace(FAULTY.figures, p95_cps=speed)
        return checked(Asset(name, STAT), report=replace(FAULTY, figures=figures))

    found = recorded(
        plan, "run-1", at(b"a", 0.0), at(b"b", 19.999), at(b"c", 20.0), at(b"d", 999.0), at(b"e", None)
    )
    speed = found["reading_speed"]
    filled = [(one["from"], one["to"]) for one in speed["bins"] if one["assets"]]
    assert filled == [(0, 1), (19, 20), (20, 21), (40, None)]
    assert (speed["unknown"], speed["threshold"], speed["width"]) == (1, 20, 1)
    assert [one["to"] for one in speed["bins"][:-1]] == [one["from"] for one in speed["bins"][1:]]


def test_names_as_long_as_the_system_allows_keep_the_text_bounded(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has no room is left out from the end, and said to be."""
    monkeypatch.setattr(dashboard_text, "MOST_TEXT", 20_000)
    names = [f"{number:02}{'x' * 4000}" for number in range(20)]
    found = recorded(plan, "run-1", *(reported(name, "fail", ("X", "error")) for name in names))
    assert (found["assets_total"], found["truncated"]) == (20, True)
    assert [asset["asset_id"] for asset in found["assets"]] == names[: len(found["assets"])]
    assert 5 < len(found["assets"]) < 10
    assert (plan.state / "dashboard.json").stat().st_size < 50_000


HOSTILE = [
    b"</script><script>alert(1)</script>.scc",
    "\u202egpj.exe\u2028\u2029.scc".encode(),
    b"\xff\xfe%E9\n\t\x1b[31m.scc",
    '\U0001f600 caf\u00e9 &amp; <b>".scc'.encode(),
]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_are_data(plan: Plan, name: bytes) -> None:
    """The JSON is ASCII, ends no script element in the page, and gives the name back as the ledger has it."""
    asset = Asset(name.replace(b"/", b"_"), STAT)
    found = recorded(plan, "run-1", checked(asset, report=FAULTY))
    assert [one["asset_id"] for one in found["assets"]] == [asset.asset_id]
    text = (plan.state / "dashboard.json").read_bytes().partition(b'"assets":[')[2]
    assert text.isascii()
    assert not {b"<", b">", b"&"} & {bytes([byte]) for byte in text}
    assert json.loads((plan.state / "dashboard.json").read_text(encoding="ascii")) == found
