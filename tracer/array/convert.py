"""From anything array-like to Array, and the conversions that every family shares."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from tracer import ops
from tracer.array import promotion
from tracer.array.active import ACTIVE
from tracer.array.array import Array, ArrayLike
from tracer.array.dispatch import apply, compound, from_host
from tracer.array.placement import place_beside
from tracer.array.promotion import Dtype, weak_class
from tracer.array.recording import current_recording
from tracer.errors import AxisError, DTypeError, ShapeError, shown
from tracer.ir import as_dtype
from tracer.ir.storage import InStorage, needed_in_memory
from tracer.ir.types import MOST_AXES, SUPPORTED_DTYPES

_SCALARS: dict[Any, Array] = {}
_SCALARS_SIZE = 4096


def as_array(value: ArrayLike, device: Any = None) -> Array:
    """Return `value` itself when it is an Array, otherwise an Array of its data, on a device.

    The result is strong, for Python numbers and for weak arrays, whose data it shares.

    Raises
    ------
    DTypeError
        Ragged lists, strings, objects, and dtypes that are not supported.
    """
    if isinstance(value, Array):
        return _strong(value) if value.weak_type else value
    if isinstance(value, list | tuple) and holds_arrays(value):
        return _stack_nested(value)
    return from_host(host_array(value), device)


def as_written(value: ArrayLike, dtype: Dtype, device: Any = None) -> Array:
    """Return array-like data in the dtype of the array that it is written into.

    Raises
    ------
    RangeError
        A Python number, also in a list, does not fit into it.
    ArgumentError
        It is NaN, for an array of integers.
    DTypeError
        It is complex, for an array of reals.
    """
    promotion.require_fitting(value, dtype)
    return convert(as_array(value, device), dtype)


def _strong(weak: Array) -> Array:
    found = weak._snapshot()
    cls = weak_class(weak)
    return found if cls is None else convert(found, promotion.default_dtype(cls))


def array_or_number(value: ArrayLike) -> Any:
    """Return a Python number as it is, so that its dtype is weak, and all else as an Array."""
    return value if isinstance(value, int | float) else as_array(value)


def host_array(value: Any, dtype: Any = None) -> np.ndarray[Any, Any]:
    """Return array-like data as a NumPy array of a supported dtype."""
    wanted = None if dtype is None else as_dtype(dtype)
    if isinstance(value, InStorage):
        raise needed_in_memory(value)
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise DTypeError(
            "cannot make an array of a masked array: arrays here have no mask, and the masked "
            "elements would count",
            mend="give x.filled(value), or x.compressed() for the elements that are not masked",
        )
    try:
        array = np.asarray(value, wanted)
    except OverflowError:
        return promotion.scalar_value(value, cast("Dtype", wanted))
    except (ValueError, TypeError) as error:
        if isinstance(error, DTypeError):
            raise
        raise DTypeError(
            f"cannot make an array of {shown(value)}: {error}",
            mend="give numbers, or nested lists in which all lists of a level have one length",
        ) from error
    if wanted is None:
        narrow = promotion.as_default(array)
        # Lists are looked through only where it matters.
        array = narrow if narrow is array or _is_python_data(value) else array
    if array.dtype not in SUPPORTED_DTYPES:
        if array.dtype.kind in "biufc" and array.dtype.itemsize <= 16:
            return array.astype(as_dtype(array.dtype))
        raise DTypeError(
            f"cannot make an array of {shown(value)}: NumPy makes dtype {array.dtype} of it",
            mend="give numbers of one of the dtypes " + ", ".join(SUPPORTED_DTYPES.values()),
        )
    return array


def _is_python_data(value: Any) -> bool:
    """Tell whether data has no dtype of its own: Python numbers, and lists of them."""
    if isinstance(value, list | tuple):
        return all(map(_is_python_data, value))
    return weak_class(value) is not None


def holds_arrays(values: Sequence[Any], depth: int = 0) -> bool:
    """Tell whether there is an Array in nested lists, no deeper than arrays have axes.

    Lists can be nested deeper, and can hold themselves: NumPy refuses to make arrays of those.
    """
    return depth <= MOST_AXES and any(
        isinstance(value, Array)
        or (isinstance(value, list | tuple) and holds_arrays(value, depth + 1))
        for value in values
    )


def _stack_nested(values: Sequence[Any]) -> Array:
    parts = [as_array(value) for value in values]
    shapes = {part.shape for part in parts}
    if len(shapes) > 1:
        raise ShapeError(
            f"a list of arrays of shapes {sorted(shapes)} makes no array",
            mend="give arrays of one shape",
        )
    dtype = promotion.result_type(*values) if _flat(values) else promotion.result_type(*parts)
    return stack_first(*[convert(part, dtype) for part in parts])


def _flat(values: Sequence[Any]) -> bool:
    return all(isinstance(value, Array) or weak_class(value) is not None for value in values)


@compound
def stack_first(*arrays: Array) -> Array:
    """Stack arrays of one type along a new first axis."""
    expanded = [reshape(array, (1, *array.shape)) for array in arrays]
    return apply(ops.concatenate, *expanded, dimension=0)


def scalar(value: Any, dtype: Dtype) -> Array:
    """Return a Python number as a 0-d Array, or a weak array as a strong one, to compute with.

    Concrete ones are kept and shared, so they must not reach the user, who may donate them.
    """
    if isinstance(value, Array) and value.weak_type:
        return _narrowed(as_array(value), dtype)
    recording = current_recording()
    if recording is not None:
        return recording.scalar(value, dtype)
    if ACTIVE.place is not None:
        return from_host(promotion.scalar_value(value, dtype))
    # 0.0 and -0.0 are equal, so zeros are told apart by their text.
    key = (value.__class__, value or str(value), dtype)
    known = _SCALARS
    found = known.get(key)
    if found is None or found.is_deleted():
        found = from_host(promotion.scalar_value(value, dtype))
        if len(known) >= _SCALARS_SIZE:
            known.clear()
        known[key] = found
    return found


def _narrowed(x: Array, dtype: Dtype) -> Array:
    """Return a weak array in the dtype of what it meets, with the refusals of a Python number."""
    if x.dtype.kind == "c" and dtype.kind not in "bc":
        raise DTypeError(
            f"a Python complex number cannot be stored as {dtype}",
            mend="use a complex dtype, or .real",
        )
    return convert(x, dtype)


def forget_scalars() -> None:
    """Forget the shared 0-d Arrays: they are on what was the default device."""
    global _SCALARS
    _SCALARS = {}  # Another one: threads may be about to enter what they put on the old device.


def as_arrays(*values: ArrayLike) -> tuple[Array, ...]:
    """Return array-likes as Arrays; Python numbers take the dtype of the rest (NEP 50)."""
    classes = [promotion.weak_class(value) for value in values]
    given = [value for value, cls in zip(values, classes, strict=True) if cls is None]
    place = None if all(isinstance(v, Array) for v in given) else place_beside(given)
    strong = [as_array(value, place) for value in given]
    if not strong:
        pairs = zip(values, classes, strict=True)
        return tuple(scalar(value, promotion.default_dtype(cls)) for value, cls in pairs if cls)
    if len(strong) == len(values):
        return tuple(strong)
    dtype = promotion.result_type(*strong)
    rest = iter(strong)
    return tuple(
        next(rest) if cls is None else scalar(value, promotion.weak_dtype(dtype, cls))
        for value, cls in zip(values, classes, strict=True)
    )


def convert(x: Array, dtype: Dtype) -> Array:
    """Return `x` in another dtype; itself when it has that dtype."""
    if x._type.dtype == dtype:
        return x
    return _convert(x, dtype=dtype)


@compound
def _convert(x: Array, *, dtype: Dtype) -> Array:
    if x.dtype.kind == "c" and dtype.kind != "c":
        if dtype.kind == "b":
            zero = broadcast(scalar(0, x.dtype), x.shape)
            return apply(ops.compare, x, zero, direction="NE")
        x = apply(ops.real, x)
    return x if x.dtype == dtype else apply(ops.convert, x, dtype=dtype)


def reshape(x: Array, shape: tuple[int, ...]) -> Array:
    """Return `x` in another shape of equal size; itself when it has that shape."""
    return x if x._type.shape == shape else _reshape(x, shape=shape)


@compound
def _reshape(x: Array, *, shape: tuple[int, ...]) -> Array:
    return apply(ops.reshape, x, shape=shape)


def with_ndim(x: Array, ndim: int) -> Array:
    """Return `x` with axes of size one in front, up to so many axes."""
    return reshape(x, (1,) * (ndim - x.ndim) + x.shape)


def transpose(x: Array, permutation: tuple[int, ...]) -> Array:
    """Permute the axes; `x` itself when they stay."""
    if permutation == tuple(range(x.ndim)):
        return x
    return _transpose(x, permutation=permutation)


@compound
def _transpose(x: Array, *, permutation: tuple[int, ...]) -> Array:
    return apply(ops.transpose, x, permutation=permutation)


def broadcast(x: Array, shape: tuple[int, ...]) -> Array:
    """Broadcast to a shape that `x` is known to fit, in one op; itself when it has that shape."""
    if x._type.shape == shape:
        return x
    return _broadcast(x, shape=shape)


@compound
def _broadcast(x: Array, *, shape: tuple[int, ...]) -> Array:
    first = len(shape) - x.ndim
    dimensions = tuple(range(first, len(shape)))
    return apply(ops.broadcast_in_dim, x, shape=shape, dimensions=dimensions)


def broadcast_shape(name: str, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape in which shapes meet under NumPy's rules.

    Raises
    ------
    ShapeError
        They do not fit.
    """
    if len(set(shapes)) == 1:
        return shapes[0]
    ndim = max(map(len, shapes))
    padded = [(1,) * (ndim - len(shape)) + shape for shape in shapes]
    result = []
    for sizes in zip(*padded, strict=True):
        wanted = {size for size in sizes if size != 1}
        if len(wanted) > 1:
            shown = " and ".join(map(str, shapes))
            raise ShapeError(
                f"{name}: shapes {shown} cannot be broadcast together",
                mend="axes are compared from the right; each pair of sizes must be equal or "
                "contain 1 (insert axes with x[:, None] or reshape)",
            )
        result.append(wanted.pop() if wanted else 1)
    return tuple(result)


def normalize_axis(axis: Any, ndim: int) -> int:
    """Return an axis as an int in 0..ndim-1, or raise `AxisError`."""
    try:
        number = operator.index(axis)
    except TypeError as error:
        raise DTypeError(
            f"an axis is an integer, not {shown(axis)}", mend="give an integer"
        ) from error
    if not -ndim <= number < ndim:
        raise AxisError(
            f"axis {number} is out of bounds for an array of {ndim} dimensions",
            mend=f"give an axis from {-ndim} to {ndim - 1}" if ndim else "a scalar has no axes",
        )
    return number % ndim


def normalize_axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """Return None (all axes), an axis or a tuple of axes as distinct sorted ints."""
    return tuple(sorted(axes_in_order(axis, ndim)))


def axes_in_order(axis: Any, ndim: int) -> tuple[int, ...]:
    """Return None (all axes), an axis or a tuple of axes as distinct ints, in the order given."""
    if axis is None:
        return tuple(range(ndim))
    axes = axis if isinstance(axis, tuple | list) else (axis,)
    result = tuple(normalize_axis(item, ndim) for item in axes)
    if len(set(result)) != len(result):
        raise ShapeError(f"axis {axis} names an axis twice", mend="name each axis once")
    return result


def reduced_axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """Return the axes of a reduction: NumPy lets a number without axes have axes 0 and -1."""
    return () if not ndim and type(axis) is int and axis in (0, -1) else normalize_axes(axis, ndim)


def reduced_axis(axis: Any, ndim: int) -> int | None:
    """Return the axis of a reduction along one; None for all, or where a number has none."""
    return None if axis is None else next(iter(reduced_axes(axis, ndim)), None)


def as_keepdims(keepdims: Any) -> bool:
    """Return whether reduced axes are kept: a bool or, as in NumPy, an integer.

    Raises
    ------
    DTypeError
        It is neither: the word "no" would count as yes.
    """
    if isinstance(keepdims, bool | np.bool_):
        return bool(keepdims)
    try:
        return bool(operator.index(keepdims))
    except TypeError as error:
        raise DTypeError(
            f"keepdims is True or False, not {shown(keepdims)}", mend="give True or False"
        ) from error


def as_shape(shape: Any) -> tuple[int, ...]:
    """Return a shape argument (an int or a sequence of ints) as a tuple of ints."""
    try:
        return (int(operator.index(shape)),)
    except TypeError:
        pass  # Then it has several sizes: an array has an index only where it is one number.
    try:
        return tuple([int(operator.index(size)) for size in shape])
    except TypeError as error:
        raise ShapeError(
            f"a shape is a tuple of integers, not {shown(shape)}",
            mend="give integers, such as (3, 4)",
        ) from error
