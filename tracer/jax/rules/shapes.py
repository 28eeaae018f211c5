"""Rules of what makes, moves and joins elements without changing them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax

from tracer import ops
from tracer.array.array import Array
from tracer.array.convert import broadcast, reshape, scalar, transpose
from tracer.array.dispatch import apply, apply_many
from tracer.errors import UnsupportedError
from tracer.jax.table import Equation, rule
from tracer.lax.shapes import parts_of, tiled


def numbers(values: Any) -> tuple[int, ...]:
    """Return JAX's sizes or axes as plain integers."""
    return tuple(map(int, values))


@rule("broadcast_in_dim")
def broadcast_in_dim(equation: Equation, x: Array, *sizes: Array) -> Array:
    """Repeat along new axes."""
    dimensions = numbers(equation.params["broadcast_dimensions"])
    return apply(ops.broadcast_in_dim, x, shape=equation.result.shape, dimensions=dimensions)


@rule("reshape")
def reshape_array(equation: Equation, x: Array, *sizes: Array) -> Array:
    """Reshape; `dimensions`, where there are some, is the order in which elements are read."""
    order = equation.params.get("dimensions")
    x = x if order is None else transpose(x, numbers(order))
    return reshape(x, equation.result.shape)


@rule("squeeze", "expand_dims")
def squeeze(equation: Equation, x: Array) -> Array:
    """Take axes of one element out, or put them in."""
    return reshape(x, equation.result.shape)


@rule("transpose")
def transpose_array(equation: Equation, x: Array) -> Array:
    """Permute the axes."""
    return transpose(x, numbers(equation.params["permutation"]))


@rule("rev")
def reverse(equation: Equation, x: Array) -> Array:
    """Reverse axes."""
    dimensions = numbers(equation.params["dimensions"])
    return apply(ops.reverse, x, dimensions=dimensions) if dimensions else x


@rule("concatenate")
def concatenate(equation: Equation, *arrays: Array) -> Array:
    """Join arrays along an axis."""
    if len(arrays) == 1:
        return arrays[0]
    return apply(ops.concatenate, *arrays, dimension=int(equation.params["dimension"]))


@rule("stack")
def stack(equation: Equation, *arrays: Array) -> Array:
    """Join arrays along a new axis."""
    axis, shape = int(equation.params["axis"]), equation.result.shape
    rows = [reshape(x, (*shape[:axis], 1, *shape[axis + 1 :])) for x in arrays]
    return rows[0] if len(rows) == 1 else apply(ops.concatenate, *rows, dimension=axis)


@rule("unstack")
def unstack(equation: Equation, x: Array) -> list[Array]:
    """Take an array apart along an axis, which goes."""
    axis = int(equation.params["axis"])
    rows = parts_of(x, axis, [1] * x.shape[axis])
    return [reshape(row, equation.results[0].shape) for row in rows]


@rule("split")
def split(equation: Equation, x: Array) -> list[Array]:
    """Take an array apart along an axis, into parts of given sizes."""
    return parts_of(x, int(equation.params["axis"]), numbers(equation.params["sizes"]))


@rule("slice")
def slice_array(equation: Equation, x: Array) -> Array:
    """Take every so manyth element between fixed bounds."""
    strides = equation.params["strides"]
    return apply(
        ops.slice,
        x,
        start=numbers(equation.params["start_indices"]),
        limit=numbers(equation.params["limit_indices"]),
        strides=(1,) * x.ndim if strides is None else numbers(strides),
    )


@rule("pad")
def pad(equation: Equation, x: Array, value: Array) -> Array:
    """Pad, between the elements too."""
    rows = [numbers(row) for row in equation.params["padding_config"]]
    low, high, interior = zip(*rows, strict=True) if rows else ((), (), ())
    return apply(ops.pad, x, value, low=low, high=high, interior=interior)


@rule("iota")
def iota(equation: Equation, *sizes: Array) -> Array:
    """Count along an axis."""
    type = equation.result
    return apply(
        ops.iota, shape=type.shape, dtype=type.dtype, dimension=int(equation.params["dimension"])
    )


@rule("empty", "empty2")
def empty(equation: Equation) -> Array:
    """Make an array of any values: zeros."""
    type = equation.result
    return broadcast(scalar(0, type.dtype), type.shape)


@rule("tile")
def tile(equation: Equation, x: Array) -> Array:
    """Repeat an array along its own axes."""
    counts = numbers(equation.params["reps"])
    return tiled(x, counts)


@rule("copy", "copy_p", "pvary", "pcast", "reduced_vary_cast", "device_put_identity")
def same(equation: Equation, x: Array) -> Array:
    """Return the array: what it says about devices or memory has no meaning here."""
    return x


@rule("sharding_constraint", "mesh_cast", "reshard", "layout_constraint")
def sharding_constraint(equation: Equation, x: Array) -> Array:
    """Read a sharding over one device, which says nothing."""
    _require_one_device(equation, equation.params.get("sharding"))
    _require_one_device(equation, equation.params.get("dst_sharding"))
    return x


@rule("device_put")
def device_put(equation: Equation, *arrays: Array) -> list[Array]:
    """Leave arrays where the program runs: on one device."""
    for place in equation.params.get("devices", ()):
        if isinstance(place, jax.sharding.Sharding):
            _require_one_device(equation, place)
    return list(arrays)


def _require_one_device(equation: Equation, sharding: Any) -> None:
    count = getattr(sharding, "num_devices", 1)
    if count and count > 1:
        raise UnsupportedError(
            f"JAX's {equation.name} over {count} devices",
            mend="leave the sharding out, or use a mesh of one device",
        )


@rule("optimization_barrier")
def optimization_barrier(equation: Equation, *arrays: Array) -> Sequence[Array]:
    """Keep the operands from being moved or merged."""
    return apply_many(ops.optimization_barrier, *arrays)
