"""Read an element-wise expression over broadcast operands as a polynomial.

`(x[:, None, :] - y[None, :, :]) ** 2` is a polynomial in the leaves x (axes 0, 2) and y (axes
1, 2): x*x - 2*x*y + y*y. Summed over an axis, each monomial is a contraction that never builds the
broadcast tensor. Squared distances in every spelling, and their gradients, are cases of this.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass, replace

from tracer import ops
from tracer.ir import Node, Op, Value
from tracer.optimizer.rewrite.simplify import constant_value

MAXIMUM_MONOMIALS = 8
MAXIMUM_DEGREE = 8
MAXIMUM_DEPTH = 100


@dataclass(frozen=True)
class Centre:
    """A point near both sides of a difference: the mean of `value` over `private` axes.

    A difference does not change when one point is subtracted from both sides. Afterwards the
    numbers are of the size of the data's spread, not of its offset, and so is the rounding error
    of the expansion. Of a sum, x + y = (x + c) + (y - c), the point is added to one side.
    """

    value: Value
    axes: tuple[int, ...]
    shared: tuple[int, ...]
    is_added: bool = False


@dataclass(frozen=True)
class Leaf:
    """A factor: a stored value and the axes of the expression that its own axes belong to.

    `axes` has one entry for each axis of `value` that is longer than one. A reciprocal leaf
    divides. A leaf with a centre has that point subtracted.
    """

    value: Value
    axes: tuple[int, ...]
    reciprocal: bool = False
    centre: Centre | None = None


@dataclass(frozen=True)
class Monomial:
    """A coefficient and its factors."""

    coefficient: float
    leaves: tuple[Leaf, ...]


Polynomial = tuple[Monomial, ...]


class NoPolynomial(Exception):
    """The expression is not a small polynomial in broadcast operands; the text says why."""


def read_polynomial(value: Value, in_storage: Container[Value] = ()) -> Polynomial:
    """Return the polynomial that an expression computes.

    Parameters
    ----------
    value : Value
        The expression.
    in_storage : container of Value
        What is read from storage. A centre is that of the side of a difference of which less is
        read once more for it.

    Raises
    ------
    NoPolynomial
        A factor is as large as the expression, the op is not arithmetic, or the expansion has
        too many terms.
    """
    return _Reader(in_storage).read(value)


class _Reader:
    """Reads one expression; a value that is used twice is read once."""

    def __init__(self, in_storage: Container[Value]) -> None:
        self.in_storage = in_storage
        self.known: dict[Value, Polynomial] = {}
        self.depth = 0

    def read(self, value: Value) -> Polynomial:
        if value not in self.known:
            if self.depth >= MAXIMUM_DEPTH:
                raise NoPolynomial(f"it is more than {MAXIMUM_DEPTH} operations deep")
            self.depth += 1
            self.known[value] = self._read(value)
            self.depth -= 1
        return self.known[value]

    def _read(self, value: Value) -> Polynomial:
        node = value.node
        leaf = _read_leaf(value)
        if leaf is not None:
            return leaf
        reader = _READERS.get(node.op) if node.op is not None else None
        if reader is None:
            raise NoPolynomial(f"{node.name} is as large as the sum and is no polynomial")
        result = reader(node, self)
        if len(result) > MAXIMUM_MONOMIALS:
            raise NoPolynomial(f"it expands into more than {MAXIMUM_MONOMIALS} terms")
        if any(len(monomial.leaves) > MAXIMUM_DEGREE for monomial in result):
            raise NoPolynomial(f"its degree is above {MAXIMUM_DEGREE}")
        return result


def _read_leaf(value: Value) -> Polynomial | None:
    """Read a broadcast of a smaller value; a broadcast scalar constant is a coefficient."""
    if value.node.op is not ops.broadcast_in_dim:
        return None
    (operand,) = value.node.operands
    scalar = constant_value(operand)
    if scalar is not None and scalar.ndim == 0 and scalar.dtype.kind != "c":
        return (Monomial(float(scalar), ()),)
    return (Monomial(1.0, (Leaf(operand, _long_axes(value.node)),)),)


def _long_axes(broadcast: Node) -> tuple[int, ...]:
    (type,) = broadcast.operand_types
    pairs = zip(broadcast.params["dimensions"], type.shape, strict=True)
    return tuple(dimension for dimension, size in pairs if size > 1)


def _sum(node: Node, reader: _Reader) -> Polynomial:
    left, right = map(reader.read, node.operands)
    left, right = _centred(left, right, reader.in_storage, is_sum=True) or (left, right)
    return collect((*left, *right))


def _difference(node: Node, reader: _Reader) -> Polynomial:
    left, right = map(reader.read, node.operands)
    left, right = _centred(left, right, reader.in_storage, is_sum=False) or (left, right)
    return collect((*left, *_scaled(right, -1.0)))


def _centred(
    left: Polynomial, right: Polynomial, in_storage: Container[Value], *, is_sum: bool
) -> tuple[Polynomial, Polynomial] | None:
    """Move both sides by the centre of one when each is one plain leaf.

    It is the second, unless more would be read from storage once more for it than for the first.
    """
    plain = [
        p[0].leaves[0]
        for p in (left, right)
        if len(p) == 1 and p[0].coefficient == 1.0 and len(p[0].leaves) == 1
    ]
    if len(plain) != 2 or any(leaf.reciprocal or leaf.centre for leaf in plain):
        return None
    shared = tuple(sorted(set(plain[0].axes) & set(plain[1].axes)))
    read = [leaf.value.type.nbytes if leaf.value in in_storage else 0 for leaf in plain]
    own = int(read[1] <= read[0])
    centre = Centre(plain[own].value, plain[own].axes, shared)
    other = replace(centre, is_added=is_sum)
    centres = (other, centre) if own else (centre, other)
    x, y = (
        (Monomial(1.0, (replace(leaf, centre=c),)),) for leaf, c in zip(plain, centres, strict=True)
    )
    return x, y


def _negated(node: Node, reader: _Reader) -> Polynomial:
    return _scaled(reader.read(node.operands[0]), -1.0)


def _product(node: Node, reader: _Reader) -> Polynomial:
    left, right = node.operands
    if left is right and left.node.op is ops.abs:
        left = right = left.node.operands[0]
    return _multiplied(reader.read(left), reader.read(right))


def _quotient(node: Node, reader: _Reader) -> Polynomial:
    above, below = map(reader.read, node.operands)
    if len(below) != 1 or below[0].coefficient == 0:
        raise NoPolynomial("it divides by a sum")
    (monomial,) = below
    flipped = tuple(replace(leaf, reciprocal=not leaf.reciprocal) for leaf in monomial.leaves)
    return _multiplied(above, (Monomial(1.0 / monomial.coefficient, flipped),))


def _power(node: Node, reader: _Reader) -> Polynomial:
    base, exponent = node.operands
    if base.node.op is ops.abs:
        base = base.node.operands[0]
    number = reader.read(exponent)
    # Exactly 2: any other power is another function (0.5 has no expansion, 2.0000001 no square).
    if len(number) != 1 or number[0].leaves or number[0].coefficient != 2.0:
        raise NoPolynomial("its exponent is not exactly 2")
    factor = reader.read(base)
    return _multiplied(factor, factor)


_READERS: dict[Op, Callable[[Node, _Reader], Polynomial]] = {
    ops.add: _sum,
    ops.subtract: _difference,
    ops.negate: _negated,
    ops.multiply: _product,
    ops.divide: _quotient,
    ops.power: _power,
}


def _scaled(polynomial: Polynomial, factor: float) -> Polynomial:
    return tuple(Monomial(factor * m.coefficient, m.leaves) for m in polynomial)


def _multiplied(left: Polynomial, right: Polynomial) -> Polynomial:
    if len(left) * len(right) > 4 * MAXIMUM_MONOMIALS:
        raise NoPolynomial(f"it expands into more than {MAXIMUM_MONOMIALS} terms")
    if len(left) > 1 and len(right) > 1 and not (_is_centred(left) and _is_centred(right)):
        # Only of a common centre is it known that no large offset hides in the terms.
        raise NoPolynomial("it multiplies sums whose terms may cancel")
    return collect(
        tuple(
            Monomial(a.coefficient * b.coefficient, (*a.leaves, *b.leaves))
            for a in left
            for b in right
        )
    )


def _is_centred(polynomial: Polynomial) -> bool:
    """Tell whether each term has a factor that was moved to a common centre."""
    return all(any(leaf.centre is not None for leaf in m.leaves) for m in polynomial)


def collect(polynomial: Polynomial) -> Polynomial:
    """Add up monomials with the same factors."""
    terms: dict[frozenset[tuple[Leaf, int]], Monomial] = {}
    for monomial in polynomial:
        counts = {leaf: monomial.leaves.count(leaf) for leaf in monomial.leaves}
        key = frozenset(counts.items())
        known = terms.get(key)
        coefficient = monomial.coefficient + (known.coefficient if known else 0.0)
        terms[key] = Monomial(coefficient, known.leaves if known else monomial.leaves)
    return tuple(m for m in terms.values() if m.coefficient != 0.0)
