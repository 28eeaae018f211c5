"""Rules of slices at computed places, gather and scatter."""

from __future__ import annotations

import numpy as np

from tracer import ops
from tracer.array.array import Array
from tracer.array.dispatch import apply
from tracer.stablehlo import bodies
from tracer.stablehlo.indices import alike, wide
from tracer.stablehlo.table import Instruction, rule

_INT64 = np.dtype("int64")
_COMBINERS = ("add", "multiply", "maximum", "minimum", "replace")
_BOOLEAN = {"or": "maximum", "and": "minimum", "add": "maximum", "multiply": "minimum"}
"""What logic is for truth values that are ordered."""


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


def _scatter_combiners(instruction: Instruction) -> list[str] | None:
    """Return the combiner of each operand by the names of `ops.scatter`."""
    (body,) = instruction.operation.regions
    names = bodies.combiners(body)
    if names is None:
        return None
    found = [
        _BOOLEAN.get(name, name) if type.dtype.kind == "b" else name
        for name, type in zip(names, instruction.results, strict=True)
    ]
    return found if set(found) <= set(_COMBINERS) else None


def _unknown_body(instruction: Instruction) -> str | None:
    if _scatter_combiners(instruction) is not None:
        return None
    return "with a body that does not add, multiply, replace or take the larger or smaller"


@rule("stablehlo.scatter", unless=_unknown_body)
def scatter(instruction: Instruction, *operands: Array) -> list[Array]:
    """Combine updates into arrays at computed places; those out of bounds are dropped."""
    combiners = _scatter_combiners(instruction)
    assert combiners is not None
    count = len(combiners)
    indices, numbers = (
        wide(operands[count]),
        instruction.attributes["scatter_dimension_numbers"],
    )
    return [
        apply(
            ops.scatter,
            x,
            indices,
            updates,
            combiner=combiner,
            update_window_dims=numbers["update_window_dims"],
            inserted_window_dims=numbers["inserted_window_dims"],
            scatter_dims_to_operand_dims=numbers["scattered_dims_to_operand_dims"],
            index_vector_dim=numbers["index_vector_dim"],
            unique_indices=bool(instruction.attributes.get("unique_indices", False)),
            input_batching_dims=numbers["input_batching_dims"],
            scatter_indices_batching_dims=numbers["scatter_indices_batching_dims"],
        )
        for combiner, x, updates in zip(
            combiners, operands[:count], operands[count + 1 :], strict=True
        )
    ]
