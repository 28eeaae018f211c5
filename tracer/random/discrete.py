"""Integers, coins, categories, permutations and choices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tracer import ops
from tracer.arguments import is_index
from tracer.array import promotion
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, convert, normalize_axis
from tracer.array.dispatch import apply, apply_many, compound
from tracer.errors import ArgumentError, DTypeError, ShapeError
from tracer.ir import as_dtype
from tracer.numpy.creation import checked_shape
from tracer.numpy.cumulative import cumsum
from tracer.numpy.elementwise import log, where
from tracer.numpy.extremes import argmax
from tracer.numpy.ranges import arange
from tracer.numpy.searching import searchsorted
from tracer.numpy.shaping import broadcast_to
from tracer.numpy.sorting import top_k
from tracer.numpy.taking import take
from tracer.numpy.ufunc import compare, full_like, select
from tracer.random.continuous import gumbel, uniform
from tracer.random.threefry import checked_key, random_bits, split

_UINTS = {1: "uint8", 2: "uint16", 4: "uint32", 8: "uint64"}
_WIDER = {
    np.dtype(narrow): np.dtype(wide)
    for wide, narrows in (("int32", ("int8", "int16")), ("uint32", ("uint8", "uint16")))
    for narrow in narrows
}
_BITS_IN_SORT = 32
_EXPONENT = 3
"""A permutation is sorted so often that n elements meet n**3 times as many sort keys."""


def randint(key: ArrayLike, shape: Any, minval: Any, maxval: Any, dtype: Any = int) -> Array:
    """Return integers that are drawn from [minval, maxval), as JAX draws them.

    Parameters
    ----------
    key : Array of uint32, shape (2,)
        The key.
    shape : int or tuple of int
        Of the result.
    minval, maxval : array_like of int
        Ends of the interval, broadcast to the shape. A `maxval` beyond the dtype means its
        end; where the interval is empty the result is `minval`.
    dtype : dtype
        An integer dtype; int64 by default.

    Returns
    -------
    Array, shape `shape`
        The integers: remainders of random bits, the same bits as JAX's. Their probabilities
        differ by a share of (maxval - minval) / 2**32 at most, 2**64 for dtypes of 64 bits: that
        is much only where the span is near the whole range of such a dtype.
    """
    wanted, sizes = as_dtype(dtype), checked_shape(shape)
    if wanted.kind not in "iu":
        raise DTypeError(f"randint does not make dtype {wanted}", mend="use an integer dtype")
    limits = promotion.iinfo(wanted)
    beyond = not isinstance(maxval, Array) and is_index(maxval)
    beyond = bool(beyond and int(maxval) > limits.max)
    ends = [limits.max if beyond else maxval, minval]
    high, low = [_bound(end, wanted, sizes) for end in ends]
    first, second = split(key)
    # In fewer bits the product of two remainders would not fit, and the draw be uneven.
    drawn = _WIDER.get(wanted, wanted)
    found = _randint(first, second, convert(low, drawn), convert(high, drawn), beyond=beyond)
    return convert(found, wanted)


def _bound(end: Any, dtype: promotion.Dtype, shape: tuple[int, ...]) -> Array:
    limits = promotion.iinfo(dtype)
    if not isinstance(end, Array) and is_index(end):
        end = min(max(int(end), int(limits.min)), int(limits.max))
    array = as_array(end)
    if array.dtype.kind not in "iu":
        raise DTypeError(f"a bound of randint is an integer, not {end!r}", mend="give integers")
    return broadcast_to(convert(array, dtype), shape)


@compound
def _randint(first: Array, second: Array, low: Array, high: Array, *, beyond: bool) -> Array:
    dtype = low.dtype
    width = 8 * dtype.itemsize
    upper = random_bits(first, shape=low.shape, width=width)
    lower = random_bits(second, shape=low.shape, width=width)
    unsigned = as_dtype(_UINTS[dtype.itemsize])
    span = convert(apply(ops.subtract, high, low), unsigned)
    empty = compare(high, low, "LE")
    if beyond:
        span = apply(ops.add, span, full_like(span, 1))
    span = select(empty, full_like(span, 1), span)
    # 2**width modulo the span, without a wider dtype. A span of zero is 2**width itself: XLA's
    # remainder by zero is the dividend.
    half = _remainder(full_like(span, 2 ** (width // 2)), span)
    factor = _remainder(apply(ops.multiply, half, half), span)
    offset = apply(
        ops.add,
        apply(ops.multiply, _remainder(upper, span), factor),
        _remainder(lower, span),
    )
    return apply(ops.add, low, convert(_remainder(offset, span), dtype))


def _remainder(x: Array, span: Array) -> Array:
    at_zero = compare(span, full_like(span, 0), "EQ")
    safe = select(at_zero, full_like(span, 1), span)
    return select(at_zero, x, apply(ops.remainder, x, safe))


def bernoulli(key: ArrayLike, p: ArrayLike = 0.5, shape: Any = None) -> Array:
    """Return truth values that are true with probability `p`.

    Parameters
    ----------
    key : Array of uint32, shape (2,)
        The key.
    p : array_like
        Probabilities, broadcast to the shape.
    shape : int or tuple of int, optional
        Of the result; that of `p` by default.

    Returns
    -------
    Array of bool, shape `shape`
        For dropout: `where(bernoulli(key, keep, x.shape), x / keep, 0)`.
    """
    chance = as_array(p)
    chance = convert(chance, promotion.division_dtype(chance.dtype))
    sizes = chance.shape if shape is None else checked_shape(shape)
    return uniform(key, sizes, chance.dtype) < chance


def rademacher(key: ArrayLike, shape: Any = (), dtype: Any = int) -> Array:
    """Return 1 or -1 with equal probability."""
    coins = bernoulli(key, 0.5, checked_shape(shape))
    return (2 * coins.astype(int) - 1).astype(dtype)


def categorical(
    key: ArrayLike, logits: ArrayLike, axis: int = -1, shape: Any = None, replace: bool = True
) -> Array:
    """Return categories, each with the softmax of its logit as probability.

    Parameters
    ----------
    key : Array of uint32, shape (2,)
        The key.
    logits : array_like
        Logarithms of the probabilities, up to a constant.
    axis : int
        The axis of the categories.
    shape : int or tuple of int, optional
        Of the result; must end with the shape of the logits without the axis, the default.
    replace : bool
        Whether the draws of a batch are independent; if not, those along the leading axes of
        `shape` differ from each other.

    Returns
    -------
    Array of int64, shape `shape`
        The category with the largest logit plus Gumbel noise.
    """
    scores = as_array(logits)
    scores = convert(scores, promotion.division_dtype(scores.dtype))
    number = normalize_axis(axis, scores.ndim)
    batch = scores.shape[:number] + scores.shape[number + 1 :]
    sizes = batch if shape is None else checked_shape(shape)
    count = len(sizes) - len(batch)
    if sizes[max(count, 0) :] != batch:
        raise ShapeError(
            f"categorical: shape {sizes} does not end with that of the draws, {batch}",
            mend="put the number of draws in front of it",
        )
    if not replace:
        return _without_replacement(key, scores, number, sizes[:count])
    wide = (*sizes[:count], *scores.shape)
    noise = gumbel(key, wide, scores.dtype)
    return argmax(noise + scores, count + number)


def _without_replacement(key: ArrayLike, scores: Array, axis: int, draws: tuple[int, ...]) -> Array:
    noisy = gumbel(key, scores.shape, scores.dtype) + scores
    _, found = top_k(noisy, math.prod(draws), axis)
    moved = found.transpose((axis, *(i for i in range(found.ndim) if i != axis)))
    return moved.reshape((*draws, *moved.shape[1:]))


def permutation(key: ArrayLike, x: Any, axis: int = 0, independent: bool = False) -> Array:
    """Return the elements along an axis in random order.

    Parameters
    ----------
    key : Array of uint32, shape (2,)
        The key.
    x : int or array_like
        An integer n means arange(n).
    axis : int
        The axis.
    independent : bool
        Give every vector along the axis an order of its own.

    Returns
    -------
    Array
        The shape and dtype of `x`.
    """
    array = _population("permutation", x)
    number = normalize_axis(axis, array.ndim)
    if array.ndim == 1 or independent:
        return _shuffled(checked_key(key), array, axis=number)
    order = _shuffled(checked_key(key), arange(array.shape[number]), axis=0)
    return take(array, order, number, mode="promise_in_bounds")


def _population(name: str, x: Any) -> Array:
    """Return the array that is drawn from; an integer n means arange(n)."""
    if not isinstance(x, Array | np.ndarray) and is_index(x):
        return arange(x.__index__())
    array = as_array(x)
    if array.ndim:
        return array
    if array.dtype.kind not in "iu":
        raise DTypeError(f"{name} cannot take {array.type}", mend="give an integer or an array")
    return arange(int(array))


@compound
def _shuffled(key: Array, x: Array, *, axis: int) -> Array:
    rounds = math.ceil(_EXPONENT * math.log(max(1, x.size)) / math.log(2**_BITS_IN_SORT - 1))
    for _ in range(rounds):
        key, fresh = split(key)
        order = random_bits(fresh, shape=x.shape, width=_BITS_IN_SORT)
        _, x = apply_many(ops.sort, order, x, dimension=axis, num_keys=1, is_stable=True)
    return x


def choice(
    key: ArrayLike,
    a: Any,
    shape: Any = (),
    replace: bool = True,
    p: ArrayLike | None = None,
    axis: int = 0,
) -> Array:
    """Return random elements of an array.

    Parameters
    ----------
    key : Array of uint32, shape (2,)
        The key.
    a : int or array_like
        Where they are chosen from; an integer n means arange(n).
    shape : int or tuple of int
        How many are chosen.
    replace : bool
        Whether an element may be chosen again.
    p : array_like, one axis, optional
        Their probabilities; equal by default.
    axis : int
        The axis along which `a` is cut into elements.

    Returns
    -------
    Array
        `shape` in place of the axis.

    Raises
    ------
    ArgumentError
        More elements than there are, without replacement.
    """
    array = _population("choice", a)
    number, sizes = normalize_axis(axis, array.ndim), checked_shape(shape)
    count, draws = array.shape[number], math.prod(sizes)
    if draws and (count == 0 or (draws > count and not replace)):
        raise ArgumentError(
            f"choice of {draws} out of {count} elements without replacement",
            mend="choose fewer, or use replace=True",
        )
    order = _chosen(key, count, draws, replace, p)
    return take(array, order.reshape(sizes), number, mode="promise_in_bounds")


def _chosen(key: ArrayLike, count: int, draws: int, replace: bool, p: ArrayLike | None) -> Array:
    if p is None:
        if replace:
            return randint(key, (draws,), 0, count)
        return permutation(key, count)[:draws]
    chances = as_array(p)
    if chances.shape != (count,):
        raise ShapeError(
            f"choice: probabilities of shape {chances.shape} for {count} elements",
            mend="give one probability for each element",
        )
    chances = convert(chances, promotion.division_dtype(chances.dtype))
    if not replace:
        return top_k(gumbel(key, (count,), chances.dtype) + log(chances), draws)[1]
    total = cumsum(chances)
    place = searchsorted(total, total[-1] * (1 - uniform(key, (draws,), chances.dtype)))
    inside: Array = where(place < count, place, count - 1)
    return inside
