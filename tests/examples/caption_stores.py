"""Real runs of the caption job on an object store, and the store as this process asks it."""

from __future__ import annotations

import contextlib
import os
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING
from unittest import mock

from caption_runs import COMMAND, ROOT, Place
from caption_store_reports import command as command_here
from caption_storm import environment

from examples.recipes.caption_qc.job import object_store
from examples.recipes.caption_qc.job.object_store import Bucket

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from caption_inspect import Said
    from object_server import ObjectServer


@dataclass(frozen=True)
class StorePlace(Place):
    """A queue on a store and its state folder; the queue's folder is where a run is done, and empty."""

    server: ObjectServer
    prefix: str

    @property
    def url(self) -> str:
        return f"s3://{self.server.bucket}/{self.prefix}"

    @property
    def bucket(self) -> Bucket:
        return Bucket(self.server.bucket, f"{self.prefix}/")

    def put(self, key: str, data: bytes) -> None:
        """Deliver an asset."""
        self.server.put(f"{self.prefix}/{key}", data)

    def rule(self, method: str, key: str, do: str, *, times: int = 1 << 30) -> None:
        """Say what comes of requests for an asset."""
        self.server.rule(method, f"{self.prefix}/{key}", do, times=times)

    def arguments(self, *more: str) -> list[str]:
        return ["run", self.url, "--settle", "0", "--workers", "1", "--state", str(self.state), *more]

    def command(self, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run the command to its end; `more` is for its environment."""
        with self.started(*arguments, **more) as process:
            output, errors = process.communicate()
        return subprocess.CompletedProcess(process.args, process.returncode, output, errors)

    def started(self, *arguments: str, **more: str) -> subprocess.Popen[str]:
        """Start the command; bad files do their worst in its workers."""
        return subprocess.Popen(
            [*COMMAND, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=environment("", CAPTION_BAD_FILES="1") | self.server.environment | more,
        )

    def fire(self, *more: str) -> str:
        """Do one run in this process that ends well, and return what it says; bad files do their worst."""
        done = self.here(*self.arguments(*more))
        assert (done.code, done.out) == (0, ""), done
        return "\n".join(done.errors)

    def here(self, *arguments: str) -> Said:
        """Do a command in this process, which must ask the server (`asked_here`); its workers are processes."""
        path = environment("")["PYTHONPATH"]
        with mock.patch.dict(os.environ, {"CAPTION_BAD_FILES": "1", "PYTHONPATH": path}):
            return command_here(*arguments)


def store_place(server: ObjectServer, folder: Path) -> StorePlace:
    """Make a queue of its own on the server, named after `folder`."""
    server.forget()
    return StorePlace(folder / "queue", folder / "state", server, folder.name)


@contextlib.contextmanager
def asked_here(server: ObjectServer, *, tries: int = 1) -> Iterator[None]:
    """Let this process ask the server, by a client of the block's own."""
    object_store.client.cache_clear()
    with (
        mock.patch.dict(os.environ, server.environment),
        mock.patch.object(object_store, "TRIES", tries),
        contextlib.closing(object_store.client()),
    ):
        yield
        object_store.client().close()  # Another, if a test made one.
    object_store.client.cache_clear()


@contextlib.contextmanager
def asked_as(**environment: str) -> Iterator[None]:
    """Let this process ask with other settings in the block."""
    object_store.client.cache_clear()
    with mock.patch.dict(os.environ, environment):
        yield
    object_store.client.cache_clear()
