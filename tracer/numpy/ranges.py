"""Ranges and grids: arange, linspace, meshgrid."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from tracer import ops
from tracer.errors import ArgumentError, TracingError
from tracer.ir import as_dtype
from tracer.numpy import promotion
from tracer.numpy.base import ArrayBase, ArrayLike
from tracer.numpy.convert import (
    as_array,
    broadcast,
    broadcast_shape,
    convert,
    reshape,
)
from tracer.numpy.dispatch import apply, compound, from_host
from tracer.numpy.promotion import Dtype
from tracer.numpy.recording import current_recording
from tracer.numpy.ufunc import full_like as _filled

if TYPE_CHECKING:
    from tracer.numpy.array import Array

_FLOAT64 = as_dtype("float64")


@compound
def iota(*, shape: tuple[int, ...], dtype: Dtype, dimension: int) -> Array:
    """Return indices along one axis."""
    return apply(ops.iota, shape=shape, dtype=dtype, dimension=dimension)


def arange(start: Any, stop: Any = None, step: Any = None, dtype: Any = None) -> Array:
    """Return evenly spaced numbers of a half-open interval.

    Parameters
    ----------
    start : number
        The first number; the end of the interval when it stands alone.
    stop : number, optional
        The end, not contained.
    step : number
        The distance; 1 by default.
    dtype : dtype, optional
        Of the result; by default that of the arguments.

    Returns
    -------
    Array, one axis
        start, start + step, ...

    Raises
    ------
    TracingError
        An argument is traced: the size would depend on values.
    """
    if stop is None:
        start, stop = 0, start
    step = 1 if step is None else step
    numbers = [_concrete_number("arange", value) for value in (start, stop, step)]
    if numbers[2] == 0:
        raise ArgumentError("arange with step 0 never ends", mend="give another step")
    wanted = promotion.result_type(*numbers) if dtype is None else as_dtype(dtype)
    if current_recording() is None or wanted.kind in "bc":
        return from_host(np.arange(*numbers).astype(wanted))
    size = max(0, math.ceil((numbers[1] - numbers[0]) / numbers[2]))
    return _ramp(numbers[0], numbers[2], size, wanted)


def _concrete_number(name: str, value: Any) -> Any:
    if isinstance(value, ArrayBase):
        if value.is_traced:
            raise TracingError(
                f"{name} with a traced argument: the shape of the result would depend on values",
                mend="use Python numbers, such as x.shape[0], or static_argnums",
            )
        return np.asarray(value)[()]
    return value


def _ramp(start: Any, step: Any, size: int, dtype: Dtype) -> Array:
    steps = iota(shape=(size,), dtype=dtype, dimension=0)
    if step != 1:
        steps = apply(ops.multiply, steps, _filled(steps, step))
    if start != 0:
        steps = apply(ops.add, steps, _filled(steps, start))
    return steps


def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    *,
    dtype: Any = None,
) -> Array:
    """Return `num` evenly spaced numbers from `start` to `stop`.

    Parameters
    ----------
    start, stop : array_like
        Ends; arrays are broadcast together and the numbers lie along a new first axis.
    num : int
        How many.
    endpoint : bool
        Whether `stop` is the last one.
    dtype : dtype, optional
        Of the result; floats by default.

    Returns
    -------
    Array, shape (num, ...)
        The numbers.
    """
    count = int(_concrete_number("linspace", num))
    if count < 0:
        raise ArgumentError(f"linspace of {count} numbers", mend="give 0 or more")
    if not isinstance(start, ArrayBase) and not isinstance(stop, ArrayBase):
        numbers = np.linspace(start, stop, count, endpoint)  # type: ignore[arg-type]
        return from_host(numbers.astype(as_dtype(dtype)) if dtype else numbers)
    first, last = as_array(start), as_array(stop)
    wide = promotion.promote_types(promotion.result_type(first, last), _FLOAT64)
    first, last = convert(first, wide), convert(last, wide)
    shape = broadcast_shape("linspace", first.shape, last.shape)
    first, last = broadcast(first, shape), broadcast(last, shape)
    positions = iota(shape=(count, *shape), dtype=wide, dimension=0)
    result = first + positions * ((last - first) / max(count - 1 if endpoint else count, 1))
    return result if dtype is None else convert(result, as_dtype(dtype))


def meshgrid(*xi: ArrayLike, indexing: str = "xy", sparse: bool = False) -> tuple[Array, ...]:
    """Return coordinate arrays of a grid.

    Parameters
    ----------
    *xi : array_like, one axis
        Coordinates along each axis.
    indexing : {"xy", "ij"}
        Whether the first two axes of the result are swapped.
    sparse : bool
        Leave the axes at size one that could be broadcast.

    Returns
    -------
    tuple of Array
        One for each argument.
    """
    if indexing not in ("xy", "ij"):
        raise ArgumentError(f"indexing {indexing!r} is not known", mend='use "xy" or "ij"')
    arrays = [reshape(as_array(x), (as_array(x).size,)) for x in xi]
    order = list(range(len(arrays)))
    if indexing == "xy" and len(arrays) > 1:
        order[:2] = [1, 0]
    placed = [
        reshape(x, tuple(x.size if axis == place else 1 for axis in range(len(arrays))))
        for x, place in zip(arrays, order, strict=True)
    ]
    if sparse:
        return tuple(placed)
    shape = broadcast_shape("meshgrid", *[x.shape for x in placed])
    return tuple(broadcast(x, shape) for x in placed)
