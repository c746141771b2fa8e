"""What tests put into the processes of a run: Python imports a file of this name by itself.

So the product needs no hook for its tests. In a worker bad files do their worst, in the command steps are
counted; `caption_storm.environment` says which of them, and puts this folder on the path.
"""

import os
import sys

if "--multiprocessing-fork" in sys.orig_argv:
    if "CAPTION_BAD_FILES" in os.environ:
        import caption_bad_files

        caption_bad_files.install()
elif "-m" in sys.orig_argv and "CAPTION_STEPS" in os.environ:
    import caption_steps

    caption_steps.install(os.environ["CAPTION_STEPS"])
