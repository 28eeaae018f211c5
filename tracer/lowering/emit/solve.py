"""Builder method of a triangular solve for one right-hand side: block by block of the matrix.

OpenBLAS packs panels of the matrix, 384 rows of it at a time: 12.3 MB for 4000 x 4000 float64 and
one right-hand side, which reads each element once. Here a block of rows is multiplied with what is
solved already, in one fused reduction that packs nothing, and LAPACK solves the block on the
diagonal (blocked substitution: Golub & Van Loan, Matrix Computations, section 3.1.4). As fast as
OpenBLAS or faster: docs/memory-model.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracer.ir import ShapeDtype
from tracer.lowering.emit.reduce import ReduceBuilder
from tracer.lowering.emit.values import Operand
from tracer.lowering.shims import hlo, ir

_BLOCK = 128
_INDEX = ShapeDtype((), np.dtype(np.int32))
Solve = Callable[[Operand, Operand], Operand]
"""Solves with a block on the diagonal."""


@dataclass(frozen=True)
class _System:
    """Which part of a matrix is read, and how.

    Attributes
    ----------
    by_columns : bool
        Its transpose is solved with: what stands to the left of a block stands above it.
    forward : bool
        The first unknown comes first.
    """

    by_columns: bool
    forward: bool
    solve: Solve


class SolveBuilder(ReduceBuilder):
    """Builder method `solve_by_blocks`."""

    def solve_by_blocks(
        self, a: Operand, b: Operand, *, by_columns: bool, forward: bool, solve: Solve
    ) -> Operand:
        """Emit the solution of a triangular system of floats with one right-hand side.

        Parameters
        ----------
        a, b : Operand
            n x n and n x 1; the other triangle of `a` is not read.
        by_columns : bool
            Whether `a` is to be transposed.
        forward : bool
            Whether the matrix, transposed if so asked, is lower triangular.
        solve : callable
            `(block, right_side) -> solution` for one block on the diagonal.
        """
        system = _System(by_columns, forward, solve)
        n = b.shape[0]
        count, rest = divmod(n, _BLOCK)
        x = self.splat(0, b.type)
        if rest:
            place = self.splat(0 if forward else n - rest, _INDEX)
            x = self._with_block(system, a, b, x, place, rest)
        if count == 0:
            return x
        carry = [self.splat(0, _INDEX), a, b, x]
        types = [self.tensor_type(value.type) for value in carry]
        loop = hlo.WhileOp(types, [value.raw for value in carry])
        condition = loop.cond.blocks.append(*types)
        with ir.InsertionPoint(condition):
            counter = Operand(condition.arguments[0])
            hlo.return_([self.compare("LT", counter, self.splat(count, _INDEX)).raw])
        body = loop.body.blocks.append(*types)
        with ir.InsertionPoint(body):
            counter, a, b, x = (Operand(raw) for raw in body.arguments)
            place = self._place(system, counter, n, rest)
            solved = self._with_block(system, a, b, x, place, _BLOCK)
            following = self.add(counter, self.splat(1, _INDEX))
            hlo.return_([value.raw for value in (following, a, b, solved)])
        return Operand(loop.results[3])

    def _place(self, system: _System, counter: Operand, n: int, rest: int) -> Operand:
        """Return where the block of a trip begins."""
        distance = self.multiply(counter, self.splat(_BLOCK, _INDEX))
        if system.forward:
            return self.add(distance, self.splat(rest, _INDEX))
        return self.subtract(self.splat(n - rest - _BLOCK, _INDEX), distance)

    def _with_block(
        self, system: _System, a: Operand, b: Operand, x: Operand, place: Operand, size: int
    ) -> Operand:
        """Solve for one block of unknowns and put them into `x`; the rest is solved or zero."""
        zero = self.splat(0, _INDEX)
        right = self.dynamic_slice(b, [place, zero], (size, 1))
        known = self._known_part(system, a, x, place, size)
        right = self.subtract(right, self.reshape(right.type, known))
        block = self.dynamic_slice(a, [place, place], (size, size))
        return self.dynamic_update_slice(x, system.solve(block, right), [place, zero])

    def _known_part(
        self, system: _System, a: Operand, x: Operand, place: Operand, size: int
    ) -> Operand:
        """Return what the unknowns that are solved already put into the rows of a block."""
        n, zero = x.shape[0], self.splat(0, _INDEX)
        shape = (n, size) if system.by_columns else (size, n)
        across = 0 if system.by_columns else 1
        starts = [zero, place] if system.by_columns else [place, zero]
        panel = self.dynamic_slice(a, starts, shape)
        solved = self.broadcast_in_dim(
            panel.type, self.reshape(x.type.with_shape((n,)), x), (across,)
        )
        # The other triangle may hold anything, and anything times zero may be NaN.
        positions = self.iota(ShapeDtype(shape, _INDEX.dtype), across)
        edge = place if system.forward else self.add(place, self.splat(size, _INDEX))
        edge = self.broadcast_in_dim(positions.type, edge, ())
        is_known = self.compare("LT" if system.forward else "GE", positions, edge)
        terms = self.select(is_known, self.multiply(panel, solved), self.splat(0, panel.type))
        total = x.type.with_shape((size,))
        (known,) = self.reduce([total], [terms], [self.splat(0, _scalar(total))], (across,), _add)
        return known


def _scalar(type: ShapeDtype) -> ShapeDtype:
    return type.with_shape(())


def _add(b: Any, x: Operand, y: Operand) -> Operand:
    result: Operand = b.add(x, y)
    return result
