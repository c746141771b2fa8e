"""The manifest in the documents is that of the code: it parses, it is a Deployment, and its numbers add up."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from fastapi.routing import APIRoute
from pages import ROOT, table

from examples.recipes import fastapi_app
from examples.recipes.otel_export import FLUSH_TIMEOUT
from examples.recipes.owned_drain import LAST_ANSWERS

PAGE = ROOT / "docs" / "kubernetes.md"
MANIFESTS = [
    yaml.safe_load(text)
    for text in re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
]
RESERVE = 5
"""Seconds at least that the kill comes after everything else."""


@pytest.fixture
def deployment() -> dict[str, Any]:
    (found,) = [each for each in MANIFESTS if each.get("kind") == "Deployment"]
    assert isinstance(found, dict)
    return found


@pytest.fixture
def pod(deployment: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = deployment["spec"]["template"]["spec"]
    return spec


@pytest.fixture
def container(pod: dict[str, Any]) -> dict[str, Any]:
    (found,) = pod["containers"]
    assert isinstance(found, dict)
    return found


def options(container: dict[str, Any]) -> Any:
    """Parse the container's arguments as the command does."""
    return fastapi_app.build_parser().parse_args(container["args"])


def paths() -> set[str]:
    return {route.path for route in fastapi_app.router.routes if isinstance(route, APIRoute)}


def test_it_selects_its_own_pods(deployment: dict[str, Any]) -> None:
    """The selector, without which the API refuses it, is the template's labels."""
    assert (deployment["apiVersion"], deployment["kind"]) == ("apps/v1", "Deployment")
    spec = deployment["spec"]
    assert spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"]


def test_the_kill_comes_after_all_else(pod: dict[str, Any], container: dict[str, Any]) -> None:
    """Delay, grace, force, the database's thread (force once more), the last answers, telemetry; with a reserve."""
    longest = (
        options(container).drain_delay
        + fastapi_app.SHUTDOWN_GRACE
        + 2 * fastapi_app.SHUTDOWN_FORCE
        + LAST_ANSWERS
        + FLUSH_TIMEOUT
    )
    assert pod["terminationGracePeriodSeconds"] >= longest + RESERVE


def test_balancers_see_the_end_before_the_delay_is_over(container: dict[str, Any]) -> None:
    """All failures that a probe needs come within it, the last one's own time too."""
    probe = container["readinessProbe"]
    seen = probe["periodSeconds"] * probe["failureThreshold"] + probe["timeoutSeconds"]
    assert seen < options(container).drain_delay


def test_who_was_accepted_has_an_answer_within_the_grace() -> None:
    """The page says so of its two numbers, which are the command's."""
    assert fastapi_app.RESPONSE_TIMEOUT < fastapi_app.SHUTDOWN_GRACE
    (row,) = [row for row in table(PAGE, "| number ") if row[0].startswith("grace")]
    assert [float(number) for number in re.findall(r"\((\d+) s\)", " ".join(row))] == [
        fastapi_app.SHUTDOWN_GRACE,
        fastapi_app.RESPONSE_TIMEOUT,
    ]


def test_the_command_is_the_recipes(container: dict[str, Any]) -> None:
    """Run as the recipe runs, reachable from outside the pod, at the port that the probes ask."""
    assert container["command"] == ["python", "-m", fastapi_app.__name__]
    (port,) = container["ports"]
    assert options(container).port == port["containerPort"]
    assert options(container).host == "0.0.0.0"  # noqa: S104  (a container's own)
    (volume,) = container["volumeMounts"]
    assert options(container).database.startswith(f"{volume['mountPath']}/")


def test_probes_ask_what_the_app_serves(container: dict[str, Any]) -> None:
    """Readiness by `/readyz`, life by `/livez`, at the named port."""
    (port,) = container["ports"]
    asked = {name: container[name]["httpGet"] for name in ("readinessProbe", "livenessProbe", "startupProbe")}
    assert {get["port"] for get in asked.values()} == {port["name"]}
    assert {name: get["path"] for name, get in asked.items()} == {
        "readinessProbe": "/readyz",
        "livenessProbe": "/livez",
        "startupProbe": "/livez",
    }
    assert {get["path"] for get in asked.values()} <= paths()


def test_the_hook_waits_as_long_as_the_command_would(container: dict[str, Any]) -> None:
    """Where another server runs the app, the delay is a hook; the command itself has none."""
    (hook,) = [each["lifecycle"] for each in MANIFESTS if "lifecycle" in each]
    assert hook["preStop"]["sleep"]["seconds"] == options(container).drain_delay
    assert "lifecycle" not in container
