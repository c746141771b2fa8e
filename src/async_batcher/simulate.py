"""Choose limits: what a batcher's options do under a load, as a table and a plot, without waiting for it.

    python -m async_batcher.simulate --rate 200,400,800 --per-batch 20ms --per-item 0.2ms --max-queue-time 0,10ms

The load, the processor's cost and the options may each have several values, separated by commas: every combination
is a line. Durations are seconds, or have a unit (`10ms`, `200us`). `--plot FILE` draws the lines, where matplotlib
is installed. What is simulated and what is not: `_simulation.py`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import attrs

from async_batcher._options import Options
from async_batcher._simulation import Cost, Load, Summary, run, summarize

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

USAGE: Final = 64
"""The exit code of wrong usage, as sysexits.h has it."""
MOST_CALLS: Final = 3_000_000
"""A line of more would need gigabytes, since every call is kept to the end."""
_UNITS: Final = {"": 1.0, "s": 1.0, "ms": 1e-3, "us": 1e-6}


@attrs.frozen
class Line:
    """One combination, and what came of it."""

    varied: dict[str, Any]
    """What has several values, by its option's name: this line's value of each."""
    summary: Summary


@attrs.frozen
class _Setting:
    """An option of the command that may have several values."""

    name: str
    read: Callable[[str], Any]
    default: str
    meaning: str


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit code."""
    parser = _parser()
    given = parser.parse_args(arguments)
    try:
        lines = list(_lines(given))
        if given.plot is not None:
            _plot(lines, given.plot)
    except (ValueError, TypeError, OSError, ImportError) as error:
        parser.error(str(error))
    print(_as_json(lines) if given.json else _table(lines))  # noqa: T201  (what the command is for)
    return 0


def _lines(given: argparse.Namespace) -> Iterator[Line]:
    names = [setting.name for setting in _SETTINGS]
    values = [getattr(given, name) for name in names]
    for chosen in itertools.product(*values):
        setting = dict(zip(names, chosen, strict=True))
        load = Load(seed=given.seed, **{name: setting.pop(name) for name in _LOAD})
        _refuse_too_many(load)
        cost = Cost(**{name: setting.pop(name) for name in _COST})
        if setting["enqueue_timeout"] is not None:
            setting["on_full"] = "wait"
        options = Options(**setting)
        varied = {
            name: value
            for name, value, several in zip(names, chosen, values, strict=True)
            if len(several) > 1
        }
        yield Line(varied, summarize(load, run(load, cost, options), options))


def _refuse_too_many(load: Load) -> None:
    if (calls := load.rate * load.seconds) > MOST_CALLS:
        raise ValueError(
            f"{calls:,.0f} items are more than {MOST_CALLS:,}: give a lower --rate, or fewer --seconds"
        )


# What it prints


def _table(lines: Sequence[Line]) -> str:
    heads = [_words(name) for name in lines[0].varied]
    heads += ["offered/s", "served/s", "refused", "expired", "batch", "busy"]
    heads += ["wait p50", "p95", "p99 ms", "answer p50", "p95", "p99 ms"]
    rows = [heads, *(_cells(line) for line in lines)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows
    )


def _cells(line: Line) -> list[str]:
    found = line.summary
    return [
        *(_value(name, value) for name, value in line.varied.items()),
        *(_figure(value, "{:,.1f}") for value in (found.offered, found.served)),
        *(_figure(value, "{:.1%}") for value in (found.refused, found.expired)),
        _figure(found.batch_size, "{:.1f}"),
        _figure(found.busy, "{:.0%}"),
        *(_figure(1000 * value, "{:,.1f}") for value in (*found.waits, *found.answers)),
    ]


def _figure(value: float, form: str) -> str:
    return "-" if math.isnan(value) else form.format(value)


def _words(name: str) -> str:
    return name.replace("_", " ")


def _value(name: str, value: object) -> str:
    if not isinstance(value, float):
        return str(value).lower()
    return f"{1000 * value:g} ms" if name in _DURATIONS else f"{value:g}"


def _as_json(lines: Sequence[Line]) -> str:
    """Write a list of objects: what varies, then the figures; one that is not known is null."""
    found = [line.varied | attrs.asdict(line.summary) for line in lines]
    return json.dumps([{name: _known(value) for name, value in line.items()} for line in found], indent=1)


def _known(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_known(part) for part in value]
    return None if isinstance(value, float) and math.isnan(value) else value


def _plot(lines: Sequence[Line], path: Path) -> None:
    # Here, because a table needs no matplotlib.
    try:
        from async_batcher._simulation_plot import draw  # noqa: PLC0415
    except ImportError as error:
        raise ImportError(f"--plot needs matplotlib ({error}); install it, or leave --plot out") from error
    draw([_point(line) for line in lines], path)


def _point(line: Line) -> tuple[dict[str, str], Summary]:
    return {_words(name): _value(name, value) for name, value in line.varied.items()}, line.summary


# What it may be given


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, and end with `USAGE`."""
        print(f"{self.prog}: {message}; --help lists what there is", file=sys.stderr)  # noqa: T201
        self.exit(USAGE)


def _seconds(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d*)?|\.\d+)(s|ms|us|)", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no duration; write one like 0.01, 10ms or 200us")
    return float(match[1]) * _UNITS[match[2]]


def _over_zero(text: str) -> float:
    if seconds := _seconds(text):
        return seconds
    raise argparse.ArgumentTypeError(f"{text!r} is no time; write a duration over 0, like 60 or 10ms")


def _rate(text: str) -> float:
    if re.fullmatch(r"\d+(\.\d*)?", text) and 0 < float(text) <= MOST_CALLS:
        return float(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no rate; write items a second, over 0, like 400")


def _count(text: str) -> int:
    if re.fullmatch(r"[0-9]{1,7}", text) and int(text):
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 to 9999999")


def _or_none(read: Callable[[str], Any]) -> Callable[[str], Any]:
    return lambda text: None if text == "none" else read(text)


def _one_of(*words: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text in words:
            return text
        raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(words)}")

    return read


_LOAD: Final = ("rate", "pattern", "burst", "seconds", "replicas")
_COST: Final = ("per_batch", "per_item")
_DURATIONS: Final = frozenset({"seconds", *_COST, "max_queue_time", "enqueue_timeout", "expires_after"})
_SETTINGS: Final = (
    _Setting("rate", _rate, "100", "items a second, at all replicas together"),
    _Setting("pattern", _one_of("poisson", "even", "bursts"), "poisson", "poisson, even or bursts"),
    _Setting("burst", _count, "32", "items of a burst"),
    _Setting("seconds", _over_zero, "60", "how long they come"),
    _Setting("replicas", _count, "1", "batchers, each with a queue and slots of its own"),
    _Setting(
        "per_batch", _seconds, "20ms", "what a batch costs the processor, whatever is in it; seconds, or 20ms"
    ),
    _Setting("per_item", _seconds, "0.2ms", "what each item of it costs besides"),
    _Setting("max_batch_size", _or_none(_count), "64", "as the batcher's option; none is no limit"),
    _Setting("max_queue_size", _or_none(_count), "1024", "as the batcher's option; none is no limit"),
    _Setting("max_queue_time", _seconds, "10ms", "as the batcher's option"),
    _Setting("concurrency", _or_none(_count), "1", "as the batcher's option; none is no limit"),
    _Setting("on_full", _one_of("reject", "wait"), "reject", "as the batcher's option"),
    _Setting(
        "enqueue_timeout", _or_none(_over_zero), "none", "as the batcher's option; on_full is wait with it"
    ),
    _Setting("expires_after", _or_none(_over_zero), "none", "as the batcher's option"),
)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m async_batcher.simulate",
        description="Simulate a batcher's options under a load, in virtual time.",
        epilog="Several values, separated by commas, give a line for every combination.",
        allow_abbrev=False,
    )
    for setting in _SETTINGS:
        option = "--" + setting.name.replace("_", "-")
        meaning = f"{setting.meaning} ({setting.default})"
        parser.add_argument(
            option, type=_several(setting.read), default=setting.default, help=meaning, metavar="N,N"
        )
    parser.add_argument("--seed", type=int, default=0, help="of the random numbers (0)")
    parser.add_argument("--json", action="store_true", help="print a list of JSON objects")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the lines too, as a PNG or SVG file")
    return parser


def _several(read: Callable[[str], Any]) -> Callable[[str], list[Any]]:
    return lambda text: [read(part.strip()) for part in text.split(",")]


if __name__ == "__main__":
    sys.exit(main())
