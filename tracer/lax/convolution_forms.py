"""Convolutions with fewer arguments, transposed ones, and patches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, as_arrays
from tracer.errors import ArgumentError, DTypeError, ShapeError
from tracer.lax.convolution import (
    ConvDimensionNumbers,
    Layouts,
    conv_dimension_numbers,
    conv_general_dilated,
)
from tracer.lax.products import check_precision, dot_general
from tracer.lax.shapes import broadcast_in_dim, reshape, rev, transpose
from tracer.lax.window import Padding, integers, pairs
from tracer.numpy.matrices import eye
from tracer.numpy.shaping import moveaxis


def padtype_to_pads(
    in_shape: Sequence[int],
    window_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: str,
) -> list[tuple[int, int]]:
    """Return the places before and behind each axis that a named padding means.

    Parameters
    ----------
    in_shape, window_shape, window_strides : sequence of int
        Of each axis.
    padding : str
        "VALID", "SAME" or "SAME_LOWER".
    """
    if not isinstance(padding, str):
        raise DTypeError(f"lax.padtype_to_pads: padding is {padding!r}", mend='give "SAME"')
    return list(pairs(padding, tuple(in_shape), tuple(window_shape), tuple(window_strides)))


def conv(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: Padding,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """Convolve arrays with the features in the second axis; see `conv_general_dilated`.

    Parameters
    ----------
    lhs : array_like, shape (batch, features, *spatial)
        The array.
    rhs : array_like, shape (outputs, features, *window)
        The kernel.
    window_strides, padding, precision, preferred_element_type
        See `conv_general_dilated`.
    """
    return conv_general_dilated(
        lhs,
        rhs,
        window_strides,
        padding,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def conv_with_general_padding(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: Padding,
    lhs_dilation: Sequence[int] | None,
    rhs_dilation: Sequence[int] | None,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """Convolve dilated arrays with the features in the second axis.

    Parameters
    ----------
    lhs : array_like, shape (batch, features, *spatial)
        The array.
    rhs : array_like, shape (outputs, features, *window)
        The kernel.
    window_strides, padding, lhs_dilation, rhs_dilation, precision, preferred_element_type
        See `conv_general_dilated`.
    """
    return conv_general_dilated(
        lhs,
        rhs,
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


_LAYOUTS: dict[int, Layouts] = {
    2: ("NC", "IO", "NC"),
    3: ("NHC", "HIO", "NHC"),
    4: ("NHWC", "HWIO", "NHWC"),
    5: ("NHWDC", "HWDIO", "NHWDC"),
}
"""Where features are by default in a transposed convolution, by the number of axes."""


def conv_transpose(
    lhs: ArrayLike,
    rhs: ArrayLike,
    strides: Sequence[int],
    padding: Padding,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Layouts | None = None,
    transpose_kernel: bool = False,
    precision: Any = None,
    preferred_element_type: Any = None,
    use_consistent_padding: bool = False,
) -> Array:
    """Convolve with zeros between the elements: the shapes of a convolution the other way round.

    Parameters
    ----------
    lhs : array_like
        The array, with the features last by default.
    rhs : array_like
        The kernel.
    strides : sequence of int
        Distances to which neighbouring elements are moved.
    padding : str, or sequence of pairs
        "SAME" or "VALID": those of the convolution the other way round. Numbers: zeros before and
        behind each spatial axis of this one, or, if `use_consistent_padding`, of the other.
    rhs_dilation : sequence of int, optional
        Distances of neighbouring elements of the kernel.
    dimension_numbers : tuple of three str, or ConvDimensionNumbers, optional
        See `conv_general_dilated`; ("NHWC", "HWIO", "NHWC") and its like by default.
    transpose_kernel : bool
        Mirror the kernel and exchange its features: then this is the gradient of the convolution.
    precision, preferred_element_type
        See `conv_general_dilated`.
    use_consistent_padding : bool
        See `padding`.

    Returns
    -------
    Array
        The result.

    Raises
    ------
    ShapeError, ArgumentError
        What does not fit.

    Examples
    --------
    >>> import tracer.lax as lax
    >>> import tracer.numpy as tnp
    >>> lax.conv_transpose(tnp.ones((1, 3, 1)), tnp.ones((2, 1, 1)), (2,), "VALID").shape
    (1, 6, 1)
    """
    x, kernel = as_array(lhs), as_array(rhs)
    if dimension_numbers is None and kernel.ndim not in _LAYOUTS:
        raise ArgumentError(
            f"lax.conv_transpose: there is no layout for {kernel.ndim} axes by default",
            mend="give dimension_numbers",
        )
    axes = conv_dimension_numbers(x.shape, kernel.shape, dimension_numbers or _LAYOUTS[kernel.ndim])
    spatial = axes.rhs_spec[2:]
    steps = integers("strides", strides, len(spatial))
    dilation = integers("rhs_dilation", rhs_dilation, len(spatial))
    reach = [(kernel.shape[d] - 1) * n + 1 for d, n in zip(spatial, dilation, strict=True)]
    if use_consistent_padding or (isinstance(padding, str) and padding in ("SAME", "VALID")):
        given: Any = padding
        rows = [given] * len(spatial) if isinstance(given, str) else list(given)
        padding = [_other_way(*row) for row in zip(reach, steps, rows, strict=True)]
    if transpose_kernel:
        kernel = _transposed(kernel, axes)
    return conv_general_dilated(
        x,
        kernel,
        1,
        padding,
        steps,
        dilation,
        axes,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def _other_way(window: int, stride: int, padding: Any) -> tuple[int, int]:
    """Return the padding of a transposed convolution, given that of the plain one."""
    if padding == "SAME":
        total = window + stride - 2
        before = window - 1 if stride > window - 1 else -(-total // 2)
    elif padding == "VALID":
        total = window + stride - 2 + max(window - stride, 0)
        before = window - 1
    elif isinstance(padding, tuple | list):
        before, behind = (window - n - 1 for n in padding)
        return before, behind
    else:
        raise ArgumentError(
            f"lax.conv_transpose: there is no padding {padding!r}",
            mend='use "SAME", "VALID", or a pair of integers for each spatial axis',
        )
    return before, total - before


def _transposed(kernel: Array, axes: ConvDimensionNumbers) -> Array:
    order = list(range(kernel.ndim))
    outputs, inputs = axes.rhs_spec[:2]
    order[outputs], order[inputs] = inputs, outputs
    return transpose(rev(kernel, axes.rhs_spec[2:]), order)


def conv_general_dilated_patches(
    lhs: ArrayLike,
    filter_shape: Sequence[int],
    window_strides: Sequence[int],
    padding: Padding,
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Layouts | None = None,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """Lay the elements of each window side by side, as features.

    Parameters
    ----------
    lhs : array_like
        A batch of arrays with features.
    filter_shape : sequence of int
        The window.
    window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers, precision
        See `conv_general_dilated`.
    preferred_element_type : dtype, optional
        Dtype of the result.

    Returns
    -------
    Array
        The features of the result are the features of `lhs`, each with all places of the window.

    Examples
    --------
    >>> import tracer.lax as lax
    >>> import tracer.numpy as tnp
    >>> x = tnp.arange(4.0).reshape(1, 1, 4)
    >>> lax.conv_general_dilated_patches(x, (2,), (1,), "VALID").tolist()
    [[[0.0, 1.0, 2.0], [1.0, 2.0, 3.0]]]
    """
    x, window = as_array(lhs), tuple(filter_shape)
    axes = conv_dimension_numbers(x.shape, (1, 1, *window), dimension_numbers)
    places, features = math.prod(window), x.shape[axes.lhs_spec[1]]
    one = broadcast_in_dim(eye(places, dtype=x.dtype), (features, places, places), (1, 2))
    kernel = reshape(one, (features * places, 1, *window))
    order = [0] * kernel.ndim
    for place, axis in enumerate(axes.rhs_spec):
        order[axis] = place
    return conv_general_dilated(
        x,
        transpose(kernel, order),
        window_strides,
        padding,
        lhs_dilation,
        rhs_dilation,
        axes,
        features,
        precision=precision,
        preferred_element_type=preferred_element_type,
    )


def conv_general_dilated_local(
    lhs: ArrayLike,
    rhs: ArrayLike,
    window_strides: Sequence[int],
    padding: Padding,
    filter_shape: Sequence[int],
    lhs_dilation: Sequence[int] | None = None,
    rhs_dilation: Sequence[int] | None = None,
    dimension_numbers: Layouts | None = None,
    precision: Any = None,
) -> Array:
    """Multiply each window with a kernel of its own: a locally connected layer.

    Parameters
    ----------
    lhs : array_like
        A batch of arrays with features.
    rhs : array_like
        The kernels: the spatial axes are those of the result, and the input features are the
        features of `lhs`, each with all places of the window, as in `conv_general_dilated_patches`.
    window_strides, padding, lhs_dilation, rhs_dilation, dimension_numbers
        See `conv_general_dilated`.
    filter_shape : sequence of int
        The window.
    precision : Precision, optional
        Has no effect: products have the digits of the result's dtype.

    Returns
    -------
    Array
        With the layout that the third string of `dimension_numbers` says; the promoted dtype.

    Raises
    ------
    ShapeError
        The kernels are not one for each place of the result, or for other features.
    ArgumentError, DTypeError
        See `conv_general_dilated`.

    Notes
    -----
    Without a limit it stores the windows side by side: as many numbers as `lhs` has, times the
    places of the window over the strides.

    Examples
    --------
    >>> import tracer.lax as lax
    >>> import tracer.numpy as tnp
    >>> x, kernels = tnp.ones((1, 1, 4)), tnp.arange(6.0).reshape(1, 2, 3)
    >>> lax.conv_general_dilated_local(x, kernels, (1,), "VALID", (2,)).tolist()
    [[[3.0, 5.0, 7.0]]]
    """
    x, kernels = as_arrays(lhs, rhs)
    check_precision("conv_general_dilated_local", precision)
    window = tuple(filter_shape)
    axes = conv_dimension_numbers(x.shape, (1, 1, *window), dimension_numbers)
    patches = conv_general_dilated_patches(
        x, window, window_strides, padding, lhs_dilation, rhs_dilation, axes
    )
    places = sorted(zip(axes.out_spec[2:], axes.rhs_spec[2:], strict=True))
    left, right = (tuple(pair[side] for pair in places) for side in (0, 1))
    features, inputs = axes.out_spec[1], axes.rhs_spec[1]
    wanted = tuple(patches.shape[d] for d in (*left, features))
    if kernels.ndim != x.ndim or wanted != tuple(kernels.shape[d] for d in (*right, inputs)):
        raise ShapeError(
            f"lax.conv_general_dilated_local: kernels {kernels.type} do not fit the windows "
            f"{patches.type}",
            mend=f"give kernels of the sizes {wanted[:-1]} along the axes {right}, and "
            f"{wanted[-1]} along {inputs}",
        )
    numbers = (((features,), (inputs,)), (left, right))
    product: Array = dot_general(patches, kernels, numbers)
    return moveaxis(product, (-2, -1), axes.out_spec[:2])
