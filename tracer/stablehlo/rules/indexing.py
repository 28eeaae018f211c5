"""Rules of slices at computed places, and gather."""

from __future__ import annotations

import numpy as np

from tracer import ops
from tracer.array.array import Array
from tracer.array.dispatch import apply
from tracer.stablehlo.indices import alike, wide
from tracer.stablehlo.table import Instruction, rule

_INT64 = np.dtype("int64")


@rule("stablehlo.dynamic_slice")
def dynamic_slice(instruction: Instruction, x: Array, *starts: Array) -> Array:
    """Take a window at a computed place, clamped."""
    return apply(ops.dynamic_slice, x, *alike(starts), sizes=instruction.result.shape)


@rule("stablehlo.dynamic_update_slice")
def dynamic_update_slice(
    instruction: Instruction, x: Array, update: Array, *starts: Array
) -> Array:
    """Replace a window at a computed place, clamped."""
    return apply(ops.dynamic_update_slice, x, update, *alike(starts))


@rule("stablehlo.gather")
def gather(instruction: Instruction, x: Array, indices: Array) -> Array:
    """Take windows at computed places, clamped."""
    numbers = instruction.attributes["dimension_numbers"]
    return apply(
        ops.gather,
        x,
        wide(indices),
        offset_dims=numbers["offset_dims"],
        collapsed_slice_dims=numbers["collapsed_slice_dims"],
        start_index_map=numbers["start_index_map"],
        index_vector_dim=numbers["index_vector_dim"],
        slice_sizes=instruction.attributes["slice_sizes"],
        operand_batching_dims=numbers["operand_batching_dims"],
        start_indices_batching_dims=numbers["start_indices_batching_dims"],
    )
