"""Python's operators on arrays: which function of this room answers each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracer.array.array import Array
from tracer.array.convert import convert
from tracer.array.promotion import can_cast
from tracer.errors import DTypeError, ShapeError
from tracer.numpy import arithmetic, logic
from tracer.numpy.contraction import matmul
from tracer.numpy.ufunc import Binary, Unary

Operator = Callable[..., Any]
_OPERANDS = (Array, bool, int, float, complex, np.ndarray, np.generic, list, tuple)


def _operator(function: Binary) -> Operator:
    def operator(self: Array, other: Any) -> Any:
        return function(self, other) if isinstance(other, _OPERANDS) else NotImplemented

    return operator


def _reflected(function: Binary) -> Operator:
    def operator(self: Array, other: Any) -> Any:
        return function(other, self) if isinstance(other, _OPERANDS) else NotImplemented

    return operator


def _in_place(function: Binary) -> Operator:
    """Make `x += y`: a new array, which the name is bound to, of the old shape and dtype."""

    def operator(self: Array, other: Any) -> Any:
        if not isinstance(other, _OPERANDS):
            return NotImplemented
        result = function(self, other)
        if result.shape != self.shape:
            raise ShapeError(
                f"an in-place operation cannot change the shape {self.shape} to {result.shape}",
                mend="write x = x + y",
            )
        if not can_cast(result.dtype, self.dtype, "same_kind"):
            raise DTypeError(
                f"an in-place operation cannot store {result.dtype} in an array of {self.dtype}",
                mend="write x = x + y, or convert with astype first",
            )
        return convert(result, self.dtype)

    return operator


def _unary(function: Unary, meaning: str) -> Operator:
    def operator(self: Array) -> Array:
        return function(self)

    operator.__doc__ = meaning
    return operator


def _divmod(self: Array, other: Any) -> Any:
    """Quotient rounded down and remainder."""
    return arithmetic.divmod(self, other) if isinstance(other, _OPERANDS) else NotImplemented


def _rdivmod(self: Array, other: Any) -> Any:
    """Quotient rounded down and remainder, reflected."""
    return arithmetic.divmod(other, self) if isinstance(other, _OPERANDS) else NotImplemented


def _power(self: Array, other: Any) -> Any:
    """Power; the square of bools, written with the operator, is int8 as that of `square`."""
    if type(other) is int and other == 2 and self.dtype.kind == "b":
        return arithmetic.square(self)
    return _operator(arithmetic.power)(self, other)


_ARITHMETIC: dict[str, Binary] = {
    "add": arithmetic.add,
    "sub": arithmetic.subtract,
    "mul": arithmetic.multiply,
    "truediv": arithmetic.divide,
    "floordiv": arithmetic.floor_divide,
    "mod": arithmetic.remainder,
    "pow": arithmetic.power,
    "matmul": matmul,
    "and": logic.bitwise_and,
    "or": logic.bitwise_or,
    "xor": logic.bitwise_xor,
    "lshift": logic.left_shift,
    "rshift": logic.right_shift,
}
_COMPARISONS: dict[str, Binary] = {
    "lt": logic.less,
    "le": logic.less_equal,
    "gt": logic.greater,
    "ge": logic.greater_equal,
    "eq": logic.equal,
    "ne": logic.not_equal,
}
OPERATORS: dict[str, Operator] = {
    **{f"__{name}__": _operator(function) for name, function in _ARITHMETIC.items()},
    **{f"__r{name}__": _reflected(function) for name, function in _ARITHMETIC.items()},
    **{f"__i{name}__": _in_place(function) for name, function in _ARITHMETIC.items()},
    **{f"__{name}__": _operator(function) for name, function in _COMPARISONS.items()},
    "__pow__": _power,
    "__divmod__": _divmod,
    "__rdivmod__": _rdivmod,
    "__neg__": _unary(arithmetic.negative, "-x."),
    "__pos__": _unary(arithmetic.positive, "+x."),
    "__abs__": _unary(arithmetic.absolute, "abs(x)."),
    "__invert__": _unary(logic.invert, "~x."),
}
"""What `tracer.numpy` installs into Array."""
