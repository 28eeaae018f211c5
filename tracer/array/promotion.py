"""Dtype promotion: NumPy 2's rules (NEP 50), extended to bfloat16 and float8.

Python numbers are weak: they take the other operand's dtype where its kind allows. NumPy has no
rule for most pairs with an extension float; here it wins over bools and integers, two different
ones meet in the smallest dtype that holds both, and any larger float wins over it.

References
----------
https://numpy.org/neps/nep-0050-scalar-promotion.html
"""

from __future__ import annotations

import functools
from typing import Any

import ml_dtypes
import numpy as np

from tracer.array.array import Array
from tracer.errors import ArgumentError, DTypeError, RangeError
from tracer.ir import DTYPES_BY_NAME, as_dtype
from tracer.ir.types import MOST_AXES, default_float

Dtype = np.dtype[Any]
WEAK = frozenset({bool, int, float, complex})
"""Classes of the weak Python numbers."""

_BFLOAT16 = DTYPES_BY_NAME["bfloat16"]
_EXTENSION = frozenset(dtype for name, dtype in DTYPES_BY_NAME.items() if "float8" in name) | {
    _BFLOAT16
}
_FLOAT16, _FLOAT32 = np.dtype("float16"), np.dtype("float32")
_WEAK_DTYPES: dict[tuple[Dtype, Any], Dtype] = {}
CLASSES: dict[Dtype, type] = {
    np.dtype("bool"): bool,
    np.dtype("int64"): int,
    np.dtype("float32"): float,
    np.dtype("float64"): float,
    np.dtype("complex64"): complex,
    np.dtype("complex128"): complex,
}
"""The class of the Python numbers that are weak arrays of a dtype."""


@functools.lru_cache(maxsize=4096)
def promote_types(type1: Any, type2: Any) -> Dtype:
    """Return the dtype in which two dtypes meet.

    Parameters
    ----------
    type1, type2 : dtype
        Supported dtypes.

    Examples
    --------
    >>> import tracer.numpy as tnp
    >>> tnp.promote_types("int32", "float32"), tnp.promote_types("bfloat16", "float16")
    (dtype('float64'), dtype('float32'))
    """
    first, second = as_dtype(type1), as_dtype(type2)
    if first == second:
        return first
    if first in _EXTENSION or second in _EXTENSION:
        return _promote_extension(first, second)
    return _narrow(np.promote_types(first, second), first, second)


def _narrow(dtype: Dtype, *dtypes: Dtype) -> Dtype:
    """Return the dtype in which dtypes meet, no wider than the default for an integer's sake."""
    floats = [x for x in dtypes if x.kind in "fc"]
    if dtype.kind not in "fc" or len(floats) == len(dtypes):
        return dtype
    own = as_dtype(float if dtype.kind == "f" else complex)
    most = functools.reduce(np.promote_types, floats, own)
    return dtype if np.promote_types(dtype, most) == most else most


def _promote_extension(first: Dtype, second: Dtype) -> Dtype:
    if second not in _EXTENSION:
        first, second = second, first
    if first in _EXTENSION:
        return _BFLOAT16 if _BFLOAT16 in (first, second) else _FLOAT16
    if first.kind in "biu":
        return second
    if first == _FLOAT16 and second == _BFLOAT16:
        return _FLOAT32
    return first


def weak_dtype(dtype: Dtype, scalar_class: Any) -> Dtype:
    """Return the dtype in which arrays of `dtype` and a Python number of a class meet."""
    known = _WEAK_DTYPES
    found = known.get((dtype, scalar_class))
    if found is None:
        if dtype in _EXTENSION:
            found = np.dtype("complex64") if scalar_class is complex else dtype
        else:
            found = _narrow(np.result_type(dtype, scalar_class(0)), dtype)
        known[dtype, scalar_class] = found
    return found


def default_dtype(scalar_class: type) -> Dtype:
    """Return the dtype of a Python number on its own: int64, bool, the default float or complex."""
    return as_dtype(scalar_class)


def forget_dtypes() -> None:
    """Forget in which dtypes others meet: the default float has changed."""
    global _WEAK_DTYPES
    _WEAK_DTYPES = {}  # Another one: threads may be about to enter what they found before.
    for function in (promote_types, float_ufunc_dtype, division_dtype, complex_dtype):
        function.cache_clear()


def weak_class(value: object) -> type | None:
    """Return bool, int, float or complex for a Python number or a weak array, else None.

    A number may be of a subclass; NumPy's own scalars have a dtype and are none of these.
    """
    if value.__class__ in WEAK:
        return value.__class__
    if isinstance(value, Array):
        return CLASSES[value._type.dtype] if value.weak_type else None
    if isinstance(value, np.generic):
        return None
    return next((cls for cls in (bool, int, float, complex) if isinstance(value, cls)), None)


def result_type(*arrays_and_dtypes: Any) -> Dtype:
    """Return the dtype in which arrays, dtypes and (weak) Python numbers meet.

    Examples
    --------
    >>> import tracer.numpy as tnp
    >>> tnp.result_type("float32", 1.5), tnp.result_type("int32", 1.5)
    (dtype('float32'), dtype('float64'))
    """
    if not arrays_and_dtypes:
        raise DTypeError("result_type needs at least one argument", mend="give an array or a dtype")
    weak = [cls for cls in map(weak_class, arrays_and_dtypes) if cls is not None]
    strong = [_strong_dtype(value) for value in arrays_and_dtypes if weak_class(value) is None]
    if not strong:
        return functools.reduce(promote_types, [default_dtype(cls) for cls in weak])
    return functools.reduce(weak_dtype, weak, functools.reduce(promote_types, strong))


def _strong_dtype(value: Any) -> Dtype:
    if isinstance(value, Array | np.ndarray | np.generic):
        return as_dtype(value.dtype)
    return as_dtype(value)


@functools.lru_cache(maxsize=256)
def float_ufunc_dtype(dtype: Dtype) -> Dtype:
    """Return the dtype in which exp, sin, arctan2, ... compute: integers by their width."""
    if dtype.kind == "b" or (dtype.itemsize == 1 and dtype.kind in "iu"):
        return _FLOAT16
    if dtype.kind in "iu":
        return _FLOAT32 if dtype.itemsize == 2 else default_float()
    return dtype


@functools.lru_cache(maxsize=256)
def division_dtype(dtype: Dtype) -> Dtype:
    """Return the dtype in which `/` and the mean compute: the default float for integers."""
    return default_float() if dtype.kind in "biu" else dtype


def as_default(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return what NumPy made without being given a dtype, in the default one."""
    if array.dtype not in (np.float64, np.complex128):
        return array
    return array.astype(as_dtype(float if array.dtype.kind == "f" else complex), copy=False)


@functools.lru_cache(maxsize=256)
def sum_dtype(dtype: Dtype) -> Dtype:
    """Return the dtype of sums and products: integers at least 64 bits wide."""
    if dtype.kind in "bi":
        return np.dtype("int64")
    return np.dtype("uint64") if dtype.kind == "u" else dtype


@functools.lru_cache(maxsize=256)
def real_dtype(dtype: Dtype) -> Dtype:
    """Return the dtype of the real part."""
    if dtype.kind != "c":
        return dtype
    return _FLOAT32 if dtype.itemsize == 8 else np.dtype("float64")


@functools.lru_cache(maxsize=256)
def complex_dtype(dtype: Dtype) -> Dtype:
    """Return the smallest complex dtype that holds `dtype`."""
    return weak_dtype(dtype, complex)


def scalar_value(value: Any, dtype: Dtype) -> np.ndarray[Any, Any]:
    """Return a Python number as a 0-d NumPy array; an integer must fit."""
    try:
        return np.asarray(value, dtype)
    except OverflowError as error:
        kind = "integer" if isinstance(value, int) else "number"
        raise RangeError(
            f"the Python {kind} {value} does not fit into {dtype}",
            mend="convert the array to a wider dtype with astype first",
        ) from error
    except ValueError as error:
        raise ArgumentError(
            f"{value} cannot be stored as {dtype}: {error}", mend="use a float dtype"
        ) from error
    except TypeError as error:
        raise DTypeError(
            f"{value} cannot be stored as {dtype}: {error}", mend="use a complex dtype, or .real"
        ) from error


def require_fitting(value: Any, dtype: Dtype, depth: int = 0) -> None:
    """Refuse Python numbers, also in lists, that a dtype cannot hold, as NumPy does.

    For integers these are integers and floats beyond them and NaN, for reals complex numbers.
    Lists can hold themselves: they are looked through no deeper than arrays have axes.
    """
    if dtype.kind in "bc" or depth > MOST_AXES:
        return
    if isinstance(value, list | tuple):
        for one in value:
            require_fitting(one, dtype, depth + 1)
        return
    wider = (int, float, complex) if dtype.kind in "iu" else complex
    if isinstance(value, wider) and not isinstance(value, np.generic):
        scalar_value(value, dtype)


_CASTINGS = ("no", "equiv", "safe", "same_kind", "unsafe")


def can_cast(from_: Any, to: Any, casting: str = "safe") -> bool:
    """Tell whether a cast obeys a rule: "no", "equiv", "safe", "same_kind" or "unsafe".

    Parameters
    ----------
    from_ : dtype or array
        What is cast.
    to : dtype
        The target.
    casting : str
        The rule.
    """
    source, target = _strong_dtype(from_), as_dtype(to)
    if casting not in _CASTINGS:
        raise ArgumentError(
            f"can_cast: there is no rule {casting!r}", mend=f"use one of {', '.join(_CASTINGS)}"
        )
    if source in _EXTENSION or target in _EXTENSION:
        safe = promote_types(source, target) == target
        same_kind = target in _EXTENSION or target.kind in "fc" or source == target
        by_rule = {"no": source == target, "equiv": source == target, "safe": safe}
        return by_rule.get(casting, casting == "unsafe" or safe or same_kind)
    return bool(np.can_cast(source, target, casting=casting))  # type: ignore[arg-type] # any str


class FloatLimits:
    """Limits of a float dtype: `eps`, `max`, `min`, `smallest_normal`, ... as Python floats."""

    __slots__ = ("_limits", "dtype")

    def __init__(self, dtype: Dtype) -> None:
        self._limits = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call] # no types
        self.dtype = dtype

    def __getattr__(self, name: str) -> Any:
        if name == "_limits":  # asked for by `copy` before there are any
            raise AttributeError(name)
        value = getattr(self._limits, name)
        return value if isinstance(value, int) else float(value)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the dtype."""
        return FloatLimits, (self.dtype,)

    def __repr__(self) -> str:
        return (
            f"finfo(resolution={self.resolution}, min={self.min}, max={self.max}, "
            f"dtype={self.dtype})"
        )


def finfo(dtype: Any) -> FloatLimits:
    """Return the limits of a float dtype, as `numpy.finfo` does; of bfloat16 and float8 too.

    The numbers are Python floats, as the array API standard has it, so that arrays that they are
    combined with keep their dtype.
    """
    found = real_dtype(_strong_dtype(dtype))
    if found.kind in "biu":
        raise ArgumentError(f"finfo: {found} is not a float dtype", mend="use iinfo")
    return FloatLimits(found)


def iinfo(dtype: Any) -> Any:
    """Return the limits of an integer dtype, as `numpy.iinfo` does."""
    found = _strong_dtype(dtype)
    if found.kind not in "iu":
        raise ArgumentError(f"iinfo: {found} is not an integer dtype", mend="use finfo")
    return np.iinfo(found)
