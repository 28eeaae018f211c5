"""Wide matrices as combinations of leaves: sums of (small matrix) @ (wide leaf).

`-2 * A + S @ A + outer(v, y)` of A (m, n) and y (n), m much smaller than n, is `P @ A + q @ y` with
`P = S - 2 * I` (m, m) and q = v. A solve with a small matrix from the left changes only P and q.
Coefficients are not computed here: each says how it is written once it is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tracer import ops
from tracer.ir import Value
from tracer.ops.helpers import matrix_transpose, reshape, scalar, spread, where
from tracer.ops.matrix_rules import identity, on_diagonal

Emit = Callable[[Mapping[Value, Value]], Value]
"""Writes a value into the current builder; old values are read through the mapping."""


@dataclass(frozen=True)
class Leaf:
    """A value that is taken as it is; `axis` is the wide one. A vector is a matrix of one row.

    `number` is its place among the values of the graph.
    """

    value: Value
    axis: int
    number: int

    @property
    def rows(self) -> int:
        """Size of the other axis."""
        return self.value.type.size // self.value.shape[self.axis]


@dataclass(frozen=True)
class Coefficient:
    """What a leaf is multiplied with from the left: a matrix, or a number.

    `size` counts the operations that it takes to write it, each as often as it is written.
    """

    emit: Emit
    is_number: bool = False
    size: int = 1

    def scaled(self, factor: Emit, *, divides: bool = False) -> Coefficient:
        """Return the coefficient times a number, or divided by it."""
        op = ops.divide if divides else ops.multiply

        def emit(mapping: Mapping[Value, Value]) -> Value:
            own = self.emit(mapping)
            result: Value = op(own, spread(factor(mapping), own.shape))
            return result

        return Coefficient(emit, self.is_number, self.size + 1)

    def as_matrix(self, rows: int) -> Emit:
        """Return how to write the coefficient as a matrix."""
        if not self.is_number:
            return self.emit

        def emit(mapping: Mapping[Value, Value]) -> Value:
            number = self.emit(mapping)
            unit = identity((rows, rows), number.dtype)
            result: Value = ops.multiply(unit, spread(number, unit.shape))
            return result

        return emit


@dataclass(frozen=True)
class Combination:
    """The sum of coefficients times leaves, (rows, n) with `axis` 1, its transpose with 0."""

    terms: Mapping[Leaf, Coefficient]
    rows: int
    axis: int

    @property
    def is_leaf(self) -> bool:
        """Whether it is one leaf times a number: nothing cancels in it."""
        return len(self.terms) == 1 and all(part.is_number for part in self.terms.values())

    @property
    def size(self) -> int:
        """Operations that it takes to write the coefficients."""
        return sum(coefficient.size for coefficient in self.terms.values())

    def changed(self, change: Callable[[Coefficient], Coefficient], rows: int) -> Combination:
        """Return the combination with other coefficients."""
        terms = {leaf: change(coefficient) for leaf, coefficient in self.terms.items()}
        return Combination(terms, rows, self.axis)

    def times(self, matrix: Emit, rows: int, axis: int) -> Combination:
        """Return a matrix times the combination."""

        def change(coefficient: Coefficient) -> Coefficient:
            if coefficient.is_number:
                return Coefficient(matrix).scaled(coefficient.emit)
            return Coefficient(
                lambda mapping: _dot(matrix(mapping), coefficient.emit(mapping)),
                size=coefficient.size + 1,
            )

        return Combination(self.changed(change, rows).terms, rows, axis)

    def plus(self, other: Combination, *, subtracts: bool) -> Combination:
        """Return the sum, or the difference, of two combinations of one shape."""
        terms = dict(self.terms)
        for leaf, theirs in other.terms.items():
            right = theirs.scaled(constant(-1, leaf)) if subtracts else theirs
            terms[leaf] = _sum(terms[leaf], right, self.rows) if leaf in terms else right
        return Combination(terms, self.rows, self.axis)

    def emit(self, mapping: Mapping[Value, Value]) -> Value:
        """Write the combination itself: a wide product for each leaf."""
        total: Value | None = None
        for leaf, coefficient in self.terms.items():
            term = _term(leaf, coefficient, self.axis, mapping)
            total = term if total is None else ops.add(total, term)
        assert total is not None
        return total


def constant(value: float, leaf: Leaf) -> Emit:
    """Return how to write a number in the dtype of a leaf."""
    return lambda mapping: scalar(value, leaf.value.dtype)


def leaf_combination(leaf: Leaf) -> Combination:
    """Return a leaf as the combination of itself."""
    return Combination({leaf: Coefficient(constant(1, leaf), True)}, leaf.rows, leaf.axis)


def contracted(left: Combination, right: Combination) -> Emit:
    """Return how to write `left @ right^T` (rows, rows) over the wide axis, from Gram matrices."""

    def emit(mapping: Mapping[Value, Value]) -> Value:
        parts = []
        for leaf, coefficient in left.terms.items():
            for other, factor in right.terms.items():
                part = _left_multiplied(coefficient, gram(leaf, other, mapping), mapping)
                turned = _left_multiplied(factor, matrix_transpose(part), mapping)
                parts.append(matrix_transpose(turned))
        return _added(parts)

    return emit


def inner_product(left: Combination, right: Combination) -> Emit:
    """Return how to write the sum over all elements of `left * right`, from Gram matrices."""

    def emit(mapping: Mapping[Value, Value]) -> Value:
        parts = []
        for leaf, coefficient in left.terms.items():
            for other, factor in right.terms.items():
                part = _left_multiplied(coefficient, gram(leaf, other, mapping), mapping)
                parts.append(_trace(part, factor, mapping))
        return _added(parts)

    return emit


def gram(left: Leaf, right: Leaf, mapping: Mapping[Value, Value]) -> Value:
    """Write the products of the rows of two leaves; in one order, so that it is one node."""
    if left.number > right.number:
        return matrix_transpose(gram(right, left, mapping))
    product: Value = ops.dot_general(
        mapping[left.value],
        mapping[right.value],
        lhs_batch=(),
        rhs_batch=(),
        lhs_contracting=(left.axis,),
        rhs_contracting=(right.axis,),
    )
    return reshape(product, (left.rows, right.rows))


def _term(leaf: Leaf, coefficient: Coefficient, axis: int, mapping: Mapping[Value, Value]) -> Value:
    wide = mapping[leaf.value]
    if coefficient.is_number:
        factor = coefficient.emit(mapping)
        wide = wide if leaf.axis == axis else matrix_transpose(wide)
        scaled: Value = ops.multiply(wide, spread(factor, wide.shape))
        return scaled
    matrix = coefficient.emit(mapping)
    own: tuple[int, ...] = (1,)
    inner: tuple[int, ...] = (1 - leaf.axis,)
    if len(wide.shape) == 1:
        matrix, own, inner = reshape(matrix, matrix.shape[:1]), (), ()
    pair = [(matrix, own), (wide, inner)]
    (x, over_x), (y, over_y) = pair if axis == 1 else reversed(pair)
    product: Value = ops.dot_general(
        x, y, lhs_batch=(), rhs_batch=(), lhs_contracting=over_x, rhs_contracting=over_y
    )
    return product


def _left_multiplied(
    coefficient: Coefficient, matrix: Value, mapping: Mapping[Value, Value]
) -> Value:
    own = coefficient.emit(mapping)
    if not coefficient.is_number:
        return _dot(own, matrix)
    result: Value = ops.multiply(matrix, spread(own, matrix.shape))
    return result


def _trace(matrix: Value, factor: Coefficient, mapping: Mapping[Value, Value]) -> Value:
    """Write the trace of `matrix @ factor^T`."""
    own = factor.emit(mapping)
    if factor.is_number:
        terms: Value = where(on_diagonal(matrix.shape), matrix)
        result: Value = ops.multiply(ops.reduce_add(terms, axes=(0, 1)), own)
        return result
    total: Value = ops.reduce_add(ops.multiply(matrix, own), axes=(0, 1))
    return total


def _sum(left: Coefficient, right: Coefficient, rows: int) -> Coefficient:
    are_numbers = left.is_number and right.is_number
    first, second = (left.emit, right.emit)
    if not are_numbers:
        first, second = left.as_matrix(rows), right.as_matrix(rows)
    return Coefficient(
        lambda mapping: ops.add(first(mapping), second(mapping)),
        are_numbers,
        left.size + right.size + 1,
    )


def _added(parts: list[Value]) -> Value:
    total = parts[0]
    for part in parts[1:]:
        total = ops.add(total, part)
    return total


def _dot(x: Value, y: Value) -> Value:
    product: Value = ops.dot_general(
        x, y, lhs_batch=(), rhs_batch=(), lhs_contracting=(1,), rhs_contracting=(0,)
    )
    return product
