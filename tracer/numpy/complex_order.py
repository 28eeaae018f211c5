"""The order of complex numbers: by real part, then by imaginary part, as in NumPy and JAX.

A number with NaN in either part counts as NaN: `maximum` and `minimum` return the first such
operand, reductions the first such element, and sorting puts them last.
"""

from __future__ import annotations

import math

from tracer import ops
from tracer.array.array import Array
from tracer.array.convert import broadcast, convert, reshape
from tracer.array.dispatch import apply
from tracer.ir import Op, as_dtype
from tracer.numpy.ufunc import compare, full_like, select

EXTREMES = {ops.maximum: "GT", ops.minimum: "LT"}
"""Element-wise ops that need an order, and the comparison that tells whether an operand wins."""
_REDUCTIONS = {
    "GT": (ops.reduce_maximum, -math.inf),
    "LT": (ops.reduce_minimum, math.inf),
}


def _parts(x: Array) -> tuple[Array, Array]:
    return apply(ops.real, x), apply(ops.imag, x)


def has_nan(x: Array) -> Array:
    """Tell which complex numbers have NaN in either part."""
    real, imag = _parts(x)
    return apply(ops.or_, compare(real, real, "NE"), compare(imag, imag, "NE"))


def pick(op: Op, x: Array, y: Array) -> Array:
    """Return the larger (`ops.maximum`) or smaller (`ops.minimum`) of complex numbers."""
    direction = EXTREMES[op]
    (x_real, x_imag), (y_real, y_imag) = _parts(x), _parts(y)
    further = apply(ops.and_, compare(x_real, y_real, "EQ"), compare(y_imag, x_imag, direction))
    y_wins = apply(ops.or_, compare(y_real, x_real, direction), further)
    y_wins = apply(ops.and_, apply(ops.or_, y_wins, has_nan(y)), apply(ops.not_, has_nan(x)))
    return select(y_wins, y, x)


def place_of_extreme(x: Array, axis: int, direction: str) -> Array:
    """Return the index of the largest ("GT") or smallest ("LT") element; of the first NaN."""
    op, neutral = _REDUCTIONS[direction]
    real, imag = _parts(x)
    kept = (*x.shape[:axis], 1, *x.shape[axis + 1 :])

    def spread(reduced: Array) -> Array:
        return broadcast(reshape(reduced, kept), x.shape)

    leads = compare(real, spread(apply(op, real, axes=(axis,))), "EQ")
    rest = select(leads, imag, full_like(imag, neutral))
    best = compare(rest, spread(apply(op, rest, axes=(axis,))), "EQ")
    undefined = has_nan(x)
    any_undefined = spread(apply(ops.reduce_or, undefined, axes=(axis,)))
    found = select(any_undefined, undefined, apply(ops.and_, leads, best))
    flags = convert(found, as_dtype("int8"))
    return apply(ops.argmax, flags, axis=axis, index_dtype=as_dtype("int64"))


def nan_class(x: Array) -> Array:
    """Return int8 keys that put NaN last: 1 for R + nan i, 2 for nan + R i, 3 for both."""
    real, imag = _parts(x)
    one, two = (convert(compare(part, part, "NE"), as_dtype("int8")) for part in (imag, real))
    return apply(ops.add, one, apply(ops.add, two, two))


def is_before(x: Array, y: Array, direction: str) -> Array:
    """Compare ("LT" or "LE") in the order of sorting; of complex numbers with NaN last."""
    if x.dtype.kind != "c":
        return compare(x, y, direction)
    keys = [(nan_class(z), *[_without_nan(part) for part in _parts(z)]) for z in (x, y)]
    *leading, (x_key, y_key) = zip(*keys, strict=True)
    found = compare(x_key, y_key, direction)
    for x_key, y_key in reversed(leading):
        further = apply(ops.and_, compare(x_key, y_key, "EQ"), found)
        found = apply(ops.or_, compare(x_key, y_key, "LT"), further)
    return found


def _without_nan(x: Array) -> Array:
    return select(compare(x, x, "NE"), full_like(x, 0), x)
