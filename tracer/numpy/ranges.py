"""Ranges and grids: arange, linspace, meshgrid."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tracer import ops
from tracer.array import promotion
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, broadcast, broadcast_shape, convert, host_array, reshape
from tracer.array.dispatch import apply, compound, from_host
from tracer.array.placement import beside_arguments
from tracer.array.promotion import Dtype, weak_class
from tracer.array.recording import current_recording
from tracer.errors import ArgumentError, DTypeError, TracingError, shown
from tracer.ir import as_dtype, require_countable
from tracer.numpy.creation import placed
from tracer.numpy.shaping import moveaxis
from tracer.numpy.ufunc import compare, select
from tracer.numpy.ufunc import full_like as _filled

_INT64 = as_dtype("int64")


@compound
def iota(*, shape: tuple[int, ...], dtype: Dtype, dimension: int) -> Array:
    """Return indices along one axis."""
    return apply(ops.iota, shape=shape, dtype=dtype, dimension=dimension)


def arange(
    start: Any,
    stop: Any = None,
    step: Any = None,
    dtype: Any = None,
    *,
    device: Any = None,
) -> Array:
    """Return evenly spaced numbers of a half-open interval.

    Parameters
    ----------
    start : number
        The first number; the end of the interval if it is given alone.
    stop : number, optional
        The end, not contained.
    step : number
        The distance; 1 by default.
    dtype : dtype, optional
        Of the result; by default that of the arguments.
    device : Device or str, optional
        Where the array goes.

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
    if any(isinstance(number, complex | np.complexfloating) for number in numbers):
        return from_host(np.arange(*numbers).astype(wanted), device)
    # NumPy's integers would wrap where they are subtracted.
    numbers = [int(number) if isinstance(number, np.integer) else number for number in numbers]
    size = _steps(*numbers)
    require_countable((size,), np.dtype(np.float64))
    if not size:
        return from_host(np.zeros(0, wanted), device)
    if current_recording() is None or wanted.kind in "bc":
        return from_host(_counted(numbers, wanted), device)
    return placed(_ramp(numbers[0], numbers[2], size, wanted), device)


def _counted(numbers: list[Any], dtype: Dtype) -> np.ndarray[Any, Any]:
    """Return the numbers as NumPy counts them: in the dtype, if that is not one of its own."""
    floats = any(isinstance(number, float | np.floating) for number in numbers)
    if dtype.kind == "f" or (floats and dtype.kind in "iu"):
        return np.arange(*numbers, dtype=dtype)
    return np.arange(*numbers).astype(dtype)


def _steps(start: Any, stop: Any, step: Any) -> int:
    """Return how many numbers there are."""
    steps: float = (stop - start) / step
    if not math.isfinite(steps):
        raise ArgumentError(f"arange from {start} to {stop} never ends", mend="give finite numbers")
    return max(0, math.ceil(steps))


def _concrete_number(name: str, value: Any) -> Any:
    if isinstance(value, Array):
        if value.is_traced:
            raise TracingError(
                f"{name} with a traced argument: the shape of the result would depend on values",
                mend="use Python numbers, such as x.shape[0], or static_argnums",
            )
        value = np.asarray(value)[()]
    elif isinstance(value, np.ndarray) and not value.ndim:
        value = value[()]
    if weak_class(value) is None and getattr(value, "shape", None) != ():
        raise DTypeError(
            f"{name}: {shown(value)} is not a number", mend="give Python numbers, such as x.item()"
        )
    return value


def _ramp(start: Any, step: Any, size: int, dtype: Dtype) -> Array:
    """Add multiples of the difference of the first two numbers, which is rounded, as NumPy does."""
    is_float = dtype.kind not in "iu"
    wide = promotion.promote_types(dtype, "float32") if is_float else dtype
    steps = iota(shape=(size,), dtype=wide, dimension=0)
    typed = wide.type if is_float else int
    first, second = (typed(dtype.type(x) if is_float else x) for x in (start, start + step))
    if second - first != 1:
        steps = apply(ops.multiply, steps, _filled(steps, second - first))
    if first != 0:
        steps = _rounded(steps) if is_float and second - first != 1 else steps
        steps = apply(ops.add, steps, _filled(steps, first))
    return convert(steps, dtype)


def _rounded(x: Array) -> Array:
    """Keep a product from being contracted with a sum: LLVM looks through no choice."""
    return select(compare(x, x, "NE"), _filled(x, math.nan), x)


def linspace(
    start: ArrayLike,
    stop: ArrayLike,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> Any:
    """Return `num` evenly spaced numbers from `start` to `stop`.

    Parameters
    ----------
    start, stop : array_like
        Ends; arrays are broadcast together and the numbers are along a new axis.
    num : int
        How many.
    endpoint : bool
        Whether `stop` is the last one.
    retstep : bool
        Return the distance of neighbours too.
    dtype : dtype, optional
        Of the result; floats by default. Integers are rounded down.
    axis : int
        The position of the new axis.
    device : Device or str, optional
        Where the array goes.

    Returns
    -------
    Array, shape (num, ...), or a pair of it and the step
        The numbers.
    """
    count = int(_concrete_number("linspace", num))
    if count < 0:
        raise ArgumentError(f"linspace cannot make {count} numbers", mend="give 0 or more")
    require_countable((count,), np.dtype(np.float64))
    wanted = None if dtype is None else as_dtype(dtype)
    if not isinstance(start, Array) and not isinstance(stop, Array):
        numbers, distance = np.linspace(  # type: ignore[call-overload] # one for each dtype
            start, stop, count, endpoint, True, wanted or _spaced_dtype(start, stop), axis
        )
        result, step = from_host(numbers, device), from_host(np.asarray(distance))
    else:
        wide = _spaced_dtype(start, stop)  # of the ends as given: a Python number is weak
        first, last = (convert(as_array(end), wide) for end in (start, stop))
        result, step = _spaced(first, last, count, bool(endpoint))
        if wanted is not None:
            result = convert(_floored(result) if wanted.kind in "iu" else result, wanted)
        result = placed(moveaxis(result, 0, axis) if axis else result, device)
    return (result, step) if retstep else result


def _spaced_dtype(start: Any, stop: Any) -> Dtype:
    def typed(end: Any) -> Any:
        has_type = isinstance(end, Array) or promotion.weak_class(end) is not None
        return end if has_type else host_array(end)

    return promotion.division_dtype(promotion.result_type(typed(start), typed(stop), 1.0))


def _spaced(start: Array, stop: Array, count: int, endpoint: bool) -> tuple[Array, Array]:
    shape = broadcast_shape("linspace", start.shape, stop.shape)
    start, stop = broadcast(start, shape), broadcast(stop, shape)
    positions = convert(iota(shape=(count, *shape), dtype=_INT64, dimension=0), start.dtype)
    distance = stop - start
    # Edges of bins decide, so each digit is NumPy's: XLA would multiply by the reciprocal of a
    # known divisor (see `tracer.optimizer.legalize.operation_order`), and round once for twice.
    divisor = _filled(distance, max(count - 1 if endpoint else count, 1))
    step = distance / select(compare(distance, distance, "NE"), distance, divisor)
    result = start + _rounded(positions * step)
    # The last number is `stop` itself, not what rounding makes of it.
    return (result.at[-1].set(stop) if endpoint and count > 1 else result), step


@compound
def _floored(x: Array) -> Array:
    return apply(ops.floor, x)


@beside_arguments
def meshgrid(*xi: ArrayLike, indexing: str = "xy", sparse: bool = False) -> list[Array]:
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
    list of Array
        One for each argument (a list, as the array API standard has it; NumPy's is a tuple).
    """
    if indexing not in ("xy", "ij"):
        raise ArgumentError(f"indexing {indexing!r} is not known", mend='use "xy" or "ij"')
    arrays = [reshape(as_array(x), (as_array(x).size,)) for x in xi]
    order = list(range(len(arrays)))
    if indexing == "xy" and len(arrays) > 1:
        order[:2] = [1, 0]
    grids = [
        reshape(x, tuple(x.size if axis == place else 1 for axis in range(len(arrays))))
        for x, place in zip(arrays, order, strict=True)
    ]
    if sparse:
        return grids
    shape = broadcast_shape("meshgrid", *[x.shape for x in grids])
    return [broadcast(x, shape) for x in grids]
