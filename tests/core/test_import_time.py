"""What `import async_batcher` brings along, and what only the first batcher does."""

from programs import run_python

PROGRAM = """
import sys
import anyio, attrs
before = set(sys.modules)
import async_batcher
brought = {name.partition(".")[0] for name in set(sys.modules) - before}
print(sorted(brought & {"asyncio", "trio", "opentelemetry", "importlib_metadata"}))
built = async_batcher.AsyncBatcher.from_callable(lambda batch: batch)
print("opentelemetry" in sys.modules, "opentelemetry.sdk" in sys.modules)
"""


def test_import_brings_no_event_loop_and_no_telemetry() -> None:
    """Either takes longer than all the rest together; the first batcher that is built loads the API, and no SDK."""
    assert run_python("-c", PROGRAM) == (0, "[]\nTrue False\n", "")
