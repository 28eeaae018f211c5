"""The record of the processor that this process runs on, read from the machine."""

from __future__ import annotations

from pathlib import Path

from tracer.target.control_groups import ROOT
from tracer.target.cores import usable_cores, xla_threads
from tracer.target.memory import usable_bytes
from tracer.target.packing import Packing
from tracer.target.record import Target

_CACHES = "sys/devices/system/cpu/cpu0/cache"
_USUAL_CACHE_BYTES = 32 << 20
_CACHE_BYTES_OF_CORE = 16 << 20
"""No processor has more for each core: the rest is the share of cores that others use."""


def host_target() -> Target:
    """Return what this processor has for this process now.

    Prices are those of the default, and not measured: see `Prices`.
    """
    cores = usable_cores()
    return Target(
        memory_bytes=usable_bytes(),
        cores=cores,
        cache_bytes=cache_bytes(cores),
        packing=host_packing(),
    )


def host_packing() -> Packing:
    """Return the parameters of packing by the threads that XLA starts here."""
    return Packing(threads=xla_threads())


def cache_bytes(cores: int, root: Path = ROOT) -> int:
    """Return the bytes of the CPU's largest cache, which loops should stay within.

    Read from the machine (Linux); 32 MiB, a usual last-level cache, where it cannot be read. A
    virtual machine tells of the whole socket's: with 480 MiB for two cores, slices as large took
    1.2 to 1.8 times as long as those for the share of two cores (a kernel product).
    """
    units = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
    sizes = []
    for file in (root / _CACHES).glob("index*/size"):
        text = file.read_text(encoding="ascii").strip()
        sizes.append(int(text[:-1]) * units[text[-1]] if text[-1] in units else int(text))
    return min(max(sizes, default=_USUAL_CACHE_BYTES), _CACHE_BYTES_OF_CORE * cores)


__all__ = ["cache_bytes", "host_packing", "host_target"]
