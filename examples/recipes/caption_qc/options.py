"""The command's options: one table of what each means, where it comes from, and what it may be."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn

from .job.assets import as_text
from .job.errors import Exit
from .job.streams import say
from .values import (
    count,
    cues,
    duration,
    fail_on,
    over_zero,
    path,
    programme,
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
        return "CAPTION_QC_" + self.name.upper().replace("-", "_")


COMMANDS: Final = ("run", "inspect")
PROFILE: Final = Option(
    "profile", str, "house", "the house's limits: a name that comes with this, or a TOML file"
)
RUN_OPTIONS: Final = (
    Option("state", path, None, "the folder of lock, ledger and reports (./caption-qc-state/<queue>)"),
    PROFILE,
    Option("workers", count, None, "processes that check (the usable CPUs, at most 8)"),
    Option("settle", duration, None, "leave files that changed less than this ago (10s; the samples: 0)"),
    Option("window", window, "5m", "the time that one set of records covers"),
    Option("at", time, None, "record as if the run began at this time"),
    Option("lock", path, None, "the lock file (run.lock in the state folder)"),
    Option("asset-timeout", over_zero, "30s", "the longest that one check may take"),
    Option("drain-timeout", over_zero, "25s", "the longest that a run may take to end after SIGTERM"),
    Option("max-attempts", count, "3", "deaths after which an asset is given up until it changes"),
    Option("fail-on", fail_on, None, "exit with 65 for any of dead-letter, error, warn (commas between)"),
    Option("out", path, None, "the folder of Parquet and dashboard (the state folder)"),
    Option(
        "metrics-file", path, None, "the metrics, for a textfile collector (metrics.prom in the state folder)"
    ),
    Option("ping-url", url, None, "tell this address of start, success and failure"),
    Option("redo", windows, None, "check the assets of these windows again: W, or W1/W2"),
    Option("shard", shard, None, "do one part of the queue alone, like 1/4; each has a state folder"),
    Option("json-logs", switch, None, "write one JSON object a line on standard error"),
)


def build_parser(environment: Mapping[str, str] = os.environ) -> Parser:
    """Make the parser; what the environment gives is checked like what the command line gives."""
    parser = Parser(
        prog="python -m examples.recipes.caption_qc",
        description="Check caption files (SCC), once each.",
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(
        dest="command", metavar="{run,inspect}", required=True, parser_class=Parser
    )
    about = "check the files of a folder that are new or changed (the default command)"
    run = commands.add_parser("run", help=about, description=about.capitalize(), allow_abbrev=False)
    run.add_argument("queue", nargs="?", type=path, help="the folder (the samples that come with this)")
    for option in RUN_OPTIONS:
        _add(run, option, environment)
    about = "show what files contain and what is wrong with them"
    inspect = commands.add_parser("inspect", help=about, description=about.capitalize(), allow_abbrev=False)
    _add_inspect(inspect)
    _add(inspect, PROFILE, environment)
    return parser


def _add_inspect(inspect: Parser) -> None:
    """Add what is about the files at hand: none of it is read from the environment."""
    inspect.add_argument("files", nargs="+", type=path, metavar="FILE")
    form = inspect.add_mutually_exclusive_group()
    form.add_argument("--grid", action="store_true", help="each cue as it shows, on 15 rows of 32 columns")
    form.add_argument("--json", action="store_true", help="one JSON object a file, one a line")
    inspect.add_argument("--cues", type=cues, metavar="N,N-N", help="show these cues alone, like 3 or 1-4,9")
    inspect.add_argument(
        "--programme",
        type=programme,
        metavar="START-END",
        help="when the programme starts and ends, as two time codes (NAME.toml beside NAME.scc)",
    )
    inspect.add_argument(
        "--reference",
        type=path,
        metavar="TRACK",
        help="compare times with this SCC, WebVTT or SRT file, to see drift",
    )
    inspect.add_argument(
        "--fail-on",
        choices=("error", "warn"),
        help="exit with 65 if a finding is as bad as this, or worse",
    )


def _add(parser: Parser, option: Option, environment: Mapping[str, str]) -> None:
    text = environment.get(option.variable) or option.default
    try:
        default = None if text is None else option.read(text)
    except argparse.ArgumentTypeError as error:
        default = Wrong(f"{option.variable} in the environment: {error}")
    name = f"--{option.name}"
    if option.read is switch:
        about = f"{option.meaning}; {option.variable}=1"
        parser.add_argument(name, action=argparse.BooleanOptionalAction, default=default, help=about)
        return
    shown = f" (default: {option.default})" if option.default else ""
    about = f"{option.meaning}{shown}; {option.variable}".replace("%", "%%")
    parser.add_argument(name, type=option.read, default=default, metavar="X", help=about)
