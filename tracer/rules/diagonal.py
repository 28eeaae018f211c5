"""Products with diagonal and identity matrices, without the dense matrix.

Adding to a diagonal (`a + c * eye(n)`) and masking one (`a * eye(n)`) need no rule: XLA computes
the identity inside of the sum (docs/rules.md has the times). Where the other factor is not finite,
the dense product has NaN (0 * inf) where these have the number.
"""

from __future__ import annotations

import tracer.numpy as tnp
from tracer.rules.notation import rule

_DIAGONAL = "Golub & Van Loan, Matrix Computations (2013), section 1.2.6"

RULES = (
    rule(
        "diagonal-times",
        [
            lambda w, a: tnp.diag(w) @ a,
            lambda w, a: (w[:, None] * tnp.eye(w.shape[0], dtype=w.dtype)) @ a,
            lambda w, a: (w * tnp.eye(w.shape[0], dtype=w.dtype)) @ a,
        ],
        lambda w, a: tnp.reshape(w, (w.shape[0],) + (1,) * (a.ndim - 1)) * a,
        samples=["i i", "i ij"],
        source=_DIAGONAL,
    ),
    rule(
        "times-diagonal",
        [
            lambda a, w: a @ tnp.diag(w),
            lambda a, w: a @ (w[:, None] * tnp.eye(w.shape[0], dtype=w.dtype)),
            lambda a, w: a @ (w * tnp.eye(w.shape[0], dtype=w.dtype)),
        ],
        lambda a, w: a * w,
        samples=["i i", "ji i"],
        source=_DIAGONAL,
    ),
    rule(
        "identity-times",
        [
            lambda a: tnp.eye(a.shape[0], dtype=a.dtype) @ a,
            lambda a: a @ tnp.eye(a.shape[-1], dtype=a.dtype),
        ],
        lambda a: tnp.positive(a),
        samples=["i", "ij", "ii"],
        source=_DIAGONAL,
    ),
    rule(
        "shifted-times",
        [
            lambda a, c, b: (a + c * tnp.eye(a.shape[0], dtype=a.dtype)) @ b,
        ],
        lambda a, c, b: a @ b + c * b,
        samples=["ii . i", "ii . ij"],
        source=_DIAGONAL,
    ),
)
