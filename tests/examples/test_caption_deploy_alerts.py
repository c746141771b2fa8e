"""The alert rules: Prometheus takes them, each fires when it should and not a moment before or without cause."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml
from caption_metrics import NOW, every_name
from caption_runs import ROOT, place

from examples.recipes.caption_qc.check import load
from examples.recipes.caption_qc.options import build_parser
from examples.recipes.caption_qc.planning import plan_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

RULES = ROOT / "examples" / "recipes" / "caption_qc" / "deploy" / "alerts.yaml"
ALERTS: dict[str, dict[str, Any]] = {
    rule["alert"]: rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]
}
PROMTOOL: Final = ["promtool"]
pytestmark = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not on this machine")

SUCCESS = "caption_qc_last_success_timestamp_seconds"
CODE = "caption_qc_run_exit_code"
SEEN = "caption_qc_seen_assets"
ROW = "caption_qc_lock_conflicts_in_a_row"
BACKLOG = "caption_qc_backlog_assets"
OLDEST = "caption_qc_oldest_unprocessed_seconds"
ERRORS = "caption_qc_scan_errors"
DEAD = "caption_qc_dead_letter_assets"


@dataclass(frozen=True)
class Case:
    """Series with a value each minute from 0 on, and whether the alert has fired after so many minutes."""

    alert: str
    series: Mapping[str, str]
    minutes: int
    fires: bool

    def __str__(self) -> str:
        return f"{self.alert}-{self.minutes}m-{'fires' if self.fires else 'quiet'}"


def case(alert: str, minutes: int, *, fires: bool, **series: str) -> Case:
    return Case(
        f"CaptionQc{alert}",
        {globals()[name.upper()]: values for name, values in series.items()},
        minutes,
        fires,
    )


# "0x60": 0, and sixty times more. "0+60x60": from 0 up by 60. "_": no sample.
CASES = (
    case("LastSuccessTooOld", 36, fires=True, success="0x60"),
    case("LastSuccessTooOld", 34, fires=False, success="0x60"),
    case("LastSuccessTooOld", 55, fires=False, success="0+60x60"),
    case("LastSuccessTooOld", 55, fires=False, code="0x60"),
    case("MetricsMissing", 45, fires=True, code="0x20 _x60"),
    case("MetricsMissing", 30, fires=False, code="0x20 _x60"),
    case("MetricsMissing", 55, fires=False, code="0x60"),
    case("MetricsMissing", 55, fires=False, dead="0x60"),
    case("RunFails", 26, fires=True, code="0x9 74x60"),
    case("RunFails", 24, fires=False, code="0x9 74x60"),
    case("RunFails", 55, fires=False, code="0x9 74x10 0x60"),
    case("RunFails", 55, fires=False, code="66x60"),
    case("QueueUnmounted", 12, fires=True, code="66x60"),
    case("QueueUnmounted", 31, fires=True, code="0x60", seen="5x20 0x60"),
    case("QueueUnmounted", 8, fires=False, code="66x60"),
    case("QueueUnmounted", 55, fires=False, code="0x60", seen="0x60"),
    case("QueueUnmounted", 55, fires=False, code="0x60", seen="5x20 1x60"),
    case("QueueUnmounted", 55, fires=False, code="0x60", seen="5x20 0x4 5x60"),
    case("QueueUnmounted", 55, fires=False, code="74x60"),
    case("FiresSkipped", 17, fires=True, row="0 0 0 0 0 1x4 2x4 3x60"),
    case("FiresSkipped", 14, fires=False, row="0 0 0 0 0 1x4 2x4 3x60"),
    case("FiresSkipped", 55, fires=False, row="0 0 0 0 0 1x4 2x4 0x60"),
    case("RunHangs", 62, fires=True, row="0x4 1x4 2x4 3x4 4x4 5x4 6x4 7x4 8x4 9x4 10x4 11x4 12x9"),
    case("RunHangs", 58, fires=False, row="0x4 1x4 2x4 3x4 4x4 5x4 6x4 7x4 8x4 9x4 10x4 11x4 12x9"),
    case("BacklogGrowing", 100, fires=True, backlog="1+1x100"),
    case("BacklogGrowing", 100, fires=False, backlog="50x100"),
    case("BacklogGrowing", 100, fires=False, backlog="100-1x100"),
    case("BacklogGrowing", 100, fires=False, backlog="0x80 9x20"),
    case("BacklogGrowing", 100, fires=False, backlog="_x100"),
    case("BacklogGrowing", 100, fires=False, backlog="0x60 1+1x40"),
    case("UncheckedForLong", 76, fires=True, oldest="0+60x100"),
    case("UncheckedForLong", 74, fires=False, oldest="0+60x100"),
    case("UncheckedForLong", 99, fires=False, oldest="0+60x70 _x30"),
    case("CannotRead", 31, fires=True, errors="2x60"),
    case("CannotRead", 29, fires=False, errors="2x60"),
    case("CannotRead", 55, fires=False, errors="2x20 0x60"),
    case("DeadLetters", 6, fires=True, dead="1x60"),
    case("DeadLetters", 4, fires=False, dead="1x60"),
    case("DeadLetters", 55, fires=False, dead="1x20 0x60"),
)


def promtool(*arguments: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*PROMTOOL, *arguments], capture_output=True, text=True, cwd=folder, check=False)


def played(found: Case) -> dict[str, Any]:
    labels = 'instance="box:9100", job="node"'
    firing = f'ALERTS{{alertname="{found.alert}", alertstate="firing"}}'
    series = [{"series": f"{name}{{{labels}}}", "values": values} for name, values in found.series.items()]
    samples = [{"labels": "{}", "value": 1}] if found.fires else []
    return {
        "name": str(found),
        "interval": "1m",
        "input_series": series,
        "promql_expr_test": [
            {"expr": f"count({firing})", "eval_time": f"{found.minutes}m", "exp_samples": samples}
        ],
    }


def test_each_alert_fires_when_it_should_and_only_then(tmp_path: Path) -> None:
    """Promtool plays every case; it names those that came out otherwise."""
    file = tmp_path / "test.yaml"
    tests = [played(found) for found in CASES]
    file.write_text(
        yaml.safe_dump(
            {"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}, sort_keys=False
        )
    )
    done = promtool("test", "rules", str(file))
    assert done.returncode == 0, done.stdout + done.stderr


def test_prometheus_takes_the_rules() -> None:
    """Expressions, labels and the templates of the texts; lint finds nothing either."""
    done = promtool("check", "rules", "--lint=all", "--lint-fatal", str(RULES))
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(ALERTS)} rules found" in done.stdout


def test_each_alert_is_tested_to_fire_and_to_be_quiet() -> None:
    """No rule is without both."""
    for fires in (True, False):
        assert {found.alert for found in CASES if found.fires == fires} == set(ALERTS)


@pytest.mark.parametrize("alert", ALERTS.values(), ids=ALERTS)
def test_each_alert_waits_has_a_severity_and_says_what_to_do(alert: dict[str, Any]) -> None:
    """`for`, one of two severities, a summary of one line and a description."""
    assert re.fullmatch(r"\d+m", alert["for"])
    assert alert["labels"] == {"severity": alert["labels"]["severity"]}
    assert alert["labels"]["severity"] in {"warning", "critical"}
    assert set(alert["annotations"]) == {"summary", "description"}
    assert alert["annotations"]["summary"].endswith(".")


def test_rules_ask_for_metrics_that_are_written(tmp_path: Path) -> None:
    """Each name in an expression is one that the job writes; a renamed metric would make a rule silent."""
    here = place(tmp_path)
    plan = plan_of(build_parser({}).parse_args(here.arguments()), load("house"), NOW)
    asked = {name for rule in ALERTS.values() for name in re.findall(r"caption_qc_\w+", rule["expr"])}
    assert asked <= every_name(plan)
    assert asked == {SUCCESS, CODE, SEEN, ROW, BACKLOG, OLDEST, ERRORS, DEAD}
