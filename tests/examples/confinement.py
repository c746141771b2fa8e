"""A command where its unit or pod would put it: the root read-only, no rights, few places to write."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from caption_runs import ENVIRONMENT, GOOD, ROOT, Place, place

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

USER: Final = 10001
STRANGER: Final = ["--reuid", str(USER), "--regid", str(USER), "--clear-groups"]
WITHOUT_RIGHTS: Final = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]
# Each writable folder is a mount of its own before the root becomes read-only; the queue's is read-only too.
_SCRIPT: Final = """
mount --make-rprivate / || exit 99
mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" || exit 99
shift
while [ "$1" != -- ]; do mount --bind "$1" "$1" || exit 99; shift; done
shift
mount -o remount,ro,bind / || exit 99
exec "$@"
"""
_NAMESPACE: Final = ["unshare", "--mount", "sh", "-c", _SCRIPT, "sh"]


@contextlib.contextmanager
def open_place() -> Iterator[Place]:
    """Make a queue with one settled file, in a folder that every user may enter: pytest's are their owner's alone."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        found = place(Path(folder))
        (found.queue / "reel.scc").write_bytes(GOOD)
        os.utime(found.queue / "reel.scc", (0, 0))
        yield found


def can_confine() -> bool:
    """Say whether this machine lets us do so."""
    return shutil.which("unshare") is not None and confined(["true"], ROOT, []).returncode == 0


def confined(
    command: Sequence[str],
    queue: Path,
    writable: Sequence[Path],
    environment: Mapping[str, str] = ENVIRONMENT,
) -> subprocess.CompletedProcess[str]:
    """Run `command` without rights where only `writable` can be written; as a user of no account if that goes."""
    stranger = _strangers_can_run(command[0], queue)
    for folder in writable:
        folder.mkdir(parents=True, exist_ok=True)
        if stranger:
            os.chown(folder, USER, USER)
    user = [*WITHOUT_RIGHTS, *(STRANGER if stranger else [])]
    return subprocess.run(
        [*_NAMESPACE, str(queue), *map(str, writable), "--", *user, *command],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=dict(environment),
        check=False,
    )


def _strangers_can_run(program: str, folder: Path) -> bool:
    """Say whether a user of no account gets at the interpreter and the folder: what is below a home may be its owner's.

    By way of a shell: what `setpriv` itself starts is looked up with the rights that it gives up.
    """
    tried = [*WITHOUT_RIGHTS, *STRANGER, "sh", "-c", 'cd "$1" && exec "$0" --version', program, str(folder)]
    return subprocess.run(tried, capture_output=True, cwd=ROOT, check=False).returncode == 0
