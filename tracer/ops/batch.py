"""How ops take one more parallel axis in front: what the `Op.batch` rules share.

The axis rule of an op says which axes are parallel; a batch is one more of them. What a record
has to say in addition is how its parameters count axes and state shapes, and `leading` says that
for most families. Source of the semantics: `jax.vmap`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tracer import ops
from tracer.ir import Batching, Value

BatchRule = Callable[..., Any]


def spread_leading(x: Value, size: int) -> Value:
    """Repeat a value `size` times along a new axis in front."""
    shape, dimensions = (size, *x.shape), tuple(range(1, len(x.shape) + 1))
    return ops.broadcast_in_dim(x, shape=shape, dimensions=dimensions)  # type: ignore[no-any-return]


def with_axis(x: Value, is_batched: bool, size: int) -> Value:
    """Return the value with the batch axis in front: itself when it has it."""
    return x if is_batched else spread_leading(x, size)


def all_with_axis(operands: Sequence[Value], batching: Batching) -> tuple[Value, ...]:
    """Return all operands with the batch axis in front."""
    pairs = zip(operands, batching.batched, strict=True)
    return tuple(with_axis(x, flag, batching.size) for x, flag in pairs)


def move_axis(x: Value, source: int, destination: int) -> Value:
    """Move one axis to another place, the others keeping their order."""
    if source == destination:
        return x
    order = [axis for axis in range(len(x.shape)) if axis != source]
    order.insert(destination, source)
    return ops.transpose(x, permutation=tuple(order))  # type: ignore[no-any-return]


def behind(axes: Sequence[int]) -> tuple[int, ...]:
    """Return the axes one place further behind."""
    return tuple(axis + 1 for axis in axes)


def leading(*shifted: str, **first: int | None) -> BatchRule:
    """Return the rule of an op whose parameters count axes or state one number for each axis.

    Parameters
    ----------
    *shifted : str
        Parameters that hold an axis or a tuple of axes.
    **first : int or None
        What is put in front of a parameter (after shifting); None stands for the batch's size.
    """

    def rule(operands: tuple[Value, ...], batching: Batching, **params: Any) -> Any:
        for key in shifted:
            axes = params[key]
            params[key] = behind(axes) if isinstance(axes, tuple) else axes + 1
        for key, number in first.items():
            params[key] = (batching.size if number is None else number, *params[key])
        return batching.op(*all_with_axis(operands, batching), **params)

    return rule


__all__ = [
    "BatchRule",
    "all_with_axis",
    "behind",
    "leading",
    "move_axis",
    "spread_leading",
    "with_axis",
]
