"""Square roots and polar decompositions of matrices.

Sources: Björck and Hammarling, "A Schur method for the square root of a matrix", Linear Algebra and
its Applications 52/53 (1983); Higham, "Functions of Matrices", 2008, chapters 6 and 8. The
derivatives solve Sylvester equations.
"""

from __future__ import annotations

from typing import Any

import tracer.numpy as tnp
from tracer.array import promotion
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import convert
from tracer.array.dispatch import compound
from tracer.autodiff.transforms import custom_vjp
from tracer.errors import ArgumentError
from tracer.numpy.contraction import matmul
from tracer.numpy.linalg.checks import (
    adjoint,
    any_of,
    matrices,
    real_as,
    refuse,
    square_matrices,
)
from tracer.numpy.linalg.decompositions import svd
from tracer.numpy.linalg.solving import solve_general
from tracer.numpy.shaping import matrix_transpose
from tracer.scipy.iteration import repeat
from tracer.scipy.linalg.schur import complex_schur
from tracer.scipy.linalg.sylvester import back_substituted, sylvester


def sqrtm(A: ArrayLike) -> Array:  # noqa: N803 - SciPy's name
    """Principal square root of square matrices.

    Parameters
    ----------
    A : array_like, shape (..., n, n)
        Matrices.

    Returns
    -------
    Array, shape (..., n, n)
        X with X X = A whose eigenvalues have a real part that is not negative. Always complex
        (SciPy looks at the values and returns reals where it can): take `.real` for matrices
        without negative eigenvalues. Inside a traced function NaN where there is no root.

    Raises
    ------
    LinAlgError
        The matrices are not square, or (concrete arrays) one has no root, as for NaN.

    Notes
    -----
    By a Schur decomposition (Björck and Hammarling), in a loop over the columns; CPUs only. The
    derivative solves X dX + dX X = dA, and is not finite for singular matrices.

    Examples
    --------
    >>> from tracer.scipy.linalg import sqrtm
    >>> sqrtm([[4.0, 0.0], [0.0, 9.0]]).real
    Array([[2., 0.],
           [0., 3.]])
    """
    x = square_matrices("sqrtm", A)
    if not x.size:
        return convert(x, promotion.complex_dtype(x.dtype))
    root: Array = _root(x)
    refuse(
        _has_nan(root),
        "sqrtm: a matrix has no square root",
        "check it for NaN, and for a nilpotent part",
    )
    return root


@compound
def _has_nan(x: Array) -> Array:
    return any_of(x != x)


@custom_vjp
def _root(x: Array) -> Array:
    return _by_schur(x)


def _root_forward(x: Array) -> tuple[Array, tuple[Array, Array]]:
    root = _root(x)
    return root, (x, root)


def _root_backward(residuals: tuple[Array, Array], g: Array) -> tuple[Array]:
    x, root = residuals
    turned = matrix_transpose(root)
    found = sylvester(turned, turned, g)
    return (found if x.dtype.kind == "c" else tnp.real(found),)


_root.defvjp(_root_forward, _root_backward)


@compound
def _by_schur(x: Array) -> Array:
    form, vectors = complex_schur(x)
    return matmul(matmul(vectors, _triangular_root(form)), adjoint(vectors))


def _triangular_root(form: Array) -> Array:
    """Return the upper triangular root, column by column: (R + r_jj) r_j = t_j above r_jj."""
    places = tnp.arange(form.shape[-1])
    one = tnp.eye(form.shape[-1], dtype=form.dtype)
    roots = tnp.sqrt(tnp.diagonal(form, 0, -2, -1))

    def step(j: Array, root: Array) -> tuple[Array]:
        is_above = places < j
        own = roots[..., j, None]
        sums = tnp.where(is_above, roots + own, 1)
        is_zero = (sums == 0)[..., None]
        # The columns from j on are still zero, and the diagonal is put in.
        system = root * (1 - one) + one * tnp.where(sums == 0, 1, sums)[..., None, :]
        above = tnp.where(is_above[:, None], form[..., j, None], 0)
        found = back_substituted(system, above)
        # 0 / 0 is 0: what is left is a root too. A nilpotent part has none.
        found = tnp.where(is_zero & (found != 0), tnp.nan, found)
        column = tnp.where((places == j)[:, None], own[..., None], found)
        return (tnp.where(places == j, column, root),)

    return repeat(form.shape[-1], step, (tnp.zeros_like(form),))[0]


def polar(a: ArrayLike, side: str = "right") -> tuple[Array, Array]:
    """Polar decomposition a = u p, or a = p u.

    Parameters
    ----------
    a : array_like, shape (..., m, n)
        Matrices.
    side : {"right", "left"}
        On which side of `u` the Hermitian factor stands.

    Returns
    -------
    u : Array, shape (..., m, n)
        Orthonormal columns, or rows where there are more columns than rows.
    p : Array, shape (..., n, n), or (..., m, m) for "left"
        Hermitian, without negative eigenvalues. Inside a traced function both are NaN where the
        singular value decomposition does not converge.

    Raises
    ------
    LinAlgError
        `a` holds no matrices, or (concrete arrays) it does not converge, as for NaN.
    ArgumentError
        There is no such side.

    Notes
    -----
    The gradient solves a Sylvester equation (CPUs only), for equal singular values too. It is not
    finite where the rank is less than min(m, n).
    """
    if side not in ("right", "left"):
        raise ArgumentError(f"polar has no side {side!r}", mend='use "right" or "left"')
    x = matrices("polar", a)
    m, n = x.shape[-2:]
    is_left = side == "left"
    is_turned = m < n or (m == n and is_left)
    unitary, hermitian = _tall_polar(adjoint(x) if is_turned else x)
    unitary = adjoint(unitary) if is_turned else unitary
    if is_turned and not is_left:
        hermitian = matmul(matmul(adjoint(unitary), hermitian), unitary)
    if is_left and not is_turned:
        hermitian = matmul(matmul(unitary, hermitian), adjoint(unitary))
    return unitary, hermitian


@custom_vjp
def _tall_polar(x: Array) -> tuple[Array, Array]:
    left, values, right = svd(x, full_matrices=False)
    scaled = real_as(values, x.dtype)[..., :, None] * right
    return matmul(left, right), matmul(adjoint(right), scaled)


def _tall_forward(x: Array) -> Any:
    factors = _tall_polar(x)
    return factors, factors


def _tall_backward(factors: tuple[Array, Array], cotangents: tuple[Array, Array]) -> tuple[Array]:
    """Pull back through dU = U W + (1 - U U^H) dA P^-1 and dP = U^H dA - W P.

    W P + P W = U^H dA - dA^H U. What pulls back through W solves the same equation.
    """
    unitary, hermitian = factors
    if not unitary.size:
        return (cotangents[0],)
    for_unitary, for_hermitian = (tnp.conj(g) for g in cotangents)
    inside = matmul(adjoint(unitary), for_unitary)
    for_turn = inside - matmul(for_hermitian, hermitian)
    turn = sylvester(hermitian, hermitian, for_turn - adjoint(for_turn))
    found = matmul(unitary, for_hermitian + turn)
    if unitary.shape[-2] > unitary.shape[-1]:
        outside = for_unitary - matmul(unitary, inside)
        solved, _ = solve_general(hermitian, adjoint(outside))
        found = found + adjoint(solved)
    return (tnp.conj(found),)


_tall_polar.defvjp(_tall_forward, _tall_backward)
