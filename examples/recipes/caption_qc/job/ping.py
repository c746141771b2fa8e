"""The dead man's switch: tells an address that a run starts, that it went well, or with which code it failed.

1. The run never waits for the start. Its end waits for three tries of 5 s at most, and for 2 s in all once a
   drain is asked for.
2. A ping that is not delivered is a warning and nothing else. The address is a secret: of it the host alone is
   ever said.
3. An end never overtakes the start, which would then be one without an end.

Each try has a thread of its own and is left alone when its time is up: no timeout of a socket bounds the lookup
of a name, or a server that sends a byte now and then.
"""

from __future__ import annotations

from math import inf
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit, urlunsplit

from .assets import printable

if TYPE_CHECKING:
    from collections.abc import Callable
    from urllib.request import OpenerDirector

    from .drain import Drain

TRIES: Final = 3
TRY_SECONDS: Final = 5.0
_LATE: Final = "no answer in time"
PAUSE_SECONDS: Final = 1.0
DRAIN_SECONDS: Final = 2.0
_START_IN_A_DRAIN_SECONDS: Final = 0.5


class Ping:
    """What is told of one run; without an address nothing is. No method raises.

    Mutable state: the start that is under way.
    """

    def __init__(self, url: str | None, drain: Drain, warn: Callable[[str], None]) -> None:
        self._url = url
        self._drain = drain
        self._warn = warn
        self._start: _Delivery | None = None
        self._start_over = _News()

    def start(self) -> None:
        """Say that the run starts, in the background."""
        if self._url is not None:
            self._start = _Delivery(self._url, "/start")
            self._start_over.ask(0, self._start.deliver)

    def success(self) -> None:
        """Say that the run went well."""
        self._end("")

    def fail(self, code: int) -> None:
        """Say that the run failed, and with which exit code."""
        self._end(f"/{int(code)}")

    def _end(self, what: str) -> None:
        if self._url is None:
            return
        end = _Delivery(self._url, what)
        self._drain.notify(lambda: self._hurry(end))
        try:
            self._await_start()
            if why := end.deliver():
                self._warn(f"the ping to {_host(self._url)} was not delivered: {why}")
        finally:
            self._drain.forget()

    def _await_start(self) -> None:
        if self._start is not None:
            until = monotonic() + TRY_SECONDS
            self._start.no_more_tries(until)
            self._start_over.next(until)

    def _hurry(self, end: _Delivery) -> None:
        now = monotonic()
        self._start_over.hurry(now + _START_IN_A_DRAIN_SECONDS)
        end.no_more_tries(now + DRAIN_SECONDS)


class _Delivery:
    """One ping: up to three tries."""

    def __init__(self, url: str, what: str) -> None:
        self._url = url
        self._what = what
        self._news = _News()

    def no_more_tries(self, latest: float) -> None:
        """Let the try that is under way, or the first, be the last, and give it up at `latest`."""
        self._news.hurry(latest)

    def deliver(self) -> str:
        """Try until it is delivered; return why it was not, or nothing."""
        why = self._try(0)
        for number in range(1, TRIES):
            if not why or self._news.heard(number, PAUSE_SECONDS) == "":
                return ""  # The second: an earlier try was late, and delivered after all.
            if self._news.hurried:
                break
            why = self._try(number)
        return why

    def _try(self, number: int) -> str:
        self._news.ask(number, lambda: _sent(self._url, self._what))
        why = self._news.heard(number, TRY_SECONDS)
        return _LATE if why is None else why


class _Answer(NamedTuple):
    """What came of one try."""

    number: int
    why: str
    """Why it was not delivered; nothing where it was."""


class _News:
    """Answers for one that waits, until a moment that may be brought nearer meanwhile.

    Mutable state: a `SimpleQueue`, since a signal handler may put into it at any moment, and the moment.
    """

    def __init__(self) -> None:
        self._queue: SimpleQueue[_Answer | float] = SimpleQueue()
        self._latest = inf

    @property
    def hurried(self) -> bool:
        """Whether time was made short, as far as it was heard."""
        return self._latest < inf

    def ask(self, number: int, work: Callable[[], str]) -> None:
        """Do `work` in a thread that nothing waits for at the end of the process."""
        try:
            Thread(target=lambda: self._queue.put(_Answer(number, work())), daemon=True).start()
        except RuntimeError as error:  # The system has no thread to spare.
            self._queue.put(_Answer(number, str(error)))

    def hurry(self, latest: float) -> None:
        """Let nobody wait longer than to `latest`."""
        self._queue.put(latest)

    def heard(self, number: int, seconds: float) -> str | None:
        """Return the answer of try `number`, or that an earlier one was delivered late; `None` when it is time."""
        until = monotonic() + seconds
        while (answer := self.next(until)) is not None:
            if answer.number == number or not answer.why:
                return answer.why
        return None

    def next(self, until: float) -> _Answer | None:
        """Return the next answer, or `None` when it is time."""
        while (seconds := min(until, self._latest) - monotonic()) > 0:
            try:
                found = self._queue.get(timeout=seconds)
            except Empty:
                break
            if isinstance(found, _Answer):
                return found
            self._latest = min(self._latest, found)
        return None


def _address(url: str, what: str) -> str:
    """Put `what` behind the path; a query stays behind both."""
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=parts.path.rstrip("/") + what)) if what else url


def _host(url: str) -> str:
    try:
        return printable(urlsplit(url).hostname or "no host")
    except ValueError:
        return "no host"


def _sent(url: str, what: str) -> str:
    """Ask for the address once; return why it was not answered well, or nothing."""
    # Here, because most runs ping nobody, and importing these takes longer than an empty run.
    from urllib import error, request  # noqa: PLC0415

    try:
        asked = request.Request(_address(url, what), headers={"User-Agent": "caption-qc"})  # noqa: S310 - see _opener
        with _opener().open(asked, timeout=TRY_SECONDS):
            return ""
    except error.HTTPError as answer:
        answer.close()
        return f"it answered {answer.code}"
    except error.URLError as failure:
        return _reason(failure.reason)
    except Exception as failure:  # noqa: BLE001 - whatever it is, the run goes on
        return _reason(failure)


def _opener() -> OpenerDirector:
    """Make what follows a redirection to http and https alone, and honours the proxies of the environment."""
    from urllib import request  # noqa: PLC0415

    opener = request.OpenerDirector()
    for handler in (
        request.ProxyHandler,
        request.HTTPHandler,
        request.HTTPSHandler,
        request.HTTPRedirectHandler,
        request.HTTPDefaultErrorHandler,
        request.HTTPErrorProcessor,
        request.UnknownHandler,
    ):
        opener.add_handler(handler())
    return opener


def _reason(failure: object) -> str:
    """Say what went wrong, in the system's words or by the error's name: its text may quote the address."""
    if isinstance(failure, OSError) and failure.strerror:
        return printable(failure.strerror)
    return _LATE if isinstance(failure, TimeoutError) else type(failure).__name__
