"""The command line: reads the options, runs the command, and turns every error into one line and a code."""

from __future__ import annotations

import contextlib
import hashlib
import secrets
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from .check import ProfileError, load
from .job.cpus import default_workers
from .job.errors import Exit, JobError
from .job.lock import LockHeldError
from .job.plan import Plan, window_of
from .job.run import run
from .job.scan import STATE_FOLDER
from .job.screen import LogScreen
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
    named = bool(arguments) and (arguments[0] in _COMMANDS or arguments[0] in {"-h", "--help"})
    options = build_parser().parse_args(list(arguments) if named else ["run", *arguments])
    try:
        return _inspect(options, drain) if options.command == "inspect" else _run(options, drain)
    except LockHeldError as error:
        print(error)  # On standard output: people alert on this line.
        return error.code
    except JobError as error:
        return _fail(str(error), error.code)
    except ProfileError as error:
        return _fail(str(error), Exit.BAD_CONFIG)
    except OSError as error:
        return _fail(
            f"the system refused: {error}; mend that, then run again: nothing recorded is lost", Exit.IO_ERROR
        )


def _fail(message: str, code: Exit) -> int:
    print(f"caption_qc: {message}", file=sys.stderr)
    return code


def _run(options: Namespace, drain: Drain) -> int:
    plan = plan_of(options, load(options.profile), datetime.now(UTC))
    with contextlib.closing(_screen()) as screen:
        run(plan, screen, drain)
    return Exit.OK


def _inspect(options: Namespace, drain: Drain) -> int:
    # Here, because a run needs none of it.
    from .inspecting import inspect_files  # noqa: PLC0415

    drain.release()
    return inspect_files(options.files, load(options.profile), as_json=options.json)


def plan_of(options: Namespace, profile: Profile, now: datetime) -> Plan:
    """Fill in what the options leave open."""
    queue = (options.queue or SAMPLES).resolve()
    state = (options.state or default_state(queue)).resolve()
    settle = SETTLE if options.queue else 0.0
    return Plan(
        run_id=f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}",
        queue=queue,
        state=state,
        lock=(options.lock or state / "run.lock").resolve(),
        profile=profile,
        started=now,
        window=window_of(options.at or now, options.window),
        workers=options.workers or default_workers(),
        settle=settle if options.settle is None else options.settle,
        asset_timeout=options.asset_timeout,
        drain_timeout=options.drain_timeout,
        max_attempts=options.max_attempts,
    )


def default_state(queue: Path) -> Path:
    """Name a queue's own state folder under the working directory."""
    digest = hashlib.sha256(bytes(queue)).hexdigest()[:8]
    return Path(STATE_FOLDER) / f"{queue.name or 'root'}-{digest}"


def _screen() -> Screen:
    if not sys.stderr.isatty():
        return LogScreen()
    from .job.terminal import TerminalScreen  # noqa: PLC0415 - a log needs no rich

    return TerminalScreen()
