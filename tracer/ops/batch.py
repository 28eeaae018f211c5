"""Helpers for `Op.batch` rules: how ops take one more parallel axis in front.

The axis rule of an op says which axes are parallel, and a batch is one more of them. The record
adds how its parameters count axes and state shapes; `leading` covers most families. Source of the
semantics: `jax.vmap`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tracer import ops
from tracer.ir import Batching, Value
from tracer.ops import helpers

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


def fold_batch(x: Value, axis: int, *, groups: int = 1) -> Value:
    """Put the leading axis of `x` into another one, `axis` counted without it.

    The other axis consists of `groups` equal parts; the leading axis runs within each of them.
    """
    shape = list(x.shape[1:])
    folded = [*shape[:axis], x.shape[0] * shape[axis], *shape[axis + 1 :]]
    if groups == 1:
        return helpers.reshape(move_axis(x, 0, axis), folded)
    parts = [*x.shape[: axis + 1], groups, shape[axis] // groups, *shape[axis + 1 :]]
    return helpers.reshape(move_axis(helpers.reshape(x, parts), 0, axis + 1), folded)


def unfold_batch(x: Value, axis: int, size: int, *, groups: int = 1) -> Value:
    """Take an axis of `size` elements out of another one, to the front: undo `fold_batch`."""
    inner = x.shape[axis] // (groups * size)
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    if groups == 1:
        return move_axis(helpers.reshape(x, (*before, size, inner, *after)), axis, 0)
    parts = helpers.reshape(x, (*before, groups, size, inner, *after))
    unfolded = (size, *before, groups * inner, *after)
    return helpers.reshape(move_axis(parts, axis + 1, 0), unfolded)


def behind(axes: Sequence[int]) -> tuple[int, ...]:
    """Return the axes one place further behind."""
    return tuple(axis + 1 for axis in axes)


def leading(*shifted: str, **first: Any) -> BatchRule:
    """Return the rule of an op whose parameters count axes or state one number for each axis.

    Parameters
    ----------
    *shifted : str
        Parameters that hold an axis or a tuple of axes.
    **first : int, tuple or None
        What is put in front of a parameter (after shifting); None means the batch's size.
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
    "fold_batch",
    "leading",
    "move_axis",
    "spread_leading",
    "unfold_batch",
    "with_axis",
]
