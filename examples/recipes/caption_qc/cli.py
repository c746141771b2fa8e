"""The command line: reads the options, runs the command, and turns every error into one line and a code."""

from __future__ import annotations

import contextlib
import os
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from .check import ProfileError
from .job.assets import as_text
from .job.errors import Exit, JobError
from .job.lock import LockHeldError
from .job.profile_file import profile_of
from .job.run import run
from .job.screen import LogScreen
from .job.streams import delivered, say
from .options import build_parser
from .planning import plan_of

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from .job.drain import Drain
    from .job.screen import Screen

_COMMANDS: Final = frozenset({"run", "inspect"})


def main(arguments: Sequence[str], drain: Drain) -> int:
    """Run the command that `arguments` name, `run` if none, and return the exit code."""
    try:
        code = _command(arguments, drain)
    except SystemExit as error:  # The parser's: of --help, and of wrong usage.
        code = error.code if isinstance(error.code, int) else Exit.OK
    refused = delivered(sys.stdout)
    if refused is not None and code == Exit.OK:
        code = _fail(f"cannot write the output: {refused.strerror}; {_TO_A_FILE}", Exit.IO_ERROR)
    delivered(sys.stderr)
    return code


def _command(arguments: Sequence[str], drain: Drain) -> int:
    try:
        options = build_parser().parse_args(_with_command(arguments))
        return _inspect(options, drain) if options.command == "inspect" else _run(options, drain)
    except LockHeldError as error:
        with contextlib.suppress(OSError):
            print(error, flush=True)  # On standard output: people alert on this line.
        return error.code
    except JobError as error:
        return _fail(str(error), error.code)
    except ProfileError as error:
        return _fail(str(error), Exit.BAD_CONFIG)
    except ImportError as error:
        way_out = "install what the recipes need (the dependency group `recipes`), then run again"
        return _fail(f"this installation is not whole: {error}; {way_out}", Exit.BAD_CONFIG)
    except OSError as error:
        way_out = "mend that, then run again: nothing recorded is lost"
        return _fail(f"the system refused: {error}; {way_out}", Exit.IO_ERROR)


_TO_A_FILE: Final = "let it be read to its end, or send it to a file on a disk with room"


def _with_command(arguments: Sequence[str]) -> list[str]:
    """Put `run` in front where no command is named; a word that may be a mistyped one is refused."""
    first = arguments[0] if arguments else "--"
    if first in _COMMANDS or first in {"-h", "--help"}:
        return list(arguments)
    if not (first.startswith("-") or os.sep in first or "\0" in first or os.path.lexists(first or ".")):
        found = f"'{as_text(os.fsencode(first))}' is no command, and no folder here"
        raise JobError(f"{found}; give run or inspect, or the path of a folder", Exit.NO_QUEUE)
    return ["run", *arguments]


def _fail(message: str, code: Exit) -> int:
    say(f"caption_qc: {message}")
    return code


def _run(options: Namespace, drain: Drain) -> int:
    plan = plan_of(options, profile_of(options.profile), datetime.now(UTC))
    with contextlib.closing(_screen()) as screen:
        run(plan, screen, drain)
    return Exit.OK


def _inspect(options: Namespace, drain: Drain) -> int:
    # Here, because a run needs none of it.
    from .inspecting import asked_of, inspect_files, print_json, print_nothing  # noqa: PLC0415

    drain.release()
    asked = asked_of(options, profile_of(options.profile))
    if options.json:
        return inspect_files(options.files, asked, print_json, print_nothing)
    from .tables import print_summary, print_tables, print_with_grids  # noqa: PLC0415 - JSON needs no rich

    show = print_with_grids if options.grid else print_tables
    return inspect_files(options.files, asked, show, print_summary)


def _screen() -> Screen:
    if not sys.stderr.isatty():
        return LogScreen()
    from .job.terminal import TerminalScreen  # noqa: PLC0415 - a log needs no rich

    return TerminalScreen()
