"""Rules of what makes, moves and joins elements without changing them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracer import ops
from tracer.array.array import Array
from tracer.array.convert import broadcast, reshape, scalar, transpose
from tracer.array.dispatch import apply, apply_many
from tracer.stablehlo.table import Instruction, rule


@rule("stablehlo.broadcast_in_dim")
def broadcast_in_dim(instruction: Instruction, x: Array) -> Array:
    """Repeat along new axes, and along those of one element."""
    dimensions = instruction.attributes["broadcast_dimensions"]
    shape = instruction.result.shape
    if dimensions == tuple(range(len(shape))) and x.shape == shape:
        return x
    return apply(ops.broadcast_in_dim, x, shape=shape, dimensions=dimensions)


@rule("stablehlo.broadcast")
def broadcast_in_front(instruction: Instruction, x: Array) -> Array:
    """Repeat along new first axes."""
    return broadcast(x, instruction.result.shape)


@rule("stablehlo.reshape")
def reshape_array(instruction: Instruction, x: Array) -> Array:
    """Reshape."""
    return reshape(x, instruction.result.shape)


@rule("stablehlo.transpose")
def transpose_array(instruction: Instruction, x: Array) -> Array:
    """Permute the axes."""
    return transpose(x, instruction.attributes["permutation"])


@rule("stablehlo.reverse")
def reverse(instruction: Instruction, x: Array) -> Array:
    """Reverse axes."""
    dimensions = instruction.attributes["dimensions"]
    return apply(ops.reverse, x, dimensions=dimensions) if dimensions else x


@rule("stablehlo.concatenate")
def concatenate(instruction: Instruction, *arrays: Array) -> Array:
    """Join arrays along an axis."""
    if len(arrays) == 1:
        return arrays[0]
    return apply(ops.concatenate, *arrays, dimension=instruction.attributes["dimension"])


@rule("stablehlo.slice")
def slice_array(instruction: Instruction, x: Array) -> Array:
    """Take every so manyth element between fixed bounds."""
    attributes = instruction.attributes
    return apply(
        ops.slice,
        x,
        start=attributes["start_indices"],
        limit=attributes["limit_indices"],
        strides=attributes["strides"],
    )


@rule("stablehlo.pad")
def pad(instruction: Instruction, x: Array, value: Array) -> Array:
    """Pad, between the elements too."""
    attributes = instruction.attributes
    return apply(
        ops.pad,
        x,
        value,
        low=attributes["edge_padding_low"],
        high=attributes["edge_padding_high"],
        interior=attributes["interior_padding"],
    )


@rule("stablehlo.iota")
def iota(instruction: Instruction) -> Array:
    """Count along an axis."""
    type, dimension = instruction.result, instruction.attributes["iota_dimension"]
    return apply(ops.iota, shape=type.shape, dtype=type.dtype, dimension=dimension)


@rule("stablehlo.get_dimension_size")
def get_dimension_size(instruction: Instruction, x: Array) -> Array:
    """Return the size of an axis, which is fixed."""
    size = x.shape[instruction.attributes["dimension"]]
    return scalar(size, np.dtype(np.int32))


@rule("stablehlo.optimization_barrier")
def optimization_barrier(instruction: Instruction, *arrays: Array) -> Sequence[Array]:
    """Keep the operands from being moved or merged."""
    return apply_many(ops.optimization_barrier, *arrays) if arrays else ()


@rule("sdy.sharding_constraint")
def sharding_constraint(instruction: Instruction, x: Array) -> Array:
    """Return the array: the module is for one device."""
    return x
