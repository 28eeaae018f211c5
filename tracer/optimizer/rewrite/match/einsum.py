"""Contract factors with named axes: a small einsum over op records.

The order of pairs comes from opt_einsum (Smith & Gray 2018); each pair becomes a dot_general, or a
plain product when nothing is contracted.
"""

from __future__ import annotations

from collections.abc import Sequence

import opt_einsum

from tracer import ops
from tracer.ir import ShapeDtype, Value

Axes = tuple[int, ...]
Factor = tuple[Value, Axes]


def contract(factors: Sequence[Factor], kept: Axes) -> Factor:
    """Multiply all factors and sum over the axes that are not in `kept`.

    Returns
    -------
    (Value, tuple of int)
        The result and its axes, `kept` in the given order.
    """
    remaining = list(factors)
    if len(remaining) == 1:
        value, axes = remaining[0]
        return _ordered(sum_over(value, axes, kept), tuple(a for a in axes if a in kept), kept)
    for positions in _path(remaining, kept):
        chosen = [remaining.pop(position) for position in sorted(positions, reverse=True)]
        later = {axis for _, axes in remaining for axis in axes} | set(kept)
        remaining.append(pair(chosen[1], chosen[0], later) if len(chosen) == 2 else chosen[0])
    value, axes = remaining[0]
    return _ordered(sum_over(value, axes, kept), tuple(a for a in axes if a in kept), kept)


def _path(factors: Sequence[Factor], kept: Axes) -> list[tuple[int, ...]]:
    symbols = opt_einsum.get_symbol
    inputs = ",".join("".join(map(symbols, axes)) for _, axes in factors)
    equation = f"{inputs}->{''.join(map(symbols, kept))}"
    shapes = [value.shape for value, _ in factors]
    path, _ = opt_einsum.contract_path(equation, *shapes, shapes=True)
    return list(path)


def pair(left: Factor, right: Factor, later: set[int]) -> Factor:
    """Multiply two factors and sum over the axes that are not needed later."""
    x, x_axes = _without_private(left, right[1], later)
    y, y_axes = _without_private(right, x_axes, later)
    if set(x_axes) <= set(y_axes) or set(y_axes) <= set(x_axes):
        if set(x_axes) < set(y_axes):
            (x, x_axes), (y, y_axes) = (y, y_axes), (x, x_axes)
        contracted = [axis for axis in y_axes if axis not in later]
        if set(x_axes) == set(y_axes) or not contracted:
            product = ops.multiply(x, expand(y, y_axes, x.type, x_axes))
            kept = tuple(axis for axis in x_axes if axis in later)
            return sum_over(product, x_axes, kept), kept
    return _dot(x, x_axes, y, y_axes, later)


def _dot(x: Value, x_axes: Axes, y: Value, y_axes: Axes, later: set[int]) -> Factor:
    common = [axis for axis in x_axes if axis in y_axes]
    batch = [axis for axis in common if axis in later]
    contracted = [axis for axis in common if axis not in later]
    result = ops.dot_general(
        x,
        y,
        lhs_batch=tuple(x_axes.index(axis) for axis in batch),
        rhs_batch=tuple(y_axes.index(axis) for axis in batch),
        lhs_contracting=tuple(x_axes.index(axis) for axis in contracted),
        rhs_contracting=tuple(y_axes.index(axis) for axis in contracted),
    )
    free = [axis for axis in x_axes if axis not in common]
    free += [axis for axis in y_axes if axis not in common]
    return result, (*batch, *free)


def _without_private(factor: Factor, other: Axes, later: set[int]) -> Factor:
    """Sum a factor over the axes that neither the other factor nor anything later has."""
    value, axes = factor
    kept = tuple(axis for axis in axes if axis in other or axis in later)
    return sum_over(value, axes, kept), kept


def sum_over(value: Value, axes: Axes, kept: Axes) -> Value:
    """Sum over the axes that are not in `kept`."""
    gone = tuple(position for position, axis in enumerate(axes) if axis not in kept)
    return ops.reduce_add(value, axes=gone) if gone else value


def _ordered(value: Value, axes: Axes, wanted: Axes) -> Factor:
    order = tuple(axes.index(axis) for axis in wanted if axis in axes)
    if order != tuple(range(len(order))):
        value = ops.transpose(value, permutation=order)
    return value, tuple(axis for axis in wanted if axis in axes)


def expand(value: Value, axes: Axes, type: ShapeDtype, wanted: Axes) -> Value:
    """Broadcast a value with `axes` to `type`, whose axes are `wanted`."""
    if axes == wanted:
        return value
    order = sorted(range(len(axes)), key=lambda position: wanted.index(axes[position]))
    if order != list(range(len(order))):
        value = ops.transpose(value, permutation=tuple(order))
    dimensions = tuple(sorted(wanted.index(axis) for axis in axes))
    return ops.broadcast_in_dim(value, shape=type.shape, dimensions=dimensions)  # type: ignore[no-any-return]
