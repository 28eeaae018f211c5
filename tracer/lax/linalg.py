"""Linear algebra with the names, orders and defaults of `jax.lax.linalg`.

Where a factor does not exist the result is NaN; nothing is raised. `tracer.numpy.linalg` and
`tracer.scipy.linalg` raise for concrete arrays.
"""

from __future__ import annotations

from typing import Any

from tracer import ops
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, convert
from tracer.array.dispatch import apply, apply_many, compound
from tracer.errors import ArgumentError, ShapeError
from tracer.ir import as_dtype
from tracer.lax.operands import integer, of_one_dtype, require_default
from tracer.lax.reflections import hessenberg, householder_product, ormqr, tridiagonal
from tracer.lax.tridiagonal import tridiagonal_solve
from tracer.numpy import arange, hypot, triu, where
from tracer.numpy.linalg.checks import adjoint, matrices, square_matrices
from tracer.numpy.ufunc import full_like
from tracer.scipy.iteration import repeat
from tracer.scipy.linalg.householder import pivoted

__all__ = [
    "cholesky",
    "cholesky_update",
    "eig",
    "eigh",
    "hessenberg",
    "householder_product",
    "lu",
    "lu_pivots_to_permutation",
    "ormqr",
    "qr",
    "schur",
    "svd",
    "symmetric_product",
    "triangular_solve",
    "tridiagonal",
    "tridiagonal_solve",
]


def _symmetric(x: Array) -> Array:
    return apply(ops.divide, apply(ops.add, x, adjoint(x)), full_like(x, 2))


def cholesky(x: ArrayLike, *, symmetrize_input: bool = True) -> Array:
    """Factor positive definite matrices: a = L L^H.

    Parameters
    ----------
    x : array_like, shape (..., n, n)
        Symmetric (Hermitian) matrices.
    symmetrize_input : bool
        Take the mean of both triangles; else the lower one is read.

    Returns
    -------
    Array, shape (..., n, n)
        L, zero above the diagonal; NaN where a matrix is not positive definite.
    """
    array = square_matrices("cholesky", x)
    return _cholesky(array, takes_mean=bool(symmetrize_input))


@compound
def _cholesky(x: Array, *, takes_mean: bool) -> Array:
    return apply(ops.cholesky, _symmetric(x) if takes_mean else x)


def cholesky_update(r_matrix: ArrayLike, w_vector: ArrayLike) -> Array:
    """Factor R^T R + w w^T, given R.

    Parameters
    ----------
    r_matrix : array_like, shape (n, n)
        Upper triangular and real.
    w_vector : array_like, shape (n,)
        What is added.

    Returns
    -------
    Array, shape (n, n)
        The upper triangular factor, with a diagonal that is not negative.

    Raises
    ------
    ShapeError
        The shapes do not fit.

    Notes
    -----
    A rotation for each row, n^2 operations in all: Golub and Van Loan, Matrix Computations,
    section 6.5.

    Examples
    --------
    >>> import tracer.lax as lax
    >>> lax.linalg.cholesky_update([[3.0]], [4.0])
    Array([[5.]])
    """
    factor, vector = of_one_dtype("linalg.cholesky_update", r_matrix, w_vector)
    n = factor.shape[-1] if factor.ndim else 0
    if factor.shape != (n, n) or vector.shape != (n,):
        raise ShapeError(
            f"cholesky_update: shapes {factor.shape} and {vector.shape} do not fit",
            mend="give shapes (n, n) and (n,)",
        )
    return _cholesky_update(factor, vector)


@compound
def _cholesky_update(factor: Array, vector: Array) -> Array:
    places = arange(factor.shape[0])

    def step(number: Any, whole: Any, rest: Any) -> list[Any]:
        row = whole[number]
        length = hypot(row[number], rest[number])
        is_zero = length == 0
        safe = where(is_zero, 1, length)
        cosine, sine = where(is_zero, 1, row[number] / safe), rest[number] / safe
        kept = places >= number
        turned = where(kept, cosine * row + sine * rest, row)
        return [whole.at[number].set(turned), where(kept, cosine * rest - sine * row, rest)]

    return repeat(factor.shape[0], step, [triu(factor), vector])[0]


def eigh(
    x: ArrayLike,
    *,
    lower: bool = True,
    symmetrize_input: bool = True,
    sort_eigenvalues: bool = True,
    subset_by_index: tuple[int, int] | None = None,
) -> tuple[Array, Array]:
    """Find eigenvectors and eigenvalues of symmetric (Hermitian) matrices.

    Parameters
    ----------
    x : array_like, shape (..., n, n)
        The matrices.
    lower : bool
        Which triangle is read, without `symmetrize_input`.
    symmetrize_input : bool
        Take the mean of both triangles.
    sort_eigenvalues : bool
        They are sorted in any case.
    subset_by_index : tuple of int, optional
        Not supported.

    Returns
    -------
    vectors : Array, shape (..., n, n)
        In columns.
    values : Array, shape (..., n)
        In ascending order.
    """
    del sort_eigenvalues
    array = square_matrices("eigh", x)
    if subset_by_index not in (None, (0, array.shape[-1])):
        raise ArgumentError(
            f"lax.linalg.eigh: subset_by_index={subset_by_index}", mend="take columns of the result"
        )
    vectors, values = _eigh(array, lower=bool(lower), takes_mean=bool(symmetrize_input))
    return vectors, values


@compound
def _eigh(x: Array, *, lower: bool, takes_mean: bool) -> tuple[Array, ...]:
    read = _symmetric(x) if takes_mean else x if lower else adjoint(x)
    values, vectors = apply_many(ops.eigh, read, compute_vectors=True)
    return vectors, values


def eig(
    x: ArrayLike,
    *,
    compute_left_eigenvectors: bool = True,
    compute_right_eigenvectors: bool = True,
) -> list[Array]:
    """Find eigenvalues and right eigenvectors of square matrices.

    Parameters
    ----------
    x : array_like, shape (..., n, n)
        The matrices.
    compute_left_eigenvectors : bool
        Not supported: it must be False.
    compute_right_eigenvectors : bool
        Return the eigenvectors.

    Returns
    -------
    list of Array
        Complex values, shape (..., n), and vectors in columns, shape (..., n, n).
    """
    if compute_left_eigenvectors:
        raise ArgumentError(
            "lax.linalg.eig has no left eigenvectors", mend="give compute_left_eigenvectors=False"
        )
    array = square_matrices("eig", x)
    return list(_eig(array, with_vectors=bool(compute_right_eigenvectors)))


@compound
def _eig(x: Array, *, with_vectors: bool) -> tuple[Array, ...]:
    if with_vectors:
        return apply_many(ops.eig, x, compute_vectors=True)
    return (apply(ops.eig, x, compute_vectors=False),)


def lu(x: ArrayLike) -> tuple[Array, Array, Array]:
    """Factor with row exchanges: x[permutation] = L U.

    Parameters
    ----------
    x : array_like, shape (..., m, n)
        Matrices.

    Returns
    -------
    lu : Array, shape (..., m, n)
        U in the upper triangle, L below it, without its diagonal of ones.
    pivots : Array of int32, shape (..., min(m, n))
        Row i was exchanged with row pivots[i].
    permutation : Array of int32, shape (..., m)
        The rows in their new order.
    """
    packed, pivots, permutation = _lu(matrices("lu", x))
    return packed, pivots, permutation


@compound
def _lu(x: Array) -> tuple[Array, ...]:
    packed, pivots, permutation = apply_many(ops.lu, x)
    return packed, convert(pivots, as_dtype("int32")), convert(permutation, as_dtype("int32"))


def lu_pivots_to_permutation(pivots: ArrayLike, permutation_size: int) -> Array:
    """Return the order of rows that exchanges of rows make.

    Parameters
    ----------
    pivots : array_like of int32, shape (..., k)
        Row i is exchanged with row pivots[i], one after the other.
    permutation_size : int
        How many rows there are.
    """
    size = integer("linalg.lu_pivots_to_permutation", "permutation_size", permutation_size)
    return _permutation(as_array(pivots), size=size)


@compound
def _permutation(pivots: Array, *, size: int) -> Array:
    return convert(apply(ops.pivots_to_permutation, pivots, size=size), pivots.dtype)


def qr(x: ArrayLike, *, pivoting: bool = False, full_matrices: bool = True) -> tuple[Array, ...]:
    """Factor into Q with orthonormal columns and R with zeros below the diagonal.

    Parameters
    ----------
    x : array_like, shape (..., m, n)
        Matrices.
    pivoting : bool
        Also find the columns in the order in which they are taken, int32; see
        `tracer.scipy.linalg.qr`.
    full_matrices : bool
        Square Q; else min(m, n) columns.

    Returns
    -------
    tuple of Array
        (Q, R), with `pivoting` (Q, R, P): ``x[..., P] = Q R``.
    """
    x = matrices("qr", x)
    if not pivoting:
        return tuple(_qr(x, full=bool(full_matrices)))
    moved, order = pivoted(x)
    return *_qr(moved, full=bool(full_matrices)), order


@compound
def _qr(x: Array, *, full: bool) -> tuple[Array, ...]:
    return apply_many(ops.qr, x, full_matrices=full)


def schur(
    x: ArrayLike,
    *,
    compute_schur_vectors: bool = True,
    sort_eig_vals: bool = False,
    select_callable: Any = None,
) -> Any:
    """Schur decomposition x = Z T Z^H; for real matrices T is real.

    Parameters
    ----------
    x : array_like, shape (..., n, n)
        Matrices.
    compute_schur_vectors : bool
        Return (T, Z); else T alone.
    sort_eig_vals, select_callable
        Not supported; JAX does not use them.
    """
    require_default("linalg.schur", "sort_eig_vals", sort_eig_vals, False)
    require_default("linalg.schur", "select_callable", select_callable, None)
    array = square_matrices("schur", x)
    return _schur(array) if compute_schur_vectors else _schur_form(array)


@compound
def _schur(x: Array) -> tuple[Array, ...]:
    return apply_many(ops.schur, x, compute_vectors=True)


@compound
def _schur_form(x: Array) -> Array:
    return apply(ops.schur, x, compute_vectors=False)


def svd(
    x: ArrayLike,
    *,
    full_matrices: bool = True,
    compute_uv: bool = True,
    subset_by_index: tuple[int, int] | None = None,
) -> Any:
    """Singular value decomposition, x = U diag(s) Vh.

    Parameters
    ----------
    x : array_like, shape (..., m, n)
        Matrices.
    full_matrices : bool
        Square U and Vh; else min(m, n) columns and rows.
    compute_uv : bool
        Return (U, s, Vh); else s alone.
    subset_by_index : tuple of int, optional
        Not supported.
    """
    array = matrices("svd", x)
    if subset_by_index not in (None, (0, min(array.shape[-2:]))):
        raise ArgumentError(
            f"lax.linalg.svd: subset_by_index={subset_by_index}", mend="cut the result"
        )
    if not compute_uv:
        return _singular_values(array)
    return _svd(array, full=bool(full_matrices))


@compound
def _svd(x: Array, *, full: bool) -> tuple[Array, ...]:
    return apply_many(ops.svd, x, full_matrices=full, compute_vectors=True)


@compound
def _singular_values(x: Array) -> Array:
    return apply(ops.svd, x, full_matrices=False, compute_vectors=False)


def triangular_solve(
    a: ArrayLike,
    b: ArrayLike,
    *,
    left_side: bool = False,
    lower: bool = False,
    transpose_a: bool = False,
    conjugate_a: bool = False,
    unit_diagonal: bool = False,
) -> Array:
    """Solve x a = b, or a x = b, for triangular matrices.

    Parameters
    ----------
    a : array_like, shape (..., n, n)
        Matrices, of which one triangle is read.
    b : array_like, shape (..., m, n)
        Right sides, for `left_side` (..., n, m).
    left_side : bool
        Solve a x = b.
    lower : bool
        Read the lower triangle.
    transpose_a, conjugate_a : bool
        Transpose the matrices, and conjugate them.
    unit_diagonal : bool
        Take the diagonal as ones, unread.

    Returns
    -------
    Array, the shape of `b`
        The solutions.

    Raises
    ------
    ShapeError, DTypeError
        Sizes or dtypes that do not fit.
    """
    matrix, right = of_one_dtype("linalg.triangular_solve", a, b)
    return _triangular_solve(
        matrix,
        right,
        left_side=bool(left_side),
        lower=bool(lower),
        transposes=bool(transpose_a),
        conjugates=bool(conjugate_a) and matrix.dtype.kind == "c",
        unit_diagonal=bool(unit_diagonal),
    )


@compound
def _triangular_solve(
    a: Array, b: Array, *, transposes: bool, conjugates: bool, **params: bool
) -> Array:
    way = "NO_TRANSPOSE"
    if transposes:
        way = "ADJOINT" if conjugates else "TRANSPOSE"
    elif conjugates:
        a = apply(ops.complex, apply(ops.real, a), apply(ops.negate, apply(ops.imag, a)))
    return apply(ops.triangular_solve, a, b, transpose_a=way, **params)


def symmetric_product(
    a_matrix: ArrayLike,
    c_matrix: ArrayLike,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    symmetrize_output: bool = False,
) -> Array:
    """Compute alpha a a^T + beta c.

    Parameters
    ----------
    a_matrix : array_like, shape (..., n, k)
        The factor.
    c_matrix : array_like, shape (..., n, n)
        What is added.
    alpha, beta : float
        Factors.
    symmetrize_output : bool
        Both triangles are equal in any case, if those of `c_matrix` are.
    """
    del symmetrize_output
    a, c = of_one_dtype("linalg.symmetric_product", a_matrix, c_matrix)
    matrices("symmetric_product", a), square_matrices("symmetric_product", c)
    return alpha * (a @ a.mT) + beta * c
