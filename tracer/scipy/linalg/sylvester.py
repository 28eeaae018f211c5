"""Sylvester's and Lyapunov's equations.

Sources: Bartels and Stewart, "Solution of the matrix equation AX + XB = C", Communications of the
ACM 15 (1972); `scipy.linalg` for the two ways of the discrete equation. The gradient is that of the
equation: the transposed one is solved.
"""

from __future__ import annotations

import tracer.numpy as tnp
from tracer import ops
from tracer.array import promotion
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import broadcast, broadcast_shape, convert
from tracer.array.dispatch import apply, compound
from tracer.autodiff.transforms import custom_vjp
from tracer.errors import ArgumentError, ShapeError
from tracer.numpy.contraction import matmul
from tracer.numpy.linalg.checks import (
    adjoint,
    any_of,
    matrices,
    refuse,
    square_matrices,
)
from tracer.numpy.linalg.solving import inverse, solve_general
from tracer.numpy.shaping import matrix_transpose
from tracer.scipy.iteration import repeat
from tracer.scipy.linalg.schur import complex_schur

_DIRECT_BELOW = 10
"""SciPy solves discrete equations of fewer rows directly."""


def solve_sylvester(a: ArrayLike, b: ArrayLike, q: ArrayLike) -> Array:
    """Solve a x + x b = q.

    Parameters
    ----------
    a : array_like, shape (..., m, m)
        Left matrices.
    b : array_like, shape (..., n, n)
        Right matrices.
    q : array_like, shape (..., m, n)
        Right-hand sides.

    Returns
    -------
    Array, shape (..., m, n)
        The solutions. Inside a traced function not finite where there is none, or not one: an
        eigenvalue of `a` is the negative of one of `b`.

    Raises
    ------
    LinAlgError
        The matrices are not square, or (concrete arrays) the equation is singular.
    ShapeError
        The sizes do not agree.

    Notes
    -----
    Schur decompositions (Bartels and Stewart), complex ones for real matrices too. CPUs only, as
    `schur`. The gradient solves the transposed equation.
    """
    left, right = square_matrices("solve_sylvester", a), square_matrices("solve_sylvester", b)
    return _checked("solve_sylvester", left, right, matrices("solve_sylvester", q))


def _checked(name: str, a: Array, b: Array, q: Array) -> Array:
    if q.shape[-2:] != (a.shape[-1], b.shape[-1]):
        raise ShapeError(
            f"{name}: right-hand sides of shape {q.shape} do not fit {a.shape} and {b.shape}",
            mend="give shape (..., m, n) for matrices of m and of n rows",
        )
    solution = sylvester(a, b, q)
    refuse(
        _is_lost(solution), f"{name}: the equation is singular", "two eigenvalues add up to zero"
    )
    return solution


@compound
def _is_lost(solution: Array) -> Array:
    return any_of(~tnp.isfinite(solution))


def sylvester(a: Array, b: Array, q: Array) -> Array:
    """Solve a x + x b = q for matrices that fit."""
    dtype = promotion.promote_types(promotion.promote_types(a.dtype, b.dtype), q.dtype)
    batch = broadcast_shape("solve_sylvester", *(x.shape[:-2] for x in (a, b, q)))
    whole = [broadcast(convert(x, dtype), (*batch, *x.shape[-2:])) for x in (a, b, q)]
    return _solution(*whole) if whole[-1].size else whole[-1]


@custom_vjp
def _solution(a: Array, b: Array, q: Array) -> Array:
    return _by_schur(a, b, q)


def _forward(a: Array, b: Array, q: Array) -> tuple[Array, tuple[Array, Array, Array]]:
    solution = _solution(a, b, q)
    return solution, (a, b, solution)


def _backward(residuals: tuple[Array, Array, Array], g: Array) -> tuple[Array, Array, Array]:
    a, b, solution = residuals
    turned = matrix_transpose(solution)
    for_q = _solution(matrix_transpose(a), matrix_transpose(b), g)
    return -matmul(for_q, turned), -matmul(turned, for_q), for_q


_solution.defvjp(_forward, _backward)


@compound
def _by_schur(a: Array, b: Array, q: Array) -> Array:
    (ta, za), (tb, zb) = complex_schur(a), complex_schur(b)
    turned = matmul(matmul(adjoint(za), convert(q, ta.dtype)), zb)
    solution = matmul(matmul(za, _by_columns(ta, tb, turned)), adjoint(zb))
    return solution if q.dtype.kind == "c" else tnp.real(solution)


def _by_columns(a: Array, b: Array, q: Array) -> Array:
    """Solve for upper triangular matrices: (a + b_kk) x_k = q_k - sum over j < k of x_j b_jk."""
    columns = tnp.arange(q.shape[-1])
    one = tnp.eye(a.shape[-1], dtype=a.dtype)

    def step(k: Array, x: Array) -> tuple[Array]:
        # The columns from k on are still zero.
        rest = q[..., k, None] - matmul(x, b[..., k, None])
        found = back_substituted(a + b[..., k, k][..., None, None] * one, rest)
        return (tnp.where(columns == k, found, x),)

    return repeat(q.shape[-1], step, (tnp.zeros_like(q),))[0]


def back_substituted(a: Array, b: Array) -> Array:
    """Solve with upper triangular matrices."""
    return apply(
        ops.triangular_solve,
        a,
        b,
        left_side=True,
        lower=False,
        unit_diagonal=False,
        transpose_a="NO_TRANSPOSE",
    )


def solve_continuous_lyapunov(a: ArrayLike, q: ArrayLike) -> Array:
    """Solve a x + x a^H = q.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        Matrices.
    q : array_like, shape (..., n, n)
        Right-hand sides.

    Returns
    -------
    Array, shape (..., n, n)
        The solutions; see `solve_sylvester`.

    Raises
    ------
    LinAlgError
        The matrices are not square, or (concrete arrays) the equation is singular.
    ShapeError
        The sizes do not agree.
    """
    name = "solve_continuous_lyapunov"
    matrix, right = square_matrices(name, a), square_matrices(name, q)
    return _checked(name, matrix, adjoint(matrix), right)


def solve_discrete_lyapunov(a: ArrayLike, q: ArrayLike, method: str | None = None) -> Array:
    """Solve a x a^H - x + q = 0.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        Matrices.
    q : array_like, shape (..., n, n)
        Right-hand sides.
    method : {"direct", "bilinear"}, optional
        A linear system of n^2 unknowns, or a continuous equation. The first one by default for
        fewer than 10 rows.

    Returns
    -------
    Array, shape (..., n, n)
        The solutions, with the precision of the operands (SciPy has float64 in any case). Inside a
        traced function not finite where there is none.

    Raises
    ------
    LinAlgError
        The matrices are not square, or (concrete arrays) the equation is singular.
    ShapeError
        The sizes do not agree.
    ArgumentError
        There is no such method.
    """
    name = "solve_discrete_lyapunov"
    matrix, right = square_matrices(name, a), square_matrices(name, q)
    if right.shape[-1] != matrix.shape[-1]:
        raise ShapeError(
            f"{name}: a of shape {matrix.shape} and q of shape {right.shape} do not fit",
            mend="give matrices of the same size",
        )
    if method is None:
        method = "direct" if matrix.shape[-1] < _DIRECT_BELOW else "bilinear"
    if method not in ("direct", "bilinear"):
        raise ArgumentError(f"{name} has no method {method!r}", mend='use "direct" or "bilinear"')
    dtype = promotion.promote_types(matrix.dtype, right.dtype)
    batch = broadcast_shape(name, matrix.shape[:-2], right.shape[:-2])
    whole = [broadcast(convert(x, dtype), (*batch, *x.shape[-2:])) for x in (matrix, right)]
    solution = _as_one_system(*whole) if method == "direct" else _bilinear(*whole)
    refuse(
        _is_lost(solution), f"{name}: the equation is singular", "two eigenvalues have product 1"
    )
    return solution


@compound
def _as_one_system(a: Array, q: Array) -> Array:
    n = a.shape[-1]
    pairs = a[..., :, None, :, None] * tnp.conj(a)[..., None, :, None, :]
    system = tnp.eye(n * n, dtype=a.dtype) - pairs.reshape((*a.shape[:-2], n * n, n * n))
    solution, _ = solve_general(system, q.reshape((*q.shape[:-2], n * n, 1)))
    return solution.reshape(q.shape)


def _bilinear(a: Array, q: Array) -> Array:
    left, right = _continuous(a, q)
    return sylvester(left, adjoint(left), right)


@compound
def _continuous(a: Array, q: Array) -> tuple[Array, Array]:
    one = tnp.eye(a.shape[-1], dtype=a.dtype)
    turned = adjoint(a)
    inverted, _ = inverse(turned + one)
    half, _ = solve_general(a + one, q)
    return adjoint(matmul(turned - one, inverted)), -2 * matmul(half, inverted)
