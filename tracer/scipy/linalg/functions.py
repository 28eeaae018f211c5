"""Functions of matrices.

Source: Higham, "The scaling and squaring method for the matrix exponential revisited", SIAM J.
Matrix Anal. Appl. 26 (2005): the Padé approximant of degree 13 and its bound.
"""

from __future__ import annotations

import operator

from tracer import ops
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import broadcast, convert
from tracer.array.dispatch import apply, apply_many, compound
from tracer.array.promotion import real_dtype
from tracer.errors import ArgumentError
from tracer.ir import Builder, Graph, ShapeDtype, as_dtype
from tracer.numpy.arithmetic import absolute, maximum
from tracer.numpy.contraction import matmul
from tracer.numpy.elementwise import log2
from tracer.numpy.extremes import max
from tracer.numpy.linalg.checks import any_of, nan_where, per_matrix, real_as, square_matrices
from tracer.numpy.linalg.solving import solve_general
from tracer.numpy.matrices import eye
from tracer.numpy.reductions import sum
from tracer.numpy.rounding import ceil
from tracer.numpy.ufunc import compare, full_like

_BOUND = 5.371920351148152
"""Largest 1-norm for which degree 13 is exact to double precision (theta_13)."""
_PADE = (
    64764752532480000.0,
    32382376266240000.0,
    7771770303897600.0,
    1187353796428800.0,
    129060195264000.0,
    10559470521600.0,
    670442572800.0,
    33522128640.0,
    1323241920.0,
    40840800.0,
    960960.0,
    16380.0,
    182.0,
    1.0,
)


_MOST_SQUARINGS = 1100
"""What floats of 64 bits have exponents for."""


def expm(A: ArrayLike, *, max_squarings: int = 16) -> Array:  # noqa: N803 - SciPy's name
    """Exponential of square matrices.

    Parameters
    ----------
    A : array_like, shape (..., n, n)
        Matrices.
    max_squarings : int
        How often the result may be squared: 1-norms up to about 5 * 2**max_squarings are exact.

    Returns
    -------
    Array, shape (..., n, n)
        The exponentials; NaN where more squarings are needed.

    Raises
    ------
    LinAlgError
        The matrices are not square.

    Notes
    -----
    Scaling and squaring with a Padé approximant of degree 13 (Higham 2005). Squarings that no
    matrix needs are skipped when the program runs.

    Examples
    --------
    >>> from tracer.scipy.linalg import expm
    >>> expm([[0.0, 1.0], [0.0, 0.0]])
    Array([[1., 1.],
           [0., 1.]])
    """
    squarings = operator.index(max_squarings)
    if not 0 <= squarings <= _MOST_SQUARINGS:
        raise ArgumentError(
            f"expm: max_squarings is {squarings}", mend=f"give 0 to {_MOST_SQUARINGS}"
        )
    return _expm(square_matrices("expm", A), squarings=squarings)


@compound
def _expm(x: Array, *, squarings: int) -> Array:
    if not x.size:
        return x
    real = real_dtype(x.dtype)
    norms = max(sum(absolute(apply(ops.stop_gradient, x)), -2), -1)
    needed = maximum(ceil(log2(norms / _BOUND)), 0)
    factors = real_as(per_matrix(2 ** -convert(needed, real), x), x.dtype)
    result = _pade(apply(ops.multiply, x, factors))
    for step in range(squarings):
        result = _square_where(compare(needed, full_like(needed, step), "GT"), result)
    return nan_where(compare(needed, full_like(needed, squarings), "GT"), result)


def _pade(x: Array) -> Array:
    """Return the approximant (V - U)^-1 (V + U), U being the odd part."""
    one = broadcast(eye(x.shape[-1], dtype=x.dtype), x.shape)
    x2 = matmul(x, x)
    x4 = matmul(x2, x2)
    x6 = matmul(x4, x2)
    powers = (one, x2, x4, x6)

    def combine(first: int) -> Array:
        low = sum_of(powers, _PADE[first : 7 + first : 2])
        high = sum_of(powers[1:], _PADE[8 + first :: 2])
        return low + matmul(x6, high)

    odd, even = matmul(x, combine(1)), combine(0)
    solution, _ = solve_general(even - odd, even + odd)
    return solution


def sum_of(matrices: tuple[Array, ...], coefficients: tuple[float, ...]) -> Array:
    """Return the linear combination."""
    terms = [x * factor for x, factor in zip(matrices, coefficients, strict=True)]
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def _square_where(flags: Array, x: Array) -> Array:
    """Square the matrices whose flag is set; no product is computed when none is."""
    wanted = per_matrix(flags, x)
    index = convert(any_of(flags), as_dtype("int32"))
    (result,) = apply_many(ops.case, index, x, wanted, branches=_branches(x.type, wanted.type))
    return result


def _branches(type: ShapeDtype, mask: ShapeDtype) -> tuple[Graph, Graph]:
    with Builder() as builder:
        x, _ = builder.input(type), builder.input(mask)
        same = builder.finish([x])
    with Builder() as builder:
        x, wanted = builder.input(type), builder.input(mask)
        batch = tuple(range(type.ndim - 2))
        product = ops.dot_general(
            x,
            x,
            lhs_batch=batch,
            rhs_batch=batch,
            lhs_contracting=(type.ndim - 1,),
            rhs_contracting=(type.ndim - 2,),
        )
        squared = builder.finish([ops.select(wanted, product, x)])
    return same, squared
