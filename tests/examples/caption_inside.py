"""The runner inside the test's own process: with a real plan and ledger, and another pool where the test has one."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from examples.recipes.caption_qc.job.drain import Drain
from examples.recipes.caption_qc.job.ledger import open_ledger
from examples.recipes.caption_qc.job.profile_file import profile_of
from examples.recipes.caption_qc.job.runner import Runner
from examples.recipes.caption_qc.job.scan import Seen
from examples.recipes.caption_qc.job.screen import LogScreen
from examples.recipes.caption_qc.job.totals import Totals
from examples.recipes.caption_qc.options import build_parser
from examples.recipes.caption_qc.planning import plan_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from caption_runs import Place

    from examples.recipes.caption_qc.job.assets import Asset
    from examples.recipes.caption_qc.job.checkers import Check
    from examples.recipes.caption_qc.job.outcomes import Outcome


class StandIn:
    """Stands where the pool is; there is always a place, and `check` is for the test to say."""

    async def open(self) -> None:
        pass

    @contextlib.asynccontextmanager
    async def place(self) -> AsyncIterator[Check]:
        yield self.check

    async def check(self, chunk: Sequence[Asset]) -> list[Outcome]:
        raise NotImplementedError

    def close(self) -> None:
        pass

    def kill(self) -> None:
        pass

    async def end(self) -> None:
        pass


@contextlib.contextmanager
def runner_for(here: Place, pool: Any, *more: str) -> Iterator[Runner]:
    """Make the runner of a run with two workers, `pool` in the place of its own."""
    options = build_parser({}).parse_args(here.arguments("--workers", "2", *more))
    plan = plan_of(options, profile_of(options.profile), datetime.now(UTC))
    plan.state.mkdir()
    with open_ledger(plan, print) as ledger:
        ledger.begin_run()
        runner = Runner(plan, ledger, Totals(seen=Seen()), LogScreen(), Drain())
        runner.pool = pool
        yield runner
