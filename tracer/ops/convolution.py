"""Convolution. Source: StableHLO specification, convolution, and `jax.lax.conv_general_dilated`.

As everywhere in machine learning the kernel is not mirrored: it is a correlation. The parameters
`lhs_axes` (batch, feature, *spatial), `rhs_axes` (output feature, input feature, *spatial) and
`result_axes` (batch, feature, *spatial) tell where each axis lies, so that no layout needs a copy
and a gradient is a convolution of the same arrays in other roles.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from tracer import ops
from tracer.errors import ArgumentError, ShapeError
from tracer.ir import AxisRule, Batching, Cost, Label, Op, ShapeDtype, Value
from tracer.ir.op import Types
from tracer.ops import helpers
from tracer.ops.batch import fold_batch, unfold_batch
from tracer.ops.rules import (
    moved_bytes,
    own_label,
    require_kind,
    require_same_dtypes,
    widened,
)
from tracer.ops.window import Pairs, Sizes, Windows

Array = np.ndarray[Any, Any]
NAME = "convolution"


@dataclass(frozen=True)
class Parameters:
    """The parameters of a convolution."""

    lhs_axes: Sizes
    rhs_axes: Sizes
    result_axes: Sizes
    window_strides: Sizes
    padding: Pairs
    lhs_dilation: Sizes
    rhs_dilation: Sizes
    feature_group_count: int
    batch_group_count: int

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

    def apply(self, lhs: Value, rhs: Value) -> Value:
        """Emit the convolution."""
        return ops.convolution(lhs, rhs, **vars(replace(self)))  # type: ignore[no-any-return]


def _infer(lhs: ShapeDtype, rhs: ShapeDtype, **params: Any) -> ShapeDtype:
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


def _evaluate(lhs: Array, rhs: Array, **params: Any) -> Any:
    """Sum over the places in the window: for each one a batch of matrix products."""
    p = Parameters(**params)
    result = _infer(ShapeDtype(lhs.shape, lhs.dtype), ShapeDtype(rhs.shape, rhs.dtype), **params)
    windows = p.windows(ShapeDtype(rhs.shape, rhs.dtype))
    counts = p.sizes(result, p.result_axes)[2:]
    x = _grouped(widened(lhs).transpose(p.lhs_axes), 0 if p.batch_group_count > 1 else 1, p.groups)
    y = _grouped(widened(rhs).transpose(p.rhs_axes), 0, p.groups)
    x = windows.behind(3).padded(x, 0)
    groups, batch, inputs = x.shape[:3]
    places = math.prod(counts)
    total = np.zeros((groups, batch, y.shape[1], places), x.dtype)
    with np.errstate(all="ignore"):
        for place, seen in windows.positions(counts) if total.size else ():
            part = x[(..., *seen)].reshape((groups, batch, inputs, places))
            total += np.matmul(y[(..., *place)][:, None], part)
    joined = np.moveaxis(total.reshape((groups, *total.shape[1:3], *counts)), 0, 1)
    ordered = joined.reshape(p.sizes(result, p.result_axes))
    return ordered.transpose(np.argsort(p.result_axes)).astype(lhs.dtype)


def _grouped(x: Array, axis: int, groups: int) -> Array:
    """Move the groups of an axis to the front."""
    split = (*x.shape[:axis], groups, x.shape[axis] // groups, *x.shape[axis + 1 :])
    return np.moveaxis(x.reshape(split), axis, 0)


def _axes(operands: Types, results: Types, **params: Any) -> AxisRule:
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


def _cost(operands: Types, results: Types, **params: Any) -> Cost:
    """Two flops for each term, eight when complex."""
    p = Parameters(**params)
    lhs, rhs = operands
    terms = results[0].size * rhs.size // max(1, p.sizes(rhs, p.rhs_axes)[0])
    flops = (8 if lhs.dtype.kind == "c" else 2) * terms
    return Cost(flops, moved_bytes(operands, results))


def _vjp(g: Value, out: Value, lhs: Value, rhs: Value, **params: Any) -> tuple[Value, Value]:
    p = Parameters(**params)
    if 0 in (*g.shape, *lhs.shape, *rhs.shape):
        return helpers.zeros_like(lhs), helpers.zeros_like(rhs)
    return _lhs_cotangent(p, g, lhs, rhs), _rhs_cotangent(p, g, lhs, rhs)


def _lhs_cotangent(p: Parameters, g: Value, lhs: Value, rhs: Value) -> Value:
    """Convolve the cotangent with the mirrored kernel, strides and dilation exchanged."""
    shape, counts = p.sizes(lhs, p.lhs_axes)[2:], p.sizes(g, p.result_axes)[2:]
    back = p.windows(rhs).transposed(shape, counts)
    rhs_output, rhs_input, *spatial = p.rhs_axes
    mirrored = ops.reverse(rhs, dimensions=tuple(sorted(spatial))) if spatial else rhs
    transposed = Parameters(
        lhs_axes=p.result_axes,
        rhs_axes=(rhs_input, rhs_output, *spatial),
        result_axes=p.lhs_axes,
        window_strides=back.window_strides,
        padding=back.padding,
        lhs_dilation=back.base_dilation,
        rhs_dilation=back.window_dilation,
        feature_group_count=p.groups,
        batch_group_count=1,
    )
    result = transposed.apply(g, _groups_to(mirrored, p.groups, rhs_output, rhs_input))
    return _groups_to(result, p.batch_group_count, p.lhs_axes[1], p.lhs_axes[0])


def _groups_to(x: Value, groups: int, source: int, destination: int) -> Value:
    """Take the groups out of one axis and put them in front of another."""
    if groups == 1:
        return x
    return fold_batch(unfold_batch(x, source, groups), destination)


def _rhs_cotangent(p: Parameters, g: Value, lhs: Value, rhs: Value) -> Value:
    """Convolve the operand with the cotangent: batch and features exchange their roles."""
    shape, counts = p.sizes(lhs, p.lhs_axes)[2:], p.sizes(g, p.result_axes)[2:]
    return Parameters(
        lhs_axes=_exchanged(p.lhs_axes),
        rhs_axes=_exchanged(p.result_axes),
        result_axes=_exchanged(p.rhs_axes),
        window_strides=p.rhs_dilation,
        padding=p.windows(rhs).kernel_padding(shape, counts),
        lhs_dilation=p.lhs_dilation,
        rhs_dilation=p.window_strides,
        feature_group_count=p.batch_group_count,
        batch_group_count=p.feature_group_count,
    ).apply(lhs, g)


def _exchanged(axes: Sizes) -> Sizes:
    return (axes[1], axes[0], *axes[2:])


def _batch(operands: tuple[Value, ...], batching: Batching, **params: Any) -> Value:
    """Fold the batch into the operand's batch, the kernel's output features, or into groups."""
    p = Parameters(**params)
    lhs, rhs = operands
    size = batching.size
    if batching.batched == (True, False):
        lhs = fold_batch(lhs, p.lhs_axes[0], groups=p.batch_group_count)
        return unfold_batch(p.apply(lhs, rhs), p.result_axes[0], size)
    output = p.rhs_axes[0]
    if batching.batched == (False, True):
        rhs = fold_batch(rhs, output, groups=p.groups)
        return unfold_batch(p.apply(lhs, rhs), p.result_axes[1], size, groups=p.groups)
    if p.batch_group_count > 1:
        lhs = fold_batch(lhs, p.lhs_axes[0])
        p = replace(p, batch_group_count=size * p.batch_group_count)
    else:
        lhs = fold_batch(lhs, p.lhs_axes[1])
        p = replace(p, feature_group_count=size * p.feature_group_count)
    return unfold_batch(p.apply(lhs, fold_batch(rhs, output)), p.result_axes[1], size)


def _lower(b: Any, types: Types, lhs: Any, rhs: Any, **params: Any) -> Any:
    return b.convolution(types[0], lhs, rhs, **params)


convolution: Op = Op(
    NAME,
    doc="Sum of products of a kernel with every window of an array, over window and input "
    "features. Axes as in the parameters; with feature groups each group of input features makes "
    "its own group of output features, with batch groups each part of the batch does.",
    infer=_infer,
    evaluate=_evaluate,
    lower=_lower,
    vjp=_vjp,
    axes=_axes,
    cost=_cost,
    fusion="opaque",
    batch=_batch,
)
