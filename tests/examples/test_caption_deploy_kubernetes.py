"""The CronJob: the schema of the newest Kubernetes takes it, its numbers fit the job's, and its command really runs."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import kubernetes_validate  # type: ignore[import-untyped]
import pytest
import yaml
from caption_runs import ENVIRONMENT, ROOT, Place
from confinement import can_confine, confined, open_place

from examples.recipes.caption_qc.job import ping, worker
from examples.recipes.caption_qc.options import build_parser

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MANIFESTS: list[dict[str, Any]] = list(
    yaml.safe_load_all((ROOT / "examples" / "recipes" / "caption_qc" / "deploy" / "cronjob.yaml").read_text())
)
RESERVE = 5
"""Seconds at least that the kill comes after everything else."""


def one(kind: str) -> dict[str, Any]:
    (found,) = [manifest for manifest in MANIFESTS if manifest["kind"] == kind]
    return found


JOB = one("CronJob")["spec"]
POD = JOB["jobTemplate"]["spec"]["template"]["spec"]
(CONTAINER,) = POD["containers"]
OPTIONS = build_parser({}).parse_args(CONTAINER["args"])


@pytest.fixture
def here() -> Iterator[Place]:
    with open_place() as found:
        yield found


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda manifest: manifest["kind"])
def test_kubernetes_takes_the_manifests(manifest: dict[str, Any]) -> None:
    """Strictly, so that no field is unknown: by the newest schema, and by that of three versions before."""
    newest = kubernetes_validate.latest_version()
    major, minor, *_ = map(int, newest.split("."))
    for version in (newest, f"{major}.{minor - 3}"):
        kubernetes_validate.validate(manifest, version, strict=True)


def test_a_field_that_does_not_exist_is_refused() -> None:
    """The check can fail."""
    wrong = yaml.safe_load(yaml.safe_dump(one("CronJob")))
    wrong["spec"]["concurencyPolicy"] = "Forbid"
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, kubernetes_validate.latest_version(), strict=True)


def test_one_runs_at_a_time_and_the_next_fire_is_the_next_try() -> None:
    """Forbid, no retries by Kubernetes, every five minutes."""
    assert JOB["concurrencyPolicy"] == "Forbid"
    assert JOB["schedule"] == "*/5 * * * *"
    assert JOB["jobTemplate"]["spec"]["backoffLimit"] == 0
    assert POD["restartPolicy"] == "Never"


def test_the_kill_comes_after_all_else() -> None:
    """Drain, one ping, the interpreter's end, with a reserve."""
    assert POD["terminationGracePeriodSeconds"] >= OPTIONS.drain_timeout + ping.DRAIN_SECONDS + 1 + RESERVE


def test_the_memory_is_enough_for_what_workers_may_take() -> None:
    """Each is ended by itself at its own limit: before that the kernel has no reason to end any."""
    limit = int(CONTAINER["resources"]["limits"]["memory"].removesuffix("Mi")) << 20
    assert limit > OPTIONS.workers * worker.ADDRESS_SPACE_BYTES + (256 << 20)
    assert int(CONTAINER["resources"]["limits"]["cpu"]) >= OPTIONS.workers


def test_it_has_no_rights() -> None:
    """Not root, a read-only root, no capability, no token of the cluster's."""
    assert POD["securityContext"]["runAsNonRoot"] is True
    assert POD["securityContext"]["runAsUser"] > 0
    assert POD["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert POD["automountServiceAccountToken"] is False
    assert CONTAINER["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def mounts() -> dict[str, bool]:
    """Return where volumes are mounted, and whether they can be written."""
    assert {mount["name"] for mount in CONTAINER["volumeMounts"]} == {
        volume["name"] for volume in POD["volumes"]
    }
    return {mount["mountPath"]: not mount.get("readOnly", False) for mount in CONTAINER["volumeMounts"]}


def test_state_lies_on_the_disk_of_a_node() -> None:
    """Claim, volume and class belong together; the volume is local, kept, and bound to its node."""
    claims = [
        volume["persistentVolumeClaim"]["claimName"] for volume in POD["volumes"] if volume["name"] == "state"
    ]
    claim, volume, disk_class = (
        one(kind) for kind in ("PersistentVolumeClaim", "PersistentVolume", "StorageClass")
    )
    assert claims == [claim["metadata"]["name"]]
    names = {manifest["spec"]["storageClassName"] for manifest in (claim, volume)}
    assert names == {disk_class["metadata"]["name"]}
    assert claim["spec"]["accessModes"] == volume["spec"]["accessModes"] == ["ReadWriteOnce"]
    assert set(volume["spec"]) >= {"local", "nodeAffinity"}
    assert volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    for path in (OPTIONS.state, OPTIONS.metrics_file):
        assert [writable for folder, writable in mounts().items() if path.is_relative_to(folder)] == [True]


@pytest.mark.skipif(not can_confine(), reason="nothing can be mounted here")
def test_its_command_runs_as_in_the_pod(here: Place) -> None:
    """Everything read-only but the mounts: it checks, starts workers, and writes state, dashboard and metrics."""
    folder = here.queue.parent / "mounts"
    places = {path: folder / path.strip("/") for path in mounts()} | {str(OPTIONS.queue): here.queue}
    words = [_moved(word, places) for word in (*CONTAINER["command"], *CONTAINER["args"])]
    assert words[0] == "python"
    given = {name["name"]: name["value"] for name in CONTAINER["env"] if "value" in name}
    writable = [places[path] for path, may in mounts().items() if may]
    environment = ENVIRONMENT | given | {"TMPDIR": str(places["/tmp"])}  # noqa: S108 - the pod's own

    done = confined([sys.executable, *words[1:]], here.queue, writable, environment)

    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    state = places["/state"]
    assert "caption_qc_run_exit_code 0\n" in (state / "metrics" / "caption_qc.prom").read_text()
    assert 'caption_qc_assets{status="pass"} 1\n' in (state / "metrics" / "caption_qc.prom").read_text()
    assert (state / "captions" / "dashboard.html").exists()
    assert list(places["/tmp"].iterdir()) == []  # noqa: S108 - the pod's own


def _moved(word: str, places: dict[str, Path]) -> str:
    """Put our folder where a word names one of the pod's, alone or behind an option's `=`."""
    option, equals, value = word.rpartition("=")
    for there, ours in places.items():
        if value == there or value.startswith(f"{there}/"):
            return f"{option}{equals}{ours}{value[len(there) :]}"
    return word
