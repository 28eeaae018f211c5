"""Sums that are zero where two axes have the same index: distances of points to themselves.

Expanded, `((x[:, None] - x[None]) ** 2).sum(-1)` leaves the rounding of its terms on the diagonal:
in float32 a square root of it is 3e-3 for 100 features of spread 1. The differences were exactly
zero there, and users rely on it: diagonals, `d == 0`, `where(d > 0, ...)` around gradients.

Sums of differences with a weight for each pair have terms that are zero there. Weights such as
`(d**2 + 1e-6) ** -1.5` are largest where the difference is zero: expanded, the terms of a point
with itself are `1e9 * x - 1e9 * x`, and their rounding was larger than the sum of all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from itertools import combinations

import numpy as np

from tracer import ops
from tracer.ir import Value
from tracer.ops.helpers import full_like
from tracer.optimizer.rewrite.match.polynomial import Leaf, Monomial, Polynomial, collect
from tracer.optimizer.rewrite.match.structure import seen_through

Pairs = tuple[tuple[int, int], ...]


def coincident_axes(polynomial: Polynomial, kept: Sequence[int]) -> Pairs:
    """Return pairs of axes; the polynomial is zero where the indices of each pair are equal.

    Parameters
    ----------
    polynomial : Polynomial
        Its terms.
    kept : sequence of int
        The axes among which to look: those that are not summed over, for the sum itself; all axes,
        for its terms.

    Returns
    -------
    tuple of (int, int)
        Empty if no such axes are known.
    """
    own = tuple(Monomial(m.coefficient, tuple(map(_of_source, m.leaves))) for m in polynomial)
    leaves = dict.fromkeys(leaf for m in own for leaf in m.leaves if leaf.centre is not None)
    for one, other in combinations(leaves, 2):
        if one.value is not other.value:
            continue
        pairs = tuple((i, j) for i, j in zip(one.axes, other.axes, strict=True) if i != j)
        firsts, seconds = ({pair[side] for pair in pairs} for side in (0, 1))
        if firsts & seconds or not firsts | seconds <= set(kept):
            continue
        if not _where_equal(own, {j: i for i, j in pairs}):
            return pairs
    return ()


def _where_equal(polynomial: Polynomial, names: dict[int, int]) -> Polynomial:
    """Return the polynomial where the renamed axes have the indices of the others."""

    def renamed(leaf: Leaf) -> Leaf:
        return replace(leaf, axes=tuple(names.get(axis, axis) for axis in leaf.axes))

    return collect(
        tuple(Monomial(m.coefficient, tuple(map(renamed, m.leaves))) for m in polynomial)
    )


def _of_source(leaf: Leaf) -> Leaf:
    """Return a leaf by the value below reshapes that only add or drop axes of one element."""
    value = seen_through(leaf.value)
    while value.node.op is ops.reshape and _long(value.node.operands[0]) == _long(value):
        value = seen_through(value.node.operands[0])
    return replace(leaf, value=value)


def _long(value: Value) -> tuple[int, ...]:
    return tuple(size for size in value.shape if size > 1)


def is_same_place(shape: Sequence[int], pairs: Pairs) -> Value:
    """Return booleans: where the indices along each pair of axes are equal."""

    def place(axis: int) -> Value:
        return ops.iota(shape=tuple(shape), dtype=np.dtype(np.int32), dimension=axis)  # type: ignore[no-any-return]

    equal: list[Value] = [ops.compare(place(i), place(j), direction="EQ") for i, j in pairs]
    return reduce(ops.and_, equal)


def without_own(weight: Value, axes: Sequence[int], pairs: Pairs) -> Value:
    """Return a weight of each pair that is zero where the indices along `pairs` are equal.

    The terms that it weights are zero there. What is not finite stays: times zero it is NaN.
    """
    if not {axis for pair in pairs for axis in pair} <= set(axes):
        return weight
    own = is_same_place(weight.shape, tuple((axes.index(i), axes.index(j)) for i, j in pairs))
    own = ops.and_(own, ops.is_finite(weight))
    return ops.select(own, full_like(weight, 0), weight)  # type: ignore[no-any-return]


__all__ = ["Pairs", "coincident_axes", "is_same_place", "without_own"]
