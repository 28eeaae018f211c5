"""How many bytes the host's memory has, and how many are free."""

from __future__ import annotations

import os


def free_host_bytes() -> int:
    """Return the smaller of the machine's available memory and what its control group leaves."""
    available = _meminfo().get("MemAvailable")
    if available is None:
        available = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    candidates = [available]
    for limit, usage, statistics, cache in _CONTROL_GROUPS:
        allowed, used = _read_number(limit), _read_number(usage)
        if allowed is not None and used is not None:
            reclaimable = _read_table(statistics).get(cache, 0)
            candidates.append(max(0, allowed - used + reclaimable))
    return min(candidates)


def host_bytes() -> int:
    """Return the machine's memory, or the limit of its control group where that is less."""
    installed = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limits = (_read_number(limit) for limit, *_ in _CONTROL_GROUPS)
    return min([installed, *(limit for limit in limits if limit is not None)])


# Version 2 first, then version 1. Inactive file pages are counted as used but given back on demand.
_CONTROL_GROUPS = (
    (
        "/sys/fs/cgroup/memory.max",
        "/sys/fs/cgroup/memory.current",
        "/sys/fs/cgroup/memory.stat",
        "inactive_file",
    ),
    (
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes",
        "/sys/fs/cgroup/memory/memory.stat",
        "total_inactive_file",
    ),
)


def _lines(path: str) -> list[list[str]]:
    if not os.path.exists(path):
        return []
    with open(path, encoding="ascii") as file:
        return [line.split() for line in file]


def _read_number(path: str) -> int | None:
    lines = _lines(path)
    # A group without a limit says "max".
    return int(lines[0][0]) if lines and lines[0][0].isdigit() else None


def _read_table(path: str) -> dict[str, int]:
    return {words[0]: int(words[1]) for words in _lines(path)}


def _meminfo() -> dict[str, int]:
    return {words[0].rstrip(":"): 1024 * int(words[1]) for words in _lines("/proc/meminfo")}
