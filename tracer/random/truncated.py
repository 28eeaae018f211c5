"""Normal numbers between two bounds, in the tails too."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tracer import ops
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array
from tracer.array.dispatch import apply, compound
from tracer.numpy.creation import checked_shape
from tracer.numpy.elementwise import nextafter, where
from tracer.numpy.logic import logical_or
from tracer.numpy.rounding import clip
from tracer.numpy.shaping import broadcast_shapes, broadcast_to
from tracer.numpy.ufunc import full_like
from tracer.random.continuous import between, float_dtype, uniform
from tracer.random.threefry import checked_key
from tracer.scipy.normal_tails import normal_above
from tracer.scipy.special import erf

_ROOT_2 = math.sqrt(2)
_BORDER = 1.0
"""Intervals beyond it lie in a tail, where the error function has few digits and then none."""


def truncated_normal(
    key: ArrayLike, lower: ArrayLike, upper: ArrayLike, shape: Any = None, dtype: Any = float
) -> Array:
    """Return normal numbers given that they are between `lower` and `upper`.

    Parameters
    ----------
    key : Array of uint32, shape (2,)
        The key.
    lower, upper : array_like
        The bounds, which may be infinite, broadcast to the shape.
    shape : int or tuple of int, optional
        Of the result; that of the bounds by default.
    dtype : dtype
        A float dtype.

    Returns
    -------
    Array, shape `shape`
        Numbers strictly between the bounds, if there are any.

    Notes
    -----
    The numbers are those of JAX up to rounding, but in the tails, where JAX has few digits: all
    that it draws between 10 and 11 is 11.
    """
    wanted = float_dtype("truncated_normal", dtype)
    low, high = as_array(lower).astype(wanted), as_array(upper).astype(wanted)
    sizes = broadcast_shapes(low.shape, high.shape) if shape is None else checked_shape(shape)
    unit = uniform(checked_key(key), sizes, wanted)
    if _is_central(lower, upper):
        result = _in_middle(unit, low, high)
    else:
        result = _anywhere(unit, low, high)
    first, last = (apply(ops.stop_gradient, end) for end in (low, high))
    infinite = full_like(first, math.inf), full_like(last, -math.inf)
    return clip(result, nextafter(first, infinite[0]), nextafter(last, infinite[1]))


def _in_middle(unit: Array, low: Array, high: Array) -> Array:
    return _scaled_inverse(between(unit, erf(low / _ROOT_2), erf(high / _ROOT_2)))


@compound
def _scaled_inverse(x: Array) -> Array:
    inverse = apply(ops.erf_inv, x)
    return apply(ops.multiply, full_like(inverse, _ROOT_2), inverse)


def _is_central(lower: Any, upper: Any) -> bool:
    """Tell whether bounds are known not to lie in a tail: then a program is spared that case."""
    if isinstance(lower, Array) or isinstance(upper, Array):
        return False
    return bool(np.all(np.asarray(lower) < _BORDER) and np.all(np.asarray(upper) > -_BORDER))


def _anywhere(unit: Array, low: Array, high: Array) -> Array:
    """Return the numbers of `_in_middle` where an interval is not in a tail."""
    low, high = broadcast_to(low, unit.shape), broadcast_to(high, unit.shape)
    is_above, is_below = low >= _BORDER, high <= -_BORDER
    in_tail = logical_or(is_above, is_below)
    # What is not taken has finite derivatives.
    middle = _in_middle(unit, where(in_tail, -1, low), where(in_tail, 1, high))
    # The lower tail is the upper one of the opposite bounds, from the other end.
    near = where(is_above, low, where(is_below, -high, _BORDER))
    far = where(is_above, high, where(is_below, -low, math.inf))
    above = normal_above(near, far, where(is_below, 1 - unit, unit))
    found: Array = where(in_tail, where(is_below, -above, above), middle)
    return found
