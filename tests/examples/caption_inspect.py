"""`inspect` as the tests ask it: in this process, into a pipe that nothing is said of."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest import mock

from examples.recipes.caption_qc.cli import main
from examples.recipes.caption_qc.job.drain import Drain

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_OURS = ("COLUMNS", "NO_COLOR", "FORCE_COLOR", "CAPTION_QC_PROFILE")


class Said(NamedTuple):
    """The command's code, and what it wrote."""

    code: int
    out: str
    errors: list[str]


def inspect(*arguments: str | Path, **environment: str) -> Said:
    """Run it with a few variables in the environment, and give back the signals that it takes."""
    out, errors = io.StringIO(), io.StringIO()
    others = {name: value for name, value in os.environ.items() if name not in _OURS}
    with (
        mock.patch.dict(os.environ, others | environment, clear=True),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(errors),
        _signals(),
    ):
        code = main(["inspect", *map(str, arguments)], Drain())
    return Said(code, out.getvalue(), errors.getvalue().splitlines())


def printed(*arguments: str | Path, **environment: str) -> str:
    """Run it, and return what it shows."""
    said = inspect(*arguments, **environment)
    assert said.errors == []
    return said.out


def objects(*arguments: str | Path) -> list[dict[str, Any]]:
    """Run it with `--json`, whatever its code, and return what it answers of each file."""
    return [json.loads(line) for line in inspect("--json", *arguments).out.splitlines()]


@contextlib.contextmanager
def _signals() -> Iterator[None]:
    handlers = {
        number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGPIPE)
    }
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def without_libraries(*names: str) -> str:
    """Return a program that is the command where none of the libraries `names` is installed."""
    return (
        f"import sys; sys.modules.update(dict.fromkeys({names}));"
        "from examples.recipes.caption_qc.cli import main;"
        "from examples.recipes.caption_qc.job.drain import Drain;"
        "sys.exit(main(sys.argv[1:], Drain()))"
    )
