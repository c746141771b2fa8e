"""A server on the loopback that is pinged: it answers as each test says, and knows what it was asked."""

from __future__ import annotations

import contextlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SECRET: Final = "3f1c-secret-token"  # noqa: S105 - made up


class Pinged:
    """What was asked, in the order in which it came; `status` says what is answered to a path."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/{SECRET}"
        self.paths: list[str] = []
        self.came: SimpleQueue[str] = SimpleQueue()
        self.warnings: list[str] = []
        """What a test's run said of its pings."""
        self.status: Callable[[str, int], int] = lambda path, number: 200
        """Of a path and how many requests there were before."""
        self.location = ""
        self.hold = threading.Event()
        """What is answered with 0 hangs until this is set."""

    @property
    def asked(self) -> list[str]:
        """The paths without the secret."""
        return [path.removeprefix(f"/{SECRET}") for path in self.paths]

    @property
    def news(self) -> list[str]:
        """What was asked, each once: what a machine that stood still did not answer in time is asked again."""
        return list(dict.fromkeys(self.asked))


@contextlib.contextmanager
def pinged() -> Iterator[Pinged]:
    """Serve on a port of its own."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        server.daemon_threads = True
        server.block_on_close = False
        server.pinged = Pinged(server.server_port)  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.pinged  # type: ignore[attr-defined]
        finally:
            server.pinged.hold.set()  # type: ignore[attr-defined]
            server.shutdown()
            thread.join()


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        asked: Pinged = self.server.pinged  # type: ignore[attr-defined]
        status = asked.status(self.path, len(asked.paths))
        asked.paths.append(self.path)
        asked.came.put(self.path)
        if not status:
            asked.hold.wait()
            status = 200
        with contextlib.suppress(OSError):
            self.send_response(status)
            if status in {301, 302}:
                self.send_header("Location", asked.location)
            self.send_header("Content-Length", "0")
            self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its own name
        """Say nothing."""
