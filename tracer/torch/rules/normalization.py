"""Rules of normalisation, and of activations that are core ops."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tracer import ops
from tracer.array.array import Array
from tracer.array.convert import broadcast, convert, reshape
from tracer.array.dispatch import apply
from tracer.numpy.ufunc import compare, full_like, select
from tracer.torch.rules.operands import axes_of, filled
from tracer.torch.rules.reductions import moments
from tracer.torch.table import Node, rule


def _wide(x: Array) -> Array:
    """Return an array in the dtype in which torch sums."""
    is_narrow = x.dtype.name in ("float16", "bfloat16")
    return convert(x, np.dtype("float32")) if is_narrow else x


def _normalized(x: Array, axes: tuple[int, ...], eps: float) -> tuple[Array, Array, Array]:
    """Return the normalised elements, the mean, and one by the deviation."""
    mean, variance = moments(x, axes, 0)
    inverse = apply(ops.rsqrt, apply(ops.add, variance, full_like(variance, eps)))
    distance = apply(ops.subtract, x, broadcast(mean, x.shape))
    return apply(ops.multiply, distance, broadcast(inverse, x.shape)), mean, inverse


def _scaled(x: Array, weight: Array | None, bias: Array | None) -> Array:
    for op, y in ((ops.multiply, weight), (ops.add, bias)):
        x = x if y is None else apply(op, x, broadcast(convert(y, x.dtype), x.shape))
    return x


@rule("native_layer_norm")
def layer_norm(
    node: Node, x: Array, shape: Sequence[int], weight: Array | None, bias: Array | None, eps: float
) -> Sequence[Array]:
    """Normalise over the last axes."""
    axes = tuple(range(x.ndim - len(shape), x.ndim))
    found, mean, inverse = _normalized(_wide(x), axes, eps)
    result = convert(_scaled(found, weight, bias), x.dtype)
    return [result, *_typed(node, mean, inverse)]


def _typed(node: Node, *arrays: Array) -> list[Array]:
    """Give what is kept for the gradient the types that torch says."""
    types = [type for type in node.results[1:] if type is not None]
    return [
        reshape(convert(x, type.dtype), type.shape) for x, type in zip(arrays, types, strict=True)
    ]


@rule("native_group_norm")
def group_norm(
    node: Node,
    x: Array,
    weight: Array | None,
    bias: Array | None,
    size: int,
    channels: int,
    area: int,
    groups: int,
    eps: float,
) -> Sequence[Array]:
    """Normalise over the features of each group, and all places."""
    grouped = reshape(_wide(x), (size, groups, channels // groups * area))
    found, mean, inverse = _normalized(grouped, (2,), eps)
    line = (channels, *(1,) * (x.ndim - 2))
    weights = [None if y is None else reshape(y, line) for y in (weight, bias)]
    result = convert(_scaled(reshape(found, x.shape), *weights), x.dtype)
    return [result, *_typed(node, mean, inverse)]


@rule("gelu")
def gelu(node: Node, x: Array, *, approximate: str = "none") -> Array:
    """Multiply x with the normal distribution's integral up to x."""
    wide = _wide(x)
    half = apply(ops.multiply, wide, full_like(wide, 0.5))
    if approximate == "none":
        inner = apply(ops.erf, apply(ops.multiply, wide, full_like(wide, math.sqrt(0.5))))
    else:
        cube = apply(ops.multiply, apply(ops.multiply, wide, wide), wide)
        sum_ = apply(ops.add, wide, apply(ops.multiply, cube, full_like(wide, 0.044715)))
        scaled = apply(ops.multiply, sum_, full_like(wide, math.sqrt(2 / math.pi)))
        inner = apply(ops.tanh, scaled)
    return convert(apply(ops.multiply, half, apply(ops.add, inner, full_like(wide, 1))), x.dtype)


@rule("elu")
def elu(node: Node, x: Array, alpha: Any = 1, scale: Any = 1, input_scale: Any = 1) -> Array:
    """Exponential below zero."""
    wide = _wide(x)
    bent = apply(ops.exponential_minus_one, apply(ops.multiply, wide, full_like(wide, input_scale)))
    below = apply(ops.multiply, bent, full_like(wide, alpha * scale))
    above = apply(ops.multiply, wide, full_like(wide, scale))
    return convert(select(compare(wide, full_like(wide, 0), "GT"), above, below), x.dtype)


@rule("leaky_relu")
def leaky_relu(node: Node, x: Array, negative_slope: Any = 0.01) -> Array:
    """Make the slope smaller below zero."""
    below = apply(ops.multiply, x, full_like(x, negative_slope))
    return select(compare(x, full_like(x, 0), "GT"), x, below)


@rule("hardtanh")
def hardtanh(node: Node, x: Array, min_val: Any = -1, max_val: Any = 1) -> Array:
    """Keep between two numbers."""
    return apply(
        ops.minimum, apply(ops.maximum, x, filled(min_val, x.type)), filled(max_val, x.type)
    )


@rule("linalg_vector_norm")
def vector_norm(
    node: Node, x: Array, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Array:
    """Return the norm over axes."""
    axes = axes_of(dim, x.ndim)
    x = convert(x, node.result.dtype) if x.dtype.kind != "c" else x
    wide = _wide(apply(ops.abs, x))
    return convert(reshape(_norm(wide, axes, ord), node.result.shape), node.result.dtype)


def _norm(sizes: Array, axes: tuple[int, ...], ord: Any) -> Array:
    def reduced(op: Any, x: Array) -> Array:
        return apply(op, x, axes=axes) if axes else x

    if math.isinf(ord):
        return reduced(ops.reduce_maximum if ord > 0 else ops.reduce_minimum, sizes)
    if ord == 0:
        is_other = compare(sizes, full_like(sizes, 0), "NE")
        return reduced(ops.reduce_add, convert(is_other, sizes.dtype))
    if ord == 1:
        return reduced(ops.reduce_add, sizes)
    if ord == 2:
        return apply(ops.sqrt, reduced(ops.reduce_add, apply(ops.multiply, sizes, sizes)))
    total = reduced(ops.reduce_add, apply(ops.power, sizes, full_like(sizes, ord)))
    return apply(ops.power, total, full_like(total, 1 / ord))
