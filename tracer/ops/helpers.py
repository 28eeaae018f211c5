"""Small compositions of ops for vjp and slice rules: constants, scaling, masks, conjugates.

They take and return Values and add nodes to the current builder, as the records do. A constant is
always a broadcast scalar: a large dense constant would be memory that no plan accounts for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracer import ops
from tracer.ir import Builder, ShapeDtype, Value
from tracer.ir.op import active_builder


def builder_at_source() -> Builder:
    """Return a builder whose nodes have the source of the active one, and not the caller's line."""
    builder = Builder()
    builder.source = active_builder().source
    return builder


def scalar(value: complex, dtype: np.dtype[Any]) -> Value:
    """Return a constant of shape ()."""
    return ops.constant(value=np.array(value, dtype))  # type: ignore[no-any-return]


def full(value: complex, type: ShapeDtype) -> Value:
    """Return an array of `type` filled with a scalar."""
    return spread(scalar(value, type.dtype), type.shape)


def splat_of(value: Value) -> Value | None:
    """Return the scalar that all elements of a value equal, if there is one."""
    node = value.node
    if node.op is not ops.broadcast_in_dim or node.operands[0].type.ndim:
        return None
    return node.operands[0]


def number_of(value: Value) -> np.ndarray[Any, Any] | None:
    """Return the constant that a value is, or that all its elements equal; None: not known."""
    node = (splat_of(value) or value).node
    return np.asarray(node.params["value"]) if node.op is ops.constant else None


def is_zeros(value: Value) -> bool:
    """Tell whether a value is zeros, of either sign, by the program's text."""
    number = number_of(value)
    return number is not None and not number.any()


def full_like(x: Value, value: complex) -> Value:
    """Return an array of the shape and dtype of `x` filled with a scalar."""
    return full(value, x.type)


def zeros_like(x: Value) -> Value:
    """Return zeros of the shape and dtype of `x`."""
    return full(0, x.type)


def ones_like(x: Value) -> Value:
    """Return ones of the shape and dtype of `x`."""
    return full(1, x.type)


def spread(x: Value, shape: Sequence[int]) -> Value:
    """Broadcast a scalar Value to `shape`."""
    if not shape:
        return x
    return ops.broadcast_in_dim(x, shape=tuple(shape), dimensions=())  # type: ignore[no-any-return]


def scale(x: Value, factor: complex) -> Value:
    """Multiply by a Python number."""
    return ops.multiply(x, full_like(x, factor))  # type: ignore[no-any-return]


def shift(x: Value, addend: complex) -> Value:
    """Add a Python number."""
    return ops.add(x, full_like(x, addend))  # type: ignore[no-any-return]


def square(x: Value) -> Value:
    """Multiply by itself."""
    return ops.multiply(x, x)  # type: ignore[no-any-return]


def where(pred: Value, on_true: Value, otherwise: complex = 0) -> Value:
    """Keep the elements where `pred` holds and put a number elsewhere."""
    return ops.select(pred, on_true, full_like(on_true, otherwise))  # type: ignore[no-any-return]


def convert(x: Value, dtype: np.dtype[Any]) -> Value:
    """Convert, or return `x` itself when it has the dtype already."""
    return x if x.dtype == dtype else ops.convert(x, dtype=dtype)


def reshape(x: Value, shape: Sequence[int]) -> Value:
    """Reshape, or return `x` itself when it has the shape already."""
    return x if x.shape == tuple(shape) else ops.reshape(x, shape=tuple(shape))


def in_order(x: Value, permutation: Sequence[int]) -> Value:
    """Transpose, unless the axes are in this order."""
    if tuple(permutation) == tuple(range(len(permutation))):
        return x
    return ops.transpose(x, permutation=tuple(permutation))  # type: ignore[no-any-return]


def slice_axis(x: Value, axis: int, start: int, stop: int) -> Value:
    """Return the elements from `start` up to `stop` along one axis."""
    if (start, stop) == (0, x.shape[axis]):
        return x
    starts = tuple(start if i == axis else 0 for i in range(len(x.shape)))
    limits = tuple(stop if i == axis else n for i, n in enumerate(x.shape))
    strides = (1,) * len(x.shape)
    return ops.slice(x, start=starts, limit=limits, strides=strides)  # type: ignore[no-any-return]


def shifted(x: Value, axis: int, steps: int, *, fill: complex) -> Value:
    """Move the elements along one axis, dropping those that leave and filling the gap.

    `steps` may not be larger than the axis.
    """
    low = tuple(steps if i == axis else 0 for i in range(len(x.shape)))
    high = tuple(-n for n in low)
    interior = (0,) * len(low)
    padding = scalar(fill, x.dtype)
    return ops.pad(x, padding, low=low, high=high, interior=interior)  # type: ignore[no-any-return]


def conjugate(x: Value) -> Value:
    """Complex conjugate; a real array is returned as is."""
    if x.dtype.kind != "c":
        return x
    return ops.complex(ops.real(x), ops.negate(ops.imag(x)))  # type: ignore[no-any-return]


def real_as_complex(x: Value) -> Value:
    """Set the imaginary part of a complex array to zero; a real array is returned as is."""
    if x.dtype.kind != "c":
        return x
    real = ops.real(x)
    return ops.complex(real, zeros_like(real))  # type: ignore[no-any-return]


def matrix_transpose(x: Value) -> Value:
    """Exchange the last two axes."""
    n = len(x.shape)
    permutation = (*range(n - 2), n - 1, n - 2)
    return ops.transpose(x, permutation=permutation)  # type: ignore[no-any-return]


def triangle(x: Value, *, lower: bool, strict: bool = False) -> Value:
    """Zero the elements outside the triangle of the last two axes."""
    n = len(x.shape)
    rows = ops.iota(shape=x.shape, dtype=np.dtype(np.int32), dimension=n - 2)
    columns = ops.iota(shape=x.shape, dtype=np.dtype(np.int32), dimension=n - 1)
    first, second = (rows, columns) if lower else (columns, rows)
    inside = ops.compare(first, second, direction="GT" if strict else "GE")
    return where(inside, x)


def matrix_multiply(x: Value, y: Value) -> Value:
    """Matrix product over the last two axes; the axes before are batch axes."""
    n = len(x.shape)
    batch = tuple(range(n - 2))
    return ops.dot_general(  # type: ignore[no-any-return]
        x,
        y,
        lhs_batch=batch,
        rhs_batch=batch,
        lhs_contracting=(n - 1,),
        rhs_contracting=(n - 2,),
    )


def index_bound(indices: Value, room: Sequence[int], index_vector_dim: int) -> Value:
    """Return the largest index at which a window is inside, in the shape of `indices`.

    Parameters
    ----------
    indices : Value
        Index array of a gather or scatter.
    room : sequence of int
        For each addressed axis its size minus the window's.
    index_vector_dim : int
        Axis of `indices` that runs over the addressed axes; their number for scalar indices.
    """
    limit = np.iinfo(indices.dtype).max
    bounds = np.array([min(n, limit) for n in room], indices.dtype)
    if index_vector_dim == len(indices.shape):
        return full_like(indices, bounds[0])
    vector = ops.constant(value=bounds)
    shape, dimensions = indices.shape, (index_vector_dim,)
    return ops.broadcast_in_dim(vector, shape=shape, dimensions=dimensions)  # type: ignore[no-any-return]


def gather_along_axis(x: Value, indices: Value, axis: int) -> Value:
    """Take elements of `x` at `indices` along one axis and in place elsewhere; none is outside."""
    rest = tuple(i for i in range(len(x.shape)) if i != axis)
    return ops.gather(  # type: ignore[no-any-return]
        x,
        indices,
        offset_dims=(),
        collapsed_slice_dims=(axis,),
        start_index_map=(axis,),
        index_vector_dim=len(x.shape),
        slice_sizes=(1,) * len(x.shape),
        operand_batching_dims=rest,
        start_indices_batching_dims=rest,
    )


def scatter_add_along_axis(
    shape: Sequence[int], indices: Value, updates: Value, axis: int
) -> Value:
    """Add `updates` into zeros of `shape`, at `indices` along one axis and in place elsewhere.

    `indices` and `updates` have one shape, equal to `shape` but for the size of the axis. All other
    axes are batching axes of the scatter, so the result can still be split along them.
    """
    batch = tuple(i for i in range(len(shape)) if i != axis)
    return ops.scatter(  # type: ignore[no-any-return]
        full(0, ShapeDtype(shape, updates.dtype)),
        indices,
        updates,
        combiner="add",
        update_window_dims=(),
        inserted_window_dims=(axis,),
        scatter_dims_to_operand_dims=(axis,),
        index_vector_dim=len(shape),
        unique_indices=False,
        input_batching_dims=batch,
        scatter_indices_batching_dims=batch,
    )
