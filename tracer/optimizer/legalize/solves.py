"""Triangular solves of large matrices for one right-hand side, block by block.

OpenBLAS packs panels of 384 rows of the matrix: 12.3 MB for 4000 x 4000 float64 and one right-hand
side, which reads each element once. Here a block of rows is multiplied with the part already
solved, in one fused reduction that packs nothing, and the library solves the block on the diagonal
(blocked substitution: Golub & Van Loan, Matrix Computations, section 3.1.4). As fast as OpenBLAS or
faster: docs/memory-model.md. Narrower floats are solved in float32.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tracer import ops
from tracer.ir import Builder, Graph, Node, Value, rebuild
from tracer.ir.library_calls import SmallMatricesCall, TriangleCall
from tracer.ops import helpers
from tracer.optimizer.legalize.counted_loop import INT32, State, counted_loop
from tracer.optimizer.legalize.writer import wide_dtype
from tracer.optimizer.passes import Pass, PassLog
from tracer.target import Packing, Target


def block_solves_pass(target: Target) -> Pass:
    """Return the pass that writes triangular solves by the blocks of a target."""
    return Pass(
        "solve by blocks",
        lambda graph, log: _by_blocks(target.packing, graph, log),
        exact=False,
        writes_out_cost=True,
    )


def _by_blocks(packing: Packing, graph: Graph, log: PassLog) -> Graph:
    def rewrite(_: Builder, node: Node, operands: tuple[Value, ...]) -> Sequence[Value] | None:
        if node.op is not ops.triangular_solve or not _is_taken(packing, node):
            return None
        log.applied.append(f"{node.operand_types[0]} with one right-hand side")
        a, right = (helpers.convert(x, wide_dtype(x.dtype)) for x in operands)
        system = _System(node.params, packing.solved_rows)
        return (helpers.convert(system.solve(a, right), node.types[0].dtype),)

    return rebuild(graph, rewrite)


def _is_taken(packing: Packing, node: Node) -> bool:
    found = (call.library for call in node.cost.calls if isinstance(call, SmallMatricesCall))
    return any(packing.goes_by_blocks(call) for call in found if isinstance(call, TriangleCall))


@dataclass(frozen=True)
class _System:
    """How a matrix is read, and how many rows a block has.

    Attributes
    ----------
    params : mapping
        Of the `triangular_solve`, which also solves the blocks on the diagonal.
    block : int
    """

    params: Mapping[str, Any]
    block: int

    @property
    def by_columns(self) -> bool:
        """Its transpose is solved with: what is to the left of a block is above it."""
        return bool(self.params["transpose_a"] != "NO_TRANSPOSE")

    @property
    def forward(self) -> bool:
        """The first unknown comes first: what is read, transposed if so asked, is lower."""
        return bool(self.params["lower"] != self.by_columns)

    def solve(self, a: Value, right: Value) -> Value:
        """Write the solution; the other triangle of `a` is not read."""
        n = right.shape[0]
        count, rest = divmod(n, self.block)
        x = helpers.zeros_like(right)
        if rest:
            place = helpers.scalar(0 if self.forward else n - rest, INT32)
            x = self._with_block(a, right, x, place, rest)

        def step(number: Value, kept: State, found: State) -> State:
            (a, right), (x,) = kept, found
            place = self._place(number, rest, n)
            return [self._with_block(a, right, x, place, self.block)]

        return counted_loop(count, [a, right], [x], step)[0]

    def _place(self, number: Value, rest: int, n: int) -> Value:
        """Return where the block of a number begins, behind the `rest` that is solved first."""
        distance = ops.multiply(number, helpers.full_like(number, self.block))
        if self.forward:
            return helpers.shift(distance, rest)
        last = helpers.full_like(number, n - rest - self.block)
        return ops.subtract(last, distance)  # type: ignore[no-any-return]

    def _with_block(self, a: Value, right: Value, x: Value, place: Value, size: int) -> Value:
        """Solve for one block of unknowns and put them into `x`; the rest is solved or zero."""
        zero = helpers.scalar(0, INT32)
        rows = ops.dynamic_slice(right, place, zero, sizes=(size, 1))
        known = self._known_part(a, x, place, size)
        rows = ops.subtract(rows, helpers.reshape(known, rows.shape))
        block = ops.dynamic_slice(a, place, place, sizes=(size, size))
        solved = ops.triangular_solve(block, rows, **self.params)
        return ops.dynamic_update_slice(x, solved, place, zero)  # type: ignore[no-any-return]

    def _known_part(self, a: Value, x: Value, place: Value, size: int) -> Value:
        """Return what the unknowns already solved contribute to the rows of a block."""
        n, zero = x.shape[0], helpers.scalar(0, INT32)
        shape, across = ((n, size), 0) if self.by_columns else ((size, n), 1)
        starts = (zero, place) if self.by_columns else (place, zero)
        panel = ops.dynamic_slice(a, *starts, sizes=shape)
        row = helpers.reshape(x, (n,))
        solved = ops.broadcast_in_dim(row, shape=shape, dimensions=(across,))
        # The other triangle may hold anything, and anything times zero may be NaN.
        places = ops.iota(shape=shape, dtype=INT32, dimension=across)
        edge = helpers.spread(place if self.forward else helpers.shift(place, size), shape)
        is_known = ops.compare(places, edge, direction="LT" if self.forward else "GE")
        terms = helpers.where(is_known, ops.multiply(panel, solved))
        return ops.reduce_add(terms, axes=(across,))  # type: ignore[no-any-return]


__all__ = ["block_solves_pass"]
