"""Convolution. Source: StableHLO specification, convolution, and `jax.lax.conv_general_dilated`.

As usual in machine learning the kernel is not mirrored: it is a correlation. The parameters
`lhs_axes` (batch, feature, *spatial), `rhs_axes` (output feature, input feature, *spatial) and
`result_axes` (batch, feature, *spatial) give the position of each axis. So no layout needs a copy,
and a gradient is a convolution of the same arrays in other roles.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np

from tracer import ops
from tracer.ir import Batching, Op, ShapeDtype, Value
from tracer.ir.op import Types
from tracer.ops import helpers
from tracer.ops.batch import fold_batch, unfold_batch
from tracer.ops.convolution_rules import NAME, Parameters, axes, cost, infer
from tracer.ops.rules import widened
from tracer.ops.window import Sizes

Array = np.ndarray[Any, Any]


def _evaluate(lhs: Array, rhs: Array, **params: Any) -> Any:
    """Sum over the places in the window: for each one a batch of matrix products."""
    p = Parameters(**params)
    result = infer(ShapeDtype(lhs.shape, lhs.dtype), ShapeDtype(rhs.shape, rhs.dtype), **params)
    windows = p.windows(ShapeDtype(rhs.shape, rhs.dtype))
    counts = p.sizes(result, p.result_axes)[2:]
    x = _grouped(widened(lhs).transpose(p.lhs_axes), 0 if p.batch_group_count > 1 else 1, p.groups)
    y = widened(rhs).transpose(p.rhs_axes)
    y = _grouped(np.flip(y, tuple(range(2, y.ndim))) if p.window_reversal else y, 0, p.groups)
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


def _vjp(g: Value, out: Value, lhs: Value, rhs: Value, **params: Any) -> tuple[Value, Value]:
    p = Parameters(**params)
    if 0 in (*g.shape, *lhs.shape, *rhs.shape):
        return helpers.zeros_like(lhs), helpers.zeros_like(rhs)
    if p.window_reversal:
        plain, spatial = replace(p, window_reversal=False), tuple(sorted(p.rhs_axes[2:]))
        mirrored = ops.reverse(rhs, dimensions=spatial)
        for_rhs = ops.reverse(_rhs_cotangent(plain, g, lhs, mirrored), dimensions=spatial)
        return _lhs_cotangent(plain, g, lhs, mirrored), for_rhs
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
    infer=infer,
    evaluate=_evaluate,
    lower=_lower,
    vjp=_vjp,
    axes=axes,
    cost=cost,
    fusion="opaque",
    batch=_batch,
)
