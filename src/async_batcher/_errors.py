"""Every exception of the library.

    BatcherError
    ├── QueueFull           not accepted: no room, and the batcher does not wait for it
    ├── EnqueueTimeout      not accepted: no room within `enqueue_timeout`      (a TimeoutError)
    ├── TooManyGroups       not accepted: one more key would pass `max_groups`, and no key is idle
    ├── ItemTooHeavy        not accepted: heavier than any batch may be         (a ValueError)
    ├── ItemExpired         too old before it got into a batch                  (a TimeoutError)
    ├── BatcherStopped      the batcher is stopping or stopped                  (a RuntimeError)
    ├── ItemWithdrawn       awaited a submission that was withdrawn
    ├── ResultMismatch      the processor's result is not one value an item     (a TypeError)
    ├── BatchCancelled      the processor cancelled itself
    └── BatchAborted        the processor raised KeyboardInterrupt or SystemExit

What a processor raises reaches its callers as it is. A misuse (a second event loop, a batcher that waits for
itself, a second task that awaits one submission) is a plain `RuntimeError`; a bad option is a `ValueError` or
a `TypeError` when the batcher is built.
"""

_NEVER_RAN = "the batcher has been stopped; the processor never got this item, so sending it again is safe"
_OUTCOME_UNKNOWN = (
    "the batcher was stopped by force while this item was being processed, so its outcome is unknown: "
    "look before you send it again, unless doing it twice is harmless"
)


class BatcherError(Exception):
    """Base of everything that this library raises of its own."""


class QueueFull(BatcherError):
    """The queue has no room. The item was not accepted; the processor never sees it."""


class EnqueueTimeout(BatcherError, TimeoutError):
    """No room came free within `enqueue_timeout`. The item was not accepted; the processor never sees it."""


class TooManyGroups(BatcherError):
    """One more key would pass `max_groups`, and none is idle. The item was not accepted, and is never processed."""


class ItemTooHeavy(BatcherError, ValueError):
    """The item weighs more than `max_batch_weight`. It was not accepted; the processor never sees it."""


class ItemExpired(BatcherError, TimeoutError):
    """The item was not in a batch within `expires_after`. The processor never saw it and never will."""


class BatcherStopped(BatcherError, RuntimeError):
    """The batcher is stopping or has stopped.

    Attributes:
        withdrawn: True where the processor never got the item, so that sending it again is safe;
            false where its batch was running, so that the outcome is unknown.
    """

    def __init__(self, message: str | None = None, *, withdrawn: bool = True) -> None:
        super().__init__(message or (_NEVER_RAN if withdrawn else _OUTCOME_UNKNOWN))
        self.withdrawn = withdrawn


class ItemWithdrawn(BatcherError):
    """The submission was withdrawn before it reached the processor: it has no result."""


class ResultMismatch(BatcherError, TypeError):
    """The processor returned something other than a sequence with one result for each item."""


class BatchCancelled(BatcherError):
    """The batch was cancelled, but not by its callers: the outcome of its items is unknown."""


class BatchAborted(BatcherError):
    """The processor raised `KeyboardInterrupt` or `SystemExit`, which goes on through the event loop."""


# As one imports it: in tracebacks, in pickles, and to telemetry.
for _error in [value for value in vars().values() if isinstance(value, type)]:
    _error.__module__ = "async_batcher"
del _error
