"""What a device can do, for the planner's time model: read from the machine or from data sheets."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

from tracer.lowering.devices.absent import TARGETS, Target
from tracer.lowering.devices.device import Device
from tracer.lowering.devices.host_memory import host_bytes
from tracer.lowering.devices.registry import find_device

_CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
_USUAL_CACHE_BYTES = 32 << 20
_CACHE_BYTES_OF_CORE = 16 << 20
"""No processor has more for each core: the rest is the share of cores that others use."""
_USUAL = {"gpu": "a100", "tpu": "v5e"}
"""Stands for a device of a platform whose kind is not among the targets."""
_LAUNCH_SECONDS = {"gpu": 5e-6, "tpu": 1e-6}
"""To start a kernel: the host launches a GPU's one by one, a TPU runs its program on its own."""


def machine_facts(device: Device | str | None = None) -> dict[str, Any]:
    """Return what a device can do: the fields of `optimizer.model.speed.Machine` that are known.

    Parameters
    ----------
    device : Device or str, optional
        The default device when None.

    Returns
    -------
    dict
        Of a CPU its cores, its largest cache and its memory, as the machine says them. Of a GPU or
        TPU its memory and rates by the maker's data sheet and the memory close to its arithmetic
        (second-level cache; a TPU core's vector memory): nothing there clears pages, packs
        operands, wakes cores one by one or leaves a row to one of them.
    """
    place = find_device(device)
    if place.platform == "cpu":
        return {
            "cores": core_count(),
            "cache_bytes": cache_bytes(),
            "memory_bytes": host_bytes(),
        }
    target = target_of(place)
    return {
        "cores": 1,
        "cache_bytes": target.cache_bytes,
        "memory_bytes": target.memory_bytes,
        "product_rate": target.product_rate,
        "vector_rate": target.vector_rate,
        "product_element_seconds": 0.0,
        "step_seconds": 0.0,
        "packing_rate": math.inf,
        "cache_rate": 4 * target.memory_rate,
        "memory_rate": target.memory_rate,
        "fresh_rate": target.memory_rate,
        "kernel_seconds": _LAUNCH_SECONDS[place.platform],
    }


def storage_facts(device: Device) -> dict[str, Any]:
    """Return how a device's compiler stores things: the fields of `Backend` (optimizer/model)."""
    if device.platform == "gpu":
        return {"packs": False, "fuses_reductions": True, "cores": target_of(device).description[0]}
    return {"packs": device.platform == "cpu"}


def target_of(device: Device) -> Target:
    """Return the numbers of a GPU or TPU, found by what its maker calls it."""
    if device.target is not None:
        return device.target
    known = TARGETS[device.platform]
    kind = device.kind.lower().replace(" ", "").replace("lite", "e")
    return next(
        (target for name, target in known.items() if name in kind), known[_USUAL[device.platform]]
    )


def cache_bytes() -> int:
    """Return the bytes of the CPU's largest cache, which loops should stay within.

    Read from the machine (Linux); 32 MiB, a usual last-level cache, where it cannot be read. A
    virtual machine tells of the whole socket's: with 480 MiB for two cores, slices as large took
    1.2 to 1.8 times as long as those for the share of two cores (a kernel product).
    """
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    sizes = []
    for file in _CACHES.glob("index*/size"):
        text = file.read_text(encoding="ascii").strip()
        sizes.append(int(text[:-1]) * units[text[-1]] if text[-1] in units else int(text))
    return min(max(sizes, default=_USUAL_CACHE_BYTES), _CACHE_BYTES_OF_CORE * core_count())


def core_count() -> int:
    """Return how many cores this process may use; XLA's CPU client starts as many threads."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
