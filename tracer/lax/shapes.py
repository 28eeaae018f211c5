"""What makes, moves and joins elements without changing them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tracer import ops
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import (
    as_array,
    as_shape,
    broadcast_shape,
    normalize_axis,
)
from tracer.array.convert import broadcast as repeated
from tracer.array.convert import reshape as reshaped
from tracer.array.convert import transpose as permuted
from tracer.array.dispatch import apply, compound
from tracer.errors import ArgumentError, ShapeError
from tracer.ir.types import MOST_AXES, require_countable
from tracer.lax.operands import axes_of, axis_of, integer, integers, of_one_dtype
from tracer.numpy.associative import cut

Dtype = np.dtype[Any]


def broadcast_shapes(*shapes: Sequence[int]) -> tuple[int, ...]:
    """Return the shape in which shapes meet.

    Parameters
    ----------
    *shapes : tuple of int
        Of one rank, or of several, which meet from the right.

    Raises
    ------
    ShapeError
        They do not fit.
    """
    return broadcast_shape("lax.broadcast_shapes", *map(as_shape, shapes)) if shapes else ()


def broadcast(operand: ArrayLike, sizes: Sequence[int]) -> Array:
    """Repeat along new axes in front.

    Parameters
    ----------
    operand : array_like
        The array.
    sizes : sequence of int
        The sizes of the new axes.
    """
    x = as_array(operand)
    return repeated(x, (*integers("broadcast", "sizes", sizes), *x.shape))


def broadcast_in_dim(
    operand: ArrayLike, shape: Sequence[int], broadcast_dimensions: Sequence[int]
) -> Array:
    """Repeat along new axes, and along those of one element.

    Parameters
    ----------
    operand : array_like
        The array.
    shape : sequence of int
        The new shape.
    broadcast_dimensions : sequence of int
        The axis of the result that each axis of the array becomes; they increase.

    Raises
    ------
    ShapeError, AxisError
        The axes do not fit.

    Examples
    --------
    >>> import tracer.lax as lax
    >>> import tracer.numpy as tnp
    >>> lax.broadcast_in_dim(tnp.array([1, 2]), (2, 3), (0,)).tolist()
    [[1, 1, 1], [2, 2, 2]]
    """
    x, sizes = as_array(operand), as_shape(shape)
    axes = axes_of("broadcast_in_dim", "broadcast_dimensions", broadcast_dimensions, len(sizes))
    if list(axes) != sorted(axes):
        raise ShapeError(
            f"lax.broadcast_in_dim: broadcast_dimensions {axes} do not increase",
            mend="transpose first",
        )
    return _in_dim(x, shape=sizes, dimensions=axes)


@compound
def _in_dim(x: Array, *, shape: tuple[int, ...], dimensions: tuple[int, ...]) -> Array:
    return apply(ops.broadcast_in_dim, x, shape=shape, dimensions=dimensions)


def broadcast_like(arr: ArrayLike, like_arr: ArrayLike) -> Array:
    """Repeat an array to the shape of another, by NumPy's rules."""
    x, shape = as_array(arr), as_array(like_arr).shape
    if broadcast_shape("lax.broadcast_like", x.shape, shape) != shape:
        raise ShapeError(
            f"lax.broadcast_like: {x.type} is not repeated to {shape}", mend="give a larger array"
        )
    return repeated(x, shape)


def broadcast_to_rank(x: ArrayLike, rank: int) -> Array:
    """Insert axes of one element in front until there are `rank` axes."""
    array = as_array(x)
    missing = integer("broadcast_to_rank", "rank", rank) - array.ndim
    if missing < 0:
        raise ShapeError(
            f"lax.broadcast_to_rank: {array.type} has more than {rank} axes", mend="reshape it"
        )
    require_countable((1,) * min(rank, MOST_AXES + 1), array.dtype)
    return reshaped(array, ((1,) * missing + array.shape))


def reshape(operand: ArrayLike, new_sizes: Any, dimensions: Sequence[int] | None = None) -> Array:
    """Give an array another shape of as many elements.

    Parameters
    ----------
    operand : array_like
        The array.
    new_sizes : tuple of int
        The shape; no size may be left open.
    dimensions : sequence of int, optional
        The order of the axes in which the elements are read.

    Raises
    ------
    ShapeError
        Another number of elements.
    """
    x, sizes = as_array(operand), as_shape(new_sizes)
    if math.prod(sizes) != x.size or any(size < 0 for size in sizes):
        raise ShapeError(
            f"lax.reshape: {x.type} has not the elements of {sizes}",
            mend="give a shape of as many elements; x.reshape(-1) computes a size",
        )
    if dimensions is not None:
        x = transpose(x, dimensions)
    return reshaped(x, sizes)


def collapse(operand: ArrayLike, start_dimension: int, stop_dimension: int | None = None) -> Array:
    """Join neighbouring axes into one.

    Parameters
    ----------
    operand : array_like
        The array.
    start_dimension, stop_dimension : int
        The first axis, and the one behind the last (by default all that follow).
    """
    x = as_array(operand)
    first, end, _ = slice(start_dimension, stop_dimension).indices(x.ndim)
    return reshaped(x, (*x.shape[:first], math.prod(x.shape[first:end]), *x.shape[end:]))


def squeeze(array: ArrayLike, dimensions: Sequence[int]) -> Array:
    """Take axes of one element out.

    Parameters
    ----------
    array : array_like
        The array.
    dimensions : sequence of int
        The axes; they may count from the end.

    Raises
    ------
    ShapeError
        An axis has another size.
    """
    x = as_array(array)
    axes = {normalize_axis(axis, x.ndim) for axis in dimensions}
    if any(x.shape[axis] != 1 for axis in axes):
        raise ShapeError(
            f"lax.squeeze: {x.type} has axes of more than one element in {tuple(dimensions)}",
            mend="name axes of one element",
        )
    return reshaped(x, tuple(size for axis, size in enumerate(x.shape) if axis not in axes))


def expand_dims(array: ArrayLike, dimensions: Sequence[int]) -> Array:
    """Insert axes of one element.

    Parameters
    ----------
    array : array_like
        The array.
    dimensions : sequence of int
        Where they are in the result; they may count from the end.
    """
    x = as_array(array)
    given = integers("expand_dims", "dimensions", dimensions)
    axes = {normalize_axis(axis, x.ndim + len(given)) for axis in given}
    if len(axes) < len(given):
        raise ShapeError(
            f"lax.expand_dims: dimensions {given} name an axis twice", mend="name each once"
        )
    rest = iter(x.shape)
    return reshaped(x, tuple(1 if i in axes else next(rest) for i in range(x.ndim + len(axes))))


def transpose(operand: ArrayLike, permutation: Sequence[int]) -> Array:
    """Permute the axes.

    Parameters
    ----------
    operand : array_like
        The array.
    permutation : sequence of int
        For each axis of the result the one of the array.

    Raises
    ------
    ShapeError, AxisError
        No permutation.
    """
    x = as_array(operand)
    axes = axes_of("transpose", "permutation", permutation, x.ndim)
    if len(axes) != x.ndim:
        raise ShapeError(
            f"lax.transpose: permutation {axes} of {x.ndim} axes", mend="name each axis once"
        )
    return permuted(x, axes)


def rev(operand: ArrayLike, dimensions: Sequence[int]) -> Array:
    """Reverse axes, which are counted from the front."""
    x = as_array(operand)
    axes = axes_of("rev", "dimensions", dimensions, x.ndim)
    return _rev(x, axes=axes) if axes else x


@compound
def _rev(x: Array, *, axes: tuple[int, ...]) -> Array:
    return apply(ops.reverse, x, dimensions=axes)


def concatenate(operands: Sequence[ArrayLike], dimension: int) -> Array:
    """Join arrays of one dtype along an axis.

    Parameters
    ----------
    operands : sequence of array_like
        One or more.
    dimension : int
        The axis, counted from the front.

    Raises
    ------
    DTypeError, ShapeError, AxisError
        They do not fit.
    """
    if not len(operands):
        raise ArgumentError("lax.concatenate of no arrays", mend="give one or more")
    arrays = of_one_dtype("concatenate", *operands)
    axis = axis_of("concatenate", "dimension", dimension, arrays[0].ndim)
    return arrays[0] if len(arrays) == 1 else _concatenate(*arrays, axis=axis)


@compound
def _concatenate(*arrays: Array, axis: int) -> Array:
    return apply(ops.concatenate, *arrays, dimension=axis)


def stack(operands: Sequence[ArrayLike], axis: int = 0) -> Array:
    """Join arrays of one shape and dtype along a new axis."""
    if not len(operands):
        raise ArgumentError("lax.stack of no arrays", mend="give one or more")
    arrays = of_one_dtype("stack", *operands)
    place = normalize_axis(axis, arrays[0].ndim + 1)
    return concatenate([expand_dims(x, (place,)) for x in arrays], place)


def unstack(x: ArrayLike, axis: int = 0) -> tuple[Array, ...]:
    """Take an array apart along an axis, which goes."""
    array = as_array(x)
    place = normalize_axis(axis, array.ndim)
    parts = split(array, (1,) * array.shape[place], place)
    return tuple(squeeze(part, (place,)) for part in parts)


def split(operand: ArrayLike, sizes: Sequence[int], axis: int = 0) -> list[Array]:
    """Take an array apart along an axis, into parts of given sizes.

    Parameters
    ----------
    operand : array_like
        The array.
    sizes : sequence of int
        The sizes of the parts; together that of the axis.
    axis : int
        The axis.

    Raises
    ------
    ShapeError
        The sizes do not add up.
    """
    x = as_array(operand)
    place = normalize_axis(axis, x.ndim)
    counts = integers("split", "sizes", sizes)
    if sum(counts) != x.shape[place] or any(count < 0 for count in counts):
        raise ShapeError(
            f"lax.split: the sizes {counts} are not those of an axis of {x.shape[place]}",
            mend="give sizes that add up to the axis",
        )
    return list(_split(x, sizes=counts, axis=place))


@compound
def _split(x: Array, *, sizes: tuple[int, ...], axis: int) -> tuple[Array, ...]:
    return tuple(parts_of(x, axis, sizes))


def parts_of(x: Array, axis: int, sizes: Sequence[int]) -> list[Array]:
    """Cut an axis into parts."""
    parts, first = [], 0
    for size in sizes:
        parts.append(cut(x, axis, first, first + size))
        first += size
    return parts


def tile(operand: ArrayLike, reps: Sequence[int]) -> Array:
    """Repeat an array along its own axes.

    Parameters
    ----------
    operand : array_like
        The array.
    reps : sequence of int
        How often, for each axis.
    """
    x = as_array(operand)
    return _tile(x, counts=integers("tile", "reps", reps, x.ndim))


@compound
def _tile(x: Array, *, counts: tuple[int, ...]) -> Array:
    return tiled(x, counts)


def tiled(x: Array, counts: tuple[int, ...]) -> Array:
    """Repeat an array along its own axes."""
    pairs = [size for pair in zip(counts, x.shape, strict=True) for size in pair]
    dimensions = tuple(range(1, 2 * x.ndim, 2))
    repeated = apply(ops.broadcast_in_dim, x, shape=tuple(pairs), dimensions=dimensions)
    return reshaped(repeated, tuple(n * m for n, m in zip(counts, x.shape, strict=True)))


def pad(
    operand: ArrayLike, padding_value: ArrayLike, padding_config: Sequence[tuple[int, int, int]]
) -> Array:
    """Pad in front, behind and between the elements.

    Parameters
    ----------
    operand : array_like
        The array.
    padding_value : array_like, shape ()
        What to pad with, of the array's dtype.
    padding_config : sequence of (low, high, interior)
        For each axis the places in front, behind, and between neighbours. Negative ones of the
        first two cut off.

    Raises
    ------
    DTypeError, ShapeError
        What does not fit.

    Examples
    --------
    >>> import tracer.lax as lax
    >>> import tracer.numpy as tnp
    >>> lax.pad(tnp.array([1, 2, 3]), 0, [(-1, 1, 1)]).tolist()
    [0, 2, 0, 3, 0]
    """
    x, value = of_one_dtype("pad", operand, padding_value)
    rows = [integers("pad", "padding_config", row, None) for row in padding_config]
    if len(rows) != x.ndim or any(len(row) != 3 for row in rows):
        raise ShapeError(
            f"lax.pad: padding_config {padding_config} for {x.ndim} axes",
            mend="give (low, high, interior) for each axis",
        )
    if value.shape:
        raise ShapeError(f"lax.pad: padding_value has shape {value.shape}", mend="give a scalar")
    low, high, interior = zip(*rows, strict=True) if rows else ((), (), ())
    return _pad(x, value, low=low, high=high, interior=interior)


@compound
def _pad(x: Array, value: Array, **params: tuple[int, ...]) -> Array:
    return apply(ops.pad, x, value, **params)
