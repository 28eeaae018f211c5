"""Keys and random bits: the counter-based generator Threefry-2x32 with 20 rounds.

A key is an array of two uint32. The n-th number under a key is a hash of n, so numbers do not
depend on the device, on the order in which they are made, or on how a plan cuts an array. The
generator consists of element-wise integer ops on `iota`.

References
----------
Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3. SC 2011.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from tracer import ops
from tracer.arguments import is_index
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, broadcast, convert, reshape, scalar
from tracer.array.dispatch import apply, compound, from_host
from tracer.array.promotion import Dtype
from tracer.errors import DTypeError, ShapeError, shown
from tracer.ir import as_dtype
from tracer.numpy.bit_generators import encrypt
from tracer.numpy.creation import checked_shape
from tracer.numpy.ufunc import full_like

_UINT32, _UINT64 = as_dtype("uint32"), as_dtype("uint64")
_UINTS = {8: as_dtype("uint8"), 16: as_dtype("uint16"), 32: _UINT32, 64: _UINT64}


def key(seed: Any) -> Array:
    """Return the key of a seed.

    Parameters
    ----------
    seed : int
        Taken modulo 2**64; also a 0-d array of integers, which may be traced.

    Returns
    -------
    Array of uint32, shape (2,)
        The high and the low word of the seed.

    Examples
    --------
    >>> import tracer
    >>> tracer.random.key(42)
    Array([ 0, 42], dtype=uint32)
    """
    if isinstance(seed, Array):
        number = as_array(seed)
        if number.ndim or number.dtype.kind not in "iu":
            raise DTypeError(f"a seed is one integer, not {number.type}", mend="give an integer")
        return _words(number)
    if not is_index(seed):
        raise DTypeError(f"a seed is an integer, not {shown(seed)}", mend="give an integer")
    value = operator.index(seed) % 2**64
    return from_host(np.asarray([value >> 32, value & 0xFFFFFFFF], np.uint32))


PRNGKey = key


@compound
def _words(number: Array) -> Array:
    # Through int64, so that a negative number has its sign in the high word too.
    wide = convert(
        number if number.dtype == _UINT64 else convert(number, as_dtype("int64")), _UINT64
    )
    high = apply(ops.shift_right_logical, wide, full_like(wide, 32))
    low = apply(ops.and_, wide, full_like(wide, 0xFFFFFFFF))
    return _pair(convert(high, _UINT32), convert(low, _UINT32))


def _pair(high: Array, low: Array) -> Array:
    last = high.ndim
    parts = [reshape(word, (*word.shape, 1)) for word in (high, low)]
    return apply(ops.concatenate, *parts, dimension=last)


def checked_key(value: ArrayLike) -> Array:
    """Return a key argument as an Array of two uint32.

    Raises
    ------
    DTypeError, ShapeError
        It is no key: a seed, or several keys at once.
    """
    found = as_array(value)
    if found.dtype != _UINT32:
        raise DTypeError(
            f"a key is an array of two uint32, not {found.type}",
            mend="make one from a seed with tracer.random.key(seed)",
        )
    if found.shape != (2,):
        raise ShapeError(
            f"one key has shape (2,), not {found.shape}",
            mend="take one of them, keys[i], or use tracer.vmap over the keys",
        )
    return found


def key_data(keys: ArrayLike) -> Array:
    """Return the words of keys; keys are arrays of words already, so it is the keys."""
    return as_array(keys)


def wrap_key_data(key_bits_array: ArrayLike) -> Array:
    """Return words, uint32 of shape (..., 2), as keys; the opposite of `key_data`."""
    words = as_array(key_bits_array)
    if words.dtype != _UINT32 or words.shape[-1:] != (2,):
        raise DTypeError(
            f"words of keys are uint32 of shape (..., 2), not {words.type}",
            mend="give what key_data returned",
        )
    return words


def split(key: ArrayLike, num: Any = 2) -> Array:
    """Return new keys, independent of each other and of the old one.

    Parameters
    ----------
    key : Array of uint32, shape (2,)
        Not to be used again for anything else.
    num : int or tuple of int
        How many.

    Returns
    -------
    Array of uint32, shape (num, 2)
        One key in each row: `first, second = split(key)`.
    """
    return _split(checked_key(key), shape=checked_shape(num))


@compound
def _split(key: Array, *, shape: tuple[int, ...]) -> Array:
    return _pair(*_hash_counters(key, shape))


def fold_in(key: ArrayLike, data: int | Array) -> Array:
    """Return a new key from a key and a number, such as the number of a step.

    Parameters
    ----------
    key : Array of uint32, shape (2,)
        Any key.
    data : int
        Taken modulo 2**32; may be traced.

    Returns
    -------
    Array of uint32, shape (2,)
        The new key.
    """
    if not isinstance(data, Array):
        data = from_host(np.asarray(operator.index(data) % 2**32, np.uint32))
    number = as_array(data)
    if number.ndim or number.dtype.kind not in "iu":
        raise DTypeError(f"fold_in takes one integer, not {number.type}", mend="give an integer")
    return _fold_in(checked_key(key), number)


@compound
def _fold_in(key: Array, data: Array) -> Array:
    low = convert(data, _UINT32)
    return _pair(*_threefry(key, full_like(low, 0), low))


def bits(key: ArrayLike, shape: Any = (), dtype: Any = None) -> Array:
    """Return random bits.

    Parameters
    ----------
    key : Array of uint32, shape (2,)
        The key.
    shape : int or tuple of int
        Of the result.
    dtype : dtype
        uint8, uint16, uint32 or uint64 (the default).

    Returns
    -------
    Array, shape `shape`
        Every bit is 0 or 1 with equal probability.
    """
    wanted = _UINT64 if dtype is None else as_dtype(dtype)
    if wanted.kind != "u":
        raise DTypeError(
            f"bits does not make dtype {wanted}", mend="use uint8, uint16, uint32 or uint64"
        )
    return random_bits(checked_key(key), shape=checked_shape(shape), width=8 * wanted.itemsize)


@compound
def random_bits(key: Array, *, shape: tuple[int, ...], width: int) -> Array:
    """Return unsigned integers of 8, 16, 32 or 64 random bits."""
    high, low = _hash_counters(key, shape)
    if width < 64:
        return convert(apply(ops.xor, high, low), _UINTS[width])
    high, low = convert(high, _UINT64), convert(low, _UINT64)
    return apply(ops.or_, apply(ops.shift_left, high, full_like(high, 32)), low)


def _hash_counters(key: Array, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Hash the flat index of each element of a shape."""
    dtype = _UINT32 if math.prod(shape) <= 2**32 else _UINT64
    flat = _flat_index(shape, dtype)
    if dtype == _UINT32:
        return _threefry(key, full_like(flat, 0), flat)
    high = apply(ops.shift_right_logical, flat, full_like(flat, 32))
    low = apply(ops.and_, flat, full_like(flat, 0xFFFFFFFF))
    return _threefry(key, convert(high, _UINT32), convert(low, _UINT32))


def _flat_index(shape: tuple[int, ...], dtype: Dtype) -> Array:
    # A sum over the axes, not a reshaped range: so every axis can be cut by itself.
    result = broadcast(scalar(0, dtype), shape)
    for axis in range(len(shape)):
        stride = math.prod(shape[axis + 1 :])
        if shape[axis] > 1:
            index = apply(ops.iota, shape=shape, dtype=dtype, dimension=axis)
            result = apply(ops.add, result, apply(ops.multiply, index, full_like(index, stride)))
    return result


def _threefry(key: Array, first: Array, second: Array) -> tuple[Array, Array]:
    """Encrypt pairs of words under a key."""
    one, two = [_word(key, i, first.shape) for i in (0, 1)]
    return encrypt(one, two, first, second)


def _word(key: Array, index: int, shape: tuple[int, ...]) -> Array:
    word = apply(ops.slice, key, start=(index,), limit=(index + 1,), strides=(1,))
    return broadcast(reshape(word, ()), shape)
