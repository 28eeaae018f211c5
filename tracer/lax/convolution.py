"""Convolutions, in any layout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tracer import ops
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, convert
from tracer.array.dispatch import apply, compound
from tracer.array.promotion import Dtype
from tracer.errors import ArgumentError, ShapeError
from tracer.lax.products import check_precision, result_dtype
from tracer.lax.window import Padding, integers, pairs


class ConvDimensionNumbers(NamedTuple):
    """Where the axes of a convolution are.

    Attributes
    ----------
    lhs_spec, rhs_spec, out_spec : tuple of int
        Places of batch and features (of output and input features in `rhs_spec`), then of the
        spatial axes.
    """

    lhs_spec: tuple[int, ...]
    rhs_spec: tuple[int, ...]
    out_spec: tuple[int, ...]


Layouts = tuple[str, str, str] | ConvDimensionNumbers
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
    precision: Any = None,
    preferred_element_type: Any = None,
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
    dimension_numbers : tuple of three str, or ConvDimensionNumbers, optional
        Order of the axes of `lhs`, `rhs` and the result: N batch, C features, O and I output and
        input features of the kernel, and one other letter for each spatial axis, as in
        ("NHWC", "HWIO", "NHWC"). By default NC and OI stand first and the spatial axes follow.
    feature_group_count : int
        Groups of features that are convolved independently of each other.
    batch_group_count : int
        Parts of the batch that are convolved independently, each for its share of the kernels.
    precision : Precision, optional
        Has no effect: products have the digits of the result's dtype.
    preferred_element_type : dtype, optional
        Dtype of the result and of the sums; the promoted one by default.

    Returns
    -------
    Array
        Floats narrower than float32 are summed in float32.

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
    >>> import tracer.lax as lax
    >>> import tracer.numpy as tnp
    >>> x = tnp.arange(5.0).reshape(1, 1, 5)
    >>> lax.conv_general_dilated(x, tnp.ones((1, 1, 2)), 1, "VALID").tolist()
    [[[1.0, 3.0, 5.0, 7.0]]]
    """
    x, kernel = as_array(lhs), as_array(rhs)
    check_precision("conv_general_dilated", precision)
    lhs_axes, rhs_axes, result_axes = conv_dimension_numbers(
        x.shape, kernel.shape, dimension_numbers
    )
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
        dtype=result_dtype(x, kernel, preferred_element_type),
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
def _convolution(x: Array, kernel: Array, *, dtype: Dtype, **params: Any) -> Array:
    return apply(ops.convolution, convert(x, dtype), convert(kernel, dtype), **params)


def conv_dimension_numbers(
    lhs_shape: Sequence[int], rhs_shape: Sequence[int], dimension_numbers: Layouts | None
) -> ConvDimensionNumbers:
    """Read the layouts of a convolution.

    Parameters
    ----------
    lhs_shape, rhs_shape : tuple of int
        Shapes of the array and the kernel.
    dimension_numbers : tuple of three str, or ConvDimensionNumbers, optional
        As of `conv_general_dilated`.

    Raises
    ------
    ShapeError, ArgumentError
        Ranks that do not fit, or no layout.

    Examples
    --------
    >>> import tracer.lax as lax
    >>> lax.conv_dimension_numbers((1, 8, 8, 3), (3, 3, 3, 4), ("NHWC", "HWIO", "NHWC"))
    ConvDimensionNumbers(lhs_spec=(0, 3, 1, 2), rhs_spec=(3, 2, 0, 1), out_spec=(0, 3, 1, 2))
    """
    ndim, names = len(lhs_shape), dimension_numbers
    if ndim < 2 or len(rhs_shape) != ndim:
        raise ShapeError(
            f"convolution: an array {tuple(lhs_shape)} and a kernel {tuple(rhs_shape)} do not fit",
            mend="give both as many dimensions: batch or output features, features, and the "
            "spatial axes",
        )
    if names is None:
        axes = tuple(range(ndim))
        return ConvDimensionNumbers(axes, axes, axes)
    if len(names) != 3 or {len(name) for name in names} != {ndim}:
        raise _no_layout(names, ndim)
    if not isinstance(names[0], str):
        found = ConvDimensionNumbers(*(tuple(map(int, axes)) for axes in names))
        if any(sorted(axes) != list(range(ndim)) for axes in found):
            raise _no_layout(names, ndim)
        return found
    return _of_letters(names, ndim)


def _of_letters(names: Any, ndim: int) -> ConvDimensionNumbers:
    lhs, rhs, result = names
    spatial = [letter for letter in rhs if letter not in _KERNEL]
    orders = (
        (lhs, [*_OPERAND, *spatial]),
        (rhs, [*_KERNEL, *spatial]),
        (result, [*_OPERAND, *spatial]),
    )
    if any(sorted(name) != sorted(order) or len(set(name)) < ndim for name, order in orders):
        raise _no_layout(names, ndim)
    return ConvDimensionNumbers(*(tuple(map(name.index, order)) for name, order in orders))


def _no_layout(names: Layouts, ndim: int) -> ArgumentError:
    return ArgumentError(
        f"dimension numbers {names!r} do not name the axes of arrays of {ndim} dimensions",
        mend="give three strings with one letter for each axis, such as "
        "('NHWC', 'HWIO', 'NHWC'), with the same spatial letters in all three",
    )
