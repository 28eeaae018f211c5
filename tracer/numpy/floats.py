"""What functions of special values compute in: real floats, those of 16 bits in 32."""

from __future__ import annotations

import functools
from collections.abc import Callable

from tracer.array import promotion
from tracer.array.array import Array
from tracer.array.convert import convert
from tracer.ir import as_dtype
from tracer.numpy.ufunc import real_floats


def floats(name: str, x: Array) -> Array:
    """Return an array as real floats: integers become the default float."""
    return real_floats(name, convert(x, promotion.division_dtype(x.dtype)))


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
