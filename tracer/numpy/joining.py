"""Joining and cutting: concatenate, stack, split, tile, repeat, roll, pad."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tracer import ops
from tracer.errors import ArgumentError, ShapeError, TracingError
from tracer.ir import as_dtype
from tracer.numpy import promotion
from tracer.numpy.base import ArrayBase, ArrayLike
from tracer.numpy.convert import (
    as_array,
    as_arrays,
    as_shape,
    broadcast,
    convert,
    normalize_axis,
    reshape,
)
from tracer.numpy.dispatch import apply, compound
from tracer.numpy.promotion import Dtype
from tracer.numpy.shaping import atleast_1d, atleast_2d, atleast_3d, ravel

if TYPE_CHECKING:
    from tracer.numpy.array import Array


def concatenate(
    arrays: Sequence[ArrayLike], /, axis: int | None = 0, *, dtype: Any = None
) -> Array:
    """Join arrays along an axis.

    Parameters
    ----------
    arrays : sequence of array_like
        Of equal shapes but for the axis.
    axis : int or None
        The axis; None joins the flattened arrays.
    dtype : dtype, optional
        Of the result; the promoted dtype by default.

    Returns
    -------
    Array
        The joined array.

    Raises
    ------
    ShapeError
        No arrays, or shapes that do not fit.
    """
    parts = [as_array(array) for array in arrays]
    if not parts:
        raise ShapeError("concatenate of no arrays", mend="give at least one array")
    if axis is None:
        parts, axis = [ravel(part) for part in parts], 0
    number = normalize_axis(axis, parts[0].ndim)
    _require_equal_but("concatenate", parts, number)
    wanted = promotion.result_type(*parts) if dtype is None else as_dtype(dtype)
    return _concatenate(*parts, axis=number, dtype=wanted)


concat = concatenate


def _require_equal_but(name: str, parts: Sequence[Array], axis: int) -> None:
    shapes = {(*part.shape[:axis], *part.shape[axis + 1 :]) for part in parts}
    if len(shapes) > 1 or len({part.ndim for part in parts}) > 1:
        raise ShapeError(
            f"{name} along axis {axis}: shapes {', '.join(str(part.shape) for part in parts)} "
            "differ elsewhere",
            mend="make all other axes equal",
        )


@compound
def _concatenate(*arrays: Array, axis: int, dtype: Dtype) -> Array:
    parts = [convert(array, dtype) for array in arrays]
    return apply(ops.concatenate, *parts, dimension=axis) if len(parts) > 1 else parts[0]


def stack(arrays: Sequence[ArrayLike], axis: int = 0, *, dtype: Any = None) -> Array:
    """Join arrays of one shape along a new axis, at a place counted in the result."""
    parts = [as_array(array) for array in arrays]
    if not parts:
        raise ShapeError("stack of no arrays", mend="give at least one array")
    if len({part.shape for part in parts}) > 1:
        raise ShapeError(
            f"stack: shapes {', '.join(str(part.shape) for part in parts)} differ",
            mend="give arrays of one shape",
        )
    number = normalize_axis(axis, parts[0].ndim + 1)
    wanted = promotion.result_type(*parts) if dtype is None else as_dtype(dtype)
    return _stack(*parts, axis=number, dtype=wanted)


@compound
def _stack(*arrays: Array, axis: int, dtype: Dtype) -> Array:
    shape = arrays[0].shape
    expanded = [reshape(array, (*shape[:axis], 1, *shape[axis:])) for array in arrays]
    return _concatenate(*expanded, axis=axis, dtype=dtype)


def vstack(tup: Sequence[ArrayLike]) -> Array:
    """Join along the first axis; vectors are rows."""
    return concatenate([atleast_2d(array) for array in tup], 0)


def hstack(tup: Sequence[ArrayLike]) -> Array:
    """Join along the second axis; vectors along the first."""
    parts = [atleast_1d(array) for array in tup]
    return concatenate(parts, 0 if parts and parts[0].ndim == 1 else 1)


def dstack(tup: Sequence[ArrayLike]) -> Array:
    """Join along the third axis; see `numpy.dstack`."""
    return concatenate([atleast_3d(array) for array in tup], 2)


def column_stack(tup: Sequence[ArrayLike]) -> Array:
    """Join along the second axis; vectors are columns."""
    parts = [as_array(array) for array in tup]
    return concatenate([reshape(x, (x.size, 1)) if x.ndim < 2 else x for x in parts], 1)


def append(arr: ArrayLike, values: ArrayLike, axis: int | None = None) -> Array:
    """Join two arrays, flattened unless an axis is named."""
    return concatenate(as_arrays(arr, values), axis)


def array_split(
    ary: ArrayLike, indices_or_sections: int | Sequence[int], axis: int = 0
) -> list[Array]:
    """Cut along an axis into parts, as equal as they can be.

    Parameters
    ----------
    ary : array_like
        What is cut.
    indices_or_sections : int or sequence of int
        The number of parts, or the places of the cuts.
    axis : int
        The axis.

    Returns
    -------
    list of Array
        The parts.
    """
    x = as_array(ary)
    number = normalize_axis(axis, x.ndim)
    size = x.shape[number]
    if hasattr(indices_or_sections, "__index__"):
        sections = int(indices_or_sections)
        if sections <= 0:
            raise ArgumentError(f"cannot cut into {sections} parts", mend="give 1 or more")
        each, extra = divmod(size, sections)
        cuts = [part * each + min(part, extra) for part in range(sections + 1)]
    else:
        cuts = [0, *[int(cut) for cut in indices_or_sections], size]
    places = [slice(None)] * number
    return [
        x[(*places, slice(cuts[part], cuts[part + 1] if part + 2 < len(cuts) else None))]
        for part in range(len(cuts) - 1)
    ]


def split(ary: ArrayLike, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[Array]:
    """Cut along an axis into equal parts, or at places; see `array_split`.

    Raises
    ------
    ShapeError
        The axis cannot be cut into so many equal parts.
    """
    x = as_array(ary)
    if hasattr(indices_or_sections, "__index__"):
        size = x.shape[normalize_axis(axis, x.ndim)]
        if size % int(indices_or_sections):
            raise ShapeError(
                f"an axis of {size} elements cannot be cut into {indices_or_sections} equal parts",
                mend="use array_split",
            )
    return array_split(x, indices_or_sections, axis)


def vsplit(ary: ArrayLike, indices_or_sections: int | Sequence[int]) -> list[Array]:
    """Cut along the first axis."""
    return split(ary, indices_or_sections, 0)


def hsplit(ary: ArrayLike, indices_or_sections: int | Sequence[int]) -> list[Array]:
    """Cut along the second axis; a vector along the first."""
    return split(ary, indices_or_sections, 0 if as_array(ary).ndim == 1 else 1)


def unstack(x: ArrayLike, /, *, axis: int = 0) -> tuple[Array, ...]:
    """Return the slices along an axis."""
    array = as_array(x)
    number = normalize_axis(axis, array.ndim)
    return tuple(array[(slice(None),) * number + (i,)] for i in range(array.shape[number]))


def tile(A: ArrayLike, reps: Any) -> Array:  # noqa: N803 - NumPy's name
    """Repeat whole arrays along axes; see `numpy.tile`."""
    x = as_array(A)
    counts = as_shape(reps)
    ndim = max(x.ndim, len(counts))
    counts = (1,) * (ndim - len(counts)) + counts
    return _tile(x, counts=counts)


@compound
def _tile(x: Array, *, counts: tuple[int, ...]) -> Array:
    shape = (1,) * (len(counts) - x.ndim) + x.shape
    pairs = zip(counts, shape, strict=True)
    split_shape = tuple(size for size in shape for size in (1, size))
    wide = tuple(size for pair in pairs for size in pair)
    result = broadcast(reshape(x, split_shape), wide)
    return reshape(result, tuple(n * size for n, size in zip(counts, shape, strict=True)))


def repeat(a: ArrayLike, repeats: Any, axis: int | None = None) -> Array:
    """Repeat each element.

    Parameters
    ----------
    a : array_like
        What is repeated.
    repeats : int or array_like of int
        How often; an array has one count for each index and must be concrete.
    axis : int, optional
        The axis; by default the array is flattened first.

    Returns
    -------
    Array
        The repeated elements.
    """
    x = as_array(a)
    if axis is None:
        x, axis = ravel(x), 0
    number = normalize_axis(axis, x.ndim)
    if not hasattr(repeats, "__index__") or isinstance(repeats, np.ndarray | ArrayBase):
        counts = _concrete_counts(repeats)
        if counts.size != 1:
            indices = np.repeat(np.arange(x.shape[number]), counts)
            return x[(slice(None),) * number + (indices,)]
        repeats = counts.reshape(())
    return _repeat(x, repeats=int(repeats), axis=number)


def _concrete_counts(repeats: Any) -> np.ndarray[Any, Any]:
    if isinstance(repeats, ArrayBase) and repeats.is_traced:
        raise TracingError(
            "repeat with traced counts: the shape of the result would depend on values",
            mend="give the counts as a Python int or a NumPy array",
        )
    return np.asarray(repeats)


@compound
def _repeat(x: Array, *, repeats: int, axis: int) -> Array:
    before, size, after = x.shape[:axis], x.shape[axis], x.shape[axis + 1 :]
    expanded = reshape(x, (*before, size, 1, *after))
    wide = broadcast(expanded, (*before, size, repeats, *after))
    return reshape(wide, (*before, size * repeats, *after))


def roll(a: ArrayLike, shift: Any, axis: Any = None) -> Array:
    """Move elements along axes, those that leave at one end entering at the other.

    Parameters
    ----------
    a : array_like
        What is moved.
    shift : int or tuple of int
        How far.
    axis : int or tuple of int, optional
        Along which axes; by default the flattened array is moved.

    Returns
    -------
    Array, the shape of `a`
        The moved elements.
    """
    x = as_array(a)
    if axis is None:
        return reshape(roll(ravel(x), shift, 0), x.shape)
    axes = axis if isinstance(axis, tuple | list) else (axis,)
    shifts = shift if isinstance(shift, tuple | list) else (shift,) * len(axes)
    if len(axes) == 1 and len(shifts) > 1:
        axes = tuple(axes) * len(shifts)
    for distance, number in zip(shifts, axes, strict=True):
        place = normalize_axis(number, x.ndim)
        size = x.shape[place]
        if size and distance % size:
            x = _roll(x, cut=size - distance % size, axis=place)
    return x


@compound
def _roll(x: Array, *, cut: int, axis: int) -> Array:
    return apply(
        ops.concatenate,
        slice_axis(x, axis, cut, x.shape[axis]),
        slice_axis(x, axis, 0, cut),
        dimension=axis,
    )


def slice_axis(x: Array, axis: int, start: int, limit: int) -> Array:
    """Return a contiguous slice along one axis."""
    starts, limits = [0] * x.ndim, list(x.shape)
    starts[axis], limits[axis] = start, limit
    return apply(ops.slice, x, start=tuple(starts), limit=tuple(limits), strides=(1,) * x.ndim)


def pad(array: ArrayLike, pad_width: Any, mode: str = "constant", **kwargs: Any) -> Array:
    """Add elements at the ends of axes.

    Parameters
    ----------
    array : array_like
        What is padded.
    pad_width : int or pair or sequence of pairs of int
        How many elements before and after each axis.
    mode : {"constant", "edge", "reflect", "symmetric", "wrap"}
        What is added; see `numpy.pad`.
    **kwargs
        `constant_values`, a number, for mode "constant"; 0 by default.

    Returns
    -------
    Array
        The padded array.
    """
    x = as_array(array)
    widths = np.broadcast_to(np.asarray(pad_width), (x.ndim, 2)).tolist()
    if min([width for pair in widths for width in pair], default=0) < 0:
        raise ArgumentError(f"negative pad_width {pad_width}", mend="give 0 or more")
    if mode == "constant":
        value = kwargs.pop("constant_values", 0)
        _require_no_options(mode, kwargs)
        filling = convert(as_array(value), x.dtype)
        return _pad(x, filling, widths=tuple(map(tuple, widths)))
    _require_no_options(mode, kwargs)
    if mode not in ("edge", "reflect", "symmetric", "wrap"):
        raise ArgumentError(
            f"pad mode {mode!r} is not known", mend="use constant, edge, reflect, symmetric or wrap"
        )
    for axis, (low, high) in enumerate(widths):
        if low or high:
            # NumPy's own rule, applied to the positions.
            places = np.pad(np.arange(x.shape[axis]), (low, high), mode=mode)  # type: ignore[call-overload]
            x = x[(slice(None),) * axis + (places,)]
    return x


def _require_no_options(mode: str, options: dict[str, Any]) -> None:
    if options:
        raise ArgumentError(
            f"pad mode {mode!r} does not take {', '.join(sorted(options))}",
            mend="leave it out; constant takes constant_values",
        )


@compound
def _pad(x: Array, value: Array, *, widths: tuple[tuple[int, int], ...]) -> Array:
    return apply(
        ops.pad,
        x,
        value,
        low=tuple(low for low, _ in widths),
        high=tuple(high for _, high in widths),
        interior=(0,) * x.ndim,
    )


def diff(a: ArrayLike, n: int = 1, axis: int = -1) -> Array:
    """Return the differences of neighbours along an axis, `n` times; see `numpy.diff`."""
    x = as_array(a)
    number = normalize_axis(axis, x.ndim)
    for _ in range(n):
        x = _diff(x, axis=number)
    return x


@compound
def _diff(x: Array, *, axis: int) -> Array:
    size = x.shape[axis]
    if size == 0:
        return x
    upper, lower = slice_axis(x, axis, 1, size), slice_axis(x, axis, 0, size - 1)
    if x.dtype.kind == "b":
        return apply(ops.xor, upper, lower)
    return apply(ops.subtract, upper, lower)
