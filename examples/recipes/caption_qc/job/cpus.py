"""How many CPUs this process may use: its affinity, and the quota of the control groups it is in."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Final

MOST_WORKERS: Final = 8


def default_workers(cgroup_root: Path = Path("/sys/fs/cgroup")) -> int:
    """Count the usable CPUs, at most `MOST_WORKERS`: checking is CPU-bound, more would only wait."""
    return max(1, min(MOST_WORKERS, len(os.sched_getaffinity(0)), *_quotas(cgroup_root)))


def _quotas(root: Path) -> list[int]:
    """List the CPU quotas of the group and of all groups above it, rounded up to whole CPUs."""
    try:
        groups = Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    quotas = []
    for line in groups:
        _, controllers, group = line.split(":", 2)
        base = root / "cpu" if "cpu" in controllers.split(",") else root
        path = base / group.lstrip("/")
        quotas += [quota for folder in (path, *path.parents) if (quota := _quota(folder)) is not None]
    return quotas


def _quota(folder: Path) -> int | None:
    """Read one group's quota: `cpu.max` of version 2, else the two files of version 1."""
    try:
        quota, period = (folder / "cpu.max").read_text(encoding="ascii").split()
    except (OSError, ValueError):
        try:
            quota = (folder / "cpu.cfs_quota_us").read_text(encoding="ascii").strip()
            period = (folder / "cpu.cfs_period_us").read_text(encoding="ascii").strip()
        except OSError:
            return None
    if quota in {"max", "-1"}:
        return None
    return max(1, math.ceil(int(quota) / int(period)))
