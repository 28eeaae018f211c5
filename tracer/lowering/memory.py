"""What a compiled program needs in bytes: XLA's count, and a model of what XLA does not count."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tracer.lowering.scratch import Hidden, hidden_memory

_UNCOUNTED_ON = {"cpu"}
"""Platforms whose peak in XLA's count holds neither temporaries nor the scratch of kernels."""


@dataclass(frozen=True)
class MemoryStats:
    """Bytes that a program needs on its device.

    Attributes
    ----------
    argument_bytes : int
        Inputs, also unused ones.
    output_bytes : int
        Outputs, also those that take over a donated input.
    alias_bytes : int
        Outputs that take over a donated input.
    temporary_bytes : int
        XLA's block of temporaries.
    scratch_bytes : int
        Modelled: memory that libraries allocate inside of an instruction, in no count of XLA's.
    product_bytes : int
        Of these, what one product takes at most, in a block of its own in every run.
    peak_bytes : int
        The most that is alive at one time, all of the above included, and those constants that
        are arrays of their own (XLA puts others into the code of the kernel that uses them).
    """

    argument_bytes: int
    output_bytes: int
    alias_bytes: int
    temporary_bytes: int
    scratch_bytes: int
    product_bytes: int
    peak_bytes: int


def measure(executable: Any, platform: str) -> MemoryStats:
    """Return the memory statistics of a loaded XLA executable."""
    stats = executable.get_compiled_memory_stats()
    peak, hidden = 0, Hidden(0, 0)
    if platform in _UNCOUNTED_ON:
        hidden = hidden_memory(executable.hlo_modules()[0].to_string())
        peak = stats.temp_size_in_bytes
    peak += stats.peak_memory_in_bytes + hidden.scratch
    return MemoryStats(
        argument_bytes=stats.argument_size_in_bytes,
        output_bytes=stats.output_size_in_bytes,
        alias_bytes=stats.alias_size_in_bytes,
        temporary_bytes=stats.temp_size_in_bytes,
        scratch_bytes=hidden.scratch,
        product_bytes=hidden.products,
        peak_bytes=peak,
    )
