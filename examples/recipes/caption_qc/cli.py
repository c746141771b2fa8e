"""The command line: reads the options, does the command, and turns every error into one line and a code."""

from __future__ import annotations

import contextlib
import os
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from .check import ProfileError
from .job.assets import as_text
from .job.errors import Exit, JobError, refusal_of
from .job.profile_file import profile_of, unread
from .job.screen import LogScreen, say_refused
from .job.streams import delivered
from .options import COMMANDS, build_parser

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Sequence

    from .job.drain import Drain
    from .job.plan import Plan
    from .job.screen import Screen


def main(arguments: Sequence[str], drain: Drain) -> int:
    """Do the command that `arguments` name, `run` if none, and return the exit code."""
    try:
        code = _coded(lambda: _command(arguments, drain), say_refused)
    except SystemExit as error:  # The parser's: of --help, and of wrong usage.
        code = error.code if isinstance(error.code, int) else Exit.OK
    refused = delivered(sys.stdout)
    if refused is not None and code == Exit.OK:
        found = f"cannot write the output: {refused.strerror}"
        way_out = "let it be read to its end, or send it to a file on a disk with room"
        say_refused(JobError(f"{found}; {way_out}", Exit.IO_ERROR))
        code = Exit.IO_ERROR
    delivered(sys.stderr)
    return code


def _coded(command: Callable[[], int], refuse: Callable[[JobError], None]) -> int:
    """Do a command; what a user can mend is told to `refuse`, and its code returned."""
    try:
        return command()
    except Exception as error:
        refusal = refusal_of(error)
        if refusal is None:
            raise
        refuse(refusal)
        return refusal.code


def _command(arguments: Sequence[str], drain: Drain) -> int:
    options = build_parser().parse_args(_with_command(arguments))
    return _DO[options.command](options, drain)


def _with_command(arguments: Sequence[str]) -> list[str]:
    """Put `run` in front where no command is named; a word that may be a mistyped one is refused."""
    first = arguments[0] if arguments else "--"
    if first in COMMANDS or first in {"-h", "--help", "--version"}:
        return list(arguments)
    if not (first.startswith("-") or os.sep in first or "\0" in first or os.path.lexists(first or ".")):
        found = f"'{as_text(os.fsencode(first))}' is no command, and no folder here"
        raise JobError(f"{found}; give {_LISTED}, or the path of a folder", Exit.NO_QUEUE)
    return ["run", *arguments]


_LISTED: Final = f"{', '.join(COMMANDS[:-1])} or {COMMANDS[-1]}"


def _run(options: Namespace, drain: Drain) -> int:
    # Here, because the other commands need none of it.
    from .job.run import run, tell_failure  # noqa: PLC0415
    from .planning import new_run_id, plan_of  # noqa: PLC0415

    now = datetime.now(UTC)
    run_id = new_run_id(now)

    def planned() -> Plan:
        try:
            profile = profile_of(options.profile)
        except ProfileError as error:
            tell_failure(plan_of(options, unread(options.profile), now, run_id), screen, drain, error)
            raise
        return plan_of(options, profile, now, run_id)

    with contextlib.closing(_screen(run_id, json_logs=options.json_logs)) as screen:
        try:
            return _coded(lambda: run(planned(), screen, drain), screen.refuse)
        except Exception as error:  # noqa: BLE001 - raised again by a screen that has no form for it
            screen.crash(error)
            return 1


def _screen(run_id: str, *, json_logs: bool) -> Screen:
    if json_logs:
        from .job.json_log import JsonScreen  # noqa: PLC0415 - lines for people need none of it

        return JsonScreen(run_id)
    if not sys.stderr.isatty():
        return LogScreen()
    from .job.terminal import TerminalScreen  # noqa: PLC0415 - a log needs no rich

    return TerminalScreen()


def _inspect(options: Namespace, drain: Drain) -> int:
    # Here, because a run needs none of it.
    from .inspecting import AS_JSON, asked_of, inspect_files  # noqa: PLC0415

    drain.release()
    asked = asked_of(options, profile_of(options.profile))
    if options.json:
        return inspect_files(options.files, asked, AS_JSON)
    if options.csv:
        from .sheet import AS_CSV  # noqa: PLC0415

        return inspect_files(options.files, asked, AS_CSV)
    from .tables import AS_TABLES, WITH_GRIDS  # noqa: PLC0415 - JSON and CSV need no rich

    return inspect_files(options.files, asked, WITH_GRIDS if options.grid else AS_TABLES)


def _status(options: Namespace, drain: Drain) -> int:
    from .status import status  # noqa: PLC0415 - a run needs none of it

    drain.release()
    return status(options, datetime.now(UTC))


def _replay(options: Namespace, drain: Drain) -> int:
    from .upkeep import replay_assets  # noqa: PLC0415 - a run needs none of it

    drain.release()
    return replay_assets(options, datetime.now(UTC))


def _prune(options: Namespace, drain: Drain) -> int:
    from .upkeep import prune_windows  # noqa: PLC0415 - a run needs none of it

    drain.release()
    return prune_windows(options, datetime.now(UTC))


_DO: Final = {"run": _run, "inspect": _inspect, "status": _status, "replay": _replay, "prune": _prune}
