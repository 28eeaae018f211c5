"""What the functions here compute in: real floats, those of 16 bits in 32; polynomials of them."""

from __future__ import annotations

from collections.abc import Sequence

import tracer.numpy as tnp
from tracer.array import promotion
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_arrays, broadcast, broadcast_shape, convert
from tracer.numpy.floats import floats, in_float32
from tracer.numpy.ufunc import align, real_floats


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


def polynomial(x: Array, coefficients: Sequence[float | Array]) -> Array:
    """Return the polynomial of these coefficients, the constant first, by Horner's rule."""
    total = tnp.zeros_like(x) + coefficients[-1]
    for coefficient in coefficients[-2::-1]:
        total = total * x + coefficient
    return total


__all__ = ["aligned_floats", "floats", "floats_together", "in_float32", "polynomial"]
