"""The record of the processor that this process runs on, read from the machine."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np

from tracer.target.control_groups import ROOT
from tracer.target.cores import usable_cores, xla_threads
from tracer.target.memory import usable_bytes
from tracer.target.packing import Packing
from tracer.target.processor import features_of, said_of_processor
from tracer.target.products import EigenTimes
from tracer.target.record import Kernels, Target
from tracer.target.spectra import Spectra
from tracer.target.transforms import Transforms

_CACHES = "sys/devices/system/cpu/cpu0/cache"
_USUAL_CACHE_BYTES = 32 << 20
_CACHE_BYTES_OF_CORE = 16 << 20
"""No processor has more for each core: the rest is the share of cores that others use."""
_ZEN_4 = {"vendor_id": "AuthenticAMD", "cpu family": "25"}
"""Of Zen 3 too, which has no AVX-512."""
_TILES_OF_INTEL = "amx_tile"
"""Of Intel's servers from Sapphire Rapids on. Eigen's products were not timed on others."""
_SUMMED_WITH_TILES = 24
"""Products of pairs of 16 x 16 took 0.3 to 0.7 of the time as sums there, of 24 x 24 0.4 to 0.7."""
_TILES_OF_BFLOAT16 = "amx_bf16"
_WIDE_VECTORS = {"X86_V4", "AVX512_SKX"}
"""NumPy's names for the instructions that its sorts of 32 and 64 bits use where it finds them."""
_STEPS_FOR_SLOW_SORTS = 14


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
        kernels=host_kernels(),
        transforms=host_transforms(),
        spectra=Spectra() if xla_threads() > 1 else None,
    )


def host_transforms(root: Path = ROOT) -> Transforms:
    """Return from which sizes on SciPy finds Fourier transforms.

    Along the last axes it took 0.8 of XLA's time on a Zen 4, 1.3 to 1.7 times as long on Intel's.
    """
    is_intel = _TILES_OF_INTEL in features_of(said_of_processor(root))
    return Transforms(elements=math.inf) if is_intel else Transforms()


def host_kernels(root: Path = ROOT) -> Kernels:
    """Return which forms of an op run well here.

    NumPy's sorts with AVX-512 store compressed vectors, which Zen 4 does by microcode: 36 ns an
    element of 1,000,000 float32 where its sorts with AVX2 take 5.5
    (https://github.com/numpy/x86-simd-sort/issues/6). XLA takes 68; but counting a few places is
    faster for more of them: one in 5,000,000 takes 13 ms and six 72, a sort 190.
    """
    kernels = Kernels()
    said = said_of_processor(root)
    if _TILES_OF_INTEL in features_of(said):
        kernels = replace(kernels, eigen=EigenTimes(), summed_product=_SUMMED_WITH_TILES)
    if said.items() >= _ZEN_4.items() and _WIDE_VECTORS & _vectors_of_numpy():
        return replace(kernels, counted_steps=_STEPS_FOR_SLOW_SORTS)
    return kernels


def _vectors_of_numpy() -> set[str]:
    """Return the names of the instructions that NumPy found, and was not told to leave."""
    return set(np.show_config(mode="dicts")["SIMD Extensions"].get("found", ()))


def host_packing() -> Packing:
    """Return the parameters of packing by the threads that XLA starts here."""
    as_given = ("bfloat16",) if multiplies_bfloat16() else ()
    return Packing(threads=xla_threads(), as_given=as_given)


def multiplies_bfloat16(root: Path = ROOT) -> bool:
    """Tell whether the processor has instructions for products of bfloat16 that were timed."""
    return _TILES_OF_BFLOAT16 in features_of(said_of_processor(root))


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


__all__ = [
    "cache_bytes",
    "host_kernels",
    "host_packing",
    "host_target",
    "host_transforms",
    "multiplies_bfloat16",
]
