"""The general product of two arrays. Source: StableHLO specification, dot_general."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracer import ops
from tracer.errors import ShapeError
from tracer.ir import AxisRule, Batching, Cost, Label, Op, ShapeDtype, Value
from tracer.ir.combining import PRODUCT
from tracer.ir.op import Types
from tracer.ops.batch import behind, move_axis
from tracer.ops.product import free_axes, product_of_types
from tracer.ops.rules import (
    moved_bytes,
    require_axes,
    require_kind,
    require_same_dtypes,
    size_of,
    widened,
)

Array = np.ndarray[Any, Any]
Axes = tuple[int, ...]


def _infer(
    x: ShapeDtype,
    y: ShapeDtype,
    *,
    lhs_batch: Axes,
    rhs_batch: Axes,
    lhs_contracting: Axes,
    rhs_contracting: Axes,
) -> ShapeDtype:
    require_same_dtypes("dot_general", (x, y))
    require_kind("dot_general", x, "iufc")
    require_axes("dot_general", (*lhs_batch, *lhs_contracting), x.ndim)
    require_axes("dot_general", (*rhs_batch, *rhs_contracting), y.ndim)
    paired = [(lhs_batch, rhs_batch), (lhs_contracting, rhs_contracting)]
    for left, right in paired:
        if [x.shape[i] for i in left] != [y.shape[i] for i in right]:
            raise ShapeError(
                f"dot_general: axes {left} of {x} and axes {right} of {y} differ in size",
                mend="batch and contracted axes must have equal sizes on both sides",
            )
    return x.with_shape(
        (
            *(x.shape[i] for i in lhs_batch),
            *(x.shape[i] for i in free_axes(x.ndim, lhs_batch, lhs_contracting)),
            *(y.shape[i] for i in free_axes(y.ndim, rhs_batch, rhs_contracting)),
        )
    )


def _evaluate(
    x: Array,
    y: Array,
    *,
    lhs_batch: Axes,
    rhs_batch: Axes,
    lhs_contracting: Axes,
    rhs_contracting: Axes,
) -> Any:
    left_free = free_axes(x.ndim, lhs_batch, lhs_contracting)
    right_free = free_axes(y.ndim, rhs_batch, rhs_contracting)
    batch = [x.shape[i] for i in lhs_batch]
    rows = [x.shape[i] for i in left_free]
    columns = [y.shape[i] for i in right_free]
    inner = int(np.prod([x.shape[i] for i in lhs_contracting], dtype=int))
    left = widened(x).transpose((*lhs_batch, *left_free, *lhs_contracting))
    right = widened(y).transpose((*rhs_batch, *rhs_contracting, *right_free))
    left = left.reshape((*batch, int(np.prod(rows, dtype=int)), inner))
    right = right.reshape((*batch, inner, int(np.prod(columns, dtype=int))))
    with np.errstate(all="ignore"):
        return np.matmul(left, right).reshape((*batch, *rows, *columns)).astype(x.dtype)


def _operand_cotangent(
    g: Value, x: Value, y: Value, g_axes: Axes, batch: tuple[Axes, Axes], pairs: tuple[Axes, Axes]
) -> Value:
    """Return the cotangent of `x`: the product of `g` with the other operand `y`.

    `g_axes` are the axes of `g` that come from `y`'s free axes; `batch` and `pairs` hold the batch
    and the contracted axes of (x, y).
    """
    y_free = free_axes(len(y.shape), batch[1], pairs[1])
    g_batch = tuple(range(len(batch[0])))
    free = free_axes(len(x.shape), batch[0], pairs[0])
    by_y_order = [pairs[0][i] for i in np.argsort(pairs[1])]
    if [*batch[0], *by_y_order, *free] == list(range(len(x.shape))):
        # The other way round the axes come out in the order of x: no transpose is needed.
        return ops.dot_general(  # type: ignore[no-any-return]
            y,
            g,
            lhs_batch=batch[1],
            rhs_batch=g_batch,
            lhs_contracting=y_free,
            rhs_contracting=g_axes,
        )
    product = ops.dot_general(
        g,
        y,
        lhs_batch=g_batch,
        rhs_batch=batch[1],
        lhs_contracting=g_axes,
        rhs_contracting=y_free,
    )
    # The product's axes: batch, free axes of x, then the contracted axes in y's order.
    order = [*batch[0], *free, *by_y_order]
    permutation = tuple(int(i) for i in np.argsort(order))
    if permutation == tuple(range(len(permutation))):
        return product  # type: ignore[no-any-return]
    return ops.transpose(product, permutation=permutation)  # type: ignore[no-any-return]


def _vjp(
    g: Value,
    out: Value,
    x: Value,
    y: Value,
    *,
    lhs_batch: Axes,
    rhs_batch: Axes,
    lhs_contracting: Axes,
    rhs_contracting: Axes,
) -> tuple[Value, Value]:
    first_right = len(x.shape) - len(lhs_contracting)
    from_left = tuple(range(len(lhs_batch), first_right))
    from_right = tuple(range(first_right, len(out.shape)))
    batch, pairs = (lhs_batch, rhs_batch), (lhs_contracting, rhs_contracting)
    return (
        _operand_cotangent(g, x, y, from_right, batch, pairs),
        _operand_cotangent(g, y, x, from_left, batch[::-1], pairs[::-1]),
    )


def _axes(
    operands: Types,
    results: Types,
    *,
    lhs_batch: Axes,
    rhs_batch: Axes,
    lhs_contracting: Axes,
    rhs_contracting: Axes,
) -> AxisRule:
    labels = tuple(range(results[0].ndim))
    left_free = free_axes(operands[0].ndim, lhs_batch, lhs_contracting)
    right_free = free_axes(operands[1].ndim, rhs_batch, rhs_contracting)
    inner = [f"k{i}" for i in range(len(lhs_contracting))]
    behind = len(lhs_batch) + len(left_free)
    left: dict[int, Label] = dict(zip((*lhs_batch, *left_free), labels, strict=False))
    left.update(zip(lhs_contracting, inner, strict=True))
    right: dict[int, Label] = dict(zip(rhs_batch, labels, strict=False))
    right.update(zip(right_free, labels[behind:], strict=True))
    right.update(zip(rhs_contracting, inner, strict=True))
    return AxisRule(
        (_in_order(left), _in_order(right)), (labels,), reduced=dict.fromkeys(inner, "add")
    )


def _in_order(labels: dict[int, Label]) -> tuple[Label, ...]:
    return tuple(labels[axis] for axis in range(len(labels)))


def _cost(operands: Types, results: Types, **axes: Axes) -> Cost:
    """Two flops for each term, eight when complex; scratch for copies into order and packing."""
    x, y = operands
    terms = results[0].size * size_of(x, axes["lhs_contracting"])
    flops = (8 if x.dtype.kind == "c" else 2) * terms
    copies, call = product_of_types(x, y, **axes)
    moved = moved_bytes(operands, results)
    return Cost(flops, moved, copies, product_flops=flops, calls=(call,))


def _batch(
    operands: tuple[Value, ...],
    batching: Batching,
    *,
    lhs_batch: Axes,
    rhs_batch: Axes,
    lhs_contracting: Axes,
    rhs_contracting: Axes,
) -> Value:
    """Make the axis a batch axis when both sides have it, else a free one, and move it in front."""
    x, y = operands
    from_x, from_y = batching.batched
    left, right = (lhs_batch, lhs_contracting), (rhs_batch, rhs_contracting)
    if from_x:
        left = behind(lhs_batch), behind(lhs_contracting)
    if from_y:
        right = behind(rhs_batch), behind(rhs_contracting)
    if from_x and from_y:
        left, right = ((0, *left[0]), left[1]), ((0, *right[0]), right[1])
    place = 0 if from_x and from_y else len(lhs_batch)
    if not from_x:
        last = len(y.shape) - len(rhs_batch) - len(rhs_contracting)
        if last == 1 and not lhs_batch:
            # The other way round the axis is in front already.
            (x, left), (y, right) = (y, right), (x, left)
        else:
            place = len(x.shape) - len(lhs_contracting)
    product = ops.dot_general(
        x,
        y,
        lhs_batch=left[0],
        rhs_batch=right[0],
        lhs_contracting=left[1],
        rhs_contracting=right[1],
    )
    return move_axis(product, place, 0)


def _lower(
    b: Any,
    types: Types,
    x: Any,
    y: Any,
    *,
    lhs_batch: Axes,
    rhs_batch: Axes,
    lhs_contracting: Axes,
    rhs_contracting: Axes,
) -> Any:
    return b.dot_general(types[0], x, y, lhs_batch, rhs_batch, lhs_contracting, rhs_contracting)


dot_general: Op = Op(
    "dot_general",
    doc="Sum of products over the contracted axes, for each index of the batch axes. Axes of the "
    "result: batch, free axes of the left, free axes of the right operand.",
    infer=_infer,
    evaluate=_evaluate,
    lower=_lower,
    vjp=_vjp,
    axes=_axes,
    cost=_cost,
    fusion="opaque",
    batch=_batch,
    response=PRODUCT,
    neutral=lambda types, **_: (0, 0),
)
