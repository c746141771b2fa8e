"""Virtual time on asyncio, for the tests: the library's own."""

from async_batcher.testing import VirtualEventLoop, run_virtual, settle

__all__ = ["VirtualEventLoop", "run_virtual", "settle"]
