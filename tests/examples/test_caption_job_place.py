"""Where state and lock may lie: real tables of mounts, and real mounts in a namespace of their own."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import pytest
from caption_runs import COMMAND, ENVIRONMENT, ROOT, Place, place

from examples.recipes.caption_qc.job import place as job_place
from examples.recipes.caption_qc.job.errors import Exit, JobError
from examples.recipes.caption_qc.job.place import network_type, require_local

if TYPE_CHECKING:
    from pathlib import Path

# As they stand in /proc/self/mountinfo of such machines: names and options are made up, the form is the kernel's.
AUTOFS = """\
25 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw,errors=remount-ro
310 25 0:47 / /net rw,relatime shared:150 - autofs systemd-1 rw,fd=51,pgrp=1,timeout=0,minproto=5,maxproto=5,direct
312 310 0:49 / /net rw,relatime shared:152 - nfs4 filer:/captions rw,vers=4.2,hard,proto=tcp,addr=192.0.2.7
"""
CONTAINER = """\
712 590 0:98 / / rw,relatime master:263 - overlay overlay rw,lowerdir=/l/A:/l/B,upperdir=/u/diff,workdir=/u/work
713 712 0:101 / /proc rw,nosuid,nodev,noexec,relatime - proc proc rw
714 712 0:102 / /dev rw,nosuid - tmpfs tmpfs rw,size=65536k,mode=755,inode64
720 712 0:55 /exports/captions /captions ro,relatime - nfs filer:/exports/captions rw,vers=3,addr=192.0.2.7
721 712 8:17 /caption-qc /state rw,relatime - xfs /dev/sdb1 rw,attr2,inode64,logbufs=8,noquota
722 712 0:60 / /share rw,relatime - cifs //filer/share rw,vers=3.1.1,cache=strict,username=qc
723 712 0:61 /run.lock /locks/run.lock rw,relatime - ceph 192.0.2.8:6789:/ rw,name=admin,secret=<hidden>,acl
"""
DESKTOP = """\
29 1 0:26 /root / rw,noatime shared:1 - btrfs /dev/nvme0n1p2 rw,ssd,space_cache=v2,subvolid=256,subvol=/root
98 29 0:52 / /mnt/windows rw,relatime shared:60 - fuseblk /dev/nvme0n1p4 rw,user_id=0,group_id=0,blksize=4096
99 29 0:53 / /mnt/s3 rw,nosuid,nodev shared:61 - fuse.s3fs s3fs rw,user_id=0,group_id=0
100 29 0:54 / /mnt/host rw,relatime shared:62 - virtiofs share rw
101 29 0:55 / /mnt/wsl rw,noatime shared:63 - 9p drvfs rw,dirsync,aname=drvfs;path=C:\\134;uid=1000,trans=fd
102 29 0:56 / /mnt/a\\011b\\134c rw shared:64 - nfs4 filer:/odd rw
"""
ODD = """
nonsense
25 1 8:1 / / rw - ext4 /dev/sda1 rw
26 25 0:9 / /mnt/a\x0b\x85\u2028b rw - nfs4 filer:/x rw
"""


@pytest.mark.parametrize(
    ("mounts", "path", "found"),
    [
        (AUTOFS, "/var/lib/caption-qc", None),
        (AUTOFS, "/net/caption-qc", "nfs4"),
        (CONTAINER, "/tmp/state", None),  # noqa: S108 - a path in a table of mounts
        (CONTAINER, "/state/captions", None),
        (CONTAINER, "/captions/state", "nfs"),
        (CONTAINER, "/share", "cifs"),
        (CONTAINER, "/locks/run.lock", "ceph"),
        (CONTAINER, "/locks/other.lock", None),
        (DESKTOP, "/home/qc/state", None),
        (DESKTOP, "/mnt/windows/state", None),
        (DESKTOP, "/mnt/s3/state", "fuse.s3fs"),
        (DESKTOP, "/mnt/host/state", "virtiofs"),
        (DESKTOP, "/mnt/wsl/c/state", "9p"),
        (DESKTOP, "/mnt/a\tb\\c/state", "nfs4"),
        ("", "/anything", None),
        (ODD, "/anything", None),
        (ODD, "/mnt/a\x0b\x85\u2028b/state", "nfs4"),
    ],
)
def test_what_may_be_another_machines_disk_is_told_apart(mounts: str, path: str, found: str | None) -> None:
    """By the deepest mount, the later of two at one point, a mount of a single file too; odd lines do no harm."""
    assert network_type(PurePosixPath(path), mounts) == found


def test_a_place_on_a_network_is_refused_with_the_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit 78, one line that says the type and what to do; reached through a link too."""
    nas = tmp_path / "nas"
    nas.mkdir()
    (tmp_path / "link").symlink_to(nas)
    table = tmp_path / "mountinfo"
    table.write_text(f"25 1 8:1 / / rw - ext4 /dev/sda1 rw\n40 25 0:30 / {nas} rw - nfs4 filer:/x rw\n")
    monkeypatch.setattr(job_place, "_MOUNTINFO", table)
    for path in (nas, nas / "not" / "there" / "yet", tmp_path / "link" / "state"):
        with pytest.raises(JobError, match=r"network file system \(nfs4\); .*--state.*--lock") as error:
            require_local(path)
        assert error.value.code == Exit.BAD_CONFIG
    require_local(tmp_path / "local")
    table.unlink()
    require_local(nas)


# Real mounts

UNSHARE = ["unshare", "--mount", "--propagation", "private"]


def in_a_namespace(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a shell script in a mount namespace of its own."""
    return subprocess.run(
        [*UNSHARE, "sh", "-euc", script, "sh", *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=ENVIRONMENT,
        check=False,
    )


def able() -> bool:
    """Say whether this machine lets us mount anything."""
    if shutil.which("unshare") is None:
        return False
    mount = [*UNSHARE, "mount", "-t", "tmpfs", "none", "/mnt"]
    return subprocess.run(mount, capture_output=True, check=False).returncode == 0


needs_mounts = pytest.mark.skipif(not able(), reason="nothing can be mounted here")


@pytest.fixture
def here(tmp_path: Path) -> Place:
    return place(tmp_path)


@needs_mounts
def test_local_mounts_of_all_kinds_are_taken(here: Place) -> None:
    """State on a tmpfs and on an overlay, in the kernel's own words."""
    here.fill(1)
    script = """
        mkdir "$1/memory"; mount -t tmpfs none "$1/memory"
        mkdir "$1/memory/up" "$1/memory/work" "$1/layers"
        mount -t overlay -o "lowerdir=$1/queue,upperdir=$1/memory/up,workdir=$1/memory/work" none "$1/layers" || exit 99
        folder=$1; shift
        "$@" "$folder/queue" --settle 0 --state "$folder/memory/state" &&
        "$@" "$folder/queue" --settle 0 --state "$folder/layers/state"
    """
    done = in_a_namespace(script, str(here.queue.parent), *COMMAND, "run")
    if done.returncode == 99:
        pytest.skip("there are no overlays here")
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("checked 1 of 1") == 2


def test_reports_may_lie_on_a_network_and_the_state_may_not(here: Place) -> None:
    """Real runs that read a table in which one folder is a network's: --state or --lock there is 78, --out is not."""
    here.fill(1)
    nas = here.queue.parent / "nas"
    nas.mkdir()
    table = here.queue.parent / "mountinfo"
    table.write_text(f"25 1 8:1 / / rw - ext4 /dev/sda1 rw\n40 25 0:30 / {nas} rw - nfs4 filer:/x rw\n")
    program = f"""
import sys
from pathlib import Path
from examples.recipes.caption_qc.cli import main
from examples.recipes.caption_qc.job import place
from examples.recipes.caption_qc.job.drain import Drain
place._MOUNTINFO = Path({str(table)!r})
if __name__ == "__main__":  # Its workers import it.
    sys.exit(main(sys.argv[1:], Drain()))
"""
    (here.queue.parent / "run.py").write_text(program)

    def run(*more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [
                sys.executable,
                str(here.queue.parent / "run.py"),
                "run",
                str(here.queue),
                "--settle",
                "0",
                *more,
            ],
            capture_output=True,
            text=True,
            cwd=ROOT,
            env=ENVIRONMENT,
            check=False,
        )

    local = str(here.state)
    for refused in (["--state", str(nas / "state")], ["--state", local, "--lock", str(nas / "run.lock")]):
        done = run(*refused)
        assert (done.returncode, done.stdout) == (Exit.BAD_CONFIG, "")
        assert done.stderr.startswith("caption_qc: ")
        assert done.stderr.endswith(
            "keep the state on a local disk with --state (and the lock with --lock)\n"
        )
    assert list(nas.iterdir()) == []

    done = run(
        "--state", local, "--out", str(nas / "out"), "--metrics-file", str(nas / "textfile" / "qc.prom")
    )
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in nas.iterdir()) == ["out", "textfile"]
    assert (nas / "out" / "dashboard.html").exists()
