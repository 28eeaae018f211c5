"""Truth: comparisons, logical and bitwise operations, tests of floats, closeness."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from tracer import ops
from tracer.array import promotion
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, broadcast, broadcast_shape, convert, scalar
from tracer.array.dispatch import apply, compound, from_host
from tracer.array.placement import beside_arguments
from tracer.array.promotion import promote_types
from tracer.errors import RangeError, ShapeError
from tracer.ir import Op, as_dtype
from tracer.numpy.ufunc import (
    Binary,
    align,
    binary,
    compare,
    full_like,
    has_sign,
    is_complex,
    is_nonzero,
    named,
    operands,
    unary,
)

_FLIPPED = {"LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE", "EQ": "EQ", "NE": "NE"}
_OF_EQUALS = {"LT": "LT", "LE": "LT", "GT": "GT", "GE": "GT"}
"""The strict direction, by which complex numbers compare their real parts."""


def _comparison(name: str, direction: str, summary: str) -> Binary:
    def body(x: Array, y: Array) -> Array:
        if {x.dtype.kind, y.dtype.kind} == {"i", "u"}:
            dtype = promote_types(x.dtype, y.dtype)
            if dtype.kind == "f":
                return _compare_mixed(name, x, y, direction)
        x, y = align(name, x, y)
        if is_complex(x) and direction in _OF_EQUALS:
            return _compare_complex(x, y, direction)
        return compare(x, y, direction)

    function = binary(name, body, summary, returns="bool.")
    python = getattr(operator, direction.lower())

    def guarded(x1: ArrayLike, x2: ArrayLike, /) -> Array:
        try:
            return function(_in_full(x1, x2), _in_full(x2, x1))
        except RangeError:
            return _compare_out_of_range(x1, x2, python)

    return named(guarded, name, function.__doc__ or "")  # type: ignore[no-any-return]


def _in_full(x: ArrayLike, other: ArrayLike) -> ArrayLike:
    """Return a weak integer array as int64 when it meets integers: their dtype may be too small."""
    if not isinstance(x, Array) or not x.weak_type or x.dtype.kind != "i":
        return x
    integers = isinstance(other, Array | np.ndarray | np.generic) and other.dtype.kind in "iu"
    return as_array(x) if integers else x


def _compare_out_of_range(x1: Any, x2: Any, python: Callable[[Any, Any], bool]) -> Array:
    # A Python integer beyond the dtype is on one side of all elements: the same as of 0.
    if not isinstance(x2, int):
        return _filled(as_array(x2), value=python(x1, 0))
    if not isinstance(x1, int):
        return _filled(as_array(x1), value=python(0, x2))
    return scalar(python(x1, x2), as_dtype("bool"))


@compound
def _filled(x: Array, *, value: bool) -> Array:
    return broadcast(scalar(value, as_dtype("bool")), x.shape)


def _compare_mixed(name: str, x: Array, y: Array, direction: str) -> Array:
    """Compare signed with unsigned 64-bit integers, which no common dtype holds."""
    if x.dtype.kind == "u":
        return _compare_mixed(name, y, x, _FLIPPED[direction])
    shape = broadcast_shape(name, x.shape, y.shape)
    x, y = broadcast(x, shape), broadcast(y, shape)
    is_negative = compare(x, full_like(x, 0), "LT")
    unsigned = as_dtype("uint64")
    result = compare(convert(x, unsigned), convert(y, unsigned), direction)
    if direction in ("LT", "LE", "NE"):
        return apply(ops.or_, is_negative, result)
    return apply(ops.and_, apply(ops.not_, is_negative), result)


def _compare_complex(x: Array, y: Array, direction: str) -> Array:
    real_x, real_y = apply(ops.real, x), apply(ops.real, y)
    imag_x, imag_y = apply(ops.imag, x), apply(ops.imag, y)
    by_real = compare(real_x, real_y, _OF_EQUALS[direction])
    for imag in (imag_x, imag_y):  # a NaN there is in no order, as in NumPy
        by_real = apply(ops.and_, by_real, compare(imag, imag, "EQ"))
    by_imag = compare(imag_x, imag_y, direction)
    equal = compare(real_x, real_y, "EQ")
    return apply(ops.or_, by_real, apply(ops.and_, equal, by_imag))


equal = _comparison("equal", "EQ", "Tell where the elements are equal.")
not_equal = _comparison("not_equal", "NE", "Tell where the elements differ.")
less = _comparison("less", "LT", "Tell where x1 < x2.")
less_equal = _comparison("less_equal", "LE", "Tell where x1 <= x2.")
greater = _comparison("greater", "GT", "Tell where x1 > x2.")
greater_equal = _comparison("greater_equal", "GE", "Tell where x1 >= x2.")


def _logical(name: str, op: Op, summary: str) -> Binary:
    def body(x: Array, y: Array) -> Array:
        return apply(op, *align(name, is_nonzero(x), is_nonzero(y)))

    return binary(name, body, summary, returns="bool.", beyond=lambda dtype: as_dtype(bool))


logical_and = _logical("logical_and", ops.and_, "Tell where both are true (not zero).")
logical_or = _logical("logical_or", ops.or_, "Tell where either is true (not zero).")
logical_xor = _logical("logical_xor", ops.xor, "Tell where exactly one is true (not zero).")
logical_not = unary(
    "logical_not",
    lambda x: apply(ops.not_, is_nonzero(x)),
    "Tell where the element is zero or false.",
    returns="bool.",
)


def _bitwise(name: str, op: Op, summary: str) -> Binary:
    return binary(name, lambda x, y: apply(op, *align(name, x, y)), summary)


bitwise_and = _bitwise("bitwise_and", ops.and_, "Bits set in both; logical and of bools.")
bitwise_or = _bitwise("bitwise_or", ops.or_, "Bits set in either; logical or of bools.")
bitwise_xor = _bitwise("bitwise_xor", ops.xor, "Bits set in exactly one; logical xor of bools.")
bitwise_not = bitwise_invert = invert = unary(
    "invert",
    lambda x: apply(ops.not_, x),
    "Bits inverted; logical not of bools.",
    accepts="Integers or bools.",
)


def _shift(name: str, choose: Callable[[Array], Op], summary: str) -> Binary:
    def body(x: Array, y: Array) -> Array:
        dtype = promote_types(x.dtype, y.dtype)
        x, y = align(name, x, y, as_dtype("int8") if dtype.kind == "b" else dtype)
        return apply(choose(x), x, y)

    return binary(name, body, summary)


left_shift = bitwise_left_shift = _shift(
    "left_shift", lambda x: ops.shift_left, "Bits moved to the left, zeros coming in."
)
right_shift = bitwise_right_shift = _shift(
    "right_shift",
    lambda x: ops.shift_right_logical if x.dtype.kind == "u" else ops.shift_right_arithmetic,
    "Bits moved to the right; the sign stays.",
)


def _any_part(test: Callable[[Array], Array], of_others: bool) -> Callable[[Array], Array]:
    """Apply a test of floats to integers (a constant) and complex numbers (either part)."""

    def body(x: Array) -> Array:
        if is_complex(x):
            return apply(ops.or_, test(apply(ops.real, x)), test(apply(ops.imag, x)))
        if x.dtype.kind in "biu":
            return broadcast(scalar(of_others, as_dtype("bool")), x.shape)
        return test(x)

    return body


def _is_nan(x: Array) -> Array:
    return compare(x, x, "NE")


def _is_infinite(x: Array) -> Array:
    return compare(apply(ops.abs, x), full_like(x, math.inf), "EQ")


def _is_finite(x: Array) -> Array:
    if is_complex(x):
        return apply(ops.and_, _is_finite(apply(ops.real, x)), _is_finite(apply(ops.imag, x)))
    return _any_part(lambda part: apply(ops.is_finite, part), True)(x)


isnan = unary("isnan", _any_part(_is_nan, False), "Tell where NaN is.", returns="bool.")
isinf = unary(
    "isinf", _any_part(_is_infinite, False), "Tell where infinities are.", returns="bool."
)
isfinite = unary("isfinite", _is_finite, "Tell where finite numbers are.", returns="bool.")


def _signbit(x: Array) -> Array:
    if x.dtype.kind in "bu":
        return broadcast(scalar(False, as_dtype("bool")), x.shape)
    if x.dtype.kind == "i":
        return compare(x, full_like(x, 0), "LT")
    return has_sign(x)


signbit = unary("signbit", _signbit, "Tell where the sign is negative (-0.0 is).", returns="bool.")


def isclose(
    a: ArrayLike,
    b: ArrayLike,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: bool = False,
) -> Array:
    """Tell where |a - b| <= atol + rtol * |b|.

    Parameters
    ----------
    a, b : array_like
        Broadcast together.
    rtol, atol : float
        Relative and absolute tolerance.
    equal_nan : bool
        Whether NaN is close to NaN.

    Returns
    -------
    Array of bool, the broadcast shape
        Closeness; infinities are close when they are equal.
    """
    x, y = _close_operands(a, b)
    return _isclose(x, y, rtol=float(rtol), atol=float(atol), equal_nan=bool(equal_nan))


def _close_operands(a: ArrayLike, b: ArrayLike) -> tuple[Array, Array]:
    """Return both as arrays; a Python integer beyond the other's dtype has its own."""
    try:
        return operands(a, b)
    except RangeError:
        return as_array(a), as_array(b)


@compound
def _isclose(x: Array, y: Array, *, rtol: float, atol: float, equal_nan: bool) -> Array:
    dtype = promotion.division_dtype(promote_types(x.dtype, y.dtype))
    x, y = align("isclose", x, y, dtype)
    distance = apply(ops.abs, apply(ops.subtract, x, y))
    size = apply(ops.abs, y)
    scaled = apply(ops.multiply, full_like(size, rtol), size)
    tolerance = apply(ops.add, full_like(size, atol), scaled)
    result = apply(ops.and_, compare(distance, tolerance, "LE"), _is_finite(y))
    result = apply(ops.or_, result, compare(x, y, "EQ"))
    if not equal_nan:
        return result
    return apply(ops.or_, result, apply(ops.and_, compare(x, x, "NE"), compare(y, y, "NE")))


def allclose(
    a: ArrayLike,
    b: ArrayLike,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: bool = False,
) -> Array:
    """Tell whether all elements are close; a 0-d Array, else as `numpy.allclose`."""
    x, y = _close_operands(a, b)
    return _allclose(x, y, rtol=float(rtol), atol=float(atol), equal_nan=bool(equal_nan))


@compound
def _allclose(x: Array, y: Array, *, rtol: float, atol: float, equal_nan: bool) -> Array:
    close = _isclose(x, y, rtol=rtol, atol=atol, equal_nan=equal_nan)
    return apply(ops.reduce_and, close, axes=tuple(range(close.ndim)))


@beside_arguments
def array_equal(a1: ArrayLike, a2: ArrayLike, equal_nan: bool = False) -> Array:
    """Tell whether shapes and all elements are equal; a 0-d Array, else as `numpy.array_equal`."""
    x, y = _close_operands(a1, a2)
    if x.shape != y.shape:
        return from_host(np.asarray(False))
    return _array_equal(x, y, equal_nan=bool(equal_nan))


@beside_arguments
def array_equiv(a1: ArrayLike, a2: ArrayLike) -> Array:
    """Tell whether the arrays are equal after broadcasting; see `numpy.array_equiv`."""
    x, y = _close_operands(a1, a2)
    try:
        broadcast_shape("array_equiv", x.shape, y.shape)
    except ShapeError:
        return from_host(np.asarray(False))
    return _array_equal(x, y, equal_nan=False)


@compound
def _array_equal(x: Array, y: Array, *, equal_nan: bool) -> Array:
    result = equal(x, y)
    if equal_nan:
        result = apply(ops.or_, result, apply(ops.and_, isnan(x), isnan(y)))
    return apply(ops.reduce_and, result, axes=tuple(range(result.ndim)))
