"""Pooling over windows, with the features last."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tracer import ops
from tracer.array import promotion
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, broadcast, convert, scalar
from tracer.array.dispatch import apply, compound
from tracer.errors import DTypeError, ShapeError
from tracer.ir import Op
from tracer.lax.window import Padding, integers, pairs
from tracer.numpy.ufunc import full_like


def max_pool(
    x: ArrayLike,
    window_shape: int | Sequence[int],
    *,
    strides: int | Sequence[int] | None = None,
    padding: Padding = "VALID",
) -> Array:
    """Return the largest element of each window.

    Parameters
    ----------
    x : array_like, shape (batch, *spatial, features)
        Real numbers.
    window_shape : int or sequence of int
        Size of a window along each spatial axis.
    strides : int or sequence of int, optional
        Distance of neighbouring windows; by default they touch.
    padding : str, int, or sequence of int or of pairs
        "VALID", "SAME", or places before and behind each spatial axis, which never win.

    Returns
    -------
    Array, shape (batch, *spatial, features)
        In the dtype of `x`; NaN where a window holds one.

    Raises
    ------
    ShapeError, ArgumentError, DTypeError
        Windows that do not fit the array, or complex numbers.

    Notes
    -----
    Where a window holds its maximum several times, the first place gets the gradient.

    Examples
    --------
    >>> import tracer.nn
    >>> import tracer.numpy as tnp
    >>> tracer.nn.max_pool(tnp.arange(16.0).reshape(1, 4, 4, 1), 2).ravel().tolist()
    [5.0, 7.0, 13.0, 15.0]
    """
    array = as_array(x)
    return _pool(
        array, op=ops.reduce_window_maximum, **_windows(array, window_shape, strides, padding)
    )


def avg_pool(
    x: ArrayLike,
    window_shape: int | Sequence[int],
    *,
    strides: int | Sequence[int] | None = None,
    padding: Padding = "VALID",
    count_include_pad: bool = True,
) -> Array:
    """Return the mean of each window.

    Parameters
    ----------
    x : array_like, shape (batch, *spatial, features)
        Numbers.
    window_shape : int or sequence of int
        Size of a window along each spatial axis.
    strides : int or sequence of int, optional
        Distance of neighbouring windows; by default they touch.
    padding : str, int, or sequence of int or of pairs
        "VALID", "SAME", or zeros before and behind each spatial axis.
    count_include_pad : bool
        Count the zeros of the padding as elements.

    Returns
    -------
    Array, shape (batch, *spatial, features)
        In the dtype of `x`; float64 for integers.

    Raises
    ------
    ShapeError, ArgumentError, DTypeError
        Windows that do not fit the array.

    Examples
    --------
    >>> import tracer.nn
    >>> import tracer.numpy as tnp
    >>> tracer.nn.avg_pool(tnp.arange(16.0).reshape(1, 4, 4, 1), 2).ravel().tolist()
    [2.5, 4.5, 10.5, 12.5]
    """
    array = as_array(x)
    params = _windows(array, window_shape, strides, padding)
    return _avg_pool(array, counts_padding=bool(count_include_pad), **params)


@compound
def _pool(x: Array, *, op: Op, **params: Any) -> Array:
    return apply(op, x, **params)


@compound
def _avg_pool(x: Array, *, counts_padding: bool, **params: Any) -> Array:
    x = convert(x, promotion.division_dtype(x.dtype))
    total = apply(ops.reduce_window_add, x, **params)
    if counts_padding:
        count = full_like(total, math.prod(params["window_dimensions"]))
    else:
        # One element of the batch and of the features is enough to count.
        one = broadcast(scalar(1, x.dtype), (1, *x.shape[1:-1], 1))
        count = broadcast(apply(ops.reduce_window_add, one, **params), total.shape)
    return apply(ops.divide, total, count)


def _windows(
    x: Array,
    window_shape: int | Sequence[int],
    strides: int | Sequence[int] | None,
    padding: Padding,
) -> dict[str, Any]:
    """Return the parameters of a windowed reduction."""
    if x.ndim < 3:
        raise ShapeError(
            f"pooling needs a spatial axis, and shape {x.shape} has none",
            mend="give an array of shape (batch, *spatial, features)",
        )
    if x.dtype.kind == "b":
        raise DTypeError(
            "pooling does not take bools", mend="convert to an integer or floating dtype first"
        )
    count = x.ndim - 2
    window = integers("window_shape", window_shape, count)
    steps = window if strides is None else integers("strides", strides, count)
    around = pairs(padding, x.shape[1:-1], window, steps)
    ones = (1,) * x.ndim
    return {
        "window_dimensions": (1, *window, 1),
        "window_strides": (1, *steps, 1),
        "base_dilation": ones,
        "window_dilation": ones,
        "padding": ((0, 0), *around, (0, 0)),
    }
