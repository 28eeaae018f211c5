"""Schur and Hessenberg decompositions."""

from __future__ import annotations

from typing import Any

import tracer.numpy as tnp
from tracer import ops
from tracer.array import promotion
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import convert
from tracer.array.dispatch import apply_many, compound
from tracer.errors import ArgumentError, ShapeError
from tracer.numpy.linalg.checks import (
    adjoint,
    any_of,
    has_nan,
    last_axes,
    refuse_unconverged,
    square_matrices,
)
from tracer.scipy.linalg.householder import hessenberg_reflectors, product


def schur(
    a: ArrayLike,
    output: str = "real",
    lwork: int | None = None,
    overwrite_a: bool = False,
    sort: Any = None,
    check_finite: bool = True,
) -> tuple[Array, Array]:
    """Schur decomposition a = Z T Z^H.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        Matrices.
    output : {"real", "complex"}
        For real matrices: whether T is real, with a block of two on its diagonal for each pair of
        conjugate eigenvalues, or complex and triangular. For complex matrices without effect.
    lwork, overwrite_a, check_finite
        Accepted, without effect.
    sort : None
        Sorted eigenvalues are not supported.

    Returns
    -------
    T : Array, shape (..., n, n)
        The Schur form. Inside a traced function NaN where it does not converge.
    Z : Array, shape (..., n, n)
        Unitary matrices.

    Raises
    ------
    LinAlgError
        The matrices are not square, or (concrete arrays) it does not converge, as for NaN.
    ArgumentError
        Another output, or `sort`.

    Notes
    -----
    There is no gradient: the factors are unique up to a phase only, and may jump. `sqrtm`,
    `solve_sylvester`, `expm` and `eigvals` have theirs.
    """
    del lwork, overwrite_a, check_finite
    if output not in ("real", "r", "complex", "c"):
        raise ArgumentError(f"schur has no output {output!r}", mend='use "real" or "complex"')
    if sort is not None:
        raise ArgumentError("schur does not sort eigenvalues", mend="leave sort out")
    x = square_matrices("schur", a)
    if output.startswith("c"):
        x = convert(x, promotion.complex_dtype(x.dtype))
    form, vectors, failed = _schur(x)
    refuse_unconverged(failed, "schur")
    return form, vectors


@compound
def _schur(x: Array) -> tuple[Array, Array, Array]:
    form, vectors = apply_many(ops.schur, x, compute_vectors=True)
    return form, vectors, any_of(has_nan(form, last_axes(form, 2)))


def rsf2csf(
    T: ArrayLike,  # noqa: N803 - SciPy's name
    Z: ArrayLike,  # noqa: N803 - SciPy's name
    check_finite: bool = True,
) -> tuple[Array, Array]:
    """Turn a real Schur form into a complex, triangular one.

    Parameters
    ----------
    T, Z : array_like, shape (..., n, n)
        What `schur` returns.
    check_finite : bool
        Accepted, without effect.

    Returns
    -------
    T, Z : Array, shape (..., n, n)
        Complex.

    Raises
    ------
    LinAlgError
        The matrices are not square.
    ShapeError
        Their sizes differ.
    """
    del check_finite
    form, vectors = square_matrices("rsf2csf", T), square_matrices("rsf2csf", Z)
    if form.shape[-1] != vectors.shape[-1]:
        raise ShapeError(
            f"rsf2csf: T of shape {form.shape} and Z of shape {vectors.shape} do not fit",
            mend="give both results of schur",
        )
    form, vectors = _triangular(form, vectors)
    return form, vectors


@compound
def _triangular(form: Array, vectors: Array) -> tuple[Array, Array]:
    dtype = promotion.complex_dtype(promotion.promote_types(form.dtype, vectors.dtype))
    form, vectors = convert(form, dtype), convert(vectors, dtype)
    if form.shape[-1] < 2:
        return form, vectors
    turn = _rotations(form)
    form = tnp.triu(turn @ form @ adjoint(turn))
    return form, vectors @ adjoint(turn)


def _rotations(form: Array) -> Array:
    """Return the unitary matrices that make the blocks of two triangular.

    With (a, b; c, d) and its eigenvalue w, the rows (w - d, c) / r and (-c, conj(w - d)) / r, the
    first of them conjugated: no two blocks touch, so that all turn at once.
    """
    n = form.shape[-1]
    diagonal = tnp.diagonal(form, 0, -2, -1)
    above, below = (tnp.diagonal(form, k, -2, -1) for k in (1, -1))
    half = (diagonal[..., :-1] - diagonal[..., 1:]) / 2
    along = half + tnp.sqrt(half * half + above * below)
    is_block = below != 0
    size = tnp.where(is_block, tnp.hypot(tnp.abs(along), tnp.abs(below)), 1)
    cosine = tnp.where(is_block, along / size, 1)
    sine = tnp.where(is_block, below / size, 0)
    ones = tnp.ones((*form.shape[:-2], 1), form.dtype)
    first = tnp.concatenate([tnp.conj(cosine), ones], -1)
    second = tnp.concatenate([ones, cosine], -1)
    none = tnp.zeros_like(ones)
    over, under = tnp.concatenate([none, sine], -1), tnp.concatenate([-sine, none], -1)
    return (
        tnp.eye(n, dtype=form.dtype) * (first * second)[..., None, :]
        + tnp.eye(n, k=1, dtype=form.dtype) * over[..., None, :]
        + tnp.eye(n, k=-1, dtype=form.dtype) * under[..., None, :]
    )  # fmt: skip


def complex_schur(x: Array) -> tuple[Array, Array]:
    """Return triangular factors; real eigenvalues of real matrices have no imaginary part."""
    form, vectors = apply_many(ops.schur, x, compute_vectors=True)
    return _triangular(form, vectors)


def hessenberg(
    a: ArrayLike, calc_q: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Any:
    """Hessenberg form H with a = Q H Q^H: zero below the first subdiagonal.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        Matrices.
    calc_q : bool
        Return Q too.
    overwrite_a, check_finite : bool
        Accepted, without effect.

    Returns
    -------
    H : Array, shape (..., n, n)
        The Hessenberg form.
    Q : Array, shape (..., n, n)
        Unitary matrices, for `calc_q`.

    Raises
    ------
    LinAlgError
        The matrices are not square.

    Notes
    -----
    Householder reflections, one after the other, in a loop of the program: LAPACK's blocked
    routine is faster. The gradient is right where no column is in the form already.
    """
    del overwrite_a, check_finite
    form, vectors = _hessenberg(square_matrices("hessenberg", a), has_vectors=bool(calc_q))
    return (form, vectors) if calc_q else form


@compound
def _hessenberg(x: Array, *, has_vectors: bool) -> tuple[Array, Array]:
    n = x.shape[-1]
    one = tnp.broadcast_to(tnp.eye(n, dtype=x.dtype), x.shape)
    if n <= 2:
        return x, one
    packed, scales = hessenberg_reflectors(x)
    form = tnp.triu(packed, -1)
    if not has_vectors:
        return form, one
    inner = product(packed[..., 1:, : n - 1], scales)
    return form, tnp.concatenate(
        [one[..., :1, :], tnp.concatenate([one[..., 1:, :1], inner], -1)], -2
    )
