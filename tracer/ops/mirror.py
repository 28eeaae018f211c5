"""Symmetric and Hermitian matrices given by one triangle, and their gradients.

A function that reads one triangle of a symmetric matrix has many gradients: only the sum of a
gradient and its transpose is determined. All records here return the symmetric one, as in JAX,
PyTorch and autograd: a step along it leads from a symmetric matrix to a symmetric matrix.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracer import ops
from tracer.ir import Cost, Op, ShapeDtype, Value
from tracer.ir.op import Types
from tracer.ops.bodies import lower_expansion
from tracer.ops.helpers import matrix_transpose, scale, triangle
from tracer.ops.matrix_rules import adjoint, matrix_axes, require_square
from tracer.ops.rules import moved_bytes

Array = np.ndarray[Any, Any]


def symmetric_part(x: Value, *, conjugated: bool) -> Value:
    """Return (x + x^H) / 2, or (x + x^T) / 2 unless `conjugated`."""
    return scale(ops.add(x, _turned(x, conjugated=conjugated)), 0.5)


def _turned(x: Value, *, conjugated: bool) -> Value:
    return adjoint(x) if conjugated else matrix_transpose(x)


def _infer(a: ShapeDtype, *, conjugated: bool) -> ShapeDtype:
    del conjugated
    require_square("mirror_triangle", a)
    return a


def _evaluate(a: Array, *, conjugated: bool) -> Array:
    strict = np.swapaxes(np.tril(a, -1), -1, -2)
    return np.asarray(np.tril(a) + (strict.conj() if conjugated else strict)).astype(a.dtype)


def _expand(a: Value, *, conjugated: bool) -> tuple[Value]:
    strict = triangle(a, lower=True, strict=True)
    return (ops.add(triangle(a, lower=True), _turned(strict, conjugated=conjugated)),)


def _lower(b: Any, types: Types, a: Any, *, conjugated: bool) -> Any:
    return lower_expansion(_expand, [a.type], b, (a,), conjugated=conjugated)[0]


def _vjp(g: Value, out: Value, a: Value, *, conjugated: bool) -> tuple[Value]:
    return (symmetric_part(g, conjugated=conjugated),)


def _cost(operands: Types, results: Types, *, conjugated: bool) -> Cost:
    del conjugated
    return Cost(operands[0].size, moved_bytes(operands, results), 0)


mirror_triangle: Op = Op(
    "mirror_triangle",
    doc="The symmetric matrices (Hermitian ones if `conjugated`) whose lower triangles are given; "
    "elements above the diagonals are not read. The gradient is symmetric, in both triangles.",
    infer=_infer,
    evaluate=_evaluate,
    lower=_lower,
    vjp=_vjp,
    axes=matrix_axes,
    cost=_cost,
    fusion="opaque",
    expand=_expand,
)
