"""Sliding products of two sequences."""

from __future__ import annotations

from tracer import ops
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, convert, reshape
from tracer.array.dispatch import apply, compound
from tracer.array.promotion import result_type
from tracer.errors import ArgumentError, ShapeError
from tracer.ir import as_dtype
from tracer.numpy.elementwise import conjugate
from tracer.numpy.ufunc import is_complex, is_nonzero

_MODES = ("full", "same", "valid")


def convolve(a: ArrayLike, v: ArrayLike, mode: str = "full") -> Array:
    """Discrete convolution of two sequences.

    Parameters
    ----------
    a, v : array_like, shape (n,) and (m,)
        Neither may be empty.
    mode : {"full", "same", "valid"}
        All n + m - 1 sums, max(n, m) of them around the middle, or those without missing terms.

    Returns
    -------
    Array, shape (n + m - 1,), (max(n, m),) or (abs(n - m) + 1,)
        In the promoted dtype.

    Raises
    ------
    ShapeError
        An operand is empty or has several dimensions.
    ArgumentError
        There is no such mode.

    See Also
    --------
    numpy.convolve

    Examples
    --------
    >>> import tracer.numpy as tnp
    >>> tnp.convolve([1.0, 2.0, 3.0], [0.0, 1.0, 0.5]).tolist()
    [0.0, 1.0, 2.5, 4.0, 1.5]
    """
    x, y = _sequences("convolve", a, v, mode)
    if y.shape[0] > x.shape[0]:
        x, y = y, x
    return _convolve(x, y, mode=mode)


def correlate(a: ArrayLike, v: ArrayLike, mode: str = "valid") -> Array:
    """Cross-correlation of two sequences: sums of `a[n + k] * conj(v[n])` over n.

    Parameters
    ----------
    a, v : array_like, shape (n,) and (m,)
        Neither may be empty.
    mode : {"valid", "same", "full"}
        As of `convolve`.

    Returns
    -------
    Array, shape (abs(n - m) + 1,), (max(n, m),) or (n + m - 1,)
        In the promoted dtype.

    Raises
    ------
    ShapeError
        An operand is empty or has several dimensions.
    ArgumentError
        There is no such mode.

    See Also
    --------
    numpy.correlate

    Examples
    --------
    >>> import tracer.numpy as tnp
    >>> tnp.correlate([1.0, 2.0, 3.0], [0.0, 1.0, 0.5]).tolist()
    [3.5]
    """
    x, y = _sequences("correlate", a, v, mode)
    return _correlate(x, y, mode=mode)


def _sequences(name: str, a: ArrayLike, v: ArrayLike, mode: str) -> tuple[Array, Array]:
    if mode not in _MODES:
        raise ArgumentError(f"{name} has no mode {mode!r}", mend=f"use one of {', '.join(_MODES)}")
    x, y = (reshape(x, x.shape or (1,)) for x in (as_array(a), as_array(v)))
    if x.ndim != 1 or y.ndim != 1 or 0 in (*x.shape, *y.shape):
        raise ShapeError(
            f"{name} of arrays of shapes {x.shape} and {y.shape}",
            mend="give two sequences of one dimension and at least one element",
        )
    return x, y


@compound
def _convolve(x: Array, y: Array, *, mode: str) -> Array:
    return _slide(x, apply(ops.reverse, y, dimensions=(0,)), mode)


@compound
def _correlate(x: Array, y: Array, *, mode: str) -> Array:
    # NumPy's conjugate of a bool is an integer.
    y = conjugate(y) if is_complex(y) else y
    if y.shape[0] <= x.shape[0]:
        return _slide(x, y, mode)
    return apply(ops.reverse, _slide(y, x, mode), dimensions=(0,))


def _slide(x: Array, y: Array, mode: str) -> Array:
    """Multiply `y` with every window of `x`, which is at least as long."""
    dtype = result_type(x, y)
    if dtype.kind == "b":
        # A sum of products of bools is an or of ands: count in int32, then test.
        count = as_dtype("int32")
        return is_nonzero(_slide(convert(x, count), convert(y, count), mode))
    last = y.shape[0] - 1
    before = y.shape[0] // 2
    padding = {"full": (last, last), "same": (before, last - before), "valid": (0, 0)}[mode]
    result = apply(
        ops.convolution,
        reshape(convert(x, dtype), (1, 1, x.shape[0])),
        reshape(convert(y, dtype), (1, 1, y.shape[0])),
        lhs_axes=(0, 1, 2),
        rhs_axes=(0, 1, 2),
        result_axes=(0, 1, 2),
        window_strides=(1,),
        padding=(padding,),
        lhs_dilation=(1,),
        rhs_dilation=(1,),
        feature_group_count=1,
        batch_group_count=1,
    )
    return reshape(result, (result.shape[2],))
