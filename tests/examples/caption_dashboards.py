"""Dashboards of real ledgers, and what they should say: shared by the tests of the dashboards' data."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
from caption_ledgers import NOW, PROFILE, STAT, checked, ended, finish, new_run

from examples.recipes.caption_qc.check import Finding, Report, check
from examples.recipes.caption_qc.job import dashboard
from examples.recipes.caption_qc.job.assets import Asset
from examples.recipes.caption_qc.job.captions import captions_of
from examples.recipes.caption_qc.job.projections import write_projections

if TYPE_CHECKING:
    from datetime import datetime

    from examples.recipes.caption_qc.job.ledger import Ledger
    from examples.recipes.caption_qc.job.outcomes import Checked, Ending
    from examples.recipes.caption_qc.job.plan import Plan

SCHEMA = json.loads(Path(dashboard.__file__).with_name("dashboard.schema.json").read_bytes())
SAMPLES = Path(dashboard.__file__).parents[1] / "samples"


def shown(plan: Plan) -> dict[str, Any]:
    """Read what a run has shown."""
    return shown_in(plan.state)


def shown_in(folder: Path) -> dict[str, Any]:
    """Read `dashboard.json`, which its schema has to describe."""
    content = json.loads((folder / "dashboard.json").read_bytes())
    jsonschema.validate(content, SCHEMA)
    return dict(content)


def write(plan: Plan, ledger: Ledger, at: datetime = NOW) -> dict[str, Any]:
    """Write all projections at a time, and read the dashboard."""
    write_projections(plan, ledger, replace(ended(), at=at))
    return shown(plan)


def recorded(plan: Plan, name: str, *endings: Ending, window: datetime | None = None) -> dict[str, Any]:
    """Do a run that records these, in a window of its own if one is named, and read what it shows."""
    plan = replace(plan, run_id=name, window=window or plan.window)
    with new_run(plan, name, plan.window) as ledger:
        finish(ledger, *endings)
        return write(plan, ledger)


def looked_at(plan: Plan, name: str, at: datetime = NOW) -> dict[str, Any]:
    """Do a run at a time, with nothing to check, and read what it shows."""
    with new_run(plan, name) as ledger:
        return write(replace(plan, run_id=name), ledger, at)


def reported(name: str, status: str, *found: tuple[str, str], content: str = "1" * 64) -> Checked:
    """Say that an asset was checked, with a finding for each rule and severity."""
    findings = tuple(
        Finding(rule=rule, severity=severity, message=f"{rule} here", line=line)  # type: ignore[arg-type]
        for line, (rule, severity) in enumerate(found, 2)
    )
    report = replace(check(b"", PROFILE), findings=findings, status=status)  # type: ignore[arg-type]
    return checked(Asset(name.encode(), STAT), content, report)


@cache
def sampled() -> dict[str, tuple[Report, Checked]]:
    """Check the recipe's samples, and say of each what a worker would."""
    found = {}
    for path in sorted(SAMPLES.rglob("*.scc")):
        report = check(path.read_bytes(), PROFILE)
        name = path.relative_to(SAMPLES).as_posix()
        ending = checked(Asset(name.encode(), STAT), report=replace(report, cues=()))
        captions = captions_of(report.findings, report.cues, PROFILE.channel)
        found[name] = report, replace(ending, captions=captions)
    return found
