"""Functions of matrices by their eigenvalues, and what decompositions are used for.

References
----------
Parlett, A recurrence among the elements of functions of triangular matrices, Linear Algebra and its
Applications 14 (1976); Golub and Van Loan, Matrix Computations, section 9.1.4.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tracer.numpy as tnp
from tracer.array import promotion
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, as_arrays, convert
from tracer.array.dispatch import compound
from tracer.autodiff.transforms import jvp
from tracer.errors import ArgumentError, ShapeError
from tracer.numpy.linalg import eigh, eigvalsh
from tracer.numpy.linalg.checks import adjoint, square_matrices
from tracer.scipy.choice import choose
from tracer.scipy.iteration import repeat
from tracer.scipy.linalg.decompositions import qr
from tracer.scipy.linalg.functions import expm
from tracer.scipy.linalg.schur import schur


def funm(A: ArrayLike, func: Callable[[Array], Any], disp: bool = True) -> Any:  # noqa: N803
    """Apply a function to square matrices by way of their eigenvalues.

    Parameters
    ----------
    A : array_like, shape (..., n, n)
        Matrices.
    func : callable
        `(complex eigenvalues, shape (..., n)) -> values`, element by element.
    disp : bool
        Return the matrices alone, else also an estimate of their relative error.

    Returns
    -------
    Array of complex numbers, shape (..., n, n)
        NaN where equal eigenvalues have no independent vectors, or may have none: the recurrence
        divides by their difference. `expm` and `sqrtm` know such matrices.
    error : Array, shape (...), without `disp`
        Large where eigenvalues are close.

    Raises
    ------
    LinAlgError
        The matrices are not square, or (concrete arrays) Schur's form does not converge.

    Notes
    -----
    Parlett's recurrence, a diagonal at a time, each by two products of matrices. There is no
    gradient, as of `schur`.

    Examples
    --------
    >>> import tracer.numpy as tnp
    >>> from tracer.scipy.linalg import funm
    >>> tnp.real(funm([[2.0, 0.0], [0.0, 3.0]], lambda x: x**2))
    Array([[4., 0.],
           [0., 9.]])
    """
    form, vectors = schur(A, output="complex")
    eigenvalues = tnp.diagonal(form, axis1=-2, axis2=-1)
    values = as_array(func(eigenvalues)).astype(form.dtype)
    upper, error = _parlett(form, values)
    result = vectors @ upper @ adjoint(vectors)
    return result if disp else (result, error)


@compound
def _parlett(form: Array, values: Array) -> tuple[Array, Array]:
    """Return the function of triangular matrices, and an estimate of its error."""
    n = form.shape[-1]
    diagonal = tnp.diagonal(form, axis1=-2, axis2=-1)
    apart = diagonal[..., None, :] - diagonal[..., None]
    epsilon = float(tnp.finfo(form.dtype).eps)
    size = epsilon * abs(form).sum(-1, keepdims=True).max(-2, keepdims=True, initial=0)
    above = tnp.triu(tnp.ones((n, n), bool), 1)
    is_equal = (abs(apart) <= size) & above
    divisor = choose(is_equal | ~above, 1, apart)
    distance = tnp.arange(n) - tnp.arange(n)[:, None]

    def step(number: Any, found: Any) -> list[Array]:
        value = (form @ found - found @ form) / divisor
        takes = (distance == number + 1) & ~is_equal
        return [found + choose(takes, value, 0).astype(found.dtype)]

    first = values[..., None] * tnp.eye(n, dtype=form.dtype)
    (found,) = repeat(max(n - 1, 0), step, [first])
    is_bad = (is_equal & _linked((abs(form) > 100 * size) & above)).any((-2, -1))
    found = choose(is_bad[..., None, None], tnp.nan, found).astype(found.dtype)
    least = choose(above, abs(apart), tnp.inf).min((-2, -1), initial=tnp.inf)
    norm = tnp.sqrt((abs(tnp.triu(form, 1)) ** 2).sum((-2, -1)))
    error = epsilon * tnp.maximum(1, norm / choose(least == 0, epsilon, least))
    return found, tnp.minimum(error, 1).astype(norm.dtype)


def _linked(links: Array) -> Array:
    """Tell which rows lead to which columns, by one element that is not 0 or by several."""
    counts = links.astype("float32")
    for _ in range(links.shape[-1].bit_length()):
        counts = tnp.minimum(counts + counts @ counts, 1)
    return counts > 0


def expm_frechet(
    A: ArrayLike,  # noqa: N803 - SciPy's name
    E: ArrayLike,  # noqa: N803 - SciPy's name
    *,
    method: str | None = None,
    compute_expm: bool = True,
) -> Any:
    """Return the matrix exponential and its derivative in a direction.

    Parameters
    ----------
    A : array_like, shape (..., n, n)
        Where.
    E : array_like, shape (..., n, n)
        The directions.
    method : str, optional
        Accepted, without effect.
    compute_expm : bool
        Return the exponentials too.

    Returns
    -------
    tuple of Array, or an Array without `compute_expm`
        The exponentials of `A`, and their derivatives in the directions.

    Raises
    ------
    LinAlgError
        The matrices are not square.
    ShapeError
        The shapes differ.

    Examples
    --------
    >>> from tracer.scipy.linalg import expm_frechet
    >>> expm_frechet([[0.0]], [[2.0]])
    (Array([[1.]]), Array([[2.]]))
    """
    del method
    matrix, direction = (square_matrices("expm_frechet", x) for x in as_arrays(A, E))
    if matrix.shape != direction.shape:
        raise ShapeError(
            f"expm_frechet: shapes {matrix.shape} and {direction.shape} differ",
            mend="give matrices and directions of one shape",
        )
    dtype = promotion.result_type(matrix, direction)
    value, change = jvp(expm, (convert(matrix, dtype),), (convert(direction, dtype),))
    return (value, change) if compute_expm else change


def eigh_tridiagonal(
    d: ArrayLike,
    e: ArrayLike,
    *,
    eigvals_only: bool = False,
    select: str = "a",
    select_range: tuple[int, int] | None = None,
    tol: float | None = None,
    key: Any = None,
) -> Any:
    """Eigenvalues and eigenvectors of symmetric (Hermitian) tridiagonal matrices.

    Parameters
    ----------
    d : array_like, shape (..., n)
        The diagonal, real.
    e : array_like, shape (..., n - 1)
        The elements below it.
    eigvals_only : bool
        Return the eigenvalues alone.
    select : {"a", "i"}
        All of them, or those with numbers from the first to the last of `select_range`, both
        included. Which lie between two values ("v") is not known before they are computed.
    select_range : (int, int), optional
        For "i".
    tol, key
        Accepted, without effect.

    Returns
    -------
    w : Array, shape (..., m)
        The eigenvalues in ascending order.
    v : Array, shape (..., n, m)
        The eigenvectors as columns.

    Raises
    ------
    ArgumentError
        Another `select`, or numbers that are not of eigenvalues.
    ShapeError
        The shapes do not fit.

    Notes
    -----
    It is `eigh` of the whole matrix, and takes its memory, n^2 numbers, for eigenvalues too.

    Examples
    --------
    >>> from tracer.scipy.linalg import eigh_tridiagonal
    >>> [round(float(w), 6) for w in eigh_tridiagonal([1.0, 2.0], [1.0], eigvals_only=True)]
    [0.381966, 2.618034]
    """
    del tol, key
    main, below = as_arrays(d, e)
    if not main.ndim or below.shape != (*main.shape[:-1], max(main.shape[-1] - 1, 0)):
        raise ShapeError(
            f"eigh_tridiagonal: shapes {main.shape} and {below.shape} do not fit",
            mend="give shapes (..., n) and (..., n - 1)",
        )
    first, last = _selected(main.shape[-1], select, select_range)
    n, dtype = main.shape[-1], promotion.division_dtype(promotion.result_type(main, below))
    start = tnp.zeros((*below.shape[:-1], 1), dtype)
    lower = tnp.concatenate([start, convert(below, dtype)], -1) if n else convert(below, dtype)
    matrix = convert(main, dtype)[..., None] * tnp.eye(n, dtype=dtype)
    matrix = matrix + lower[..., None] * tnp.eye(n, k=-1, dtype=dtype)
    if eigvals_only:
        return eigvalsh(matrix)[..., first:last]
    values, vectors = eigh(matrix)
    return values[..., first:last], vectors[..., first:last]


def _selected(n: int, select: str, span: tuple[int, int] | None) -> tuple[int, int]:
    if select == "a":
        return 0, n
    if select != "i" or span is None or not 0 <= span[0] <= span[1] < n:
        raise ArgumentError(
            f"eigh_tridiagonal: select is {select!r}, select_range {span}",
            mend=f'use "a", or "i" with two numbers from 0 to {n - 1}',
        )
    return span[0], span[1] + 1


def qr_multiply(
    a: ArrayLike,
    c: ArrayLike,
    mode: str = "right",
    pivoting: bool = False,
    conjugate: bool = False,
    overwrite_a: bool = False,
    overwrite_c: bool = False,
) -> tuple[Array, ...]:
    """QR decomposition, and the product of Q with other matrices.

    Parameters
    ----------
    a : array_like, shape (..., m, n)
        Matrices.
    c : array_like
        What is multiplied: shape (..., k, p) for "left", k = min(m, n), and (..., p, m) for
        "right"; or a vector.
    mode : {"right", "left"}
        c Q, or Q c.
    pivoting : bool
        As of `qr`.
    conjugate : bool
        Take the conjugate of Q, without a transposition.
    overwrite_a, overwrite_c : bool
        Accepted, without effect.

    Returns
    -------
    tuple of Array
        The product, R, and with `pivoting` the order of the columns.

    Raises
    ------
    ArgumentError
        Another mode.
    ShapeError
        The shapes do not fit.

    Examples
    --------
    >>> from tracer.scipy.linalg import qr_multiply, solve_triangular
    >>> product, r = qr_multiply([[1.0, 1.0], [1.0, 2.0], [1.0, 3.0]], [2.0, 4.0, 6.0])
    >>> [round(float(x), 6) + 0.0 for x in solve_triangular(r, product)]
    [0.0, 2.0]
    """
    del overwrite_a, overwrite_c
    if mode not in ("right", "left"):
        raise ArgumentError(f"qr_multiply has no mode {mode!r}", mend='use "right" or "left"')
    matrix, other = as_arrays(a, c)
    q, r, *order = qr(matrix, mode="economic", pivoting=pivoting)
    q = tnp.conj(q) if conjugate else q
    return (q @ other if mode == "left" else other @ q, r, *order)


__all__ = ["eigh_tridiagonal", "expm_frechet", "funm", "qr_multiply"]
