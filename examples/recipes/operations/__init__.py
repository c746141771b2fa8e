"""Five recipes for running batchers in production; each file can be copied by itself."""

from examples.recipes.operations.async_groups import async_groups
from examples.recipes.operations.backend_call import BackendDeadlineExceeded, backend_call
from examples.recipes.operations.bounded_exporter import BoundedExporter
from examples.recipes.operations.intake import Intake, ResponseDeadlineExceeded
from examples.recipes.operations.thread_groups import thread_groups

__all__ = [
    "BackendDeadlineExceeded",
    "BoundedExporter",
    "Intake",
    "ResponseDeadlineExceeded",
    "async_groups",
    "backend_call",
    "thread_groups",
]
