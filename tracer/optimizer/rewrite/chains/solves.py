"""Reassociate solves: solve a triangular system for the small factor of its right-hand side.

`solve(L, S @ A)` of A (m, n), m much smaller than n, is `solve(L, S) @ A`: m right-hand sides
instead of n. The same holds for sums of such products, read as combinations (`combination.py`) of
leaves. A sum over the wide axis then no longer needs the solution: `solve(L, S @ A) @ A.T` is
`solve(L, S) @ (A @ A.T)`, a product of small matrices, and A @ A.T may exist already. The gradients
of a sparse Gaussian process look like this, and of everything whitened by a Cholesky factor.

Source: Barthels, Copik, Bientinesi, The Generalized Matrix Chain Algorithm (CGO 2018), for solves
as factors of chains. Left out: solves with the result of another solve. `L^-1` would be multiplied
with coefficients, and errors would grow with the square of its condition.

One side of such a sum has to be a leaf. `Z @ Z.T` of `Z = S @ A` is not replaced by `S @ (A @ A.T)
@ S.T`: where S cancels what the rows of A have in common, squaring would come first.

Rounding: that of another order of the same products, as in `chains`. Element by element the error
is bounded by a few `m eps |L^-1| |L| |L^-1 S| |A|`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

from tracer import ops
from tracer.ir import Graph, Node, Op, Value
from tracer.ops.helpers import matrix_transpose, reshape, splat_of
from tracer.ops.rules import is_float
from tracer.optimizer.model.liveness import graph_flops
from tracer.optimizer.passes import Pass, PassLog
from tracer.optimizer.rewrite.chains.combination import (
    Coefficient,
    Combination,
    Emit,
    Leaf,
    constant,
    contracted,
    inner_product,
    leaf_combination,
)
from tracer.optimizer.rewrite.chains.cost import is_worthwhile
from tracer.optimizer.rewrite.match.rewrite import Replacement, replace_nodes
from tracer.optimizer.rewrite.simplify import eliminate_common_subexpressions

_WIDE = 4
"""So many times as long as the other axis is a wide one."""
_MAXIMUM_TERMS, _MAXIMUM_SIZE = 4, 64


def reassociate_solves(graph: Graph, log: PassLog) -> Graph:
    """Solve with small factors, where that saves operations in all."""
    if not any(node.op is ops.triangular_solve for node in graph.nodes):
        return graph
    found = _Combinations(graph)
    if not found.solves:
        return graph
    changed = replace_nodes(graph, found.replacements())
    changed = eliminate_common_subexpressions(changed, PassLog())
    before, after = graph_flops(graph), graph_flops(changed)
    first = found.solves[0]
    if not is_worthwhile(before, after):
        reason = f"{before:,} -> {after:,} operations: saves too little"
        log.refuse(f"triangular_solve of {first.types[0]}", reason, first.source)
        return graph
    for node in found.solves:
        log.applied.append(f"triangular_solve of {node.types[0]}")
    return changed


class _Combinations:
    """Which values of a graph are combinations of which wide leaves.

    Attributes
    ----------
    solves : list of Node
        Those whose right-hand sides are products with small matrices.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.solves: list[Node] = []
        self.numbers: dict[Value, int] = {}
        self.known: dict[Value, Combination] = {}
        for value in graph.inputs:
            self._add(value, None)
        for node in graph.nodes:
            reader = _READERS.get(node.op) if node.op is not None else None
            read = reader(self, node) if reader is not None else None
            if read is not None and node.op is ops.triangular_solve:
                self.solves.append(node)
            for value in node.results:
                self._add(value, read)

    def _add(self, value: Value, read: Combination | None) -> None:
        self.numbers[value] = len(self.numbers)
        axis = _wide_axis(value)
        if axis is None:
            return
        if read is None or len(read.terms) > _MAXIMUM_TERMS or read.size > _MAXIMUM_SIZE:
            read = leaf_combination(self.leaf(value, axis))
        self.known[value] = read

    def leaf(self, value: Value, axis: int) -> Leaf:
        """Return a value as a leaf."""
        return Leaf(value, axis, self.numbers[value])

    def operand(self, value: Value) -> Combination | None:
        """Return a value as a combination; a vector is itself."""
        if value.type.ndim == 1 and is_float(value.dtype):
            return leaf_combination(self.leaf(value, 0))
        return self.known.get(value)

    def replacements(self) -> dict[Node, Replacement]:
        """Return what to write in place of the solves, and of the sums over their leaves."""
        leaves = {leaf for node in self.solves for leaf in self.known[node.results[0]].terms}
        found: dict[Node, Replacement] = {}
        for node in self.graph.nodes:
            emit: Emit | None = None
            if node.op is ops.dot_general:
                emit = self._contraction(node, leaves)
            elif node.op is ops.reduce_add:
                emit = self._sum_of_products(node, leaves)
            if emit is not None:
                found[node] = _shaped(emit, node)
        for node in self.solves:
            found[node] = _shaped(self.known[node.results[0]].emit, node)
        return found

    def _contraction(self, node: Node, leaves: set[Leaf]) -> Emit | None:
        """Return how to write a product over the wide axis of combinations of these leaves."""
        x, y = (self.operand(value) for value in node.operands)
        if x is None or y is None or node.params["lhs_batch"]:
            return None
        axes = (node.params["lhs_contracting"], node.params["rhs_contracting"])
        if axes != ((x.axis,), (y.axis,)) or not {*x.terms, *y.terms} <= leaves:
            return None
        return contracted(x, y) if x.is_leaf or y.is_leaf else None

    def _sum_of_products(self, node: Node, leaves: set[Leaf]) -> Emit | None:
        """Return how to write the sum of all elements of a product of combinations."""
        (value,) = node.operands
        is_negative = False
        while value.node.op is ops.negate:
            (value,) = value.node.operands
            is_negative = not is_negative
        if value.node.op is not ops.multiply or node.types[0].ndim > 0:
            return None
        x, y = (self.known.get(operand) for operand in value.node.operands)
        if x is None or y is None or x.axis != y.axis or not {*x.terms, *y.terms} <= leaves:
            return None
        if not (x.is_leaf or y.is_leaf):
            return None
        total = inner_product(x, y)
        return (lambda mapping: ops.negate(total(mapping))) if is_negative else total


def _shaped(emit: Emit, node: Node) -> Replacement:
    return lambda mapping: (reshape(emit(mapping), node.types[0].shape),)


def _wide_axis(value: Value) -> int | None:
    """Return the long axis of a matrix of floats, if it has one."""
    if value.type.ndim != 2 or not is_float(value.dtype) or value.dtype.itemsize < 4:
        return None
    rows, columns = value.shape
    if columns >= _WIDE * rows > 0:
        return 1
    return 0 if rows >= _WIDE * columns > 0 else None


def _read_transpose(found: _Combinations, node: Node) -> Combination | None:
    inner = found.known.get(node.operands[0])
    return inner and Combination(inner.terms, inner.rows, 1 - inner.axis)


def _read_negate(found: _Combinations, node: Node) -> Combination | None:
    inner = found.known.get(node.operands[0])
    if inner is None:
        return None
    minus = constant(-1, next(iter(inner.terms)))
    return inner.changed(lambda coefficient: coefficient.scaled(minus), inner.rows)


def _read_scaled(found: _Combinations, node: Node) -> Combination | None:
    """Read a value that is multiplied by a number, or divided by one."""
    divides = node.op is ops.divide
    pairs = [node.operands] if divides else [node.operands, node.operands[::-1]]
    for x, factor in pairs:
        inner, number = found.known.get(x), splat_of(factor)
        if inner is not None and number is not None:
            read = functools.partial(
                Coefficient.scaled, factor=_reading(number, ()), divides=divides
            )
            return inner.changed(read, inner.rows)
    return None


def _read_multiply(found: _Combinations, node: Node) -> Combination | None:
    """Read what is multiplied with a number, or two vectors that are spread along the axes."""
    scaled = _read_scaled(found, node)
    axis = _wide_axis(node.results[0])
    if scaled is not None or axis is None:
        return scaled
    for small, wide in (node.operands, node.operands[::-1]):
        column, row = _spread_vector(small, 1 - axis), _spread_vector(wide, axis)
        combination = None if row is None else found.operand(row)
        if column is not None and combination is not None and combination.rows == 1:
            rows = column.type.size
            return combination.times(_reading(column, (rows, 1)), rows, axis)
    return None


def _spread_vector(value: Value, axis: int) -> Value | None:
    """Return the vector that a matrix repeats along its other axis, if it does."""
    if value.node.op is not ops.broadcast_in_dim:
        return None
    (inner,) = value.node.operands
    places = [
        d for d, size in zip(value.node.params["dimensions"], inner.shape, strict=True) if size > 1
    ]
    if places != [axis]:
        return None
    if inner.node.op is ops.reshape and inner.node.operands[0].type.ndim == 1:
        return inner.node.operands[0]
    return inner


def _read_sum(found: _Combinations, node: Node) -> Combination | None:
    x, y = (found.known.get(value) for value in node.operands)
    if x is None or y is None or x.axis != y.axis:
        return None
    return x.plus(y, subtracts=node.op is ops.subtract)


def _read_product(found: _Combinations, node: Node) -> Combination | None:
    """Read a product with a small matrix, or an outer product with a long vector."""
    axis = _wide_axis(node.results[0])
    if axis is None or node.params["lhs_batch"]:
        return None
    x, y = node.operands
    over = [*node.params["lhs_contracting"]], [*node.params["rhs_contracting"]]
    small, wide = (x, y) if axis == 1 else (y, x)
    over_small, over_wide = over if axis == 1 else over[::-1]
    combination = found.operand(wide)
    if (
        combination is None
        or small.type.ndim != wide.type.ndim
        or len(over_small) != wide.type.ndim - 1
    ):
        return None
    if wide.type.ndim == 2 and over_wide[0] == combination.axis:
        return None
    rows = small.type.size // combination.rows

    def matrix(mapping: Mapping[Value, Value]) -> Value:
        own = mapping[small]
        turned = matrix_transpose(own) if over_small == [0] else own
        return reshape(turned, (rows, combination.rows))

    return combination.times(matrix, rows, axis)


def _read_solve(found: _Combinations, node: Node) -> Combination | None:
    """Read a solve with products with small matrices as a product with what these become."""
    a, right = node.operands
    combination = found.known.get(right)
    if combination is None or combination.axis != (1 if node.params["left_side"] else 0):
        return None
    if any(coefficient.is_number for coefficient in combination.terms.values()):
        return None

    def solved(coefficient: Coefficient) -> Coefficient:
        def emit(mapping: Mapping[Value, Value]) -> Value:
            own = coefficient.emit(mapping)
            if node.params["left_side"]:
                result: Value = ops.triangular_solve(mapping[a], own, **node.params)
                return result
            turned = ops.triangular_solve(mapping[a], matrix_transpose(own), **node.params)
            return matrix_transpose(turned)

        return Coefficient(emit, size=coefficient.size + 1)

    return combination.changed(solved, combination.rows)


def _reading(value: Value, shape: tuple[int, ...]) -> Emit:
    return lambda mapping: reshape(mapping[value], shape)


_READERS: Mapping[Op, Callable[[_Combinations, Node], Combination | None]] = {
    ops.transpose: _read_transpose,
    ops.negate: _read_negate,
    ops.multiply: _read_multiply,
    ops.divide: _read_scaled,
    ops.add: _read_sum,
    ops.subtract: _read_sum,
    ops.dot_general: _read_product,
    ops.triangular_solve: _read_solve,
}

SOLVES = Pass("reassociate solves", reassociate_solves, exact=False)

__all__ = ["SOLVES", "reassociate_solves"]
