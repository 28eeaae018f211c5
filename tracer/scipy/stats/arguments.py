"""What the distributions share: their arguments as floats of one dtype and shape."""

from __future__ import annotations

import tracer.numpy as tnp
from tracer.array import promotion
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_arrays, broadcast, broadcast_shape, convert
from tracer.errors import DTypeError
from tracer.scipy.choice import choose


def floats(name: str, *values: ArrayLike) -> list[Array]:
    """Return arguments as floats of one dtype, broadcast together.

    Raises
    ------
    DTypeError
        Complex numbers.
    ShapeError
        Shapes that do not fit.
    """
    arrays = as_arrays(*values)
    dtype = promotion.division_dtype(promotion.result_type(*arrays))
    if dtype.kind == "c":
        raise DTypeError(f"{name} is not defined for complex numbers", mend="give real numbers")
    shape = broadcast_shape(name, *(x.shape for x in arrays))
    return [broadcast(convert(x, dtype), shape) for x in arrays]


def supported(inside: Array, value: Array, x: Array) -> Array:
    """Return the logarithm of a density: -inf where x is outside of the support, NaN where NaN."""
    return choose(inside, value, choose(x == x, -tnp.inf, x))


def is_whole(x: Array) -> Array:
    """Tell where x is a whole number."""
    return x == tnp.floor(x)
