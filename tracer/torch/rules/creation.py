"""Rules of what makes tensors of no others. What torch leaves unset is zero here."""

from __future__ import annotations

from typing import Any

from tracer import ops
from tracer.array.array import Array
from tracer.array.convert import broadcast, convert
from tracer.array.dispatch import apply
from tracer.ir import ShapeDtype
from tracer.torch.rules.operands import filled, operand
from tracer.torch.table import Node, rule


@rule(
    "_efficientzerotensor",
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "new_empty",
    "new_empty_strided",
    "new_zeros",
    "zeros",
    "zeros_like",
)
def zeros(node: Node, *_: Any, **__: Any) -> Array:
    """Make zeros."""
    return filled(0, node.result)


@rule("ones", "ones_like", "new_ones")
def ones(node: Node, *_: Any, **__: Any) -> Array:
    """Make ones."""
    return filled(1, node.result)


@rule("full", "full_like", "new_full", "fill")
def full(node: Node, _: Any, *rest: Any, **__: Any) -> Array:
    """Repeat a number, the last argument by position."""
    return operand(rest[-1], node.result)


@rule("scalar_tensor")
def scalar_tensor(node: Node, value: Any, **_: Any) -> Array:
    """Make a tensor of one number."""
    return filled(value, node.result)


@rule("arange.start_step")
def arange(node: Node, start: Any, end: Any, step: Any = 1, **_: Any) -> Array:
    """Count, in 64 bits as torch does."""
    del end
    kind = "int64" if node.result.dtype.kind in "iu" else "float64"
    wide = ShapeDtype(node.result.shape, kind)
    steps = apply(ops.iota, shape=wide.shape, dtype=wide.dtype, dimension=0)
    scaled = apply(ops.multiply, steps, filled(step, wide))
    return convert(apply(ops.add, scaled, filled(start, wide)), node.result.dtype)


@rule("copy")
def copy(node: Node, _: Array, source: Array, *__: Any) -> Array:
    """Give the source the type of what it is copied over."""
    return broadcast(convert(source, node.result.dtype), node.result.shape)
