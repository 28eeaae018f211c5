"""What a compiled program needs in bytes: XLA's count, and a model of what XLA does not count."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Self

from tracer.lowering.memory.scratch import Hidden, hidden_memory

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


@dataclass(frozen=True)
class Counts:
    """XLA's own count of a compiled program's bytes, without the buffer assignment.

    XLA writes out the whole assignment whenever it is asked for these numbers, so they are read
    once, with the assignment, and only they are kept.
    """

    argument_bytes: int
    output_bytes: int
    alias_bytes: int
    temporary_bytes: int
    peak_bytes: int

    @classmethod
    def of(cls, stats: Any) -> Self:
        """Take the numbers from an `xla_client.CompiledMemoryStats`."""
        return cls(
            argument_bytes=stats.argument_size_in_bytes,
            output_bytes=stats.output_size_in_bytes,
            alias_bytes=stats.alias_size_in_bytes,
            temporary_bytes=stats.temp_size_in_bytes,
            peak_bytes=stats.peak_memory_in_bytes,
        )

    def without_inputs(self, sizes: Iterable[int]) -> Self:
        """Leave inputs out that are only results' memory, of some bytes each."""
        nbytes = sum(sizes)
        return replace(
            self,
            argument_bytes=self.argument_bytes - nbytes,
            alias_bytes=self.alias_bytes - nbytes,
        )


def measure(executable: Any, counts: Counts, platform: str) -> MemoryStats:
    """Return the memory statistics of a loaded XLA executable, of which XLA's count is known."""
    peak, hidden = counts.peak_bytes, Hidden(0, 0)
    if platform in _UNCOUNTED_ON:
        hidden = hidden_memory(executable.hlo_modules()[0].to_string())
        peak += counts.temporary_bytes + hidden.scratch
    return MemoryStats(
        argument_bytes=counts.argument_bytes,
        output_bytes=counts.output_bytes,
        alias_bytes=counts.alias_bytes,
        temporary_bytes=counts.temporary_bytes,
        scratch_bytes=hidden.scratch,
        product_bytes=hidden.products,
        peak_bytes=peak,
    )
