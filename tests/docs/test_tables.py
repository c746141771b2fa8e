"""The tables in the documents are those of the code: nothing is missing, nothing is there that does not exist."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING, get_args

import attrs
import pytest
from pages import PAGES, ROOT, table

import async_batcher
from async_batcher import AsyncBatcher, BatcherError, BatcherGroups, BatcherOptions, BatcherStats, BatchEvent
from async_batcher._events import Reason
from async_batcher._options import Options
from examples.recipes.caption_qc.job.lock import run_lock
from examples.recipes.caption_qc.job.records import ASSETS, FINDINGS
from examples.recipes.caption_qc.job.scan import scan_queue
from examples.recipes.caption_qc.job.worker import process_asset
from examples.recipes.caption_qc.options import PROFILE, RUN_OPTIONS

if TYPE_CHECKING:
    from pathlib import Path

    from examples.recipes.caption_qc.job.records import Column

BATCHING = ROOT / "docs" / "batching.md"
CAPTIONS = ROOT / "docs" / "caption-qc.md"


def code(cell: str) -> list[str]:
    """Return what stands in backticks."""
    return re.findall(r"`([^`]+)`", cell)


def column(page: Path, header: str, number: int = 0) -> list[str]:
    """Return what stands in backticks in one column of a table, row by row."""
    return [name for row in table(page, header) for name in code(row[number])]


# The core


def test_every_option_is_in_the_table_and_no_other() -> None:
    """By name, in the order of `BatcherOptions`."""
    assert column(BATCHING, "| option ") == list(BatcherOptions.__annotations__)


def test_defaults_of_the_options_are_those_of_the_code() -> None:
    """By value, as Python would read it."""
    written = {
        name[0]: default for row in table(BATCHING, "| option ") for name, default in [map(code, row[:2])]
    }
    fields = {field.name: field.default for field in attrs.fields(Options)}
    assert written == {name: [repr(default).replace("'", '"')] for name, default in fields.items()}


def test_bounds_of_the_options_are_those_of_the_code() -> None:
    """`None` is taken where the table says so, and nowhere else; so is 0."""

    def taken(name: str, value: object) -> bool:
        try:
            attrs.fields_dict(Options)[name].validator(None, attrs.fields_dict(Options)[name], value)  # type: ignore[misc]
        except (TypeError, ValueError):
            return False
        return True

    for row in table(BATCHING, "| option "):
        (name,) = code(row[0])
        assert taken(name, None) == ("`None`" in row[2]), name
        assert taken(name, 0) == row[2].startswith("0 or more"), name


def test_arguments_of_groups_are_in_their_table() -> None:
    """All but the processor and the options."""
    arguments = list(inspect.signature(BatcherGroups).parameters)
    assert column(BATCHING, "| argument ") == [
        name for name in arguments if name not in {"processor", "options"}
    ]


def test_every_reason_is_in_the_table() -> None:
    """Why a batch leaves."""
    assert column(BATCHING, "| reason ") == list(get_args(Reason))


def test_every_error_is_in_the_table_with_what_else_it_is() -> None:
    """All that the package exports under `BatcherError`, each with its standard base."""
    exported = [getattr(async_batcher, name) for name in async_batcher.__all__]
    errors = {
        value.__name__: [base.__name__ for base in value.__bases__ if base is not BatcherError]
        for value in exported
        if inspect.isclass(value) and issubclass(value, BatcherError) and value is not BatcherError
    }
    assert {code(row[0])[0]: code(row[1]) for row in table(BATCHING, "| error ")} == errors


def test_every_call_is_in_the_table() -> None:
    """All public methods of a batcher but the two ways to build one."""
    shown = set(re.findall(r"batcher\.(\w+)\(", " ".join(row[0] for row in table(BATCHING, "| call "))))
    public = {name for name, _ in inspect.getmembers(AsyncBatcher, callable) if not name.startswith("_")}
    assert shown == public - {"from_callable", "process_batch"}


def test_fields_of_events_and_counts_are_named() -> None:
    """Each field of a `BatchEvent`, and each count that is not in the equation's line twice."""
    section = BATCHING.read_text().partition("### Events and counts")[2].partition("\n## ")[0]
    named = set(re.findall(r"\w+", " ".join(code(section))))
    for record in (BatchEvent, BatcherStats):
        assert {field.name for field in dataclasses.fields(record)} <= named


# The caption job


def test_every_option_of_run_is_in_the_table() -> None:
    """By name; the default too where it is a fixed one."""
    rows = table(CAPTIONS, "| option of `run` ")[1:]
    assert [code(row[0])[0] for row in rows] == [f"--{option.name}" for option in RUN_OPTIONS]
    fixed = {option.name: option.default for option in RUN_OPTIONS if option.default is not None}
    assert {code(row[0])[0][2:]: code(row[1])[0] for row in rows if code(row[0])[0][2:] in fixed} == fixed


def test_every_option_of_inspect_is_in_the_table() -> None:
    """The help lists the same."""
    command = [sys.executable, "-m", "examples.recipes.caption_qc", "inspect", "--help"]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    options = set(re.findall(r"--[a-z-]+", shown)) - {"--help"}
    assert set(column(CAPTIONS, "| argument ")) == options | {"FILE..."}
    assert code(table(CAPTIONS, "| argument ")[-1][1]) == [PROFILE.default]


def test_every_field_of_json_is_in_the_table() -> None:
    """In the order in which it is printed; those of a finding and of a cue with it."""
    file = ROOT / "tests" / "examples" / "captions" / "22_parity_error.scc"
    command = [sys.executable, "-m", "examples.recipes.caption_qc", "inspect", "--json", str(file)]
    printed = json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout)
    rows = {code(row[0])[0]: code(row[1]) for row in table(CAPTIONS, "| field of `--json` ")}
    assert list(rows) == list(printed)
    assert set(rows["findings"]) == set(printed["findings"][0])
    assert set(rows["cues"]) == set(printed["cues"][0]) | set(printed["cues"][0]["rows"][0])


@pytest.mark.parametrize(("row", "columns"), [(0, ASSETS), (1, FINDINGS)], ids=["assets", "findings"])
def test_columns_of_the_records_are_in_the_table(row: int, columns: tuple[Column, ...]) -> None:
    """In their order, behind the schema's version."""
    assert code(table(CAPTIONS, "| table ")[row][1]) == [
        "schema_version",
        *(column.name for column in columns),
    ]


def test_every_field_of_the_status_is_in_the_table(tmp_path: Path) -> None:
    """In the order in which it is printed; those of a run, and of what is kept, with it."""
    state = ["--state", str(tmp_path / "state")]
    command = [sys.executable, "-m", "examples.recipes.caption_qc"]
    subprocess.run([*command, "run", *state], cwd=ROOT, capture_output=True, check=True)
    asked = [*command, "status", *state, "--json"]
    printed = json.loads(subprocess.run(asked, cwd=ROOT, capture_output=True, check=True).stdout)
    rows = {code(row[0])[0]: code(row[1]) for row in table(CAPTIONS, "| field of `status --json` ")}
    assert list(rows) == list(printed)
    assert set(rows["runs"]) == set(printed["runs"][0])
    assert set(rows["kept"]) == set(printed["kept"])
    assert {"held", *printed["lock"]["holder"]} == set(rows["lock"]) - {"holder"}


def test_names_of_the_cron_script_are_those_of_the_recipe() -> None:
    """The three functions that keep their names."""
    script = column(CAPTIONS, "| the script ")
    for function in (run_lock, scan_queue, process_asset):
        assert function.__name__ in script


# Links


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """Each relative link names a file of this checkout, and a heading in it where it names one."""
    for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        file = (page.parent / name).resolve() if name else page
        assert file.exists(), target
        assert not anchor or anchor in anchors(file), target


def anchors(page: Path) -> set[str]:
    """Return the headings of a page as they are linked to."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}
