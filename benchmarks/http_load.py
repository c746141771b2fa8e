"""Clients of the service that `http.py` measures, in a process of their own: closed (each waits) or open (none does).

Printed, as JSON: how many answers of each status, and their latencies in seconds. A request of the open kind is late
from the moment it was due, so that a slow server can't slow its clients down and look quick.

    python http_load.py http://127.0.0.1:8000/predict --clients 64 --seconds 5
    python http_load.py http://127.0.0.1:8000/predict --rate 700 --seconds 5
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import time
from collections import defaultdict

import aiohttp

NUMBERS = 10
"""The default model takes so many."""


class Load:
    """What was asked and what was answered."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        dice = random.Random(0)  # noqa: S311  (rows, no secrets)
        self._bodies = [
            json.dumps({"row": [dice.uniform(-0.1, 0.1) for _ in range(NUMBERS)]}).encode()
            for _ in range(1000)
        ]
        self._session = session
        self._url = url
        self._asked = 0
        self.latencies: dict[int, list[float]] = defaultdict(list)

    async def ask(self, due: float | None = None) -> None:
        """Ask once, and note how long it took, from when it was due."""
        started = time.perf_counter() if due is None else due
        self._asked += 1
        body = self._bodies[self._asked % len(self._bodies)]
        headers = {"Content-Type": "application/json"}
        async with self._session.post(self._url, data=body, headers=headers) as answer:
            await answer.read()
        self.latencies[answer.status].append(time.perf_counter() - started)

    async def closed(self, clients: int, seconds: float) -> None:
        """Have so many clients ask one request after another."""
        end = time.perf_counter() + seconds

        async def client() -> None:
            while time.perf_counter() < end:
                await self.ask()

        await asyncio.gather(*(client() for _ in range(clients)))

    async def counted(self, clients: int, requests: int) -> None:
        """Have so many clients ask so many requests in all."""
        left = iter(range(requests))

        async def client() -> None:
            for _ in left:
                await self.ask()

        await asyncio.gather(*(client() for _ in range(clients)))

    async def open(self, rate: float, seconds: float) -> None:
        """Ask so often a second, evenly, whether answers come or not."""
        start = time.perf_counter() + 0.1
        async with asyncio.TaskGroup() as requests:
            for number in range(int(rate * seconds)):
                due = start + number / rate
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
                requests.create_task(self.ask(due))


async def run(arguments: argparse.Namespace) -> dict[str, object]:
    """Run the load, and say what came of it."""
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=60)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
        load = Load(session, arguments.url)
        started, cpu = time.perf_counter(), time.process_time()
        if arguments.rate:
            await load.open(arguments.rate, arguments.seconds)
        elif arguments.requests:
            await load.counted(arguments.clients, arguments.requests)
        else:
            await load.closed(arguments.clients, arguments.seconds)
        seconds = time.perf_counter() - started
        busy = (time.process_time() - cpu) / seconds
    return {"seconds": seconds, "busy": busy, "latencies": load.latencies}


def main() -> None:
    """Load the service, and print what came of it."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("url")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--requests", type=int, help="so many in all, instead of seconds")
    parser.add_argument("--rate", type=float, help="so many a second, whether answers come or not")
    parser.add_argument("--seconds", type=float, default=5)
    json.dump(asyncio.run(run(parser.parse_args())), sys.stdout)


if __name__ == "__main__":
    main()
