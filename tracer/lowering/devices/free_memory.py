"""How many bytes are free on a device."""

from __future__ import annotations

import socket
from collections import Counter

from tracer import target
from tracer.lowering.devices.agreement import exchange
from tracer.lowering.devices.device import Device
from tracer.lowering.devices.hardware import target_of
from tracer.lowering.devices.mesh import Mesh
from tracer.lowering.devices.registry import default_device
from tracer.lowering.run.failures import absent


def free_bytes(device: Device | None = None) -> int:
    """Return the bytes that are free on a device now.

    Notes
    -----
    For a GPU or TPU, what its allocator may still hand out. On CPU, the smaller of the machine's
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
        return int(target_of(place).memory_bytes)
    stats = place.raw.memory_stats()
    if stats:
        return int(stats["bytes_limit"]) - int(stats["bytes_in_use"])
    return target.free_bytes() // len(place.client.local_devices())


def least_free_bytes(mesh: Mesh, purpose: str) -> int:
    """Return the bytes that are free now on the mesh's device that has least.

    Processes agree on it; CPU devices of several processes of one machine share its memory.

    Parameters
    ----------
    mesh : Mesh
        All processes that have devices of it call this.
    purpose : str
        What for; it must be the same in all.

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
