"""How many cores this process may use, and how many threads XLA starts. Nobody else counts."""

from __future__ import annotations

import os
from pathlib import Path

from tracer.target.control_groups import ROOT, Group, groups_of

_PERIOD = 100_000
"""Microseconds: the kernel's period where a group does not say its own."""


def usable_cores(root: Path = ROOT) -> int:
    """Return how many cores this process may keep busy.

    The least of those that it may run on (affinity) and of the quotas of its control groups,
    rounded up.
    """
    quotas = (_quota(group) for group in groups_of("cpu", root))
    return max(1, min([_affinity(), *(quota for quota in quotas if quota is not None)]))


def xla_threads() -> int:
    """Return how many threads XLA's CPU client starts: the cores of the affinity, or NPROC.

    It knows no quota (`DefaultThreadPoolSize` in xla/pjrt/utils.cc).
    """
    said = os.environ.get("NPROC", "")
    return int(said) if said.isdigit() and int(said) > 0 else _affinity()


def _affinity() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _quota(group: Group) -> int | None:
    """Return the cores that a group may keep busy, rounded up; None without a limit."""
    if group.is_unified:
        quota, period = ([*group.words("cpu.max"), "max", str(_PERIOD)])[:2]
        if not quota.isdigit():
            return None
        microseconds, each = int(quota), int(period) if period.isdigit() else _PERIOD
    else:
        said = group.number("cpu.cfs_quota_us")
        if said is None or said <= 0:  # -1: none
            return None
        microseconds, each = said, group.number("cpu.cfs_period_us") or _PERIOD
    return -(-microseconds // each)


__all__ = ["usable_cores", "xla_threads"]
