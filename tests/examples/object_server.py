"""An object store on loopback: moto's server as a process of its own, with faults that a test asks for.

A rule of a test matches requests by method and by the end of their path, and says what comes of them instead: an
answer with a status, a connection that is closed, or a request that is held until the test lets it go on.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import socket
import subprocess
import sys
import threading
from dataclasses import dataclass
from functools import cached_property
from http.client import HTTPConnection
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from types_boto3_s3 import S3Client

BUCKET: Final = "captions"
# What boto3 reads; nothing else of this machine's is to count.
_OURS: Final = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}
_CONTROL: Final = "/_control/"
# Seconds for which a request is held at most, or waited for; one that is held has a client that waits 5 s.
_PATIENCE: Final = 60.0
# Seconds between two bytes, far below those for which a client waits for one.
_TRICKLE: Final = 0.3


@dataclass(frozen=True)
class ObjectServer:
    """The store, and one bucket in it."""

    endpoint: str
    bucket: str = BUCKET

    @property
    def environment(self) -> dict[str, str]:
        """What a command needs to find it."""
        return _OURS | {"AWS_ENDPOINT_URL": self.endpoint}

    @cached_property
    def client(self) -> S3Client:
        """A client of the test's own."""
        import boto3  # noqa: PLC0415 - the server itself needs none

        return boto3.session.Session().client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id="test",
            aws_secret_access_key="test",  # noqa: S106 - any will do
            region_name="us-east-1",
        )

    def put(self, key: str, data: bytes) -> None:
        """Store an object."""
        self.client.put_object(Bucket=self.bucket, Key=key, Body=data)

    def delete(self, key: str) -> None:
        """Remove an object."""
        self.client.delete_object(Bucket=self.bucket, Key=key)

    def keys(self, prefix: str = "") -> list[str]:
        """List what there is below `prefix`, up to 1,000 keys."""
        listed = self.client.list_objects_v2(Bucket=self.bucket, Prefix=prefix)
        return [found["Key"] for found in listed.get("Contents", ())]

    def rule(self, method: str, ending: str, do: str, *, times: int = 1 << 30) -> None:
        """Say what comes of the next `times` requests whose path ends with `ending`.

        A status, with `200 OK` a web server's page; `drop` closes the connection, `lose` does so once the request is
        done, `hold` lets it wait, `trickle` answers byte by byte, and `pass` lets it through before the rules after
        it count.
        """
        self._ask("rule", {"method": method, "ending": ending, "do": do, "times": times})

    def forget(self) -> None:
        """Forget all rules and calls."""
        self._ask("forget", {})

    def held(self) -> None:
        """Wait until a request is held."""
        assert self._ask("held", {})

    def go_on(self) -> None:
        """Let the request that is held go on."""
        self._ask("go", {})

    def calls(self, method: str) -> list[str]:
        """List the paths, with their queries, that were asked for by `method`, in their order."""
        return [path for asked, path in self._ask("calls", {}) if asked == method]

    def _ask(self, what: str, body: dict[str, Any]) -> Any:
        where = urlsplit(self.endpoint)
        with contextlib.closing(HTTPConnection(str(where.hostname), where.port, timeout=_PATIENCE)) as asked:
            asked.request("POST", f"{_CONTROL}{what}", json.dumps(body).encode())
            return json.load(asked.getresponse())


@functools.cache
def object_server() -> ObjectServer:
    """Serve all tests of this process: one server takes two seconds to start. It ends with the process."""
    ended = contextlib.ExitStack()
    atexit.register(ended.close)
    _, server = ended.enter_context(_started())
    return server


@contextlib.contextmanager
def mortal_server() -> Iterator[tuple[subprocess.Popen[bytes], ObjectServer]]:
    """Serve in the block, by a process that the test may kill."""
    with _started() as both:
        yield both


@contextlib.contextmanager
def _started() -> Iterator[tuple[subprocess.Popen[bytes], ObjectServer]]:
    with subprocess.Popen(
        [sys.executable, str(Path(__file__))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | _OURS,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            server = ObjectServer(f"http://127.0.0.1:{int(process.stdout.readline())}")
            server.client.create_bucket(Bucket=BUCKET)
            yield process, server
        finally:
            server.client.close()
            process.kill()


class _Rules:
    """The rules of a test, between the clients and moto. Mutable state: rules, calls and what is held."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._rules: list[dict[str, Any]] = []
        self._calls: list[tuple[str, str]] = []
        self._lock = threading.Lock()
        self._held, self._go = threading.Event(), threading.Event()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        if path.startswith(_CONTROL):
            body: bytes = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            answer = self._control(path.removeprefix(_CONTROL), json.loads(body))
            start_response("200 OK", [("Content-Type", "application/json")])
            return [json.dumps(answer).encode()]
        match self._what_comes_of(method, path, environ.get("QUERY_STRING", "")):
            case None | "pass":
                pass
            case "hold":
                self._held.set()
                self._go.wait(_PATIENCE)
            case "trickle":
                return self._slowly(b"".join(self._app(environ, start_response)))
            case "drop":
                environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
                raise ConnectionError
            case "lose":
                b"".join(self._app(environ, lambda *_: None))
                environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
                raise ConnectionError
            case status:
                start_response(status, [("Content-Type", "application/xml")])
                code = status.partition(" ")[2].replace(" ", "")
                if code == "OK":
                    return [b"<!doctype html><p>It works!"]
                return [f"<Error><Code>{code}</Code><Message>as told</Message></Error>".encode()]
        answered: Iterable[bytes] = self._app(environ, start_response)
        return answered

    def _slowly(self, answer: bytes) -> Iterator[bytes]:
        self._held.set()
        for byte in answer:
            yield bytes([byte])
            self._go.wait(_TRICKLE)

    def _what_comes_of(self, method: str, path: str, query: str) -> str | None:
        with self._lock:
            self._calls.append((method, f"{path}?{query}"))
            for rule in self._rules:
                if rule["times"] and rule["method"] == method and unquote(path).endswith(rule["ending"]):
                    rule["times"] -= 1
                    return str(rule["do"])
        return None

    def _control(self, what: str, body: dict[str, Any]) -> Any:
        match what:
            case "rule":
                self._rules.append(body)
            case "forget":
                self._rules.clear()
                self._calls.clear()
                self._held.clear()
                self._go.clear()
            case "held":
                return self._held.wait(_PATIENCE)
            case "go":
                self._go.set()
            case "calls":
                return self._calls
        return True


def _serve(port_to: IO[str]) -> None:
    """Serve until standard input ends."""
    from moto.moto_server import werkzeug_app  # noqa: PLC0415 - of the server alone
    from moto.moto_server.utilities import RegexConverter  # noqa: PLC0415
    from werkzeug.serving import make_server  # noqa: PLC0415

    class AnyKey(RegexConverter):  # A line feed in a key is no end of it.
        def __init__(self, url_map: Any, *items: Any) -> None:
            super().__init__(url_map, *items)
            self.regex = f"(?s:{self.regex})"

    class Quiet(werkzeug_app.MotoRequestHandler):
        protocol_version = "HTTP/1.1"

        def log(self, type: str, message: str, *args: Any) -> None:  # noqa: A002 - werkzeug's name
            """Say nothing."""

    setattr(werkzeug_app, "RegexConverter", AnyKey)  # noqa: B010 - mypy takes it for a type's name
    app = _Rules(werkzeug_app.DomainDispatcherApplication(werkzeug_app.create_backend_app))
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, file=port_to, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    _serve(sys.stdout)
