"""Linear systems: solve instead of inverting, and reuse existing factors."""

from __future__ import annotations

import tracer.numpy as tnp
from tracer.array.array import Array
from tracer.numpy import linalg
from tracer.optimizer.rewrite.rules.guards import (
    inexact,
    known_positive,
    known_triangular,
    real_floating,
)
from tracer.optimizer.rewrite.rules.notation import rule
from tracer.scipy.linalg import cho_solve

_HIGHAM = "Higham, Accuracy and Stability of Numerical Algorithms (2002), section "
_INVERSE = _HIGHAM + "14.1: a third of the work of an inverse, and at least as accurate"
_CHOLESKY = _HIGHAM + "10.1: half the work of LU and no pivots"


def _log_square(diagonal: Array) -> Array:
    return 2 * tnp.sum(tnp.log(tnp.abs(diagonal)), axis=-1)


def _unit_sign(diagonal: Array) -> Array:
    return tnp.prod(tnp.sign(diagonal) ** 2, axis=-1)


RULES = (
    rule(
        "inverse-times",
        [lambda a, b: linalg.inv(a) @ b],
        lambda a, b: linalg.solve(a, b),
        samples=["ii i", "ii ij", "bii bij"],
        source=_INVERSE,
        guards=[inexact],
    ),
    rule(
        "times-inverse",
        [lambda b, a: b @ linalg.inv(a)],
        lambda b, a: linalg.solve(a.T, b.T).T,
        samples=["i ii", "ji ii"],
        source=_INVERSE,
        guards=[inexact],
    ),
    rule(
        "solve-then-product",
        [lambda a, b, c: linalg.solve(a, b) @ c],
        lambda a, b, c: linalg.solve(a, b @ c),
        samples=["ii ij j", "ii ij jk"],
        source="Barthels, Copik, Bientinesi, The Generalized Matrix Chain Algorithm (CGO 2018)",
        guards=[inexact],
    ),
    rule(
        "solve-with-factor",
        [lambda t, b: linalg.solve(t @ t.T, b)],
        lambda t, b: cho_solve((t, True), b),
        samples=["ii i", "ii ij"],
        source=_CHOLESKY,
        guards=[real_floating, known_triangular],
    ),
    rule(
        "determinant-of-factors",
        [lambda t: linalg.det(t @ t.T)],
        lambda t: tnp.prod(tnp.diagonal(t)) ** 2,
        samples=["ii"],
        source=_CHOLESKY,
        guards=[real_floating, known_triangular],
    ),
    rule(
        "log-determinant-of-factors",
        [lambda t: linalg.slogdet(t @ t.T)[1]],
        lambda t: _log_square(tnp.diagonal(t)),
        samples=["ii"],
        source=_CHOLESKY,
        guards=[real_floating, known_triangular],
    ),
    rule(
        "sign-of-factors",
        [lambda t: linalg.slogdet(t @ t.T)[0]],
        lambda t: _unit_sign(tnp.diagonal(t)),
        samples=["ii"],
        source=_CHOLESKY,
        guards=[real_floating, known_triangular],
    ),
    rule(
        "solve-with-cholesky",
        [lambda a, b: linalg.solve(a, b)],
        lambda a, b: cho_solve((linalg.cholesky(a), True), b),
        samples=["ii i", "ii ij"],
        source=_CHOLESKY,
        guards=[real_floating, known_positive],
        at_hand=lambda a, b: linalg.cholesky(a),
    ),
    rule(
        "determinant-with-cholesky",
        [lambda a: linalg.det(a)],
        lambda a: tnp.prod(tnp.diagonal(linalg.cholesky(a))) ** 2,
        samples=["ii"],
        source=_CHOLESKY,
        guards=[real_floating, known_positive],
        at_hand=lambda a: linalg.cholesky(a),
    ),
    rule(
        "log-determinant-with-cholesky",
        [lambda a: linalg.slogdet(a)[1]],
        lambda a: _log_square(tnp.diagonal(linalg.cholesky(a))),
        samples=["ii"],
        source=_CHOLESKY,
        guards=[real_floating, known_positive],
        at_hand=lambda a: linalg.cholesky(a),
    ),
    rule(
        "sign-with-cholesky",
        [lambda a: linalg.slogdet(a)[0]],
        lambda a: _unit_sign(tnp.diagonal(linalg.cholesky(a))),
        samples=["ii"],
        source=_CHOLESKY,
        guards=[real_floating, known_positive],
        at_hand=lambda a: linalg.cholesky(a),
    ),
)
