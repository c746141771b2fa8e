"""An executor that is worked by hand, so that each moment of a thread is a line of a test and no race."""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any


class Job(Future[Any]):
    """A call that is worked by hand; `ends_when_asked` ends it in the midst of somebody's questions about it."""

    def __init__(self, call: Callable[[], Any]) -> None:
        super().__init__()
        self._call = call
        self._questions_left: int | None = None

    def begin(self) -> None:
        """Let a worker take it."""
        assert self.set_running_or_notify_cancel()

    def end(self) -> None:
        """Make the call, unless it has been made, and return what it returns."""
        self._questions_left = None
        if not super().done():
            self.set_result(self._call())

    def ends_when_asked(self, questions: int) -> None:
        """End right after so many questions have been answered by what was so."""
        self._questions_left = questions

    def running(self) -> bool:
        return self._answered(super().running())

    def done(self) -> bool:
        return self._answered(super().done())

    def cancel(self) -> bool:
        return self._answered(super().cancel())

    def _answered(self, answer: bool) -> bool:
        if self._questions_left is not None:
            self._questions_left -= 1
            if self._questions_left < 0:
                self.end()
        return answer


class HandExecutor(Executor):
    """Keeps what it is given until the test works on it."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.jobs.append(Job(lambda: fn(*args, **kwargs)))
        return self.jobs[-1]
