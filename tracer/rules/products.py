"""Parts of a matrix product that need not the whole product. Exact but for the order of sums."""

from __future__ import annotations

import tracer.numpy as tnp
from tracer.rules.notation import rule

_IDENTITIES = "Petersen & Pedersen, The Matrix Cookbook (2012), section 1.1"

TRACE_OF_PRODUCT = rule(
    "trace-of-product",
    [lambda a, b: tnp.trace(a @ b), lambda a, b: tnp.sum(tnp.diagonal(a @ b))],
    lambda a, b: tnp.sum(a * b.T),
    samples=["ij ji", "ii ii"],
    source=_IDENTITIES,
)
DIAGONAL_OF_PRODUCT = rule(
    "diagonal-of-product",
    [lambda a, b: tnp.diagonal(a @ b)],
    lambda a, b: tnp.sum(a * b.T, axis=1),
    samples=["ij ji", "ii ii"],
    source=_IDENTITIES,
)

RULES = (TRACE_OF_PRODUCT, DIAGONAL_OF_PRODUCT)
