"""Python's operators on weak arrays, by Python's rules for numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracer.array import promotion
from tracer.array.array import Array
from tracer.array.convert import as_array, convert
from tracer.array.promotion import weak_class
from tracer.array.weak import Weak, as_weak
from tracer.numpy.operators import OPERATORS, Operator

_INT64 = np.dtype("int64")
_COUNTING = "add sub mul truediv floordiv mod divmod lshift rshift".split()
_BITWISE = "and or xor".split()


def _number(value: Any, counts: bool = True) -> Any:
    """Return a number or weak array to compute with, by NumPy's rules; bools may count as ints."""
    if not isinstance(value, Array):
        return int(value) if counts and isinstance(value, bool) else value
    if not value.weak_type:
        return value
    array = as_array(value)
    return convert(array, _INT64) if counts and array.dtype.kind == "b" else array


def _as_python(is_weak: bool, result: Any) -> Any:
    """Return a result of Python numbers only as a weak array, or a tuple of these."""
    if not is_weak or result is NotImplemented:
        return result
    if isinstance(result, tuple):
        return tuple(map(as_weak, result))
    return as_weak(result)


def _operator(name: str, counts: bool) -> Operator:
    plain = OPERATORS[name]

    def operator(self: Array, *others: Any) -> Any:
        if any(weak_class(other) is None for other in others):
            return plain(self, *others)
        return _as_python(True, plain(_number(self, counts), *[_number(x, counts) for x in others]))

    operator.__name__, operator.__doc__ = name, plain.__doc__
    return operator


def _operators() -> dict[str, Operator]:
    """Return the operators that give numbers for numbers, which take no memory."""
    found = {"__pow__": _power, "__rpow__": _operator("__rpow__", counts=True)}
    for name in (*_COUNTING, *_BITWISE):
        for kind in (f"__{name}__", f"__r{name}__"):
            found[kind] = _operator(kind, name in _COUNTING)
    for name in "lt le gt ge eq ne".split():
        found[f"__{name}__"] = _operator(f"__{name}__", counts=False)
    for name in "neg pos abs invert".split():
        found[f"__{name}__"] = _operator(f"__{name}__", counts=True)
    # Numbers cannot change: `x += y` binds the name anew, to a result of any dtype and shape.
    for name in (*_COUNTING, *_BITWISE, "pow"):
        if name != "divmod":
            found[f"__i{name}__"] = found[f"__{name}__"]
    return found


class WeakMethods(Weak):
    """The methods of weak arrays that give weak arrays; a table, as `Methods` is."""

    __slots__ = ()

    @property
    def real(self) -> Array:
        """Real part."""
        return as_weak(_number(self).real)

    @property
    def imag(self) -> Array:
        """Imaginary part."""
        return as_weak(_number(self).imag)

    def conjugate(self) -> Array:
        """Complex conjugate."""
        return as_weak(_number(self).conjugate())


def _power(self: Array, other: Any) -> Any:
    """`x**y`; of integers a float where y is a negative Python number, as in Python."""
    base: Any = self
    if weak_class(other) is not None:
        base = _number(self)
        if isinstance(other, int) and other < 0 and base.dtype == _INT64:
            base = convert(base, promotion.default_dtype(float))
    return _as_python(weak_class(other) is not None, OPERATORS["__pow__"](base, _number(other)))


WEAK_OPERATORS = _operators()
"""What `tracer.numpy` installs into weak arrays."""
