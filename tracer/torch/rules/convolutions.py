"""Rules of convolutions, transposed ones, and their gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tracer import ops
from tracer.array.array import Array
from tracer.array.convert import reshape
from tracer.array.dispatch import apply
from tracer.ir import ShapeDtype
from tracer.torch.rules.operands import cotangent, filled, integers
from tracer.torch.table import Node, rule

Sizes = Sequence[int]


def _correlated(
    x: Array,
    weight: Array,
    stride: Sizes,
    padding: Sequence[tuple[int, int]],
    dilation: Sizes,
    groups: int,
) -> Array:
    axes = tuple(range(x.ndim))
    ones = (1,) * (x.ndim - 2)
    return apply(
        ops.convolution,
        x,
        weight,
        lhs_axes=axes,
        rhs_axes=axes,
        result_axes=axes,
        window_strides=tuple(stride),
        padding=tuple(padding),
        lhs_dilation=ones,
        rhs_dilation=tuple(dilation),
        feature_group_count=groups,
        batch_group_count=1,
    )


def _convolution(
    result: ShapeDtype,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    groups: int,
) -> Callable[[Array, Array], Array]:
    """Return a convolution without bias, as a function of input and weight."""
    count = result.ndim - 2
    strides, pads, dilations = (integers(v, count) for v in (stride, padding, dilation))
    around = tuple(zip(pads, pads, strict=True))

    def forward(x: Array, weight: Array) -> Array:
        return _correlated(x, weight, strides, around, dilations, groups)

    def backward(x: Array, weight: Array) -> Array:
        # What gradients of convolutions do to cotangents.
        return cotangent(lambda y: forward(y, weight), filled(0, result), x)

    return backward if transposed else forward


@rule("convolution")
def convolution(
    node: Node,
    x: Array,
    weight: Array,
    bias: Array | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> Array:
    """Convolve, and add the bias of each feature."""
    batched = node.result if x.ndim == weight.ndim else _with_batch(node.result)
    lines = x if x.ndim == weight.ndim else reshape(x, (1, *x.shape))
    convolve = _convolution(batched, stride, padding, dilation, transposed, groups)
    found = reshape(convolve(lines, weight), node.result.shape)
    if bias is None:
        return found
    axis = x.ndim - weight.ndim + 1
    whole = apply(ops.broadcast_in_dim, bias, shape=found.shape, dimensions=(axis,))
    return apply(ops.add, found, whole)


def _with_batch(type: ShapeDtype) -> ShapeDtype:
    return type.with_shape((1, *type.shape))


@rule("convolution_backward")
def convolution_backward(
    node: Node,
    grad: Array,
    x: Array,
    weight: Array,
    bias_sizes: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    output_mask: Sequence[bool],
) -> list[Array | None]:
    """Differentiate by input, weight and bias, as far as is asked for."""
    convolve = _convolution(grad.type, stride, padding, dilation, transposed, groups)
    by_input, by_weight, by_bias = output_mask
    axes = (0, *range(2, grad.ndim))
    return [
        cotangent(lambda y: convolve(y, weight), x, grad) if by_input else None,
        cotangent(lambda w: convolve(x, w), weight, grad) if by_weight else None,
        apply(ops.reduce_add, grad, axes=axes) if by_bias else None,
    ]
