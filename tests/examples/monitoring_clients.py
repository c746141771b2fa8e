"""What the tests of the exporter share: a monitoring client, one that will not be cancelled, and the counts."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import Self

import anyio
import anyio.lowlevel

from examples.recipes.operations import BoundedExporter


class Collector:
    """A monitoring client: it keeps what it got, may wait for a gate, and may fail at given events."""

    def __init__(
        self, gate: anyio.Event | None = None, errors: dict[int, BaseException] | None = None
    ) -> None:
        self.got: list[int] = []
        self.begun: list[int] = []
        self.gate = gate
        self.errors = errors or {}

    async def send(self, event: int) -> None:
        self.begun.append(event)
        if self.gate is not None:
            await self.gate.wait()
        await anyio.lowlevel.checkpoint()
        if event in self.errors:
            raise self.errors[event]
        self.got.append(event)


class Swallower:
    """A client that goes on, however often it is cancelled, until it is let go."""

    def __init__(self) -> None:
        self.let_go = anyio.Event()
        self.ended = anyio.Event()

    async def send(self, event: int) -> None:
        try:
            while not self.let_go.is_set():
                if anyio.get_cancelled_exc_class() is asyncio.CancelledError:
                    with suppress(asyncio.CancelledError):
                        await self.let_go.wait()
                else:
                    with anyio.CancelScope(shield=True):
                        await self.let_go.wait()
        finally:
            self.ended.set()

    @asynccontextmanager
    async def released(self) -> AsyncGenerator[Self]:
        """Let it go at the end, and see it end: nothing stays behind the test."""
        try:
            yield self
        finally:
            self.let_go.set()
            with anyio.CancelScope(shield=True):
                await self.ended.wait()


def counts(exporter: BoundedExporter[int]) -> tuple[int, int, int]:
    return exporter.sent, exporter.failed, exporter.dropped
