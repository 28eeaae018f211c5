"""Rules of StableHLO's own linear algebra."""

from __future__ import annotations

from tracer import ops
from tracer.array.array import Array
from tracer.array.dispatch import apply
from tracer.stablehlo.elements import adjoint
from tracer.stablehlo.table import Instruction, rule


@rule("stablehlo.cholesky")
def cholesky(instruction: Instruction, x: Array) -> Array:
    """Factor; the other triangle, of which StableHLO says nothing, is zero."""
    if instruction.attributes.get("lower", False):
        return apply(ops.cholesky, x)
    return adjoint(apply(ops.cholesky, adjoint(x)))


@rule("stablehlo.triangular_solve")
def triangular_solve(instruction: Instruction, a: Array, b: Array) -> Array:
    """Solve with a triangle."""
    attributes = instruction.attributes
    return apply(
        ops.triangular_solve,
        a,
        b,
        left_side=attributes["left_side"],
        lower=attributes["lower"],
        unit_diagonal=attributes["unit_diagonal"],
        transpose_a=_transpose(attributes["transpose_a"], a),
    )


def _transpose(name: str, a: Array) -> str:
    return "TRANSPOSE" if name == "ADJOINT" and a.dtype.kind != "c" else name
