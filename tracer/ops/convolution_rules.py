"""Parameters, types, axes and cost of a convolution."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from tracer import ops
from tracer.errors import ArgumentError, ShapeError
from tracer.ir import AxisRule, Cost, Label, ShapeDtype, Value
from tracer.ir.library_calls import (
    ConvolutionCall,
    DepthwiseCall,
    DepthwiseGradientCall,
    ReductionCall,
)
from tracer.ir.op import Types
from tracer.ops.rules import is_float, moved_bytes, own_label, require_kind, require_same_dtypes
from tracer.ops.window import Pairs, Sizes, Windows, dilated

NAME = "convolution"


@dataclass(frozen=True)
class Parameters:
    """The parameters of a convolution.

    `window_reversal` mirrors the kernel along the spatial axes; only passes write it.
    """

    lhs_axes: Sizes
    rhs_axes: Sizes
    result_axes: Sizes
    window_strides: Sizes
    padding: Pairs
    lhs_dilation: Sizes
    rhs_dilation: Sizes
    feature_group_count: int
    batch_group_count: int
    window_reversal: bool = False

    @cached_property
    def groups(self) -> int:
        """Independent convolutions side by side: of features, or of parts of the batch."""
        return self.feature_group_count * self.batch_group_count

    def windows(self, rhs: ShapeDtype | Value) -> Windows:
        """Return the windows over the spatial axes."""
        return Windows(
            self.sizes(rhs, self.rhs_axes)[2:],
            self.window_strides,
            self.lhs_dilation,
            self.rhs_dilation,
            self.padding,
        )

    @staticmethod
    def sizes(x: ShapeDtype | Value, axes: Sizes) -> Sizes:
        """Return sizes in the order of `axes`."""
        return tuple(x.shape[axis] for axis in axes)

    @cached_property
    def has_phases(self) -> bool:
        """Whether the array is dilated where its windows neither leap nor are dilated themselves.

        Along such axes the zeros need not be multiplied, see `legalize/dilated_convolutions.py`.
        """
        axes = zip(self.lhs_dilation, self.window_strides, self.rhs_dilation, strict=True)
        taken = all(step == 1 or leap == spacing == 1 for step, leap, spacing in axes)
        return taken and max(self.lhs_dilation, default=1) > 1

    def apply(self, lhs: Value, rhs: Value) -> Value:
        """Emit the convolution."""
        params = vars(replace(self))
        if not self.window_reversal:
            del params["window_reversal"]
        return ops.convolution(lhs, rhs, **params)  # type: ignore[no-any-return]


def infer(lhs: ShapeDtype, rhs: ShapeDtype, **params: Any) -> ShapeDtype:
    """Return the type of the result; see `Op.infer`."""
    p = Parameters(**params)
    require_same_dtypes(NAME, (lhs, rhs))
    require_kind(NAME, lhs, "iufc")
    _check_axes(p, lhs, rhs)
    batch, features, *spatial = p.sizes(lhs, p.lhs_axes)
    outputs, inputs, *_ = p.sizes(rhs, p.rhs_axes)
    _check_groups(p, batch, features, outputs, inputs)
    windows = p.windows(rhs)
    windows.check(NAME, spatial)
    sizes = (batch // p.batch_group_count, outputs, *windows.counts(spatial))
    return lhs.with_shape(sizes[i] for i in np.argsort(p.result_axes))


def _check_axes(p: Parameters, lhs: ShapeDtype, rhs: ShapeDtype) -> None:
    wanted = list(range(lhs.ndim))
    if lhs.ndim < 2 or rhs.ndim != lhs.ndim:
        raise ShapeError(
            f"convolution of {lhs} with a kernel {rhs}: both need a batch or output axis, a "
            "feature axis and equally many spatial axes",
            mend="give operands of the same number of dimensions, two or more",
        )
    for axes in (p.lhs_axes, p.rhs_axes, p.result_axes):
        if sorted(axes) != wanted:
            raise ShapeError(
                f"convolution: {axes} is no order of {lhs.ndim} axes",
                mend=f"name each of the axes 0 to {lhs.ndim - 1} once",
            )


def _check_groups(p: Parameters, batch: int, features: int, outputs: int, inputs: int) -> None:
    of_features, of_batch = p.feature_group_count, p.batch_group_count
    if min(of_features, of_batch) < 1 or (of_features > 1 and of_batch > 1):
        raise ArgumentError(
            f"convolution: {of_features} feature groups and {of_batch} batch groups",
            mend="give counts of 1 or more, one of which is 1",
        )
    if features != inputs * of_features:
        raise ShapeError(
            f"convolution: the operand has {features} features, the kernel takes {inputs} in each "
            f"of {of_features} groups",
            mend="the features must be the kernel's input features times the groups",
        )
    if outputs % p.groups or batch % of_batch:
        raise ShapeError(
            f"convolution: {outputs} output features and a batch of {batch} do not divide into "
            f"{of_features} feature groups and {of_batch} batch groups",
            mend="choose sizes that are multiples of the number of groups",
        )


def axes(operands: Types, results: Types, **params: Any) -> AxisRule:
    """Batch and output features are parallel, input features are summed.

    Groups keep the axes that they divide whole. So does the window, except along axes where it is
    one element in place.
    """
    p = Parameters(**params)
    spatial = range(len(p.lhs_axes) - 2)
    lhs: list[Label] = ["batch", "input", *(own_label(0, i) for i in spatial)]
    rhs: list[Label] = ["output", "input", *(own_label(1, i) for i in spatial)]
    out: list[Label] = ["batch", "output", *(own_label(2, i) for i in spatial)]
    whole: set[Label] = {*lhs[2:], *rhs[2:], *out[2:]}
    for i in set(spatial) - set(p.windows(operands[1]).sliding_axes):
        whole -= {lhs[2 + i], out[2 + i]}
        out[2 + i] = lhs[2 + i]
    if p.feature_group_count > 1:
        lhs[1] = "features"
        whole |= {"features", "input", "output"}
    if p.batch_group_count > 1:
        lhs[0] = "batches"
        whole |= {"batches", "batch", "output"}
    reduced: dict[Label, str] = {} if "input" in whole else {"input": "add"}
    return AxisRule(
        (_in_place(lhs, p.lhs_axes), _in_place(rhs, p.rhs_axes)),
        (_in_place(out, p.result_axes),),
        reduced,
        frozenset(whole),
    )


def _in_place(labels: list[Label], axes: Sizes) -> tuple[Label, ...]:
    return tuple(labels[i] for i in np.argsort(axes))


def cost(operands: Types, results: Types, **params: Any) -> Cost:
    """Two flops for each term, eight when complex; scratch for XLA:CPU's copies.

    Terms that are zeros between the elements are not counted where they can be left out.
    """
    p = Parameters(**params)
    lhs, rhs = operands
    terms = results[0].size * rhs.size // max(1, p.sizes(rhs, p.rhs_axes)[0])
    terms //= math.prod(p.lhs_dilation) if p.has_phases else 1
    flops = (8 if lhs.dtype.kind == "c" else 2) * terms
    moved = moved_bytes(operands, results)
    if is_float(lhs.dtype) and is_depthwise_gradient(p, lhs, rhs):
        products = (_gradient_call(p, lhs, rhs, results[0]),)
        return Cost(flops, moved, product_flops=flops, calls=products)
    is_wide = lhs.dtype.itemsize > 4
    if is_float(lhs.dtype) and (p.groups > 1 or is_wide) and is_depthwise(p, lhs, rhs):
        sums = (depthwise_call(p, lhs, rhs, results[0]),)
        return Cost(flops, moved, product_flops=flops, calls=sums)
    scratch = _copies(p, lhs, rhs, results[0])
    calls = _calls(p, lhs, rhs, results[0])
    return Cost(flops, moved, scratch, product_flops=flops, calls=calls)


def is_depthwise(p: Parameters, lhs: ShapeDtype, rhs: ShapeDtype) -> bool:
    """Tell whether each feature has a kernel of its own, and makes one feature."""
    outputs, inputs, *_ = p.sizes(rhs, p.rhs_axes)
    return inputs == 1 and outputs == p.feature_group_count and p.batch_group_count == 1


def is_depthwise_gradient(p: Parameters, lhs: ShapeDtype, rhs: ShapeDtype) -> bool:
    """Tell whether it is the gradient of a depthwise convolution for its kernel.

    There features and batch have exchanged their roles.
    """
    groups = p.batch_group_count
    is_alone = p.sizes(lhs, p.lhs_axes)[0] == p.sizes(rhs, p.rhs_axes)[0] == groups
    return is_alone and groups > 1 and max(p.lhs_dilation, default=1) == 1


def depthwise_call(
    p: Parameters, lhs: ShapeDtype, rhs: ShapeDtype, result: ShapeDtype
) -> DepthwiseCall:
    """Return what a target has to know of a depthwise convolution of floats.

    With the features last, plain loops of up to float32 are as fast as a sum; elements with zeros
    in between they skip, and a library takes what has one feature. With strides a compiler stores
    every term that chooses, and it computes terms of bfloat16 one by one.
    """
    windows = p.windows(rhs)
    is_dilated = max(p.lhs_dilation, default=1) > 1
    is_padded = is_dilated or any(end > 0 for ends in p.padding for end in ends)
    is_wide = lhs.dtype.itemsize > 4
    batch, features, *sizes = p.sizes(lhs, p.lhs_axes)
    padded = lhs.dtype.itemsize * batch * features * math.prod(windows.padded_sizes(sizes))
    return DepthwiseCall(
        windows.size,
        lhs.dtype.itemsize,
        result.size,
        padded if is_padded else 0,
        _loop_bytes(p, lhs, rhs, result, padded if is_padded else 0),
        is_wide or not (_has_features_last(p) or is_dilated or p.groups == 1),
        max(p.window_strides, default=1) == 1 and not is_dilated and lhs.dtype.kind != "V",
    )


def _loop_bytes(
    p: Parameters, lhs: ShapeDtype, rhs: ShapeDtype, result: ShapeDtype, padded: int
) -> int:
    """Return what plain loops of a depthwise convolution store besides operands and result.

    Those of float64 go over all features, with a kernel of as many. Others pad, or copy, into their
    layout and into float32, between whose elements they skip zeros; if it fits it lies where the
    result will be copied to.
    """
    if lhs.dtype.itemsize > 4:
        kernel = rhs.nbytes * p.feature_group_count
        return padded + (1 if _has_features_last(p) else 2) * kernel
    spread = replace(p, lhs_dilation=(1,) * len(p.padding))
    if not padded:
        return _copies(spread, lhs, rhs, result)
    last = len(p.lhs_axes) - 1
    is_copied = lhs.dtype.itemsize < 4 or p.result_axes != (0, last, *range(1, last))
    in_order = p.rhs_axes == (last, last - 1, *range(last - 1)) and lhs.dtype.itemsize == 4
    of_kernel, of_result = 4 * rhs.size * (not in_order), 4 * result.size * is_copied
    batch, features, *sizes = p.sizes(lhs, p.lhs_axes)
    rows = zip(sizes, p.padding, p.lhs_dilation, strict=True)
    ends = (n + sum(-(-max(0, end) // step) for end in pair) for n, pair, step in rows)
    around = 4 * batch * features * math.prod(ends)
    return of_kernel + of_result + (0 if is_copied and around <= result.nbytes else around)


def _has_features_last(p: Parameters) -> bool:
    return p.lhs_axes[1] == len(p.lhs_axes) - 1


def _gradient_call(
    p: Parameters, lhs: ShapeDtype, rhs: ShapeDtype, result: ShapeDtype
) -> DepthwiseGradientCall:
    """Return what a target has to know of a depthwise kernel's gradient; features are first."""
    features = lhs.shape[p.lhs_axes[0]]
    axes = tuple(sorted({*range(lhs.ndim)} - {p.lhs_axes[0]}))
    by_role = p.sizes(rhs, p.rhs_axes)
    shape = tuple(by_role[p.lhs_axes.index(axis)] for axis in range(lhs.ndim))
    products = ReductionCall(shape, axes, max(4, lhs.dtype.itemsize))
    library = next(iter(_calls(p, lhs, rhs, result)), None)
    copied = _copies(p, lhs, rhs, result)
    return DepthwiseGradientCall(result.size // features, features, products, library, copied)


def _windows(p: Parameters, rhs: ShapeDtype, result: ShapeDtype) -> int:
    """Return the elements of one row for every place of the result, all that its window covers."""
    features = max(1, p.sizes(rhs, p.rhs_axes)[0])
    return rhs.size // features * (result.size // features)


def _calls(
    p: Parameters, lhs: ShapeDtype, rhs: ShapeDtype, result: ShapeDtype
) -> tuple[ConvolutionCall, ...]:
    """Return the call of the CPU's library, which takes convolutions of up to four bytes."""
    if not is_float(lhs.dtype) or lhs.dtype.itemsize > 4:
        return ()
    features = p.sizes(rhs, p.rhs_axes)[0]
    windows = _windows(p, rhs, result)
    return (ConvolutionCall(windows, rhs.size, result.size, len(p.lhs_axes), features),)


def _copies(p: Parameters, lhs: ShapeDtype, rhs: ShapeDtype, result: ShapeDtype) -> int:
    """Bound what the CPU copies: into its layout, into float32, and apart if dilated or in phases.

    The layout has the features last and in the kernel the spatial axes first. The copy of the
    result may take over that of an operand; docs/memory-model.md has the measurements.
    """
    if not is_float(lhs.dtype) or lhs.dtype.itemsize > 4:
        return 0
    last = len(p.lhs_axes) - 1
    spatial = tuple(range(1, last))
    is_narrow = lhs.dtype.itemsize < 4
    batch, features, *sizes = p.sizes(lhs, p.lhs_axes)
    spaced = math.prod(map(dilated, sizes, p.lhs_dilation)) * batch * features
    spread = spaced if spaced > lhs.size else 0
    if p.has_phases:
        spread = rhs.size + _in_phases(p, result)
    of_lhs = 4 * lhs.size if is_narrow or p.lhs_axes != (0, last, *spatial) else 0
    in_order = p.rhs_axes == (last, last - 1, *range(last - 1))
    of_rhs = 0 if in_order and not is_narrow else 4 * rhs.size
    of_result = 4 * result.size if is_narrow or p.result_axes != (0, last, *spatial) else 0
    return 4 * spread + of_rhs + of_result + (of_lhs if of_lhs > of_result else 0)


def _in_phases(p: Parameters, result: ShapeDtype) -> int:
    """Return the elements of a result in phases, all of them as long as the longest."""
    batch, features, *sizes = p.sizes(result, p.result_axes)
    steps = zip(sizes, p.lhs_dilation, strict=True)
    return batch * features * math.prod(-(-n // step) * step for n, step in steps)
