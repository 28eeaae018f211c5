"""What the functions here compute in: real floats, those of 16 bits in 32; polynomials of them."""

from __future__ import annotations

import functools
from collections.abc import Callable

import tracer.numpy as tnp
from tracer.array import promotion
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_arrays, broadcast, broadcast_shape, convert
from tracer.ir import as_dtype
from tracer.numpy.ufunc import align, real_floats


def floats(name: str, x: Array) -> Array:
    """Return an array as real floats: integers become the default float."""
    return real_floats(name, convert(x, promotion.division_dtype(x.dtype)))


def aligned_floats(name: str, x: Array, y: Array) -> tuple[Array, Array]:
    """Return two arrays as real floats of one dtype, broadcast together."""
    dtype = promotion.division_dtype(promotion.promote_types(x.dtype, y.dtype))
    first, second = align(name, x, y, dtype)
    return real_floats(name, first), real_floats(name, second)


def floats_together(name: str, *values: ArrayLike) -> list[Array]:
    """Return array-likes as real floats of one dtype, broadcast together.

    Raises
    ------
    DTypeError
        Complex numbers.
    ShapeError
        Shapes that do not fit.
    """
    arrays = as_arrays(*values)
    dtype = promotion.division_dtype(promotion.result_type(*arrays))
    shape = broadcast_shape(name, *(x.shape for x in arrays))
    return [broadcast(real_floats(name, convert(x, dtype)), shape) for x in arrays]


def in_float32(body: Callable[..., Array]) -> Callable[..., Array]:
    """Compute in float32 where arrays have 16 bits, in which the steps may overflow."""

    @functools.wraps(body)
    def widened(*arrays: Array) -> Array:
        dtype = arrays[0].dtype
        if dtype.itemsize > 2:
            return body(*arrays)
        single = as_dtype("float32")
        return convert(body(*(convert(x, single) for x in arrays)), dtype)

    return widened


def polynomial(x: Array, coefficients: tuple[float, ...]) -> Array:
    """Return the polynomial of these coefficients, the constant first, by Horner's rule."""
    total = tnp.zeros_like(x) + coefficients[-1]
    for coefficient in coefficients[-2::-1]:
        total = total * x + coefficient
    return total
