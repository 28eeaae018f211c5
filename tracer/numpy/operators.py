"""The Python operators of arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tracer.array.base import ArrayBase
from tracer.array.convert import convert
from tracer.array.promotion import can_cast
from tracer.errors import DTypeError, ShapeError
from tracer.numpy import arithmetic, logic
from tracer.numpy.contraction import matmul
from tracer.numpy.ufunc import Binary

if TYPE_CHECKING:
    from tracer.array.array import Array

Operator = Callable[[Any, Any], "Array"]
_OPERANDS = (ArrayBase, bool, int, float, complex, np.ndarray, np.generic, list, tuple)


def _operator(function: Binary) -> Operator:
    def operator(self: ArrayBase, other: Any) -> Any:
        return function(self, other) if isinstance(other, _OPERANDS) else NotImplemented

    return operator


def _reflected(function: Binary) -> Operator:
    def operator(self: ArrayBase, other: Any) -> Any:
        return function(other, self) if isinstance(other, _OPERANDS) else NotImplemented

    return operator


def _in_place(function: Binary) -> Operator:
    """Make `x += y`: a new array, which the name is bound to, of the old shape and dtype."""

    def operator(self: ArrayBase, other: Any) -> Any:
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


class ArrayOperators(ArrayBase):
    """Operators; each is the function of that name in `tracer.numpy`."""

    __slots__ = ()
    __array_priority__ = 1000
    __hash__ = None  # type: ignore[assignment]

    __add__ = _operator(arithmetic.add)
    __radd__ = _reflected(arithmetic.add)
    __iadd__ = _in_place(arithmetic.add)
    __sub__ = _operator(arithmetic.subtract)
    __rsub__ = _reflected(arithmetic.subtract)
    __isub__ = _in_place(arithmetic.subtract)
    __mul__ = _operator(arithmetic.multiply)
    __rmul__ = _reflected(arithmetic.multiply)
    __imul__ = _in_place(arithmetic.multiply)
    __truediv__ = _operator(arithmetic.divide)
    __rtruediv__ = _reflected(arithmetic.divide)
    __itruediv__ = _in_place(arithmetic.divide)
    __floordiv__ = _operator(arithmetic.floor_divide)
    __rfloordiv__ = _reflected(arithmetic.floor_divide)
    __ifloordiv__ = _in_place(arithmetic.floor_divide)
    __mod__ = _operator(arithmetic.remainder)
    __rmod__ = _reflected(arithmetic.remainder)
    __imod__ = _in_place(arithmetic.remainder)
    __pow__ = _operator(arithmetic.power)
    __rpow__ = _reflected(arithmetic.power)
    __ipow__ = _in_place(arithmetic.power)
    __matmul__ = _operator(matmul)
    __rmatmul__ = _reflected(matmul)
    __imatmul__ = _in_place(matmul)
    __and__ = _operator(logic.bitwise_and)
    __rand__ = _reflected(logic.bitwise_and)
    __iand__ = _in_place(logic.bitwise_and)
    __or__ = _operator(logic.bitwise_or)
    __ror__ = _reflected(logic.bitwise_or)
    __ior__ = _in_place(logic.bitwise_or)
    __xor__ = _operator(logic.bitwise_xor)
    __rxor__ = _reflected(logic.bitwise_xor)
    __ixor__ = _in_place(logic.bitwise_xor)
    __lshift__ = _operator(logic.left_shift)
    __rlshift__ = _reflected(logic.left_shift)
    __ilshift__ = _in_place(logic.left_shift)
    __rshift__ = _operator(logic.right_shift)
    __rrshift__ = _reflected(logic.right_shift)
    __irshift__ = _in_place(logic.right_shift)
    __lt__ = _operator(logic.less)
    __le__ = _operator(logic.less_equal)
    __gt__ = _operator(logic.greater)
    __ge__ = _operator(logic.greater_equal)
    __eq__ = _operator(logic.equal)  # type: ignore[assignment]
    __ne__ = _operator(logic.not_equal)  # type: ignore[assignment]

    def __divmod__(self, other: Any) -> Any:
        """Quotient rounded down and remainder."""
        if not isinstance(other, _OPERANDS):
            return NotImplemented
        return arithmetic.divmod(self, other)

    def __rdivmod__(self, other: Any) -> Any:
        """Quotient rounded down and remainder, reflected."""
        if not isinstance(other, _OPERANDS):
            return NotImplemented
        return arithmetic.divmod(other, self)

    def __neg__(self) -> Array:
        """-x."""
        return arithmetic.negative(self)

    def __pos__(self) -> Array:
        """+x."""
        return arithmetic.positive(self)

    def __abs__(self) -> Array:
        """abs(x)."""
        return arithmetic.absolute(self)

    def __invert__(self) -> Array:
        """~x."""
        return logic.invert(self)
