"""Linear systems: of a known structure, or with a given LU decomposition."""

from __future__ import annotations

from tracer import ops
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, broadcast, broadcast_shape, convert, reshape
from tracer.array.dispatch import apply, compound
from tracer.errors import ArgumentError
from tracer.ir import as_dtype
from tracer.numpy import linalg as _linalg
from tracer.numpy.linalg.checks import adjoint, mirrored, square_matrices
from tracer.numpy.linalg.solving import require_rows
from tracer.numpy.matrices import tril
from tracer.numpy.shaping import expand_dims, matrix_transpose
from tracer.numpy.sorting import argsort
from tracer.numpy.taking import take_along_axis
from tracer.scipy.linalg.triangular import cho_factor, cho_solve, solve_triangular

_STRUCTURES = (
    "general",
    "diagonal",
    "tridiagonal",
    "banded",
    "upper triangular",
    "lower triangular",
    "symmetric",
    "hermitian",
    "positive definite",
)
_SHORT = {"gen": "general", "sym": "symmetric", "her": "hermitian", "pos": "positive definite"}
_TRANSPOSED = {
    "upper triangular": "lower triangular",
    "lower triangular": "upper triangular",
}


def lu_solve(
    lu_and_piv: tuple[ArrayLike, ArrayLike],
    b: ArrayLike,
    trans: int = 0,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Array:
    """Solve a x = b, given the LU decomposition of `a`.

    Parameters
    ----------
    lu_and_piv : tuple of (array_like, array_like)
        What `lu_factor` returns.
    b : array_like, shape (n,) or (..., n, m)
        Right-hand sides.
    trans : {0, 1, 2}
        Solve with `a`, its transpose or its adjoint.
    overwrite_b, check_finite : bool
        Accepted, without effect.

    Returns
    -------
    Array, the shape of `b`
        The solutions.

    Raises
    ------
    LinAlgError
        (Concrete arrays) the matrix is singular.
    """
    del overwrite_b, check_finite
    packed, right = square_matrices("lu_solve", lu_and_piv[0]), as_array(b)
    require_rows("lu_solve", packed, right)
    columns = expand_dims(right, -1) if right.ndim == 1 else right
    pivots = convert(as_array(lu_and_piv[1]), as_dtype("int32"))
    permutation = expand_dims(permutation_of(pivots, size=packed.shape[-1]), -1)
    if trans == 0:
        half = solve_triangular(
            packed, take_rows(columns, permutation), lower=True, unit_diagonal=True
        )
        result = solve_triangular(packed, half)
    else:
        half = solve_triangular(packed, columns, trans=trans)
        half = solve_triangular(packed, half, trans=trans, lower=True, unit_diagonal=True)
        result = take_rows(half, argsort(permutation, -2))
    return reshape(result, result.shape[:-1]) if right.ndim == 1 else result


def take_rows(x: Array, rows: Array) -> Array:
    """Return the rows of matrices in the order of a column of their numbers."""
    batch = broadcast_shape("lu_solve", x.shape[:-2], rows.shape[:-2])
    places = broadcast(rows, (*batch, rows.shape[-2], x.shape[-1]))
    stack = broadcast(x, (*batch, *x.shape[-2:]))
    return take_along_axis(stack, places, -2, mode="promise_in_bounds")


@compound
def permutation_of(pivots: Array, *, size: int) -> Array:
    """Return the permutation that exchanges of rows make."""
    return apply(ops.pivots_to_permutation, pivots, size=size)


def solve(
    a: ArrayLike,
    b: ArrayLike,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    assume_a: str | None = None,
    transposed: bool = False,
) -> Array:
    """Solve a x = b.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        Matrices.
    b : array_like, shape (n,) or (..., n, m)
        Right-hand sides.
    lower : bool
        Which triangle is read, where `assume_a` says that one is enough. The gradient by the matrix
        is symmetric (Hermitian) then, in both triangles.
    overwrite_a, overwrite_b, check_finite : bool
        Accepted, without effect.
    assume_a : str, optional
        "general" (the default), "diagonal", "tridiagonal", "banded", "upper triangular", "lower
        triangular", "symmetric", "hermitian", "positive definite", or the short names "gen",
        "sym", "her", "pos". The last one takes a Cholesky decomposition, the triangular ones none,
        all others an LU decomposition.
    transposed : bool
        Solve a^T x = b; for real matrices and for general, symmetric or diagonal ones.

    Returns
    -------
    Array, the shape of `b`
        The solutions. Inside a traced function not finite where the matrix is singular or not
        positive definite.

    Raises
    ------
    LinAlgError
        (Concrete arrays) the matrix is singular or not positive definite.
    ArgumentError
        There is no such assumption.
    """
    del overwrite_a, overwrite_b, check_finite
    matrix, right = square_matrices("solve", a), as_array(b)
    require_rows("solve", matrix, right)
    kind = "general" if assume_a is None else _SHORT.get(assume_a, assume_a)
    if kind not in _STRUCTURES:
        raise ArgumentError(
            f"solve cannot assume {assume_a!r}",
            mend=f"use one of {[*_STRUCTURES, *_SHORT]}",
        )
    if kind in ("symmetric", "hermitian"):
        conjugated = kind == "hermitian" and matrix.dtype.kind == "c"
        matrix = _from_triangle(matrix, lower=bool(lower), conjugated=conjugated)
    if transposed:
        matrix, kind = matrix_transpose(matrix), _TRANSPOSED.get(kind, kind)
        lower = not lower
    if kind == "positive definite":
        return cho_solve(cho_factor(matrix, lower), right)
    if kind == "diagonal":
        matrix, kind = tril(matrix), "upper triangular"
    if kind.endswith("triangular"):
        return solve_triangular(matrix, right, lower=kind.startswith("lower"))
    return _linalg.solve(matrix, right)


def _from_triangle(x: Array, *, lower: bool, conjugated: bool) -> Array:
    """Return the whole matrix of one triangle; its gradient is that of the whole one."""
    if not lower:
        x = adjoint(x) if conjugated else matrix_transpose(x)
    return mirrored(x, conjugated=conjugated)
