"""How much memory this process may use, and how much of it is free."""

from __future__ import annotations

import os
import resource
from pathlib import Path

from tracer.target.control_groups import ROOT, Group, groups_of

_CLIENT_ADDRESSES = 530 << 20
_THREAD_ADDRESSES = 210 << 20
"""Measured with jaxlib 0.10.2: 776 MiB with one thread, and 940 suffice with two, 856 do not."""
_INACTIVE = ("inactive_file", "total_inactive_file")
"""File pages that count as used and are given back on demand; in versions 2 and 1."""


def usable_bytes(root: Path = ROOT) -> int:
    """Return the machine's memory, or the least limit of this process' control groups."""
    installed = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limits = (_limit(group) for group in groups_of("memory", root))
    return min([installed, *(limit for limit in limits if limit is not None)])


def free_bytes(root: Path = ROOT) -> int:
    """Return the least of the machine's available memory and what limits of this process leave.

    Of its control groups, and of its address space (`ulimit -v`).
    """
    available = _meminfo(root)
    if available is None:
        available = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    left = (_left(group) for group in groups_of("memory", root))
    found = (available, address_space_left(root), *left)
    return min(nbytes for nbytes in found if nbytes is not None)


def address_space_left(root: Path = ROOT) -> int | None:
    """Return what `ulimit -v` (RLIMIT_AS) leaves to this process; None without one."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    file = root / "proc/self/statm"
    if limit == resource.RLIM_INFINITY:
        return None
    pages = int(file.read_text(encoding="ascii").split()[0]) if file.is_file() else 0
    return max(0, limit - pages * resource.getpagesize())


def xla_address_space(threads: int) -> int:
    """Return about how much address space XLA's CPU client takes: stacks and heaps of threads."""
    return _CLIENT_ADDRESSES + threads * _THREAD_ADDRESSES


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


__all__ = ["address_space_left", "free_bytes", "usable_bytes", "xla_address_space"]
