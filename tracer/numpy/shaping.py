"""Changing shapes: reshape, transpose, expand, squeeze, broadcast, join, split, flip."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tracer import ops
from tracer.array import convert as _convert
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import (
    as_array,
    as_shape,
    broadcast,
    broadcast_shape,
    convert,
    normalize_axes,
    normalize_axis,
)
from tracer.array.dispatch import apply, compound
from tracer.errors import ArgumentError, ShapeError
from tracer.ir import as_dtype

Axis = int | tuple[int, ...] | None


def reshape(a: ArrayLike, shape: Any, order: str = "C", *, copy: bool | None = None) -> Array:
    """Give the elements another shape.

    Parameters
    ----------
    a : array_like
        Its size is the product of `shape`.
    shape : int or tuple of int
        One size may be -1: whatever is left.
    order : {"C", "F"}
        Whether the last or the first index runs fastest.
    copy : bool, optional
        True returns another Array also when nothing changes; False is refused where the elements
        would change their order in memory.

    Returns
    -------
    Array, shape `shape`
        The elements in the same order.

    Raises
    ------
    ShapeError
        The sizes do not multiply to the size of `a`.
    """
    x = as_array(a)
    sizes = _resolve_shape(as_shape(shape), x)
    if copy:
        x = x.copy()
    if isinstance(order, str) and (order == "C" or (x.ndim < 2 and len(sizes) < 2)):
        return _convert.reshape(x, sizes)
    if not isinstance(order, str) or order != "F":
        raise ArgumentError(f"order {order!r} is not known", mend='use order="C" or order="F"')
    if copy is False:
        raise ArgumentError('reshape with order="F" has to copy', mend="leave copy=False out")
    return transpose(_convert.reshape(transpose(x), sizes[::-1]))


def _resolve_shape(shape: tuple[int, ...], x: Array) -> tuple[int, ...]:
    unknown = shape.count(-1)
    known = math.prod(size for size in shape if size != -1)
    if unknown == 1 and known > 0 and x.size % known == 0:
        shape = tuple(x.size // known if size == -1 else size for size in shape)
    if -1 in shape or math.prod(shape) != x.size or min(shape, default=0) < 0:
        raise ShapeError(
            f"cannot reshape an array of shape {x.shape} (size {x.size}) into shape {shape}",
            mend="give sizes whose product is the size of the array; one of them may be -1",
        )
    return shape


def ravel(a: ArrayLike, order: str = "C") -> Array:
    """Return the elements as a vector; see `reshape`."""
    return reshape(a, -1 if as_array(a).size else 0, order)


def transpose(a: ArrayLike, axes: Sequence[int] | None = None) -> Array:
    """Permute the axes.

    Parameters
    ----------
    a : array_like
        Any array.
    axes : sequence of int, optional
        For each axis of the result the axis of `a`; reversed by default.

    Returns
    -------
    Array
        The permuted array.
    """
    x = as_array(a)
    if axes is None:
        return _convert.transpose(x, tuple(range(x.ndim))[::-1])
    order = tuple(normalize_axis(axis, x.ndim) for axis in axes)
    if sorted(order) != list(range(x.ndim)):
        raise ShapeError(
            f"axes {tuple(axes)} are no permutation of the {x.ndim} axes of shape {x.shape}",
            mend="name each axis exactly once",
        )
    return _convert.transpose(x, order)


permute_dims = transpose


def matrix_transpose(x: ArrayLike, /) -> Array:
    """Swap the last two axes."""
    array = as_array(x)
    if array.ndim < 2:
        raise ShapeError(
            f"matrix_transpose needs two axes, got shape {array.shape}", mend="reshape it first"
        )
    return swapaxes(array, -1, -2)


def swapaxes(a: ArrayLike, axis1: int, axis2: int) -> Array:
    """Swap two axes."""
    x = as_array(a)
    order = list(range(x.ndim))
    first, second = normalize_axis(axis1, x.ndim), normalize_axis(axis2, x.ndim)
    order[first], order[second] = second, first
    return _convert.transpose(x, tuple(order))


def moveaxis(a: ArrayLike, source: Any, destination: Any) -> Array:
    """Move axes to other positions; the rest keep their order.

    Parameters
    ----------
    a : array_like
        Any array.
    source, destination : int or sequence of int
        Where the axes are and where they go.

    Returns
    -------
    Array
        The permuted array.
    """
    x = as_array(a)
    sources = [normalize_axis(axis, x.ndim) for axis in _as_sequence(source)]
    targets = [normalize_axis(axis, x.ndim) for axis in _as_sequence(destination)]
    if len(sources) != len(targets) or len(set(sources)) != len(sources):
        raise ShapeError(
            f"moveaxis: source {source} and destination {destination} do not pair",
            mend="give as many distinct sources as destinations",
        )
    order = [axis for axis in range(x.ndim) if axis not in sources]
    for target, axis in sorted(zip(targets, sources, strict=True)):
        order.insert(target, axis)
    return _convert.transpose(x, tuple(order))


def _as_sequence(value: Any) -> Sequence[Any]:
    return value if isinstance(value, tuple | list) else (value,)


def expand_dims(a: ArrayLike, axis: Any) -> Array:
    """Insert axes of size one, at positions counted in the result."""
    x = as_array(a)
    places = _as_sequence(axis)
    ndim = x.ndim + len(places)
    axes = normalize_axes(tuple(places), ndim)
    sizes = iter(x.shape)
    return _convert.reshape(x, tuple(1 if i in axes else next(sizes) for i in range(ndim)))


def squeeze(a: ArrayLike, axis: Axis = None) -> Array:
    """Remove axes of size one; all of them by default.

    Raises
    ------
    ShapeError
        A named axis has another size.
    """
    x = as_array(a)
    if axis is None:
        return _convert.reshape(x, tuple(size for size in x.shape if size != 1))
    axes = normalize_axes(axis, x.ndim)
    if any(x.shape[i] != 1 for i in axes):
        raise ShapeError(
            f"cannot squeeze axis {axis} of shape {x.shape}: its size is not 1",
            mend="name axes of size one only",
        )
    return _convert.reshape(x, tuple(size for i, size in enumerate(x.shape) if i not in axes))


def broadcast_to(array: ArrayLike, shape: Any) -> Array:
    """Repeat along new axes and axes of size one.

    Parameters
    ----------
    array : array_like
        What is repeated.
    shape : int or tuple of int
        Of the result.

    Returns
    -------
    Array, shape `shape`
        The repeated array.
    """
    x, sizes = as_array(array), as_shape(shape)
    if len(sizes) < x.ndim or broadcast_shape("broadcast_to", x.shape, sizes) != sizes:
        raise ShapeError(
            f"cannot broadcast an array of shape {x.shape} to shape {sizes}",
            mend="axes are compared from the right; only axes of size one are repeated",
        )
    return broadcast(x, sizes)


def broadcast_arrays(*args: ArrayLike) -> list[Array]:
    """Broadcast arrays to their common shape; a list, as the array API standard has it."""
    arrays = [as_array(arg) for arg in args]
    shape = broadcast_shapes(*[array.shape for array in arrays])
    return [broadcast(array, shape) for array in arrays]


def broadcast_shapes(*args: Any) -> tuple[int, ...]:
    """Return the shape that shapes broadcast to."""
    return broadcast_shape("broadcast_shapes", *map(as_shape, args)) if args else ()


def atleast_1d(*arys: ArrayLike) -> Any:
    """Give arrays at least one axis; one array in, one array out."""
    return _each(arys, lambda x: reshape(x, 1) if x.ndim == 0 else x)


def atleast_2d(*arys: ArrayLike) -> Any:
    """Give arrays at least two axes, new ones in front."""
    return _each(arys, lambda x: reshape(x, (1,) * (2 - x.ndim) + x.shape) if x.ndim < 2 else x)


def atleast_3d(*arys: ArrayLike) -> Any:
    """Give arrays at least three axes; see `numpy.atleast_3d`."""

    def expand(x: Array) -> Array:
        shapes = {0: (1, 1, 1), 1: (1, *x.shape, 1), 2: (*x.shape, 1)}
        return reshape(x, shapes.get(x.ndim, x.shape))

    return _each(arys, expand)


def _each(arrays: Sequence[ArrayLike], function: Any) -> Any:
    results = tuple(function(as_array(array)) for array in arrays)
    return results[0] if len(results) == 1 else results


def flip(m: ArrayLike, axis: Axis = None) -> Array:
    """Reverse the order of the elements along axes; all by default."""
    x = as_array(m)
    axes = normalize_axes(axis, x.ndim)
    return _flip(x, axes=axes) if axes else x


@compound
def _flip(x: Array, *, axes: tuple[int, ...]) -> Array:
    return apply(ops.reverse, x, dimensions=axes)


def fliplr(m: ArrayLike) -> Array:
    """Reverse the columns."""
    return flip(m, 1)


def flipud(m: ArrayLike) -> Array:
    """Reverse the rows."""
    return flip(m, 0)


def rot90(m: ArrayLike, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Array:
    """Rotate by 90 degrees `k` times, from the first of two axes towards the second."""
    x = as_array(m)
    turns = k % 4
    if turns == 0:
        return x
    if turns == 2:
        return flip(x, axes)
    if turns == 1:
        return swapaxes(flip(x, axes[1]), *axes)
    return flip(swapaxes(x, *axes), axes[1])


def astype(x: ArrayLike, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Array:
    """Convert to a dtype; complex numbers lose their imaginary part to reals.

    Parameters
    ----------
    x : array_like
        Any array.
    dtype : dtype
        The target.
    copy : bool
        Whether the result is another Array also when nothing changes.
    device : Device or str, optional
        Where the result goes.

    Returns
    -------
    Array
        The converted array.
    """
    array, wanted = as_array(x), as_dtype(dtype)
    result = convert(array, wanted)
    if device is not None:
        result = result.to_device(device)
    return array._snapshot() if copy and result is array else result
