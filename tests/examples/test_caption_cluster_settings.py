"""Dask's configuration of the machine: what is for its other clusters ends no run, what can't be is one line and 78."""

import subprocess
import sys
from pathlib import Path
from signal import SIGKILL

import pytest
from caption_runs import ENVIRONMENT, ROOT, place
from caption_storm import scratch, whole_run

LOG = """
[loggers]
keys=root
[handlers]
keys=out
[formatters]
keys=
[logger_root]
level=DEBUG
handlers=out
[handler_out]
class=StreamHandler
args=(sys.stdout,)
"""
OTHERS = """
distributed:
  logging-file-config: {log}
  scheduler:
    idle-timeout: 50ms
    no-workers-timeout: 50ms
    preload: [no_such_module]
    contact-address: tcp://192.0.2.1:1
    blocked-handlers: [broadcast]
  worker:
    lifetime: {{duration: 50ms}}
    preload: [no_such_module]
    blocked-handlers: [run]
  nanny:
    preload: [no_such_module]
"""


def configured(folder: Path, text: str) -> str:
    """Write a configuration, and return what `DASK_CONFIG` is to say."""
    path = folder / "dask.yaml"
    path.write_text(text)
    return str(path)


def test_what_is_configured_for_other_clusters_ends_no_run_on_a_local_one(tmp_path: Path) -> None:
    """Idle for a moment, at the end of a lifetime, a preload that fails, a log on standard output: all records."""
    here = place(tmp_path)
    here.fill(3)
    log = tmp_path / "log.ini"
    log.write_text(LOG)
    settings = configured(tmp_path, OTHERS.format(log=log))

    done = whole_run(here, "--scheduler", "local", "--workers", "1", DASK_CONFIG=settings)

    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert done.stderr.splitlines()[-1].startswith("checked 3 of 3: ")
    assert "warning" not in done.stderr
    assert list(scratch(here).iterdir()) == []


@pytest.mark.parametrize("scheduler", ["local", "tcp://127.0.0.1:1"])
def test_a_configuration_that_cannot_be_read_is_one_line_that_names_the_file(
    tmp_path: Path, scheduler: str
) -> None:
    """Nothing is checked, and a local cluster that was about to start is gone."""
    here = place(tmp_path)
    here.fill(1)
    settings = configured(tmp_path, "distributed: {\n")

    done = whole_run(here, "--scheduler", scheduler, DASK_CONFIG=settings)

    assert (done.returncode, done.stdout) == (78, ""), done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert settings in done.stderr
    assert "mend Dask's configuration" in done.stderr
    assert here.ask("SELECT * FROM assets") == []
    assert list(scratch(here).iterdir()) == []


@pytest.mark.parametrize(
    ("setting", "why"),
    [
        ("comm: {require-encryption: true}", "TLS"),
        ("worker: {lifetime: {stagger: never}}", "never"),
    ],
    ids=["no scheduler", "no worker"],
)
def test_a_local_cluster_that_cannot_be_as_it_is_configured_ends_the_run_with_the_reason(
    tmp_path: Path, setting: str, why: str
) -> None:
    """At once, with 78 and in one line: no limit is to be raised, and there is nothing for the reader to start."""
    here = place(tmp_path)
    here.fill(1)
    settings = configured(tmp_path, f"distributed: {{{setting}}}\n")

    done = whole_run(here, "--scheduler", "local", "--workers", "1", DASK_CONFIG=settings)

    assert (done.returncode, done.stdout) == (78, ""), done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.startswith("caption_qc: no cluster starts on this machine ("), done.stderr
    assert why in done.stderr
    assert "mend Dask's configuration" in done.stderr
    assert list(scratch(here).iterdir()) == []


def test_a_cluster_whose_driver_is_gone_before_it_says_where_it_is_takes_its_folder_away(
    tmp_path: Path,
) -> None:
    """Nobody reads what it says: it ends its group all the same."""
    folder = tmp_path / "folder"
    with subprocess.Popen(
        [sys.executable, "-m", "examples.recipes.caption_qc.job.cluster_host", "1", folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
        env=ENVIRONMENT,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
    assert process.returncode == -SIGKILL
    assert not folder.exists()
