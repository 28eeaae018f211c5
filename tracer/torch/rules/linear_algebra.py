"""Rules of linear algebra. Where torch raises (a singular matrix), results are NaN here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracer import ops
from tracer.array.array import Array
from tracer.array.convert import broadcast, convert, transpose
from tracer.array.dispatch import apply, apply_many
from tracer.errors import UnsupportedError
from tracer.ir import ShapeDtype
from tracer.numpy.ufunc import compare, full_like, select
from tracer.torch.rules.elementwise import conjugate
from tracer.torch.rules.operands import filled
from tracer.torch.rules.shapes import cut, lower_triangle, upper_triangle, where_diagonal
from tracer.torch.table import Node, rule

_INT32 = np.dtype("int32")


def _transposed(x: Array) -> Array:
    return transpose(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


def _adjoint(node: Node, x: Array) -> Array:
    return conjugate(node, _transposed(x))


def _info(x: Array) -> Array:
    """Return 1 for each matrix that holds a NaN, as LAPACK's info would not be 0."""
    is_bad = compare(x, x, "NE")
    found = apply(ops.reduce_or, is_bad, axes=(x.ndim - 2, x.ndim - 1))
    return convert(found, _INT32)


@rule("_linalg_check_errors", "_assert_async", "_assert_tensor_metadata")
def no_check(node: Node, *_: Any, **__: Any) -> list[Array | None]:
    """Leave checks out: a planned program cannot raise."""
    return [None]


@rule("linalg_cholesky_ex")
def cholesky(
    node: Node, x: Array, upper: bool = False, check_errors: bool = False
) -> Sequence[Array]:
    """Factor: the lower triangle is read, or the upper one."""
    factor = apply(ops.cholesky, _adjoint(node, x) if upper else x)
    return [_adjoint(node, factor) if upper else factor, _info(factor)]


@rule("cholesky")
def plain_cholesky(node: Node, x: Array, upper: bool = False) -> Array:
    """Factor."""
    return cholesky(node, x, upper)[0]


def _batched(x: Array, batch: tuple[int, ...]) -> Array:
    return broadcast(x, (*batch, *x.shape[-2:]))


def _solved(a: Array, b: Array, **options: Any) -> Array:
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    plain = {"left_side": True, "lower": True, "unit_diagonal": False}
    given = {**plain, "transpose_a": "NO_TRANSPOSE", **options}
    return apply(ops.triangular_solve, _batched(a, batch), _batched(b, batch), **given)


@rule("linalg_solve_triangular")
def solve_triangular(
    node: Node,
    a: Array,
    b: Array,
    *,
    upper: bool,
    left: bool = True,
    unitriangular: bool = False,
) -> Array:
    """Solve with a triangle."""
    return _solved(a, b, lower=not upper, left_side=left, unit_diagonal=unitriangular)


@rule("triangular_solve")
def old_triangular_solve(
    node: Node,
    b: Array,
    a: Array,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
) -> Sequence[Array]:
    """Solve with a triangle, or its transpose; returns the matrix too."""
    how = "TRANSPOSE" if transpose else "NO_TRANSPOSE"
    found = _solved(a, b, lower=not upper, unit_diagonal=unitriangular, transpose_a=how)
    return [found, _batched(a, found.shape[:-2])]


@rule("cholesky_solve")
def cholesky_solve(node: Node, b: Array, factor: Array, upper: bool = False) -> Array:
    """Solve with both triangles."""
    lower = _adjoint(node, factor) if upper else factor
    return _solved(lower, _solved(lower, b), transpose_a="ADJOINT")


@rule("cholesky_inverse")
def cholesky_inverse(node: Node, factor: Array, upper: bool = False) -> Array:
    """Solve for the identity."""
    return cholesky_solve(node, _identity(factor), factor, upper)


def _identity(x: Array) -> Array:
    return select(_is_diagonal(x), full_like(x, 1), full_like(x, 0))


@rule("_linalg_eigh")
def eigh(node: Node, x: Array, uplo: str = "L", compute_v: bool = True) -> Sequence[Array | None]:
    """Find eigenvalues and vectors of Hermitian matrices."""
    lower = _adjoint(node, x) if uplo.upper() == "U" else x
    if not compute_v:
        values = apply(ops.eigh, lower, compute_vectors=False)
        return [values, filled(0, node.results[1])]  # type: ignore[arg-type] # not None here
    return list(apply_many(ops.eigh, lower, compute_vectors=True))


@rule("_linalg_svd")
def svd(
    node: Node,
    x: Array,
    full_matrices: bool = False,
    compute_uv: bool = True,
    *,
    driver: str | None = None,
) -> Sequence[Array]:
    """Find singular values and vectors."""
    if not compute_uv:
        values = apply(ops.svd, x, full_matrices=False, compute_vectors=False)
        u, vh = (filled(0, node.results[i]) for i in (0, 2))  # type: ignore[arg-type] # not None
        return [u, values, vh]
    return apply_many(ops.svd, x, full_matrices=full_matrices, compute_vectors=True)


@rule("linalg_qr")
def qr(node: Node, x: Array, mode: str = "reduced") -> Sequence[Array]:
    """Factor into Q and R."""
    q, r = apply_many(ops.qr, x, full_matrices=mode == "complete")
    return [filled(0, node.result) if mode == "r" else q, r]


@rule("linalg_lu_factor_ex")
def lu_factor(
    node: Node, x: Array, *, pivot: bool = True, check_errors: bool = False
) -> Sequence[Array]:
    """Factor with row exchanges; torch counts rows from 1."""
    factors, pivots, _ = _factored(node, x, pivot)
    return [factors, pivots, _singular(factors)]


def _factored(node: Node, x: Array, pivot: bool = True) -> tuple[Array, Array, Array]:
    if not pivot:
        raise UnsupportedError(f"torch's {node.name} without row exchanges", mend="use pivot=True")
    factors, pivots, permutation = apply_many(ops.lu, x)
    pivots = convert(pivots, _INT32)
    return factors, apply(ops.add, pivots, full_like(pivots, 1)), permutation


def _permutation(pivots: Array, size: int) -> Array:
    pivots = apply(ops.subtract, pivots, full_like(pivots, 1))
    return apply(ops.pivots_to_permutation, pivots, size=size)


@rule("linalg_lu_solve")
def lu_solve(
    node: Node,
    factors: Array,
    pivots: Array,
    b: Array,
    *,
    left: bool = True,
    adjoint: bool = False,
) -> Array:
    """Solve with the factors: P L U x = b, x P L U = b, or their adjoints."""
    permutation = _permutation(pivots, factors.shape[-2])
    batch = np.broadcast_shapes(factors.shape[:-2], b.shape[:-2])
    factors = _batched(factors, batch)
    permutation = broadcast(permutation, (*batch, permutation.shape[-1]))
    b = _batched(b, batch)
    if not left:  # x A = b is A^T x^T = b^T
        b = _transposed(b)
    is_transposed = adjoint if left else not adjoint
    is_conjugated = adjoint and factors.dtype.kind == "c"
    if is_conjugated:
        factors = conjugate(node, factors)
    found = apply(ops.lu_solve, factors, factors, permutation, b, transpose=is_transposed)
    return found if left else _transposed(found)


@rule("lu_unpack")
def lu_unpack(
    node: Node, factors: Array, pivots: Array, unpack_data: bool = True, unpack_pivots: bool = True
) -> Sequence[Array]:
    """Return P, L and U."""
    rows, columns = factors.shape[-2:]
    k, last = min(rows, columns), factors.ndim - 1
    types = node.results
    empty = [filled(0, type) for type in types if type is not None]
    found = list(empty)
    if unpack_pivots:
        permutation = convert(_permutation(pivots, rows), np.dtype("int64"))
        shape = (*permutation.shape[:-1], rows, rows)
        type = ShapeDtype(shape, "int64")
        batch = tuple(range(len(shape) - 2))
        where_to = apply(
            ops.broadcast_in_dim, permutation, shape=shape, dimensions=(*batch, len(shape) - 1)
        )
        counting = apply(ops.iota, shape=shape, dtype=type.dtype, dimension=len(shape) - 2)
        # Column i has its one in row p[i]: P L U is the matrix, and its row p[i] is row i of L U.
        found[0] = convert(compare(where_to, counting, "EQ"), factors.dtype)
    if unpack_data:
        low = cut(factors, last, 0, k)
        strict = lower_triangle(node, low, -1)
        found[1] = apply(ops.add, strict, _identity(low))
        found[2] = upper_triangle(node, cut(factors, last - 1, 0, k))
    return found


@rule("linalg_lu")
def lu(node: Node, x: Array, *, pivot: bool = True) -> Sequence[Array]:
    """Factor into P, L and U."""
    factors, pivots, _ = _factored(node, x, pivot)
    return lu_unpack(node, factors, pivots)


def _diagonal(x: Array) -> Array:
    kept = select(_is_diagonal(x), x, full_like(x, 0))
    axis = x.ndim - 1 if x.shape[-1] >= x.shape[-2] else x.ndim - 2
    return apply(ops.reduce_add, kept, axes=(axis,))


def _is_diagonal(x: Array) -> Array:
    return apply(ops.and_, where_diagonal(x, 0), apply(ops.not_, where_diagonal(x, -1)))


def _singular(factors: Array) -> Array:
    """Return 1 for each matrix with a pivot of 0."""
    sizes = apply(ops.abs, _diagonal(factors))
    smallest = apply(ops.reduce_minimum, sizes, axes=(sizes.ndim - 1,))
    return convert(compare(smallest, full_like(smallest, 0), "EQ"), _INT32)


@rule("linalg_inv_ex")
def inverse(node: Node, x: Array, *, check_errors: bool = False) -> Sequence[Array]:
    """Solve for the identity."""
    factors, _, permutation = _factored(node, x)
    found = apply(ops.lu_solve, x, factors, permutation, _identity(x), transpose=False)
    return [found, _singular(factors)]
