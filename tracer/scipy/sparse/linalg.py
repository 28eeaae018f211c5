"""Linear systems by products with the matrix: cg, bicgstab and gmres, with the arguments of JAX's.

The matrix may be a function of nested arrays. Derivatives are those of the solution: they solve
another system, and are right if both solvers come to an end.

References
----------
Hestenes and Stiefel, Methods of Conjugate Gradients, 1952; van der Vorst, Bi-CGSTAB, 1992; Saad and
Schultz, GMRES, 1986.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import tracer.numpy as tnp
from tracer import tree
from tracer.array.array import Array
from tracer.array.convert import as_array, convert
from tracer.array.promotion import division_dtype, real_dtype, result_type
from tracer.autodiff.transforms import custom_linear_solve
from tracer.errors import ArgumentError, ShapeError
from tracer.scipy.choice import choose
from tracer.scipy.iteration import iterate, iterate_nested

Operator = Callable[[Any], Any]


def cg(
    A: Any,  # noqa: N803 - named as in SciPy
    b: Any,
    x0: Any = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,  # noqa: N803
) -> tuple[Any, None]:
    """Solve A x = b for a positive definite A by conjugate gradients.

    Parameters
    ----------
    A : callable, or array_like of shape (n, n)
        A symmetric (Hermitian), positive definite matrix, or the product with it: a function of
        arrays nested as `b`.
    b
        The right side: an array, or arrays in any nesting, which make one vector.
    x0 : optional
        Where to start; zeros by default.
    tol, atol : float
        The end is where the norm of b - A x is at most max(tol * norm(b), atol).
    maxiter : int, optional
        Most steps; ten times the size of `b` by default.
    M : callable or array_like, optional
        An approximate inverse of `A`.

    Returns
    -------
    x
        Nested as `b`.
    info : None
        In SciPy's place for it.

    Raises
    ------
    ShapeError
        `x0` is nested otherwise than `b`, or a matrix is not square.

    Examples
    --------
    >>> import tracer.numpy as tnp
    >>> from tracer.scipy.sparse.linalg import cg
    >>> x, _ = cg(lambda x: 2 * x, tnp.ones(3))
    >>> x.tolist()
    [0.5, 0.5, 0.5]
    """
    leaves = tree.leaves(b)
    is_real = all(as_array(leaf).dtype.kind != "c" for leaf in leaves)
    return _solve(_conjugate_gradients, A, b, x0, (tol, atol, maxiter), M, is_real)


def bicgstab(
    A: Any,  # noqa: N803 - named as in SciPy
    b: Any,
    x0: Any = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    maxiter: int | None = None,
    M: Any = None,  # noqa: N803
) -> tuple[Any, None]:
    """Solve A x = b for any square A by stabilised biconjugate gradients; see `cg`.

    Parameters
    ----------
    A : callable, or array_like of shape (n, n)
        The matrix, or the product with it.
    b
        The right side: an array, or arrays in any nesting.
    x0, tol, atol, maxiter, M
        See `cg`.

    Returns
    -------
    x
        Nested as `b`.
    info : None
        In SciPy's place for it.
    """
    return _solve(_stabilised, A, b, x0, (tol, atol, maxiter), M, False)


def gmres(
    A: Any,  # noqa: N803 - named as in SciPy
    b: Any,
    x0: Any = None,
    *,
    tol: float = 1e-5,
    atol: float = 0.0,
    restart: int = 20,
    maxiter: int | None = None,
    M: Any = None,  # noqa: N803
    solve_method: str = "batched",
) -> tuple[Any, None]:
    """Solve A x = b for any square A by the smallest residual over Krylov spaces; see `cg`.

    Parameters
    ----------
    A : callable, or array_like of shape (n, n)
        The matrix, or the product with it.
    b
        The right side: an array, or arrays in any nesting.
    x0, tol, atol
        See `cg`.
    restart : int
        Most vectors of a space, which are all kept; then the next one begins.
    maxiter : int, optional
        Most restarts; ten times the size of `b` by default.
    M : callable or array_like, optional
        An approximate inverse of `A`.
    solve_method : {"batched", "incremental"}
        Both find the same: each space is built whole.

    Returns
    -------
    x
        Nested as `b`.
    info : None
        In SciPy's place for it.
    """
    if solve_method not in ("batched", "incremental") or restart < 1:
        raise ArgumentError(
            f"gmres: restart is {restart}, solve_method {solve_method!r}",
            mend='give 1 or more, and "batched" or "incremental"',
        )
    method = functools.partial(_smallest_residuals, restart=restart)
    return _solve(method, A, b, x0, (tol, atol, maxiter), M, False)


def _solve(
    method: Callable[..., Any],
    matrix: Any,
    b: Any,
    x0: Any,
    limits: tuple[float, float, int | None],
    inverse: Any,
    is_symmetric: bool,
) -> tuple[Any, None]:
    right = tree.map(_floating, b)
    start = tree.map(tnp.zeros_like, right) if x0 is None else tree.map(_floating, x0)
    if tree.structure(start) != tree.structure(right) or _shapes(start) != _shapes(right):
        raise ShapeError(
            f"x0 of shapes {_shapes(start)} and b of shapes {_shapes(right)} do not fit",
            mend="nest x0 as b, with the same shapes",
        )
    tol, atol, most = limits
    steps = 10 * sum(leaf.size for leaf in tree.leaves(right)) if most is None else most
    before = (lambda x: x) if inverse is None else _product(inverse)

    def solve(product: Operator, b: Any) -> Any:
        return method(product, b, start, before, tol=tol, atol=atol, steps=steps)

    return custom_linear_solve(_product(matrix), right, solve, solve, is_symmetric), None


def _floating(x: Any) -> Array:
    array = as_array(x)
    return convert(array, division_dtype(array.dtype))


def _shapes(x: Any) -> list[tuple[int, ...]]:
    return [leaf.shape for leaf in tree.leaves(x)]


def _product(matrix: Any) -> Operator:
    if callable(matrix):
        found: Operator = matrix
        return found
    array = as_array(matrix)
    if array.ndim != 2 or array.shape[0] != array.shape[1]:
        raise ShapeError(
            f"the matrix has shape {array.shape}", mend="give a square matrix, or a function"
        )
    return lambda x: array @ as_array(x)


def _inner(x: Any, y: Any) -> Array:
    """Return the inner product of vectors; the first is conjugated."""
    pairs = zip(tree.leaves(x), tree.leaves(y), strict=True)
    return functools.reduce(operator.add, [tnp.vdot(one, other) for one, other in pairs])


def _square(x: Any) -> Array:
    return tnp.real(_inner(x, x))


def _plus(x: Any, factor: Any, y: Any) -> Any:
    return tree.map(lambda one, other: one + convert(factor, one.dtype) * other, x, y)


def _ends(b: Any, tol: float, atol: float) -> Array:
    if not tree.leaves(b):
        raise ArgumentError("there is no right side", mend="give an array")
    square = _square(b)
    return tnp.maximum(tol * tol * square, atol * atol)


def _conjugate_gradients(
    product: Operator, b: Any, start: Any, before: Operator, *, tol: float, atol: float, steps: int
) -> Any:
    residual = _plus(b, as_array(-1.0), product(start))
    direction = before(residual)
    size = tnp.real(_inner(residual, direction))
    first = (start, residual, size, direction, as_array(0), _ends(b, tol, atol))

    def unfinished(x: Any, r: Any, size: Any, p: Any, k: Any, end: Any) -> Any:
        return (_square(r) > end) & (k < steps)

    def step(x: Any, r: Any, size: Any, p: Any, k: Any, end: Any) -> Any:
        moved = product(p)
        length = size / tnp.real(_inner(p, moved))
        x, r = _plus(x, length, p), _plus(r, -length, moved)
        z = before(r)
        new = tnp.real(_inner(r, z))
        return x, r, new, _plus(z, new / size, p), k + 1, end

    return iterate_nested(unfinished, step, first)[0]


def _stabilised(
    product: Operator, b: Any, start: Any, before: Operator, *, tol: float, atol: float, steps: int
) -> Any:
    residual = _plus(b, as_array(-1.0), product(start))
    dtype = result_type(*(leaf.dtype for leaf in tree.leaves(residual)))
    one = tnp.ones((), dtype)
    rest = (residual, residual, one, one, one, residual, residual, as_array(0))
    first = (start, *rest, convert(_ends(b, tol, atol), real_dtype(dtype)))

    def unfinished(x: Any, r: Any, *others: Any) -> Any:
        *_, k, end = others
        return (_square(r) > end) & (k < steps) & (k >= 0)

    def step(
        x: Any,
        r: Any,
        shadow: Any,
        alpha: Any,
        omega: Any,
        rho: Any,
        p: Any,
        q: Any,
        k: Any,
        end: Any,
    ) -> Any:
        new = _inner(shadow, r)
        p = _plus(r, new / rho * alpha / omega, _plus(p, -omega, q))
        near = before(p)
        q = product(near)
        alpha = new / _inner(shadow, q)
        s = _plus(r, -alpha, q)
        is_done = _square(s) < end
        other = before(s)
        t = product(other)
        omega = _inner(t, s) / _inner(t, t)
        half = _plus(x, alpha, near)
        whole = _plus(half, omega, other)
        x = tree.map(functools.partial(choose, is_done), half, whole)
        r = tree.map(functools.partial(choose, is_done), s, _plus(s, -omega, t))
        # A breakdown ends the loop, as in JAX.
        stuck = (omega == 0) | (alpha == 0) | (new == 0)
        return x, r, shadow, alpha, omega, new, p, q, choose(stuck, -10, k + 1), end

    return iterate_nested(unfinished, step, first)[0]


def _smallest_residuals(
    product: Operator,
    b: Any,
    start: Any,
    before: Operator,
    *,
    tol: float,
    atol: float,
    steps: int,
    restart: int,
) -> Any:
    first, unravel = tree.ravel(start)
    right, _ = tree.ravel(b)
    size = min(restart, first.shape[0])

    def apply(x: Array) -> Array:
        return _flat(before(product(unravel(x))))

    def residual(x: Array) -> Array:
        return _flat(before(unravel(right - _flat(product(unravel(x))))))

    # With an approximate inverse the residual is measured behind it, as in JAX.
    scale = _square(before(b)) / choose(_square(b) > 0, _square(b), 1)
    end = _ends(b, tol, atol) * scale

    def unfinished(x: Any, r: Any, k: Any, end: Any) -> Any:
        return (_square(r) > end) & (k < steps)

    def step(x: Any, r: Any, k: Any, end: Any) -> Any:
        length = tnp.sqrt(_square(r))
        basis, small = _krylov(apply, r / convert(length, r.dtype), size)
        goal = tnp.zeros(size + 1, r.dtype).at[0].set(convert(length, r.dtype))
        x = x + (tnp.linalg.pinv(small) @ goal) @ basis[:-1]
        return x, residual(x), k + 1, end

    found = iterate(unfinished, step, [first, residual(first), as_array(0), end])
    return unravel(found[0])


def _flat(x: Any) -> Array:
    flat: Array = tree.ravel(x)[0]
    return flat


def _krylov(apply: Callable[[Array], Array], first: Array, size: int) -> tuple[Array, Array]:
    """Return an orthonormal basis in rows, and the small matrix of the operator in it.

    Classical Gram-Schmidt, twice. Where the space ends, what follows is zero.
    """
    tiny = float(tnp.finfo(first.dtype).eps)
    basis = tnp.zeros((size + 1, first.shape[0]), first.dtype).at[0].set(first)
    small = tnp.zeros((size + 1, size), first.dtype)

    def unfinished(k: Any, basis: Any, small: Any) -> Any:
        return k < size

    def step(k: Any, basis: Any, small: Any) -> Any:
        moved = apply(basis[k])
        long = tnp.sqrt(_square(moved))
        parts = basis.conj() @ moved
        rest = moved - parts @ basis
        more = basis.conj() @ rest
        rest = rest - more @ basis
        length = tnp.sqrt(_square(rest))
        goes_on = length > tiny * long
        safe = choose(goes_on, length, 1)
        row = choose(goes_on, rest / convert(safe, rest.dtype), 0)
        column = (parts + more).at[k + 1].set(convert(choose(goes_on, length, 0), rest.dtype))
        return k + 1, basis.at[k + 1].set(row), small.at[:, k].set(column)

    _, basis, small = iterate(unfinished, step, [as_array(0), basis, small])
    return basis, small


__all__ = ["bicgstab", "cg", "gmres"]
