"""Choices, element by element."""

from __future__ import annotations

import functools

from tracer import ops
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, broadcast
from tracer.array.dispatch import apply, compound
from tracer.errors import ArgumentError, DTypeError, ShapeError
from tracer.lax.operands import of_one_dtype
from tracer.numpy.ufunc import compare, full_like


def clamp(min: ArrayLike, x: ArrayLike, max: ArrayLike) -> Array:
    """Move elements into an interval.

    Parameters
    ----------
    min, max : array_like
        The bounds: scalars, or the shape of `x`; of its dtype.
    x : array_like
        Real numbers.

    Returns
    -------
    Array
        min where x < min, max where x > max, else x. Where min > max it is max.

    Raises
    ------
    DTypeError, ShapeError
        Operands of other dtypes or shapes.
    """
    low, middle, high = of_one_dtype("clamp", min, x, max)
    for bound in (low, high):
        if bound.shape not in ((), middle.shape):
            raise ShapeError(
                f"lax.clamp: a bound of shape {bound.shape} for an array {middle.shape}",
                mend="give scalars, or bounds of the array's shape",
            )
    return _clamp(low, middle, high)


@compound
def _clamp(low: Array, x: Array, high: Array) -> Array:
    return apply(ops.clamp, broadcast(low, x.shape), x, broadcast(high, x.shape))


def select(pred: ArrayLike, on_true: ArrayLike, on_false: ArrayLike) -> Array:
    """Choose element by element.

    Parameters
    ----------
    pred : array_like of bool
        Of the shape of the cases, or a scalar.
    on_true, on_false : array_like
        Two arrays of one shape and dtype.

    Returns
    -------
    Array
        `on_true` where `pred`, else `on_false`.

    Raises
    ------
    DTypeError, ShapeError
        The cases differ in dtype or shape, or `pred` does not fit.
    """
    return select_n(pred, on_false, on_true)


def select_n(which: ArrayLike, *cases: ArrayLike) -> Array:
    """Choose among any number of cases, element by element.

    Parameters
    ----------
    which : array_like of bool or int32
        The number of the case, of the cases' shape or a scalar; False is the first of two.
    *cases : array_like
        Arrays of one shape and dtype.

    Returns
    -------
    Array
        The chosen elements; numbers out of bounds choose the nearest case.

    Raises
    ------
    DTypeError, ShapeError
        The cases differ in dtype or shape, or `which` does not fit.

    Examples
    --------
    >>> import tracer.lax as lax
    >>> import tracer.numpy as tnp
    >>> lax.select_n(tnp.array([True, False]), tnp.zeros(2), tnp.ones(2)).tolist()
    [1.0, 0.0]
    """
    index = as_array(which)
    if not cases:
        raise ArgumentError("lax.select_n has no cases", mend="give one array or more")
    values = of_one_dtype("select_n", *cases)
    if len({x.shape for x in values}) > 1:
        raise ShapeError(
            f"lax.select_n: cases of shapes {', '.join(str(x.shape) for x in values)}",
            mend="give cases of one shape",
        )
    if index.shape not in ((), values[0].shape):
        raise ShapeError(
            f"lax.select_n: which has shape {index.shape}, the cases have {values[0].shape}",
            mend="give a scalar, or the shape of the cases",
        )
    if index.dtype.kind not in "bi" or (index.dtype.kind == "b" and len(values) > 2):
        raise DTypeError(
            f"lax.select_n: which is {index.type} for {len(values)} cases",
            mend="give integers, or bools for two cases",
        )
    return _select_n(index, *values)


@compound
def _select_n(which: Array, *cases: Array) -> Array:
    return chosen(broadcast(which, cases[0].shape), *cases)


def chosen(which: Array, *values: Array) -> Array:
    """Choose among cases of one shape; the first one is for False."""
    if len(values) == 1:
        return values[0]
    if which.dtype.kind == "b":
        return apply(ops.select, which, values[1], values[0])

    def choose(result: Array, item: tuple[int, Array]) -> Array:
        position, case = item
        return apply(ops.select, compare(which, full_like(which, position), "GE"), case, result)

    return functools.reduce(choose, enumerate(values[1:], 1), values[0])
