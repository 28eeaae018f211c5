"""How many bytes are free on a device."""

from __future__ import annotations

import os
import socket
from collections import Counter

from tracer.lowering.agreement import exchange
from tracer.lowering.backend import default_device
from tracer.lowering.device import Device
from tracer.lowering.failures import absent
from tracer.lowering.hardware import target_of
from tracer.lowering.mesh import Mesh


def free_bytes(device: Device | None = None) -> int:
    """Return the bytes that are free on a device now.

    Notes
    -----
    Of a GPU or TPU what its allocator may still hand out. On CPU the smaller of the machine's
    available memory and what is left of the limit of the control group (a container's limit),
    shared evenly by the CPU devices of the process. Of a device that is not here all its memory.

    Raises
    ------
    DeviceError
        The device is another process'.
    """
    place = default_device() if device is None else device
    if place.is_present and not place.is_local:
        raise absent(place)
    if not place.is_present:
        return target_of(place).memory_bytes
    stats = place.raw.memory_stats()
    if stats:
        return int(stats["bytes_limit"]) - int(stats["bytes_in_use"])
    return _free_host_bytes() // len(place.client.local_devices())


def least_free_bytes(mesh: Mesh, purpose: str) -> int:
    """Return the bytes that are free on the device of a mesh that has least, now.

    Processes agree on it; CPU devices of several processes of one machine share its memory.

    Parameters
    ----------
    mesh : Mesh
        All processes that have devices of it call this.
    purpose : str
        What for; they have to say the same.

    Raises
    ------
    DeviceError
        No device of the mesh is this process'; or another process does something else.
    """
    if not mesh.is_present:
        return free_bytes(mesh.flat[0])
    if not mesh.local:
        raise absent(mesh)
    memory = socket.gethostname() if mesh.platform == "cpu" else ""
    said = exchange(
        f"{memory} {min(map(free_bytes, mesh.local))}", purpose=purpose, among=mesh.processes
    )
    found = [(machine, int(count)) for machine, count in (each.rsplit(" ", 1) for each in said)]
    sharers = Counter(machine for machine, _ in found if machine)
    return min(count // max(1, sharers[machine]) for machine, count in found)


def _free_host_bytes() -> int:
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
