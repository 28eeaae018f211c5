"""Products that sum over axes: matmul, dot, tensordot, ...

All use `contract`, which writes one pairwise product in einsum's labels and emits one
`dot_general`, or an element-wise product if nothing is summed.
"""

from __future__ import annotations

import operator
from collections.abc import Hashable, Sequence
from typing import Any

from tracer import ops
from tracer.arguments import is_index
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import (
    broadcast,
    broadcast_shape,
    convert,
    normalize_axis,
    reshape,
    transpose,
)
from tracer.array.dispatch import apply, compound
from tracer.array.promotion import result_type
from tracer.errors import ShapeError, shown
from tracer.ir import as_dtype
from tracer.numpy.elementwise import conjugate
from tracer.numpy.ufunc import is_nonzero, operands

Labels = tuple[Hashable, ...]


def contract(x: Array, x_labels: Labels, y: Array, y_labels: Labels, out: Labels) -> Array:
    """Multiply two arrays and sum over the labels that `out` lacks.

    No label occurs twice in an operand, and sizes agree.
    """
    x, x_labels = sum_lonely(x, x_labels, y_labels, out)
    y, y_labels = sum_lonely(y, y_labels, x_labels, out)
    dtype = result_type(x, y)
    if dtype.kind == "b":
        # A product of bools is a sum of ands: count in int32, then test.
        counts = [convert(part, as_dtype("int32")) for part in (x, y)]
        return is_nonzero(contract(counts[0], x_labels, counts[1], y_labels, out))
    x, y = convert(x, dtype), convert(y, dtype)
    shared = [label for label in x_labels if label in y_labels]
    inner = [label for label in shared if label not in out]
    if not inner:
        return _multiply(x, x_labels, y, y_labels, out)
    batch = [label for label in shared if label in out]
    result = apply(
        ops.dot_general,
        x,
        y,
        lhs_batch=tuple(x_labels.index(label) for label in batch),
        rhs_batch=tuple(y_labels.index(label) for label in batch),
        lhs_contracting=tuple(x_labels.index(label) for label in inner),
        rhs_contracting=tuple(y_labels.index(label) for label in inner),
    )
    free = [label for label in (*x_labels, *y_labels) if label not in shared]
    made = [*batch, *free]
    return transpose(result, tuple(made.index(label) for label in out))


def sum_lonely(x: Array, labels: Labels, other: Labels, out: Labels) -> tuple[Array, Labels]:
    """Sum over labels that neither the other operand nor the result has."""
    axes = tuple(
        axis for axis, label in enumerate(labels) if label not in other and label not in out
    )
    if not axes:
        return x, labels
    op = ops.reduce_or if x.dtype.kind == "b" else ops.reduce_add
    kept = tuple(label for axis, label in enumerate(labels) if axis not in axes)
    return apply(op, x, axes=axes), kept


def _multiply(x: Array, x_labels: Labels, y: Array, y_labels: Labels, out: Labels) -> Array:
    sizes = dict(zip(x_labels, x.shape, strict=True)) | dict(zip(y_labels, y.shape, strict=True))
    shape = tuple(sizes[label] for label in out)
    return apply(ops.multiply, _placed(x, x_labels, out, shape), _placed(y, y_labels, out, shape))


def _placed(x: Array, labels: Labels, out: Labels, shape: tuple[int, ...]) -> Array:
    """Broadcast so that each label is where `out` has it."""
    order = sorted(range(len(labels)), key=lambda axis: out.index(labels[axis]))
    x = transpose(x, tuple(order))
    if x.shape == shape:
        return x
    dimensions = tuple(out.index(labels[axis]) for axis in order)
    return apply(ops.broadcast_in_dim, x, shape=shape, dimensions=dimensions)


def matmul(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Matrix product, of stacks of matrices too.

    Parameters
    ----------
    x1 : array_like, shape (..., n, k) or (k,)
        Left factor.
    x2 : array_like, shape (..., k, m) or (k,)
        Right factor; leading axes are broadcast together.

    Returns
    -------
    Array, shape (..., n, m), without n or m where a factor is a vector
        The products, in the promoted dtype.

    Raises
    ------
    ShapeError
        A factor is a scalar, or the shapes do not fit.
    """
    return _matmul(*operands(x1, x2))


@compound
def _matmul(x: Array, y: Array) -> Array:
    if x.ndim == 0 or y.ndim == 0:
        raise ShapeError(
            f"matmul: a factor is a scalar (shapes {x.shape} and {y.shape})",
            mend="use * to multiply by a scalar",
        )
    if x.shape[-1] != y.shape[max(y.ndim - 2, 0)]:
        raise ShapeError(
            f"matmul: shapes {x.shape} and {y.shape} do not fit: {x.shape[-1]} columns on the "
            f"left, {y.shape[max(y.ndim - 2, 0)]} rows on the right",
            mend="transpose a factor, or make the inner sizes equal",
        )
    batch_shape = broadcast_shape("matmul", x.shape[:-2], y.shape[:-2])
    batch = tuple(range(-len(batch_shape), 0))
    x, x_batch = _drop_ones(x, batch_shape)
    y, y_batch = _drop_ones(y, batch_shape)
    rows: Labels = ("row",) if x.ndim > len(x_batch) + 1 else ()
    columns: Labels = ("column",) if y.ndim > len(y_batch) + 1 else ()
    return contract(
        x,
        (*x_batch, *rows, "inner"),
        y,
        (*y_batch, "inner", *columns),
        (*batch, *rows, *columns),
    )


def _drop_ones(x: Array, batch_shape: tuple[int, ...]) -> tuple[Array, Labels]:
    """Remove batch axes of size one where the other operand's are larger.

    So a product of a stack with one matrix is one product with a free axis more, and the matrix
    is not copied for each member of the stack.
    """
    own = x.ndim - 2 if x.ndim > 2 else 0
    offset = len(batch_shape) - own
    kept = [axis for axis in range(own) if x.shape[axis] == batch_shape[offset + axis]]
    labels = tuple(offset + axis - len(batch_shape) for axis in kept)
    return reshape(x, (*[x.shape[axis] for axis in kept], *x.shape[own:])), labels


def _require_equal_sizes(name: str, x: Array, y: Array, pairs: Sequence[tuple[int, int]]) -> None:
    for left, right in pairs:
        if x.shape[left] != y.shape[right]:
            raise ShapeError(
                f"{name}: shapes {x.shape} and {y.shape} do not fit: axis {left} on the left has "
                f"{x.shape[left]} elements, axis {right} on the right {y.shape[right]}",
                mend="transpose an operand, or choose axes of equal sizes",
            )


def tensordot(a: ArrayLike, b: ArrayLike, axes: int | Sequence[int | Sequence[int]] = 2) -> Array:
    """Sum of products over pairs of axes.

    Parameters
    ----------
    a, b : array_like
        Operands.
    axes : int or pair of int or of sequences
        How many last axes of `a` are paired with the first of `b`, or which.

    Returns
    -------
    Array
        The free axes of `a`, then those of `b`.
    """
    x, y = operands(a, b)
    if is_index(axes):
        count = operator.index(axes)
        left: Sequence[int] = range(x.ndim - count, x.ndim)
        right: Sequence[int] = range(count)
    else:
        pair: Any = axes
        if len(pair) != 2:
            raise ShapeError(
                f"tensordot: axes is {shown(axes)}", mend="give a number, or axes of a and of b"
            )
        left, right = [item if isinstance(item, tuple | list) else (item,) for item in pair]
    if len(left) != len(right):
        raise ShapeError(
            f"tensordot: {len(left)} axes on the left, {len(right)} on the right",
            mend="give as many axes of a as of b",
        )
    pairs = tuple(
        (normalize_axis(i, x.ndim), normalize_axis(j, y.ndim))
        for i, j in zip(left, right, strict=True)
    )
    return _contracted("tensordot", x, y, pairs)


def _contracted(name: str, x: Array, y: Array, pairs: tuple[tuple[int, int], ...]) -> Array:
    _require_equal_sizes(name, x, y, pairs)
    return _tensordot(x, y, pairs=pairs)


@compound
def _tensordot(x: Array, y: Array, *, pairs: tuple[tuple[int, int], ...]) -> Array:
    x_labels: list[Hashable] = [("left", axis) for axis in range(x.ndim)]
    y_labels: list[Hashable] = [("right", axis) for axis in range(y.ndim)]
    for left, right in pairs:
        y_labels[right] = x_labels[left]
    inner = {x_labels[left] for left, _ in pairs}
    out = tuple(label for label in (*x_labels, *y_labels) if label not in inner)
    return contract(x, tuple(x_labels), y, tuple(y_labels), out)


def dot(a: ArrayLike, b: ArrayLike) -> Array:
    """Inner product over the last axis of `a` and the last but one of `b`; see `numpy.dot`.

    Parameters
    ----------
    a, b : array_like
        Vectors, matrices or larger; a scalar multiplies.

    Returns
    -------
    Array
        The free axes of `a`, then those of `b`.
    """
    x, y = operands(a, b)
    if x.ndim == 0 or y.ndim == 0:
        return x * y
    return _contracted("dot", x, y, ((x.ndim - 1, max(y.ndim - 2, 0)),))


def inner(a: ArrayLike, b: ArrayLike) -> Array:
    """Inner product over the last axes; see `numpy.inner`."""
    x, y = operands(a, b)
    if x.ndim == 0 or y.ndim == 0:
        return x * y
    return _contracted("inner", x, y, ((x.ndim - 1, y.ndim - 1),))


def vdot(a: ArrayLike, b: ArrayLike) -> Array:
    """Inner product of flattened arrays, the first conjugated; see `numpy.vdot`."""
    x, y = operands(a, b)
    left = reshape(x, (x.size,))
    return dot(conjugate(left) if x.dtype.kind == "c" else left, reshape(y, (y.size,)))


def vecdot(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Array:
    """Inner product along one axis, broadcasting the others, the first conjugated.

    Parameters
    ----------
    x1, x2 : array_like, shape (..., k)
        Vectors.
    axis : int
        The axis of the vectors.

    Returns
    -------
    Array, the broadcast shape without the axis
        The inner products.
    """
    x, y = operands(x1, x2)
    left, right = normalize_axis(axis, x.ndim), normalize_axis(axis, y.ndim)
    _require_equal_sizes("vecdot", x, y, [(left, right)])
    # NumPy counts the axis in each operand, before they are broadcast.
    return _vecdot(_last(x, left), _last(y, right))


def _last(x: Array, axis: int) -> Array:
    """Move an axis behind the others."""
    return transpose(x, (*[i for i in range(x.ndim) if i != axis], axis))


@compound
def _vecdot(x: Array, y: Array) -> Array:
    shape = broadcast_shape("vecdot", x.shape, y.shape)
    labels = tuple(range(len(shape)))
    out = labels[:-1]
    left = conjugate(x) if x.dtype.kind == "c" else x
    return contract(broadcast(left, shape), labels, broadcast(y, shape), labels, out)


def outer(a: ArrayLike, b: ArrayLike) -> Array:
    """Products of all pairs of elements.

    Parameters
    ----------
    a : array_like, size n
        Flattened.
    b : array_like, size m
        Flattened.

    Returns
    -------
    Array, shape (n, m)
        The products, in the promoted dtype.
    """
    x, y = operands(a, b)
    return reshape(x, (x.size, 1)) * reshape(y, (1, y.size))
