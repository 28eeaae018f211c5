"""Parts of a matrix product that do not need the whole product. Exact up to the order of sums.

Sums of products over an axis and products with a vector of ones need no rule: *reorder chains* and
*write out inner products* treat them.
"""

from __future__ import annotations

import tracer.numpy as tnp
from tracer.array.array import Array
from tracer.numpy import linalg
from tracer.optimizer.rewrite.rules.notation import rule

_ELEMENTWISE = {
    "sum": tnp.add,
    "difference": tnp.subtract,
    "elementwise-product": tnp.multiply,
    "quotient": tnp.divide,
}
"""What the diagonal of needs the diagonals of the operands only."""
_IDENTITIES = "Petersen & Pedersen, The Matrix Cookbook (2012), section 1.1"


def _kronecker_product(a: Array, b: Array, c: Array) -> Array:
    """Return kron(a, b) @ c, for a vector or a matrix, as two products."""
    rows = tnp.reshape(c, (a.shape[1], b.shape[1], *c.shape[1:]))
    if c.ndim == 1:
        return linalg.multi_dot([a, rows, b.T]).ravel()
    product = tnp.einsum("ij,kl,jlr->ikr", a, b, rows)
    return tnp.reshape(product, (a.shape[0] * b.shape[0], c.shape[1]))


def _diagonal_terms(a: Array, b: Array) -> Array:
    """Return products whose sums over the last axis are the diagonal of a @ b, square or not."""
    columns = tnp.swapaxes(b, -1, -2)
    n = min(a.shape[-2], columns.shape[-2])
    terms: Array = _first_rows(a, n) * _first_rows(columns, n)
    return terms


def _first_rows(a: Array, n: int) -> Array:
    return a if a.shape[-2] == n else a[..., :n, :]


RULES = (
    rule(
        "trace-of-product",
        [
            lambda a, b: tnp.trace(a @ b, axis1=-2, axis2=-1),
            lambda a, b: tnp.sum((a @ b) * tnp.eye(a.shape[0], dtype=a.dtype)),
        ],
        lambda a, b: tnp.sum(_diagonal_terms(a, b), axis=(-1, -2)),
        samples=["ij ji", "bij bji"],
        source=_IDENTITIES,
    ),
    rule(
        "diagonal-of-product",
        [lambda a, b: tnp.diagonal(a @ b, axis1=-2, axis2=-1)],
        lambda a, b: tnp.sum(_diagonal_terms(a, b), axis=-1),
        samples=["ij ji", "bij bji"],
        source=_IDENTITIES,
    ),
    *(
        rule(
            f"diagonal-of-{name}",
            [lambda a, b, f=function: tnp.diagonal(f(a, b), axis1=-2, axis2=-1)],
            lambda a, b, f=function: f(
                tnp.diagonal(a, axis1=-2, axis2=-1), tnp.diagonal(b, axis1=-2, axis2=-1)
            ),
            samples=["ij ij"],
            source="element by element",
        )
        for name, function in _ELEMENTWISE.items()
    ),
    rule(
        "kronecker-times",
        [lambda a, b, c: tnp.kron(a, b) @ c],
        _kronecker_product,
        samples=["ij kl (jl)", "ij kl (jl)r"],
        source="Van Loan, The ubiquitous Kronecker product (2000), section 2",
    ),
)
