"""What functions of linear algebra require of their operands, and how failures are reported.

A failure shows only in the values. Concrete arrays raise `LinAlgError`, as NumPy's do. Inside a
traced function there are no values yet, and the result is NaN for the matrices concerned.
"""

from __future__ import annotations

from tracer import ops
from tracer.array import promotion
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, broadcast, convert, reshape
from tracer.array.dispatch import apply, compound
from tracer.array.promotion import Dtype
from tracer.errors import LinAlgError
from tracer.numpy.elementwise import conjugate
from tracer.numpy.reductions import reduce
from tracer.numpy.shaping import swapaxes
from tracer.numpy.ufunc import compare, full_like, is_complex, select


def matrices(name: str, a: ArrayLike) -> Array:
    """Return matrices (last two axes) as floats or complex numbers, or raise."""
    x = as_array(a)
    if x.ndim < 2:
        raise LinAlgError(
            f"{name} needs matrices, got shape {x.shape}", mend="give an array of shape (..., m, n)"
        )
    return convert(x, promotion.division_dtype(x.dtype))


def square_matrices(name: str, a: ArrayLike) -> Array:
    """Return square matrices as floats or complex numbers, or raise."""
    x = as_array(a)
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise LinAlgError(
            f"{name} needs square matrices, got shape {x.shape}",
            mend="give an array of shape (..., n, n)",
        )
    return convert(x, promotion.division_dtype(x.dtype))


def adjoint(x: Array) -> Array:
    """Transpose the last two axes and conjugate."""
    swapped = swapaxes(x, -1, -2)
    return conjugate(swapped) if is_complex(x) else swapped


@compound
def mirrored(x: Array, *, conjugated: bool) -> Array:
    """Return the symmetric (Hermitian) matrices of the lower triangles; the gradient is whole."""
    return apply(ops.mirror_triangle, x, conjugated=conjugated)


def refuse(failed: Array, what: str, mend: str) -> None:
    """Raise `LinAlgError` when a concrete truth value says so; a traced one has no value yet."""
    if not failed.is_traced and bool(failed):
        raise LinAlgError(what, mend=mend)


def refuse_unconverged(failed: Array, name: str) -> None:
    """Raise `LinAlgError` when an iteration did not converge."""
    refuse(
        failed,
        f"{name} did not converge",
        "check the matrix for NaN, infinities and numbers close to the limits of its dtype",
    )


def refuse_singular(failed: Array, name: str) -> None:
    """Raise `LinAlgError` when a matrix has no inverse."""
    refuse(
        failed,
        f"{name}: singular matrix",
        "use lstsq or pinv, or add a small multiple of the identity",
    )


def has_nan(x: Array, axes: tuple[int, ...]) -> Array:
    """Tell whether there is a NaN along the axes."""
    return reduce(ops.reduce_or, compare(x, x, "NE"), axes, keepdims=False)


def any_of(x: Array) -> Array:
    """Tell whether any of the truth values holds."""
    return reduce(ops.reduce_or, x, tuple(range(x.ndim)), keepdims=False)


def last_axes(x: Array, count: int) -> tuple[int, ...]:
    """Return the numbers of the last axes."""
    return tuple(range(x.ndim - count, x.ndim))


def new_nan(result: Array, count: int, given: Array) -> Array:
    """Tell whether NaN came up in `count` last axes of a result of matrices without one."""
    came = has_nan(result, last_axes(result, count))
    was = has_nan(given, last_axes(given, 2))
    return any_of(apply(ops.and_, came, apply(ops.not_, was)))


def per_matrix(flags: Array, like: Array) -> Array:
    """Spread one truth value for each matrix over the matrices."""
    return broadcast(reshape(flags, (*flags.shape, 1, 1)), like.shape)


def nan_where(flags: Array, x: Array) -> Array:
    """Put NaN into the matrices whose truth value is true."""
    return select(per_matrix(flags, x), full_like(x, float("nan")), x)


def real_as(x: Array, dtype: Dtype) -> Array:
    """Convert real numbers to a dtype that may be complex."""
    return _real_as(x, dtype=dtype)


@compound
def _real_as(x: Array, *, dtype: Dtype) -> Array:
    if dtype.kind == "c":
        return apply(ops.complex, x, full_like(x, 0))
    return convert(x, dtype)
