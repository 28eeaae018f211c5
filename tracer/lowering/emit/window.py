"""Ops that slide a window: convolution and windowed reductions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tracer.ir import ShapeDtype
from tracer.lowering.emit.context import ModuleContext
from tracer.lowering.emit.dialect import convert, pad, reverse, splat, transpose
from tracer.lowering.emit.regions import Combiner, fill
from tracer.lowering.emit.values import Operand, wide_dtype
from tracer.lowering.shims import hlo, ir

Padding = Sequence[tuple[int, int]]

_DIRECT_FEATURES = 4
"""Features of a group up to which XLA:CPU's plain loops beat Eigen, which takes group by group."""


@dataclass(frozen=True)
class _Form:
    """The parameters of a convolution, as in the op record."""

    lhs_axes: tuple[int, ...]
    rhs_axes: tuple[int, ...]
    result_axes: tuple[int, ...]
    window_strides: list[int]
    padding: list[tuple[int, int]]
    lhs_dilation: list[int]
    rhs_dilation: list[int]
    feature_group_count: int
    batch_group_count: int
    is_mirrored: bool = False


def reduce_window(
    b: ModuleContext,
    types: Sequence[ShapeDtype],
    operands: Sequence[Operand],
    initial_values: Sequence[Operand],
    combiner: Combiner,
    *,
    window_dimensions: Sequence[int],
    padding: Padding,
    window_strides: Sequence[int] | None = None,
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> tuple[Operand, ...]:
    """Emit `reduce_window`; `combiner(b, *lhs, *rhs)` gives one scalar for each operand."""
    op = hlo.ReduceWindowOp(
        [b.tensor_type(type) for type in types],
        [x.raw for x in operands],
        [x.raw for x in initial_values],
        list(window_dimensions),
        window_strides=None if window_strides is None else list(window_strides),
        base_dilations=None if base_dilation is None else list(base_dilation),
        window_dilations=None if window_dilation is None else list(window_dilation),
        padding=_padding(padding),
    )
    fill(b, op.body, [*types, *types], combiner)
    return tuple(Operand(raw) for raw in op.results)


def convolution(
    b: ModuleContext,
    type: ShapeDtype,
    x: Operand,
    y: Operand,
    *,
    lhs_axes: Sequence[int],
    rhs_axes: Sequence[int],
    result_axes: Sequence[int],
    window_strides: Sequence[int],
    padding: Padding,
    lhs_dilation: Sequence[int],
    rhs_dilation: Sequence[int],
    feature_group_count: int,
    batch_group_count: int,
) -> Operand:
    """Emit `convolution` with the full precision of the dtype; axes as in the op record.

    Narrow floats are summed in float32.
    """
    wide = type.with_dtype(wide_dtype(type.dtype))
    x, y = (convert(b, operand.type.with_dtype(wide.dtype), operand) for operand in (x, y))
    form = _Form(
        tuple(lhs_axes),
        tuple(rhs_axes),
        tuple(result_axes),
        list(window_strides),
        list(padding),
        list(lhs_dilation),
        list(rhs_dilation),
        feature_group_count,
        batch_group_count,
    )
    if b.platform != "cpu" or wide.dtype != np.float32:
        result = _convolution(b, wide, x, y, form)
    elif feature_group_count > 1 and y.shape[rhs_axes[1]] <= _DIRECT_FEATURES:
        mirrored = _mirrored(b, y, rhs_axes[2:])
        result = _convolution(b, wide, x, mirrored, replace(form, is_mirrored=True))
    else:
        result = _eigen_convolution(b, wide, x, y, form)
    return convert(b, type, result)


def _eigen_convolution(
    b: ModuleContext, type: ShapeDtype, x: Operand, y: Operand, form: _Form
) -> Operand:
    """Bring the operands into Eigen's layout, features last.

    XLA:CPU does so by itself only outside of loops; elsewhere its plain loops are slow.
    """
    last = type.ndim - 1
    spatial = tuple(range(1, last))
    layout = (0, last, *spatial)
    batch, features, *places = form.lhs_axes
    x = _ordered(b, x, (batch, *places, features))
    if max(form.lhs_dilation, default=1) > 1:
        x = _spread(b, x, spatial, form.lhs_dilation)
    outputs, inputs, *places = form.rhs_axes
    y = _ordered(b, y, (*places, inputs, outputs))
    order = (form.result_axes[0], *form.result_axes[2:], form.result_axes[1])
    form = replace(
        form,
        lhs_axes=layout,
        rhs_axes=(last, last - 1, *range(last - 1)),
        result_axes=layout,
        lhs_dilation=[1] * len(spatial),
    )
    ordered = type.with_shape(type.shape[axis] for axis in order)
    result = _convolution(b, ordered, x, y, form)
    return _ordered(b, result, [int(axis) for axis in np.argsort(order)])


def _ordered(b: ModuleContext, x: Operand, permutation: Sequence[int]) -> Operand:
    is_in_order = list(permutation) == list(range(len(permutation)))
    return x if is_in_order else transpose(b, x, permutation)


def _convolution(
    b: ModuleContext, type: ShapeDtype, x: Operand, y: Operand, form: _Form
) -> Operand:
    outputs, inputs, *spatial = form.rhs_axes
    numbers = hlo.ConvDimensionNumbers.get(
        *(*form.lhs_axes[:2], list(form.lhs_axes[2:])),
        *(inputs, outputs, spatial),
        *(*form.result_axes[:2], list(form.result_axes[2:])),
    )
    highest = hlo.PrecisionAttr.get("HIGHEST")
    result = hlo.convolution(
        b.tensor_type(type),
        x.raw,
        y.raw,
        numbers,
        form.feature_group_count,
        form.batch_group_count,
        window_strides=form.window_strides,
        padding=_padding(form.padding),
        lhs_dilation=form.lhs_dilation,
        rhs_dilation=form.rhs_dilation,
        window_reversal=[form.is_mirrored] * len(spatial),
        precision_config=ir.ArrayAttr.get([highest, highest]),
    )
    return Operand(result)


def _mirrored(b: ModuleContext, y: Operand, axes: Sequence[int]) -> Operand:
    """Mirror a kernel that the convolution mirrors back: Eigen leaves these to plain loops."""
    return reverse(b, y, sorted(axes))


def _spread(b: ModuleContext, x: Operand, axes: Sequence[int], dilation: Sequence[int]) -> Operand:
    """Write the zeros between the elements out: Eigen would write every window out instead."""
    none = [0] * x.type.ndim
    interior = list(none)
    for axis, step in zip(axes, dilation, strict=True):
        interior[axis] = step - 1
    zero = splat(b, 0, x.type.with_shape(()))
    return pad(b, x, zero, none, none, interior)


def _padding(padding: Padding) -> Any:
    pads = np.asarray(padding, dtype=np.int64).reshape(len(padding), 2)
    signless = ir.IntegerType.get_signless(64)
    return ir.DenseIntElementsAttr.get(pads, type=signless, shape=pads.shape)
