"""The command: `python -m examples.recipes.caption_qc`."""

import atexit
import sys

from examples.recipes.caption_qc.job.drain import Drain, ignore_signals

if __name__ == "__main__":
    # First of all: a SIGTERM while the rest is imported is a drain too.
    drain = Drain()
    drain.install()
    # Registered first, so called last, when threads and workers have ended: for the rest of the interpreter's end
    # a signal would take the place of the exit code.
    atexit.register(ignore_signals)

    from examples.recipes.caption_qc.job.streams import mend_streams

    # And before any other file is opened.
    mend_streams()

    from examples.recipes.caption_qc.cli import main

    sys.exit(main(sys.argv[1:], drain))
