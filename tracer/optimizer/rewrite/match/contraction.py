"""Sums of polynomials in broadcast operands become matrix products.

`((x[:, None, :] - y[None, :, :]) ** 2).sum(-1)` becomes norms and one product. Its gradients, sums
over the other axes, become products too. The broadcast tensor is never built. This generalises the
Euclidean distance rewrite of Artemev et al. 2022 (section 4.1), with the guards it lacked:

* The reducer is addition, the dtype real and floating, a power exactly 2.
* Both sides of a difference (or sum) are first shifted by the mean of one side, so the error of a
  squared distance is a few roundings of the data's squared *spread*, whatever its offset. Small
  distances between far spread points still lose digits that the direct form would keep, and a point
  so far out that squares overflow spoils all of them. Products of sums that cannot be shifted are
  left alone.
* A sum that cannot be negative (squares, weighted with such) is clamped at zero, and is zero where
  a point meets itself (`coincidence`).
* If such a sum is not finite, its terms without products across operands (the norms) are the
  result, so infinity stays infinity (two equal infinities give infinity where the direct form gives
  NaN). Sums with a weight for each pair have no norms: infinity may become NaN there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

import ml_dtypes
import numpy as np

from tracer import ops
from tracer.ir import Graph, Node, ShapeDtype, Value
from tracer.ops.helpers import full_like
from tracer.ops.rules import is_float
from tracer.ops.sink_guard import dependent
from tracer.ops.storage import READS
from tracer.optimizer.passes import PassLog
from tracer.optimizer.rewrite.match.coincidence import (
    Pairs,
    coincident_axes,
    is_same_place,
    without_own,
)
from tracer.optimizer.rewrite.match.einsum import contract, expand, sum_over
from tracer.optimizer.rewrite.match.polynomial import (
    Centre,
    Leaf,
    Monomial,
    NoPolynomial,
    Polynomial,
    read_polynomial,
)
from tracer.optimizer.rewrite.match.rewrite import Replacement, replace_nodes
from tracer.optimizer.rewrite.match.sign import is_nonnegative
from tracer.optimizer.rewrite.match.singular import is_unbounded
from tracer.target import current_target

_SQUARE = 2
_FEW_FEATURES = "weights may leave small differences only, and few features are fast directly"


def match_contractions(graph: Graph, log: PassLog) -> Graph:
    """Replace sums of broadcast products by contractions, where that makes tensors smaller."""
    matches: dict[Node, Replacement] = {}
    smallest, in_storage = current_target().sizes.match_elements, _read_from_storage(graph)
    for node in graph.nodes:
        if node.op is not ops.reduce_add or node.operands[0].type.size < smallest:
            continue
        subject = f"{node.name} of {node.operands[0].type}"
        try:
            polynomial = _read(node, in_storage)
        except NoPolynomial as reason:
            log.refuse(subject, str(reason), node.source)
            continue
        features = _features_of_pairs(polynomial, node.operands[0].shape)
        if features is not None:
            log.refuse(subject, _FEW_FEATURES, node.source)
            if features and set(features) < set(node.params["axes"]):
                matches[node] = _FeaturesFirst(node, features)
            continue
        matches[node] = _Contraction(node, polynomial)
        log.applied.append(f"{subject}: {len(polynomial)} terms")
    return replace_nodes(graph, matches)


def _read_from_storage(graph: Graph) -> Set[Value]:
    """Return the values that depend on what is in storage, of the graph's own nodes."""
    read = [value for node in graph.nodes if node.op in READS for value in node.results]
    return dependent(graph.nodes, read) if read else set()


def _read(node: Node, in_storage: Set[Value]) -> Polynomial:
    (operand,) = node.operands
    if not is_float(operand.dtype):
        raise NoPolynomial(f"{operand.dtype} is not a real floating type")
    polynomial = read_polynomial(operand, in_storage)
    if not polynomial:
        raise NoPolynomial("it is zero")
    long = {axis for axis, size in enumerate(operand.type.shape) if size > 1}
    for monomial in polynomial:
        if any(set(leaf.axes) >= long for leaf in monomial.leaves):
            raise NoPolynomial("a factor is as large as the sum")
        if not monomial.leaves:
            raise NoPolynomial("it has a constant term")
        _require_moderate(monomial.coefficient, operand.type)
    return polynomial


def _features_of_pairs(polynomial: Polynomial, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the axes of the features in sums of differences with a weight for each pair.

    None if the sum is of another kind, or has many features. Weights, such as a kernel's, may leave
    only small differences, and the expansion's error is of the size of all differences. The direct
    form of few features keeps their digits, as that of squared distances does. So it is for the
    differences themselves, where their weights may be large for small ones (`singular`).
    """
    few = current_target().sizes.direct_terms
    for monomial in polynomial:
        moved = [leaf for leaf in monomial.leaves if leaf.centre is not None]
        shared = {axis for leaf in moved if leaf.centre for axis in leaf.centre.shared}
        weights = [leaf for leaf in monomial.leaves if leaf.centre is None]
        of_pairs = [leaf for leaf in weights if len(set(leaf.axes) - shared) > 1]
        if len(moved) < _SQUARE and not (moved and any(map(_is_unbounded, of_pairs))):
            continue
        features = {axis for leaf in moved for axis in leaf.axes}.difference(
            *(leaf.axes for leaf in weights)
        )
        if of_pairs and math.prod(shape[axis] for axis in features) <= few:
            return tuple(sorted(features))
    return None


def _is_unbounded(leaf: Leaf) -> bool:
    return leaf.reciprocal or is_unbounded(leaf.value)


@dataclass(frozen=True)
class _FeaturesFirst:
    """A sum over pairs and features as the sum over pairs of that over features."""

    node: Node
    features: tuple[int, ...]

    def __call__(self, mapping: Mapping[Value, Value]) -> Sequence[Value]:
        total = ops.reduce_add(mapping[self.node.operands[0]], axes=self.features)
        axes = self.node.params["axes"]
        rest = [axis for axis in axes if axis not in self.features]
        moved = [axis - sum(feature < axis for feature in self.features) for axis in rest]
        return (ops.reduce_add(total, axes=tuple(moved)),)


def _require_moderate(coefficient: float, type: ShapeDtype) -> None:
    """Refuse a coefficient that may overflow or underflow where its factors one by one do not."""
    bound = math.sqrt(float(ml_dtypes.finfo(type.dtype).max))  # type: ignore[no-untyped-call] # no types
    if not 1 / bound <= abs(coefficient) <= bound:
        raise NoPolynomial(f"its coefficient {coefficient:g} is too extreme for {type.dtype}")


@dataclass(frozen=True)
class _Contraction:
    node: Node
    polynomial: Polynomial

    def __call__(self, mapping: Mapping[Value, Value]) -> Sequence[Value]:
        shape = self.node.operands[0].type.shape
        axes = self.node.params["axes"]
        kept = tuple(axis for axis in range(len(shape)) if axis not in axes)
        meeting = coincident_axes(self.polynomial, range(len(shape)))
        terms = [self._monomial(m, mapping, shape, kept, meeting) for m in self.polynomial]
        total = _add_all([value for value, _ in terms])
        if is_nonnegative(self.node.operands[0]):
            pairs = coincident_axes(self.polynomial, kept)
            pairs = tuple((kept.index(i), kept.index(j)) for i, j in pairs)
            norms = [value for value, crossed in terms if not crossed]
            total = _guarded_square(total, norms, pairs)
        return (total,)

    def _monomial(
        self,
        monomial: Monomial,
        mapping: Mapping[Value, Value],
        shape: tuple[int, ...],
        kept: tuple[int, ...],
        meeting: Pairs,
    ) -> tuple[Value, bool]:
        """Emit one term; also tell whether it is a product across operands with other axes."""
        factors = [(_factor(leaf, mapping, shape, meeting), leaf.axes) for leaf in monomial.leaves]
        used = {axis for leaf in monomial.leaves for axis in leaf.axes}
        value, axes = contract(factors, tuple(axis for axis in kept if axis in used))
        unused = [n for axis, n in enumerate(shape) if axis not in used and axis not in kept]
        coefficient = monomial.coefficient * math.prod(unused)
        if coefficient != 1.0:
            value = ops.multiply(value, full_like(value, coefficient))
        crossed = not any(set(leaf.axes) == used for leaf in monomial.leaves)
        return expand(value, axes, self.node.types[0], kept), crossed


def _factor(
    leaf: Leaf, mapping: Mapping[Value, Value], shape: tuple[int, ...], meeting: Pairs
) -> Value:
    value = _squeezed(mapping[leaf.value], leaf.axes, shape)
    if leaf.centre is not None:
        centre, axes = _centre(leaf.centre, mapping, shape)
        move = ops.add if leaf.centre.is_added else ops.subtract
        value = move(value, expand(centre, axes, value.type, leaf.axes))
    if leaf.reciprocal:
        value = ops.divide(full_like(value, 1), value)
    # Others have a bound, and the terms of a point with itself are no larger than the rest.
    if meeting and _is_unbounded(leaf):
        return without_own(value, leaf.axes, meeting)
    return value


def _centre(
    centre: Centre, mapping: Mapping[Value, Value], shape: tuple[int, ...]
) -> tuple[Value, tuple[int, ...]]:
    value = _squeezed(mapping[centre.value], centre.axes, shape)
    total = sum_over(value, centre.axes, centre.shared)
    count = math.prod(shape[axis] for axis in centre.axes if axis not in centre.shared)
    mean = ops.divide(total, full_like(total, count))
    axes = tuple(axis for axis in centre.axes if axis in centre.shared)
    private = tuple(i for i, axis in enumerate(centre.axes) if axis not in centre.shared)
    # The largest distance from the mean, by extremes: one pass over the value has all three.
    above = ops.subtract(ops.reduce_maximum(value, axes=private), mean)
    below = ops.subtract(mean, ops.reduce_minimum(value, axes=private))
    point = _on_grid(mean, ops.maximum(above, below))
    # A centre that is not finite would spoil every row; no shift at all is always allowed.
    return ops.select(ops.is_finite(point), point, full_like(point, 0)), axes


def _on_grid(mean: Value, spread: Value) -> Value:
    """Round a centre to a multiple of a power of two, about a twentieth of the spread.

    Whole numbers stay whole, or sixteenths, when they are moved by it: distances between them, and
    ties between those, are then as exact as by differences.
    """
    info = ml_dtypes.finfo(spread.dtype)  # type: ignore[no-untyped-call] # no types
    unsigned = np.dtype(f"uint{info.bits}")
    exponent = ((1 << (info.bits - 1)) - 1) >> info.nmant << info.nmant
    bits = ops.bitcast_convert(spread, dtype=unsigned)
    power = ops.bitcast_convert(ops.and_(bits, full_like(bits, exponent)), dtype=spread.dtype)
    step = ops.multiply(power, full_like(power, 0.0625))
    point = ops.multiply(ops.round_nearest_even(ops.divide(mean, step)), step)
    return ops.select(ops.compare(step, full_like(step, 0), direction="GT"), point, mean)  # type: ignore[no-any-return]


def _squeezed(value: Value, axes: tuple[int, ...], shape: tuple[int, ...]) -> Value:
    wanted = tuple(shape[axis] for axis in axes)
    return value if value.shape == wanted else ops.reshape(value, shape=wanted)


def _guarded_square(total: Value, norms: list[Value], pairs: Pairs) -> Value:
    """Clamp at zero, and keep infinite norms infinite instead of inf - inf.

    Along pairs of axes a point meets itself: exactly zero where their indices are equal.
    """
    zero = full_like(total, 0)
    clamped = ops.maximum(total, zero)
    otherwise = _add_all(norms) if norms else clamped
    if pairs:
        clamped = ops.select(is_same_place(total.shape, pairs), zero, clamped)
    elif not norms:
        return clamped  # type: ignore[no-any-return]
    return ops.select(ops.is_finite(total), clamped, otherwise)  # type: ignore[no-any-return]


def _add_all(values: Sequence[Value]) -> Value:
    total = values[0]
    for value in values[1:]:
        total = ops.add(total, value)
    return total
