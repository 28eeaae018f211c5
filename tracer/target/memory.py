"""How much memory this process may use, and how much of it is free."""

from __future__ import annotations

import os
from pathlib import Path

from tracer.target.control_groups import ROOT, Group, groups_of

_INACTIVE = ("inactive_file", "total_inactive_file")
"""File pages that count as used and are given back on demand; in versions 2 and 1."""


def usable_bytes(root: Path = ROOT) -> int:
    """Return the machine's memory, or the least limit of this process' control groups."""
    installed = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limits = (_limit(group) for group in groups_of("memory", root))
    return min([installed, *(limit for limit in limits if limit is not None)])


def free_bytes(root: Path = ROOT) -> int:
    """Return the least of the machine's available memory and what its control groups leave."""
    available = _meminfo(root)
    if available is None:
        available = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    left = (_left(group) for group in groups_of("memory", root))
    return min([available, *(nbytes for nbytes in left if nbytes is not None)])


def _limit(group: Group) -> int | None:
    return group.number("memory.max" if group.is_unified else "memory.limit_in_bytes")


def _left(group: Group) -> int | None:
    allowed = _limit(group)
    used = group.number("memory.current" if group.is_unified else "memory.usage_in_bytes")
    if allowed is None or used is None:
        return None
    words = group.words("memory.stat")
    statistics = dict(zip(words[::2], words[1::2], strict=True))
    reclaimable = int(statistics.get(_INACTIVE[not group.is_unified], 0))
    return max(0, allowed - used + reclaimable)


def _meminfo(root: Path) -> int | None:
    """Return MemAvailable, in bytes; None where the system does not say it."""
    file = root / "proc/meminfo"
    lines = file.read_text(encoding="ascii").splitlines() if file.is_file() else []
    said = (line.split()[1] for line in lines if line.startswith("MemAvailable:"))
    return next((1024 * int(kilobytes) for kilobytes in said), None)


__all__ = ["free_bytes", "usable_bytes"]
