"""How element-wise functions are made: coercion, promotion and broadcasting around one op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from tracer import ops
from tracer.array import promotion
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, as_arrays, broadcast, broadcast_shape, convert, scalar
from tracer.array.dispatch import apply, compound
from tracer.array.promotion import WEAK, Dtype, promote_types
from tracer.errors import DTypeError, RangeError
from tracer.ir import Op, as_dtype

Unary = Callable[[ArrayLike], "Array"]
Binary = Callable[[ArrayLike, ArrayLike], "Array"]
Limits = Callable[["Array", "Array"], "Array"]

_UNARY_DOC = """{summary}

Parameters
----------
x : array_like
    {accepts}

Returns
-------
Array, the shape of `x`
    {returns}

See Also
--------
numpy.{name}
"""

_BINARY_DOC = """{summary}

Parameters
----------
x1, x2 : array_like
    Broadcast together; Python numbers take the other operand's dtype where its kind allows.

Returns
-------
Array, the broadcast shape
    {returns}

Raises
------
ShapeError
    The shapes cannot be broadcast together.
DTypeError
    The dtypes have no such operation.

See Also
--------
numpy.{name}
"""


def unary(
    name: str,
    body: Callable[[Array], Array],
    summary: str,
    *,
    accepts: str = "Numbers.",
    returns: str = "The dtype of `x`.",
) -> Unary:
    """Make a public function of one array from its body on Arrays."""
    run = compound(body)

    def function(x: ArrayLike, /) -> Array:
        return run(as_array(x))

    doc = _UNARY_DOC.format(summary=summary, name=name, accepts=accepts, returns=returns)
    return cast("Unary", named(function, name, doc))


def binary(
    name: str,
    body: Callable[[Array, Array], Array],
    summary: str,
    *,
    returns: str = "The promoted dtype.",
    beyond: Callable[[Dtype], Dtype] | None = None,
) -> Binary:
    """Make a public function of two arrays from its body on Arrays.

    `beyond` gives the dtype in which an array meets a Python integer that its own does not hold:
    the floats or bools in which the function computes. Without it the integer is refused.
    """
    run = compound(body)

    def function(x1: ArrayLike, x2: ArrayLike, /) -> Array:
        try:
            arrays = operands(x1, x2)
        except RangeError:
            if beyond is None:
                raise
            arrays = _operands_in(beyond, x1, x2)
        return run(*arrays)

    doc = _BINARY_DOC.format(summary=summary, name=name, returns=returns)
    return cast("Binary", named(function, name, doc))


def named(function: Any, name: str, doc: str) -> Any:
    """Give a made function its public name and documentation."""
    function.__name__ = function.__qualname__ = name
    function.__doc__ = doc
    return function


def float_unary(name: str, op: Op, limits: Limits | None = None) -> Unary:
    """Make a function that computes one op in floats: exp, sin, ... Its summary is the op's.

    `limits(x, result)` corrects the result for complex `x` at infinities and NaN.
    """

    def body(x: Array) -> Array:
        x = convert(x, promotion.float_ufunc_dtype(x.dtype))
        result = apply(op, x)
        return result if limits is None or not is_complex(x) else limits(x, result)

    return unary(
        name, body, op.doc, returns="Floats; integers become float16, float32 or float64 by width."
    )


def operands(x1: Any, x2: Any) -> tuple[Array, Array]:
    """Return two array-likes as Arrays; a Python number takes the other's dtype (NEP 50)."""
    if isinstance(x1, Array):
        if isinstance(x2, Array):
            if not (x1.weak_type or x2.weak_type):
                return x1, x2
        elif x2.__class__ in WEAK and not x1.weak_type:
            second = scalar(x2, promotion.weak_dtype(x1._type.dtype, x2.__class__))
            return x1, second
    elif isinstance(x2, Array) and x1.__class__ in WEAK and not x2.weak_type:
        first = scalar(x1, promotion.weak_dtype(x2._type.dtype, x1.__class__))
        return first, x2
    return as_arrays(x1, x2)  # type: ignore[return-value] # two in, two out


def _operands_in(dtype_of: Callable[[Dtype], Dtype], x1: Any, x2: Any) -> tuple[Array, Array]:
    """Return operands of which a Python integer meets the other in the dtype it is computed in."""

    def converted(x: Any) -> Any:
        if promotion.weak_class(x) is not None:
            return x
        array = as_array(x)
        return convert(array, dtype_of(promotion.weak_dtype(array.dtype, int)))

    return operands(converted(x1), converted(x2))


def align(name: str, x: Array, y: Array, dtype: Dtype | None = None) -> tuple[Array, Array]:
    """Convert two arrays to one dtype (by default the promoted one) and broadcast them."""
    first, second = x._type, y._type
    if first is second and (dtype is None or dtype == first.dtype):
        return x, y
    if dtype is None:
        dtype = promote_types(first.dtype, second.dtype)
    shape = broadcast_shape(name, first.shape, second.shape)
    return broadcast(convert(x, dtype), shape), broadcast(convert(y, dtype), shape)


def full_like(x: Array, value: Any) -> Array:
    """Return a Python number broadcast to the type of `x`."""
    return broadcast(scalar(value, x.dtype), x.shape)


def compare(x: Array, y: Array, direction: str) -> Array:
    """Compare two arrays of one type."""
    return apply(ops.compare, x, y, direction=direction)


def is_nonzero(x: Array) -> Array:
    """Return the truth values of the elements."""
    return x if x.dtype.kind == "b" else compare(x, full_like(x, 0), "NE")


def select(condition: Array, x: Array, y: Array) -> Array:
    """Choose by truth values; all shapes are equal."""
    return apply(ops.select, condition, x, y)


def require_no_bool(name: str, dtype: Dtype, mend: str) -> None:
    """Raise `DTypeError` for truth values."""
    if dtype.kind == "b":
        raise DTypeError(f"{name} is not defined for bool arrays", mend=mend)


def has_sign(x: Array) -> Array:
    """Tell which floats have the sign bit set (-0.0 has)."""
    kind = as_dtype(f"int{8 * x.dtype.itemsize}")
    bits = apply(ops.bitcast_convert, x, dtype=kind)
    return compare(bits, full_like(bits, 0), "LT")


def real_floats(name: str, x: Array) -> Array:
    """Convert as `exp` does, and refuse complex numbers."""
    if x.dtype.kind == "c":
        raise DTypeError(
            f"{name} is not defined for complex numbers", mend="take the real part or abs first"
        )
    return convert(x, promotion.float_ufunc_dtype(x.dtype))


def is_complex(x: Array) -> bool:
    """Tell whether the elements are complex."""
    return x.dtype.kind == "c"


def is_integer(dtype: Dtype) -> bool:
    """Tell whether the dtype is of integers (not bools)."""
    return dtype.kind in "iu"
