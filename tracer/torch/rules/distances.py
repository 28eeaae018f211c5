"""Rules of distances between all pairs of rows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tracer import ops
from tracer.array.array import Array
from tracer.array.convert import broadcast, reshape
from tracer.array.dispatch import apply
from tracer.numpy.ufunc import compare, full_like, select
from tracer.torch.table import Node, rule


def _differences(x: Array, y: Array) -> Array:
    """Return the differences of all pairs of rows."""
    batch = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    shape = (*batch, x.shape[-2], y.shape[-2], x.shape[-1])
    rows = reshape(x, (*x.shape[:-1], 1, x.shape[-1]))
    columns = reshape(y, (*y.shape[:-2], 1, *y.shape[-2:]))
    return apply(ops.subtract, broadcast(rows, shape), broadcast(columns, shape))


@rule("_cdist_forward")
def cdist(node: Node, x: Array, y: Array, p: float, compute_mode: Any) -> Array:
    """Measure in a norm. torch may go by a product of matrices, which has fewer digits."""
    sizes = apply(ops.abs, _differences(x, y))
    axes = (sizes.ndim - 1,)
    if p == 0:
        is_other = compare(sizes, full_like(sizes, 0), "NE")
        return apply(ops.reduce_add, apply(ops.convert, is_other, dtype=sizes.dtype), axes=axes)
    if math.isinf(p):
        return apply(ops.reduce_maximum, sizes, axes=axes)
    if p == 1:
        return apply(ops.reduce_add, sizes, axes=axes)
    if p == 2:
        return apply(ops.sqrt, apply(ops.reduce_add, apply(ops.multiply, sizes, sizes), axes=axes))
    powers = apply(ops.power, sizes, full_like(sizes, p))
    total = apply(ops.reduce_add, powers, axes=axes)
    return apply(ops.power, total, full_like(total, 1 / p))


@rule("_cdist_backward")
def cdist_backward(
    node: Node, grad: Array, x: Array, y: Array, p: float, distances: Array
) -> Array:
    """Differentiate by the rows of x; the slope at distance 0 is 0."""
    differences = _differences(x, y)
    dimensions = tuple(range(grad.ndim))
    shape = differences.shape

    def spread(z: Array) -> Array:
        return apply(ops.broadcast_in_dim, z, shape=shape, dimensions=dimensions)

    signs = apply(ops.sign, differences)
    sizes = apply(ops.abs, differences)
    distance = spread(distances)
    zero = full_like(distance, 0)
    if p == 0:
        slopes = zero
    elif p == 1:
        slopes = signs
    elif math.isinf(p):
        slopes = select(compare(sizes, distance, "EQ"), signs, zero)
    elif p == 2:
        slopes = apply(ops.divide, differences, distance)
    else:
        quotient = apply(ops.divide, sizes, distance)
        slopes = apply(ops.multiply, signs, apply(ops.power, quotient, full_like(quotient, p - 1)))
    slopes = select(compare(distance, zero, "EQ"), zero, slopes)
    parts = apply(ops.multiply, spread(grad), slopes)
    return reshape(apply(ops.reduce_add, parts, axes=(parts.ndim - 2,)), node.result.shape)
