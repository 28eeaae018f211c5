"""Joining and cutting: concatenate, stack, split, tile, repeat, roll, pad."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from tracer import ops
from tracer.array import promotion
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, as_arrays, convert, normalize_axis, reshape
from tracer.array.dispatch import apply, compound
from tracer.array.promotion import Dtype
from tracer.errors import DTypeError, ShapeError
from tracer.ir import as_dtype
from tracer.numpy.shaping import atleast_1d, atleast_2d, atleast_3d, ravel


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
        Of the result; the promoted dtype by default. As in NumPy, floats are not made integers.

    Returns
    -------
    Array
        The joined array.

    Raises
    ------
    DTypeError
        The dtype is of a narrower kind than the arrays'.
    ShapeError
        No arrays, or shapes that do not fit.
    """
    parts = _as_parts("concatenate", arrays)
    if axis is None:
        parts, axis = [ravel(part) for part in parts], 0
    number = normalize_axis(axis, parts[0].ndim)
    _require_equal_but("concatenate", parts, number)
    wanted = _joined_dtype("concatenate", parts, dtype)
    return _concatenate(*parts, axis=number, dtype=wanted)


concat = concatenate


def _as_parts(name: str, arrays: Any) -> list[Array]:
    if not isinstance(arrays, Iterable):
        raise DTypeError(
            f"{name} takes a sequence of arrays, not {arrays!r}", mend="give a list of arrays"
        )
    parts = [as_array(array) for array in arrays]
    if not parts:
        raise ShapeError(f"{name} needs at least one array", mend="give at least one array")
    return parts


def _require_equal_but(name: str, parts: Sequence[Array], axis: int) -> None:
    shapes = {(*part.shape[:axis], *part.shape[axis + 1 :]) for part in parts}
    if len(shapes) > 1 or len({part.ndim for part in parts}) > 1:
        raise ShapeError(
            f"{name} along axis {axis}: shapes {', '.join(str(part.shape) for part in parts)} "
            "differ elsewhere",
            mend="make all other axes equal",
        )


def _joined_dtype(name: str, parts: Sequence[Array], dtype: Any) -> Dtype:
    own = promotion.result_type(*parts)
    if dtype is None:
        return own
    wanted = as_dtype(dtype)
    if not promotion.can_cast(own, wanted, "same_kind"):
        raise DTypeError(
            f"{name}: arrays of dtype {own} are not made {wanted}, which would lose what it "
            "cannot hold",
            mend=f"convert them first: x.astype({str(wanted)!r})",
        )
    return wanted


@compound
def _concatenate(*arrays: Array, axis: int, dtype: Dtype) -> Array:
    parts = [convert(array, dtype) for array in arrays]
    return apply(ops.concatenate, *parts, dimension=axis) if len(parts) > 1 else parts[0]


def stack(arrays: Sequence[ArrayLike], axis: int = 0, *, dtype: Any = None) -> Array:
    """Join arrays of one shape along a new axis, at a position counted in the result."""
    parts = _as_parts("stack", arrays)
    if len({part.shape for part in parts}) > 1:
        raise ShapeError(
            f"stack: shapes {', '.join(str(part.shape) for part in parts)} differ",
            mend="give arrays of one shape",
        )
    number = normalize_axis(axis, parts[0].ndim + 1)
    wanted = _joined_dtype("stack", parts, dtype)
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
