"""The command line: reads the options, runs the command, and turns every error into one line and a code."""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .check import ProfileError
from .job.assets import as_text, shown
from .job.cpus import default_workers
from .job.errors import Exit, JobError
from .job.lock import LockHeldError
from .job.plan import TAKEN_NAMES, Plan, window_of
from .job.profile_file import profile_of
from .job.run import run
from .job.scan import STATE_FOLDER
from .job.screen import LogScreen
from .job.streams import delivered, say
from .options import build_parser

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Sequence

    from .check import Profile
    from .job.drain import Drain
    from .job.screen import Screen

SAMPLES: Final = Path(__file__).resolve().parent / "samples"
SETTLE: Final = 10.0
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


def plan_of(options: Namespace, profile: Profile, now: datetime) -> Plan:
    """Fill in what the options leave open."""
    queue = _real(options.queue or SAMPLES)
    state = _real(options.state or default_state(queue))
    lock = _real(options.lock or state / "run.lock")
    if lock.parent == state and lock.name in TAKEN_NAMES:
        found = f"the lock {shown(lock)} would be where the state folder has its {lock.name}"
        raise JobError(f"{found}; give --lock another path, or leave it out", Exit.USAGE)
    settle = SETTLE if options.queue else 0.0
    return Plan(
        run_id=f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}",
        queue=queue,
        state=state,
        lock=lock,
        profile=profile,
        started=now,
        window=window_of(options.at or now, options.window),
        workers=options.workers or default_workers(),
        settle=settle if options.settle is None else options.settle,
        asset_timeout=options.asset_timeout,
        drain_timeout=options.drain_timeout,
        max_attempts=options.max_attempts,
    )


def _real(path: Path) -> Path:
    """Follow links, as far as they lead somewhere: a loop is left to whoever opens it to complain of."""
    return Path(os.path.realpath(path))


def default_state(queue: Path) -> Path:
    """Name a queue's own state folder under the working directory."""
    digest = hashlib.sha256(bytes(queue)).hexdigest()[:8]
    return Path(STATE_FOLDER) / f"{queue.name or 'root'}-{digest}"


def _screen() -> Screen:
    if not sys.stderr.isatty():
        return LogScreen()
    from .job.terminal import TerminalScreen  # noqa: PLC0415 - a log needs no rich

    return TerminalScreen()
