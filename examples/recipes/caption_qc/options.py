"""The command's options: one table of what each means, where it comes from, and what it may be."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn

from .job import TOOL_VERSION
from .job.assets import as_text
from .job.errors import Exit
from .job.streams import say
from .values import (
    count,
    cues,
    duration,
    fail_on,
    file_at_hand,
    keep,
    local_path,
    over_zero,
    programme,
    queue,
    reports,
    scheduler,
    shard,
    switch,
    time,
    url,
    window,
    windows,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line and exit code 64.

    Each command's own parser complains of what is left over, since its help lists what there is.
    """

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and how to see what is right, then exit."""
        say(f"caption_qc: {message}; {self.prog} --help lists what there is")
        self.exit(Exit.USAGE)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Parse, and know all arguments; what the environment gives counts where nothing else was given."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: {' '.join(as_text(os.fsencode(word)) for word in unknown)}")
        for value in vars(found).values():
            if isinstance(value, Wrong):
                self.error(value.message)
        return found, unknown


@dataclass(frozen=True, slots=True)
class Wrong:
    """What stands in the place of a value that the environment gives and that can't be."""

    message: str


@dataclass(frozen=True, slots=True)
class Option:
    """One option; its default is text, as the environment's value would be."""

    name: str
    read: Callable[[str], Any]
    default: str | None
    meaning: str

    @property
    def variable(self) -> str:
        """The environment's name for it."""
        return "CAPTION_QC_" + self.attribute.upper()

    @property
    def attribute(self) -> str:
        """The parsed options' name for it."""
        return self.name.replace("-", "_")

    @property
    def otherwise(self) -> Any:
        """What it is where nobody gives it."""
        return None if self.default is None else self.read(self.default)


COMMANDS: Final = ("run", "inspect", "status", "replay", "prune")
PROFILE: Final = Option(
    "profile", str, "house", "the house's limits: a name that comes with this, or a TOML file"
)
_STATE: Final = Option(
    "state", local_path, None, "the folder of lock, ledger and reports (./caption-qc-state/<queue>)"
)
_LOCK: Final = Option("lock", local_path, None, "the lock file (run.lock in the state folder)")
_WINDOW: Final = Option("window", window, "5m", "the time that one set of records covers")
_OUT: Final = Option(
    "out", reports, None, "where Parquet and dashboard go: a folder, or s3://bucket/prefix (the state folder)"
)
_METRICS: Final = Option(
    "metrics-file",
    local_path,
    None,
    "the metrics, for a textfile collector (metrics.prom in the state folder)",
)
_SHARD: Final = Option(
    "shard", shard, None, "one part of the queue alone, like 1/4; each has a state folder of its own"
)
RUN_OPTIONS: Final = (
    _STATE,
    PROFILE,
    Option("workers", count, None, "processes that check (the usable CPUs, at most 8)"),
    Option(
        "scheduler",
        scheduler,
        None,
        "check on Dask: tcp://host:port or tls://host:port, or local for a cluster here",
    ),
    Option("settle", duration, None, "leave files that changed less than this ago (10s; the samples: 0)"),
    _WINDOW,
    Option("at", time, None, "record as if the run began at this time"),
    Option("redo", windows, None, "check the assets of these windows again, and no others: W, or W1/W2"),
    _SHARD,
    Option("max-attempts", count, "3", "deaths after which an asset is given up until it changes"),
    Option("asset-timeout", over_zero, "30s", "the longest that one check may take"),
    Option("drain-timeout", over_zero, "25s", "the longest that a run may take to end after SIGTERM"),
    Option("fail-on", fail_on, None, "exit with 65 for any of dead-letter, error, warn (commas between)"),
    _LOCK,
    _OUT,
    _METRICS,
    Option("ping-url", url, None, "tell this address of start, success and failure"),
    Option("json-logs", switch, None, "write one JSON object a line on standard error"),
)
# What tells the other commands where a run keeps things; the rest of a plan they leave alone.
PLACES: Final = (_STATE, _SHARD, _LOCK, _OUT, _METRICS)
_LEFT_ALONE: Final = {option.attribute: option.otherwise for option in RUN_OPTIONS}
_QUEUE: Final = Option("queue", queue, None, "the folder of the assets, or s3://bucket/prefix")
_OF_THE_STATE: Final = "the folder or s3:// of the assets (the one of --state; else the samples)"


def build_parser(environment: Mapping[str, str] = os.environ) -> Parser:
    """Make the parser; what the environment gives is checked like what the command line gives."""
    parser = Parser(
        prog="python -m examples.recipes.caption_qc",
        description="Check caption files (SCC), once each.",
        epilog="Each command has its own --help. Without a command it is run; without an argument, of the samples.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"caption_qc {TOOL_VERSION}")
    commands = parser.add_subparsers(
        dest="command", metavar=f"{{{','.join(COMMANDS)}}}", required=True, parser_class=Parser
    )
    for name, add in zip(
        COMMANDS, (_add_run, _add_inspect, _add_status, _add_replay, _add_prune), strict=True
    ):
        about = _ABOUT[name]
        command = commands.add_parser(
            name, help=about, description=f"{about.capitalize()}.", epilog=_MORE.get(name), allow_abbrev=False
        )
        add(command, environment)
    return parser


_ABOUT: Final = {
    "run": "check the files of a folder that are new or changed (the default command)",
    "inspect": "show what files contain and what is wrong with them",
    "status": "show how the runs of a queue are doing: lock, backlog, dead letters, last runs, what is kept",
    "replay": "put dead letters back into the queue, so that the next run checks them again",
    "prune": "delete the records of windows that are older than you must keep them",
}
_MORE: Final = {
    "run": (
        "It exits with 0 whatever it finds, unless --fail-on says otherwise; with 75 while the run before it "
        "still runs. Each option is also read from the environment, by the name behind it."
    ),
    "status": "It changes nothing, takes no lock, and may be asked at any time.",
    "replay": "Names are those that status shows. It takes the run lock: 75 while a run is on.",
    "prune": "Whole windows go, with their ledger rows. It takes the run lock: 75 while a run is on.",
}


def _add_run(run: Parser, environment: Mapping[str, str]) -> None:
    _add_queue(
        run, environment, "the folder or s3://bucket/prefix to check (the samples that come with this)"
    )
    for option in RUN_OPTIONS:
        _add(run, option, environment)


def _add_status(status: Parser, environment: Mapping[str, str]) -> None:
    _add_queue(status, environment, _OF_THE_STATE)
    _add_places(status, environment)
    _add(status, _WINDOW, environment)
    status.add_argument("--json", action="store_true", help="one JSON object")


def _add_replay(replay: Parser, environment: Mapping[str, str]) -> None:
    replay.add_argument("assets", nargs="*", metavar="ASSET", help="dead letters by name (all of them)")
    _add(replay, Option("queue", queue, None, _OF_THE_STATE), environment)
    _add_places(replay, environment)


def _add_prune(prune: Parser, environment: Mapping[str, str]) -> None:
    _add_queue(prune, environment, _OF_THE_STATE)
    prune.add_argument(
        "--keep", type=keep, required=True, metavar="X", help="how long records must be kept, like 800d"
    )
    prune.add_argument("--dry-run", action="store_true", help="say what would go, and change nothing")
    _add_places(prune, environment)


def _add_queue(parser: Parser, environment: Mapping[str, str], meaning: str) -> None:
    default = _default(_QUEUE, environment)
    about = f"{meaning}; {_QUEUE.variable}"
    parser.add_argument("queue", nargs="?", type=queue, default=default, metavar="QUEUE", help=about)


def _add_places(parser: Parser, environment: Mapping[str, str]) -> None:
    parser.set_defaults(**_LEFT_ALONE)
    for option in PLACES:
        _add(parser, option, environment)


def _add_inspect(inspect: Parser, environment: Mapping[str, str]) -> None:
    """Add what is about the files at hand: none of it but the profile is read from the environment."""
    inspect.add_argument("files", nargs="+", type=file_at_hand, metavar="FILE")
    form = inspect.add_mutually_exclusive_group()
    form.add_argument("--grid", action="store_true", help="each cue as it shows, on 15 rows of 32 columns")
    form.add_argument("--json", action="store_true", help="one JSON object a file, one a line")
    form.add_argument("--csv", action="store_true", help="one row a finding, for a spreadsheet")
    inspect.add_argument("--cues", type=cues, metavar="N,N-N", help="show these cues alone, like 3 or 1-4,9")
    inspect.add_argument(
        "--programme",
        type=programme,
        metavar="START-END",
        help="when the programme starts and ends, as two time codes (NAME.toml beside NAME.scc)",
    )
    inspect.add_argument(
        "--reference",
        type=file_at_hand,
        metavar="TRACK",
        help="compare times with this SCC, WebVTT or SRT file, to see drift",
    )
    inspect.add_argument(
        "--fail-on",
        choices=("error", "warn"),
        help="exit with 65 if a finding is as bad as this, or worse",
    )
    _add(inspect, PROFILE, environment)


def _add(parser: Parser, option: Option, environment: Mapping[str, str]) -> None:
    default = _default(option, environment)
    name = f"--{option.name}"
    if option.read is switch:
        about = f"{option.meaning}; {option.variable}=1"
        parser.add_argument(name, action=argparse.BooleanOptionalAction, default=default, help=about)
        return
    shown = f" (default: {option.default})" if option.default else ""
    about = f"{option.meaning}{shown}; {option.variable}".replace("%", "%%")
    parser.add_argument(name, type=option.read, default=default, metavar="X", help=about)


def _default(option: Option, environment: Mapping[str, str]) -> Any:
    """Read what stands in the environment, else the default; what can't be is told once it is needed."""
    text = environment.get(option.variable)
    try:
        return option.read(text) if text else option.otherwise
    except argparse.ArgumentTypeError as error:
        return Wrong(f"{option.variable} in the environment: {error}")
