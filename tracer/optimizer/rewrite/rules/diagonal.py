"""Products with diagonal and identity matrices, without the dense matrix.

Adding to a diagonal (`a + c * eye(n)`) and masking one (`a * eye(n)`) need no rule: XLA fuses the
identity (docs/rules.md has the times). If the other factor is not finite, the dense product has NaN
(0 * inf) where these have the number.
"""

from __future__ import annotations

import tracer.numpy as tnp
from tracer.array.array import Array
from tracer.autodiff.transforms import vjp
from tracer.optimizer.rewrite.rules.guards import not_cancelling
from tracer.optimizer.rewrite.rules.notation import rule

_DIAGONAL = "Golub & Van Loan, Matrix Computations (2013), section 1.2.6"


def _diagonal_gradient(g: Array) -> Array:
    """Return the gradient to a square matrix from that to its diagonal, as it is traced."""
    matrix = tnp.zeros((*g.shape, g.shape[-1]), dtype=g.dtype)
    _, pull_back = vjp(lambda a: tnp.diagonal(a, axis1=-2, axis2=-1), matrix)
    gradient: Array = pull_back(g)[0]
    return gradient


def _less_itself(a: Array) -> Array:
    """Return `a - a`: zero, NaN for what is not finite.

    XLA takes seconds to minutes to compile `where(eye, a - a, a)` of a matrix that reads its
    transpose (jaxlib 0.10.2, 256 x 256: 2.7 s; 512 x 512 and 1009 x 1009 over a minute).
    """
    zero = tnp.zeros_like(a)
    if a.dtype.kind in "biu":
        return zero
    nan = tnp.asarray(float("nan"), dtype=a.dtype)
    difference: Array = tnp.where(tnp.isfinite(a), zero, nan)
    return difference


RULES = (
    rule(
        "diagonal-gradient",
        [_diagonal_gradient],
        lambda g: tnp.where(tnp.eye(g.shape[-1], dtype=bool), g[..., None], 0),
        samples=["i", "bi"],
        source="unlike padding, comparing indices fuses and can be cut into slices",
        purpose="measured",
    ),
    rule(
        "without-diagonal",
        [lambda a: a - tnp.diag(tnp.diag(a))],
        lambda a: tnp.where(tnp.eye(a.shape[0], dtype=bool), _less_itself(a), a),
        samples=["ii"],
        source="element by element",
        purpose="measured",
    ),
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
        guards=[not_cancelling],
    ),
)
