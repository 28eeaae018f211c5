"""Convolution. Names, defaults and meaning are those of `jax.lax.conv_general_dilated`."""

from __future__ import annotations

from collections.abc import Sequence

from tracer import ops
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, convert
from tracer.array.dispatch import apply, compound
from tracer.array.promotion import result_type
from tracer.errors import ArgumentError, ShapeError
from tracer.nn.window import Padding, Pairs, Sizes, integers, pairs

Layouts = tuple[str, str, str]
_OPERAND, _KERNEL = "NC", "OI"


def conv_general_dilated(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: int | Sequence[int] | None = None,
    padding: Padding = "VALID",
    lhs_dilation: int | Sequence[int] | None = None,
    rhs_dilation: int | Sequence[int] | None = None,
    dimension_numbers: Layouts | None = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
) -> Array:
    """Sum the products of a kernel with every window of an array; the kernel is not mirrored.

    Parameters
    ----------
    lhs : array_like
        A batch of arrays with features, as the first string of `dimension_numbers` says.
    rhs : array_like
        The kernel, as the second string says.
    window_strides : int or sequence of int, optional
        Distance of neighbouring windows along each spatial axis; 1 by default.
    padding : str, int, or sequence of int or of pairs
        "VALID", "SAME", "SAME_LOWER", or zeros before and behind each spatial axis; negative
        numbers cut off.
    lhs_dilation : int or sequence of int, optional
        Distance that neighbouring elements of `lhs` are moved to, with zeros in between.
    rhs_dilation : int or sequence of int, optional
        The same for the kernel.
    dimension_numbers : tuple of three str, optional
        Order of the axes of `lhs`, `rhs` and the result: N batch, C features, O and I output and
        input features of the kernel, and one other letter for each spatial axis, as in
        ("NHWC", "HWIO", "NHWC"). By default NC and OI stand first and the spatial axes follow.
    feature_group_count : int
        Groups of features that are convolved independently of each other.
    batch_group_count : int
        Parts of the batch that are convolved independently, each for its share of the kernels.

    Returns
    -------
    Array
        In the promoted dtype; floats narrower than float32 are summed in float32.

    Raises
    ------
    ShapeError
        The sizes do not fit.
    ArgumentError
        Parameters that mean nothing, such as a stride of 0.
    DTypeError
        Bools.

    Examples
    --------
    >>> import tracer.nn
    >>> import tracer.numpy as tnp
    >>> x = tnp.arange(5.0).reshape(1, 1, 5)
    >>> tracer.nn.conv_general_dilated(x, tnp.ones((1, 1, 2)), 1, "VALID").tolist()
    [[[1.0, 3.0, 5.0, 7.0]]]
    """
    x, kernel = as_array(lhs), as_array(rhs)
    lhs_axes, rhs_axes, result_axes = _layouts(x, kernel, dimension_numbers)
    count = x.ndim - 2
    strides = integers("window_strides", window_strides, count)
    base = integers("lhs_dilation", lhs_dilation, count)
    dilation = integers("rhs_dilation", rhs_dilation, count)
    if isinstance(padding, str) and any(n != 1 for n in base) and padding.upper() != "VALID":
        raise ArgumentError(
            f"padding {padding!r} does not say how to pad a dilated array",
            mend="give the padding as a pair of integers for each spatial axis",
        )
    sizes = tuple(x.shape[axis] for axis in lhs_axes[2:])
    windows = (kernel.shape[axis] for axis in rhs_axes[2:])
    reach = tuple((n - 1) * step + 1 for n, step in zip(windows, dilation, strict=True))
    return _convolution(
        x,
        kernel,
        lhs_axes=lhs_axes,
        rhs_axes=rhs_axes,
        result_axes=result_axes,
        window_strides=strides,
        padding=pairs(padding, sizes, reach, strides),
        lhs_dilation=base,
        rhs_dilation=dilation,
        feature_group_count=int(feature_group_count),
        batch_group_count=int(batch_group_count),
    )


@compound
def _convolution(x: Array, kernel: Array, **params: Sizes | Pairs | int) -> Array:
    dtype = result_type(x, kernel)
    return apply(ops.convolution, convert(x, dtype), convert(kernel, dtype), **params)


def _layouts(x: Array, kernel: Array, names: Layouts | None) -> tuple[Sizes, Sizes, Sizes]:
    if x.ndim < 2 or kernel.ndim != x.ndim:
        raise ShapeError(
            f"convolution: an array {x.shape} and a kernel {kernel.shape} do not fit",
            mend="give both as many dimensions: batch or output features, features, and the "
            "spatial axes",
        )
    if names is None:
        axes = tuple(range(x.ndim))
        return axes, axes, axes
    if len(names) != 3 or {len(name) for name in names} != {x.ndim}:
        raise _no_layout(names, x.ndim)
    lhs, rhs, result = names
    spatial = [letter for letter in rhs if letter not in _KERNEL]
    orders = (
        (lhs, [*_OPERAND, *spatial]),
        (rhs, [*_KERNEL, *spatial]),
        (result, [*_OPERAND, *spatial]),
    )
    if any(sorted(name) != sorted(order) or len(set(name)) < x.ndim for name, order in orders):
        raise _no_layout(names, x.ndim)
    first, second, third = (tuple(map(name.index, order)) for name, order in orders)
    return first, second, third


def _no_layout(names: Layouts, ndim: int) -> ArgumentError:
    return ArgumentError(
        f"dimension numbers {names!r} do not name the axes of arrays of {ndim} dimensions",
        mend="give three strings with one letter for each axis, such as "
        "('NHWC', 'HWIO', 'NHWC'), with the same spatial letters in all three",
    )


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
