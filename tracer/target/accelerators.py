"""GPUs and TPUs, in numbers of data sheets: for devices that are here, and that are not."""

from __future__ import annotations

import math
from typing import Any

from tracer.target.packing import Packing
from tracer.target.record import ACCELERATOR_KERNELS, Prices, Storage, Target

_USUAL = {"gpu": "a100", "tpu": "v5e"}
"""Stands for a device of a platform whose kind is not among those below."""
_LAUNCH_SECONDS = {"gpu": 5e-6, "tpu": 1e-6}
"""To start a kernel: the host launches a GPU's one by one, a TPU runs its program on its own."""
_CACHE_SPEED = {"gpu": 1, "tpu": 4}
"""Times that the memory close to the arithmetic is faster than the device's memory.

On an H200 trips of 12 and 50 MB, which its cache would hold, took 1.3 to 3.4 times as long as those
of 1 GB (docs/devices.md): starts of kernels cost more than the cache gains.
"""
_LARGEST_TRIP = {"gpu": 1 << 30, "tpu": None}
_PASSES = 6
"""XLA's HIGHEST precision on a TPU: products of three bfloat16 parts each."""
_VECTOR_SHARE = 50
"""Operations of a TPU's matrix unit for one of its vector unit."""


def _target(
    platform: str, name: str, memory: float, cache: int, bandwidth: float,
    rates: tuple[float, float], storage: Storage, description: tuple[Any, ...],
) -> Target:  # fmt: skip
    """Return a record: nothing packs operands, clears pages or wakes cores one by one there."""
    prices = Prices(
        product_rate=rates[0],
        vector_rate=rates[1],
        product_element_seconds=0.0,
        step_seconds=0.0,
        packing_rate=math.inf,
        cache_rate=_CACHE_SPEED[platform] * bandwidth,
        memory_rate=bandwidth,
        fresh_rate=bandwidth,
        kernel_seconds=_LAUNCH_SECONDS[platform],
        short_row_seconds=0.0,
    )
    return Target(
        name=name,
        platform=platform,
        memory_bytes=int(memory * 1e9),
        cores=1,
        cache_bytes=cache << 20,
        largest_trip=_LARGEST_TRIP[platform],
        prices=prices,
        packing=Packing(widened=()),
        storage=storage,
        kernels=ACCELERATOR_KERNELS,
        reductions=None,
        scans=None,
        transforms=None,
        spectra=None,
        broadcasts=None,
        interleaving=None,
        description=description,
    )


def _gpu(
    name: str, memory: float, cache: int, bandwidth: float, flops: float, *description: Any
) -> Target:
    storage = Storage(
        packs=False,
        fuses_reductions=True,
        split_cores=description[0],
        repeats=False,
        joined=None,
        copies=None,
        fuses_vector_products=True,
    )
    rates = (flops, flops / 2)
    return _target("gpu", name, memory, cache, bandwidth, rates, storage, description)


def _tpu(
    name: str, memory: float, cache: int, bandwidth: float, bfloat16: float, topology: str
) -> Target:
    rates = (bfloat16 / _PASSES, bfloat16 / _VECTOR_SHARE)
    storage = Storage(  # Not measured.
        packs=False, repeats=False, joined=None, copies=None, fuses_vectors=False
    )
    return _target("tpu", name, memory, cache, bandwidth, rates, storage, (topology,))


# From NVIDIA's data sheets and CUDA programming guide: GB, MiB of cache, bytes/s, float32/s; cores,
# float32 units of one, KiB of shared memory of a core, threads of a core, GHz, compute capability.
_GPUS = (
    _gpu("a100", 80, 40, 2.04e12, 1.95e13, 108, 64, 164, 2048, 1.41, (8, 0)),
    _gpu("h100", 80, 50, 3.35e12, 6.7e13, 132, 128, 228, 2048, 1.98, (9, 0)),
    _gpu("h200", 141, 50, 4.8e12, 6.7e13, 132, 128, 228, 2048, 1.98, (9, 0)),
    _gpu("b200", 180, 126, 8e12, 7.5e13, 148, 128, 228, 2048, 1.96, (10, 0)),
    _gpu("l4", 24, 48, 3e11, 3.03e13, 58, 128, 100, 1536, 2.04, (8, 9)),
    _gpu("rtx4090", 24, 72, 1.01e12, 8.26e13, 128, 128, 100, 1536, 2.52, (8, 9)),
)
# From Google's documentation of each TPU, for what XLA sees as one device (on v3 and 7x half of a
# chip): GB, MiB of vector memory, bytes/s, bfloat16/s.
_TPUS = (
    _tpu("v3", 17.2, 16, 4.1e11, 6.1e13, "2x2"),
    _tpu("v4", 34.4, 32, 1.23e12, 2.75e14, "2x2x1"),
    _tpu("v5e", 17.2, 128, 8.2e11, 1.97e14, "2x2"),
    _tpu("v5p", 103, 128, 2.46e12, 4.59e14, "2x2x1"),
    _tpu("v6e", 34.4, 128, 1.64e12, 9.2e14, "2x2"),
    _tpu("tpu7x", 103, 64, 3.7e12, 1.15e15, "2x2x1"),
)
ACCELERATORS: dict[str, dict[str, Target]] = {
    "gpu": {target.name: target for target in _GPUS},
    "tpu": {target.name: target for target in _TPUS},
}
"""By platform and name."""


def accelerator(platform: str, kind: str) -> Target:
    """Return the record of a GPU or TPU by what its maker calls it; a usual one if unknown."""
    known = ACCELERATORS[platform]
    spelt = kind.lower().replace(" ", "").replace("lite", "e")
    return next(
        (target for name, target in known.items() if name in spelt), known[_USUAL[platform]]
    )


__all__ = ["ACCELERATORS", "accelerator"]
