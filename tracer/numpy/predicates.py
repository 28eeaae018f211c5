"""Predicates on arrays and their elements, answered from types or element by element."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracer.array import promotion
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, host_array, normalize_axes
from tracer.ir import as_dtype
from tracer.numpy.arithmetic import abs
from tracer.numpy.creation import full_like
from tracer.numpy.elementwise import imag, real
from tracer.numpy.logic import isinf, logical_and
from tracer.numpy.reductions import refuse_out


def shape(a: ArrayLike) -> tuple[int, ...]:
    """Return the sizes along the axes."""
    return as_array(a).shape


def ndim(a: ArrayLike) -> int:
    """Return the number of axes."""
    return as_array(a).ndim


def size(a: ArrayLike, axis: int | tuple[int, ...] | None = None) -> int:
    """Return the number of elements, or the size along axes."""
    x = as_array(a)
    result = 1
    for number in normalize_axes(axis, x.ndim):
        result *= x.shape[number]
    return result


def iscomplexobj(x: Any) -> bool:
    """Tell whether the dtype is complex."""
    return as_array(x).dtype.kind == "c"


def isrealobj(x: Any) -> bool:
    """Tell whether the dtype is not complex."""
    return not iscomplexobj(x)


def iscomplex(x: ArrayLike) -> Array:
    """Tell where the imaginary part is not zero."""
    return imag(x) != 0


def isreal(x: ArrayLike) -> Array:
    """Tell where the imaginary part is zero."""
    return imag(x) == 0


def isposinf(x: ArrayLike, out: None = None) -> Array:
    """Tell where the element is positive infinity; see `numpy.isposinf`."""
    refuse_out(out)
    array = as_array(x)
    return logical_and(isinf(array), array > 0)


def isneginf(x: ArrayLike, out: None = None) -> Array:
    """Tell where the element is negative infinity; see `numpy.isneginf`."""
    refuse_out(out)
    array = as_array(x)
    if array.dtype.kind in "bu":
        return full_like(array, False, "bool")
    return logical_and(isinf(array), array < 0)


def isscalar(element: Any) -> bool:
    """Tell whether something is a number or a 0-d array of one; see `jax.numpy.isscalar`."""
    if isinstance(element, Array):
        return element.ndim == 0
    return bool(np.isscalar(element))


def iterable(y: Any) -> bool:
    """Tell whether something can be iterated over."""
    return y.ndim > 0 if isinstance(y, Array) else bool(np.iterable(y))


def issubdtype(arg1: Any, arg2: Any) -> bool:
    """Tell whether a dtype belongs to a class of `numpy`, such as `numpy.floating`.

    The extension floats (bfloat16, float8) are floating.
    """
    abstract = isinstance(arg1, type) and getattr(np, arg1.__name__, None) is arg1
    first = arg1 if abstract else as_dtype(arg1)
    is_extension = isinstance(first, np.dtype) and first.kind == "V"
    is_class = isinstance(arg2, type) and issubclass(arg2, np.generic)
    if is_extension and is_class and arg2 in (np.floating, np.inexact, np.number, np.generic):
        return True
    return bool(np.issubdtype(first, arg2 if is_class else as_dtype(arg2)))


def common_type(*arrays: ArrayLike) -> Any:
    """Return the float or complex dtype's class that holds all arrays; see `numpy.common_type`."""
    return np.common_type(*[np.empty(0, as_array(x).dtype) for x in arrays])


def min_scalar_type(a: Any, /) -> promotion.Dtype:
    """Return the smallest dtype that holds a Python number; see `numpy.min_scalar_type`."""
    return as_array(a).dtype if isinstance(a, Array) else np.min_scalar_type(host_array(a))


def real_if_close(a: ArrayLike, tol: float = 100) -> Array:
    """Return the real part when all imaginary parts of a concrete array are nearly zero.

    `tol` counts in machine epsilons when it is above 1.
    """
    x = as_array(a)
    if x.dtype.kind != "c":
        return x
    limit = tol * promotion.finfo(x.dtype).eps if tol > 1 else tol
    return real(x) if bool((abs(imag(x)) < limit).all()) else x
