"""Rules of linear algebra: the same LAPACK calls, and NaN where LAPACK's info says failure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tracer import lax, ops
from tracer.array.array import Array
from tracer.array.convert import convert
from tracer.array.dispatch import apply, apply_many
from tracer.autodiff.transforms import custom_vjp, vjp
from tracer.errors import NotDifferentiableError, UnsupportedError
from tracer.jax.rules.calls import with_derivative_of_jax
from tracer.jax.table import Equation, rule
from tracer.numpy.ufunc import full_like
from tracer.scipy.linalg import householder
from tracer.stablehlo.elements import adjoint, conjugate


def _refuse_where(equation: Equation, option: str, *allowed: Any) -> None:
    value = equation.params.get(option)
    if value not in allowed:
        raise UnsupportedError(
            f"JAX's {equation.name} with {option}={value}",
            mend=f"leave {option} out",
        )


@rule("cholesky")
def cholesky(equation: Equation, x: Array) -> Sequence[Array]:
    """Factor; JAX may ask for the mean of both triangles. Its gradient is not symmetric."""

    def factor(x: Array) -> Sequence[Array]:
        if equation.params.get("symmetrize_input"):
            x = apply(ops.divide, apply(ops.add, x, adjoint(x)), full_like(x, 2))
        return [apply(ops.cholesky, x)]

    return with_derivative_of_jax(equation, [x], factor)


@rule("triangular_solve")
def triangular_solve(equation: Equation, a: Array, b: Array) -> Array:
    """Solve with a triangle."""
    p = equation.params
    transpose = "NO_TRANSPOSE"
    if p["transpose_a"]:
        transpose = "ADJOINT" if p["conjugate_a"] and a.dtype.kind == "c" else "TRANSPOSE"
    elif p["conjugate_a"]:
        a = conjugate(a)
    return apply(
        ops.triangular_solve,
        a,
        b,
        left_side=bool(p["left_side"]),
        lower=bool(p["lower"]),
        unit_diagonal=bool(p["unit_diagonal"]),
        transpose_a=transpose,
    )


@rule("lu")
def lu(equation: Equation, a: Array) -> Sequence[Array]:
    """Factor with row exchanges."""
    found = apply_many(ops.lu, a)
    return [convert(x, type.dtype) for x, type in zip(found, equation.results, strict=True)]


@rule("lu_pivots_to_permutation")
def pivots_to_permutation(equation: Equation, pivots: Array) -> Array:
    """Make a permutation of row exchanges."""
    size = int(equation.params["permutation_size"])
    permutation = apply(ops.pivots_to_permutation, pivots, size=size)
    return convert(permutation, equation.result.dtype)


@rule("qr")
def qr(equation: Equation, a: Array) -> Sequence[Array]:
    """Factor into Q and R, with pivots where they are asked for."""
    full, pivoting = equation.params["full_matrices"], equation.params.get("pivoting", False)
    return lax.linalg.qr(a, pivoting=pivoting, full_matrices=full)


@rule("eigh")
def eigh(equation: Equation, a: Array) -> Sequence[Array]:
    """Find eigenvalues and vectors of Hermitian matrices; JAX has the vectors first."""
    _refuse_where(equation, "subset_by_index", None, (0, a.shape[-1]))
    is_lower = bool(equation.params["lower"])

    def decompose(a: Array) -> Sequence[Array]:
        lower = a if is_lower else adjoint(a)
        values, vectors = apply_many(ops.eigh, lower, compute_vectors=True)
        return [vectors, values]

    return with_derivative_of_jax(equation, [a], decompose)


@rule("eig")
def eig(equation: Equation, a: Array) -> Sequence[Array]:
    """Find eigenvalues and right eigenvectors of square matrices."""
    p = equation.params
    _refuse_where(equation, "compute_left_eigenvectors", False)
    if p["compute_right_eigenvectors"]:
        return apply_many(ops.eig, a, compute_vectors=True)
    return [apply(ops.eig, a, compute_vectors=False)]


@rule("svd")
def svd(equation: Equation, a: Array) -> Sequence[Array]:
    """Find singular values, and vectors; JAX has the values first."""
    p = equation.params
    _refuse_where(equation, "subset_by_index", None, (0, min(a.shape[-2:])))
    full = bool(p["full_matrices"])
    if not p["compute_uv"]:
        return [apply(ops.svd, a, full_matrices=False, compute_vectors=False)]
    u, s, vh = apply_many(ops.svd, a, full_matrices=full, compute_vectors=True)
    return [s, u, vh]


@rule("custom_linear_solve")
def custom_linear_solve(equation: Equation, *operands: Array) -> Sequence[Array]:
    """Solve as the program says; the derivative is that of the system, not of the solver."""
    bodies = equation.params["jaxprs"]
    groups, start = [], 0
    for count in equation.params["const_lengths"]:
        groups.append(tuple(operands[start : start + count]))
        start += count
    of_product, _, of_solve, of_transpose = groups
    right = tuple(operands[start:])
    if not equation.evaluator.is_differentiated:
        return equation.run(bodies.solve, [*of_solve, *right])
    solved = _with_gradient(equation, bodies)
    return list(solved(of_product, right, of_solve, of_transpose))


def _with_gradient(equation: Equation, bodies: Any) -> Any:
    def solve(of_product: Any, b: Any, of_solve: Any, of_transpose: Any) -> Any:
        return tuple(equation.run(bodies.solve, [*of_solve, *b]))

    def forward(of_product: Any, b: Any, of_solve: Any, of_transpose: Any) -> Any:
        x = solve(of_product, b, of_solve, of_transpose)
        return x, (of_product, of_transpose, x)

    def backward(residuals: Any, cotangents: Any) -> Any:
        of_product, of_transpose, x = residuals
        if bodies.transpose_solve is None:
            raise NotDifferentiableError(
                "jax.lax.custom_linear_solve without transpose_solve has no gradient",
                mend="give transpose_solve, or symmetric=True",
            )
        adjoint = tuple(equation.run(bodies.transpose_solve, [*of_transpose, *cotangents]))
        _, pull_back = vjp(lambda m: tuple(equation.run(bodies.matvec, [*m, *x])), of_product)
        (of_matrix,) = pull_back(tuple(apply(ops.negate, y) for y in adjoint))
        return of_matrix, adjoint, None, None

    solved = custom_vjp(solve)
    solved.defvjp(forward, backward)
    return solved


@rule("householder_product")
def householder_product(equation: Equation, a: Array, taus: Array) -> Array:
    """Multiply reflections."""
    return householder.product(a, taus)


@rule("tridiagonal_solve")
def tridiagonal_solve(equation: Equation, *operands: Array) -> Array:
    """Eliminate down the rows, and substitute up."""
    return lax.linalg.tridiagonal_solve(*operands)
