"""Convolution with the features last; `tracer.lax.conv_general_dilated` has any layout."""

from __future__ import annotations

from collections.abc import Sequence

from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array
from tracer.lax.convolution import conv_general_dilated
from tracer.lax.window import Padding


def conv(
    x: ArrayLike,
    kernel: ArrayLike,
    *,
    strides: int | Sequence[int] = 1,
    padding: Padding = "SAME",
    dilation: int | Sequence[int] = 1,
    feature_group_count: int = 1,
) -> Array:
    """Convolution with the features last, of any number of spatial axes.

    Parameters
    ----------
    x : array_like, shape (batch, *spatial, features)
        The layout that needs no transposed copies on the CPU.
    kernel : array_like, shape (*window, features // groups, outputs)
        The kernel, one for each output.
    strides : int or sequence of int
        Distance of neighbouring windows.
    padding : str, int, or sequence of int or of pairs
        As of `conv_general_dilated`.
    dilation : int or sequence of int
        Distance of neighbouring elements within a window.
    feature_group_count : int
        Groups of features; as many as features make a depthwise convolution.

    Returns
    -------
    Array, shape (batch, *spatial, outputs)
        In the promoted dtype.

    Raises
    ------
    ShapeError, ArgumentError, DTypeError
        As of `conv_general_dilated`.

    Examples
    --------
    >>> import tracer.nn
    >>> import tracer.numpy as tnp
    >>> tracer.nn.conv(tnp.ones((2, 28, 28, 3)), tnp.ones((3, 3, 3, 8)), strides=2).shape
    (2, 14, 14, 8)
    """
    operand, weights = as_array(x), as_array(kernel)
    letters = "".join(chr(ord("a") + i) for i in range(weights.ndim - 2))
    layouts = (f"N{letters}C", f"{letters}IO", f"N{letters}C")
    return conv_general_dilated(
        operand,
        weights,
        strides,
        padding,
        rhs_dilation=dilation,
        dimension_numbers=layouts,
        feature_group_count=feature_group_count,
    )


__all__ = ["conv", "conv_general_dilated"]
