"""Hashes of counters, and the generators of StableHLO's `rng_bit_generator` that are made of them.

Threefry-2x32 is that of tracer.random too. Generators have XLA's numbers on CPUs and GPUs: a state
is two or three uint64, a key and a counter that moves on by each call. All consists of element-wise
integer ops on `iota`, so a plan can cut it.

References
----------
Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3. SC 2011. How states and
counters are laid out is XLA's (xla/hlo/builder/lib/prng.cc), which StableHLO leaves open.
"""

from __future__ import annotations

import math

from tracer import ops
from tracer.array.array import Array
from tracer.array.convert import broadcast, convert, reshape
from tracer.array.dispatch import apply, compound
from tracer.ir import as_dtype
from tracer.numpy.ufunc import compare, full_like, select

_UINT32, _UINT64 = as_dtype("uint32"), as_dtype("uint64")
_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
"""Table 2 of the paper, for words of 32 bits."""
_PARITY = 0x1BD11BDA
_GROUPS = 5
_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
"""Section 5.3 of the paper: what Philox4x32 multiplies words by, and adds to its keys."""
_ROUNDS = 10
STATES = {"PHILOX": (2, 3), "THREE_FRY": (2,)}
"""The lengths of states of each algorithm."""


@compound
def philox(state: Array, *, shape: tuple[int, ...], width: int) -> tuple[Array, Array]:
    """Return the state after, and unsigned integers of 8, 16, 32 or 64 random bits.

    Parameters
    ----------
    state : Array of uint64, shape (2,) or (3,)
        A key and a counter of 64 or 128 bits.
    shape : tuple of int
        Of the numbers.
    width : int
        Bits of each; below 32 the lower ones of 32 are taken.
    """
    size, words = math.prod(shape), 2 if width == 64 else 1
    count = -(-size * words // 4)
    key, *counter = (_element(state, i) for i in range(state.shape[0]))
    # A state of two words has room for half of the counter: the upper half is the key.
    low, high = counter if len(counter) == 2 else (counter[0], key)
    steps = apply(ops.iota, shape=(count,), dtype=_UINT64, dimension=0)
    blocks = _philox4x32(_words(*_advanced(low, high, steps)), _words(key))
    if width == 64:
        blocks = [_joined(*blocks[:2]), _joined(*blocks[2:])]
    columns = [reshape(block, (count, 1)) for block in blocks]
    numbers = reshape(apply(ops.concatenate, *columns, dimension=1), (count * len(columns),))
    numbers = reshape(apply(ops.slice, numbers, start=(0,), limit=(size,), strides=(1,)), shape)
    after = _advanced(low, high, full_like(low, count))
    return _state(key, *after[: len(counter)]), convert(numbers, as_dtype(f"uint{width}"))


@compound
def threefry(state: Array, *, shape: tuple[int, ...], width: int) -> tuple[Array, Array]:
    """Return the state after, and unsigned integers of 8, 16, 32 or 64 random bits.

    Parameters
    ----------
    state : Array of uint64, shape (2,)
        A key and a counter.
    shape : tuple of int
        Of the numbers.
    width : int
        Bits of each; below 32 the lower ones of 32 are taken.
    """
    key, counter = _element(state, 0), _element(state, 1)
    axis = _halved_axis(shape)
    half = list(shape or (1,))
    if width < 64:
        half[axis] = -(-half[axis] // 2)
    flat = broadcast(counter, tuple(half))
    for i, size in enumerate(half):
        if size > 1:
            index = apply(ops.iota, shape=flat.shape, dtype=_UINT64, dimension=i)
            flat = flat + index * full_like(index, math.prod(half[i + 1 :]))
    one, two = (broadcast(word, flat.shape) for word in _words(key))
    first, second = encrypt(one, two, *_words(flat))
    after = _state(key, counter + full_like(counter, flat.size))
    if width == 64:
        return after, reshape(_joined(first, second), shape)
    pair = [reshape(x, (*half[: axis + 1], 1, *half[axis + 1 :])) for x in (first, second)]
    both = list(half)
    both[axis] *= 2
    numbers = reshape(apply(ops.concatenate, *pair, dimension=axis + 1), tuple(both))
    kept = shape or (1,)
    start, strides = (0,) * len(kept), (1,) * len(kept)
    numbers = apply(ops.slice, numbers, start=start, limit=kept, strides=strides)
    return after, convert(reshape(numbers, shape), as_dtype(f"uint{width}"))


def _halved_axis(shape: tuple[int, ...]) -> int:
    """Return the axis along which the words of each pair lie: the first even, or the longest."""
    even = [axis for axis, size in enumerate(shape) if size % 2 == 0]
    if even or not shape:
        return even[0] if even else 0
    return shape.index(max(shape))


def _philox4x32(words: list[Array], key: list[Array]) -> list[Array]:
    key = [broadcast(word, words[0].shape) for word in key]
    for _ in range(_ROUNDS):
        low, high = _words(_multiplied(words[0], _MULTIPLIERS[0]))
        lower, higher = _words(_multiplied(words[2], _MULTIPLIERS[1]))
        words = [higher ^ words[1] ^ key[0], lower, high ^ words[3] ^ key[1], low]
        key = [word + full_like(word, step) for word, step in zip(key, _WEYL, strict=True)]
    return words


def _multiplied(word: Array, number: int) -> Array:
    wide = convert(word, _UINT64)
    return wide * full_like(wide, number)


def _advanced(low: Array, high: Array, steps: Array) -> tuple[Array, Array]:
    """Add to a counter of two uint64, with the carry."""
    low, high = broadcast(low, steps.shape), broadcast(high, steps.shape)
    added = low + steps
    carried = select(compare(added, low, "LT"), high + full_like(high, 1), high)
    return added, carried


def _words(*numbers: Array) -> list[Array]:
    """Return the lower and the higher uint32 of each uint64."""
    return [
        word
        for x in numbers
        for word in (convert(x, _UINT32), convert(x >> full_like(x, 32), _UINT32))
    ]


def _joined(low: Array, high: Array) -> Array:
    high = convert(high, _UINT64)
    return convert(low, _UINT64) | (high << full_like(high, 32))


def _element(state: Array, i: int) -> Array:
    return reshape(apply(ops.slice, state, start=(i,), limit=(i + 1,), strides=(1,)), ())


def _state(*words: Array) -> Array:
    return apply(ops.concatenate, *(reshape(word, (1,)) for word in words), dimension=0)


def encrypt(one: Array, two: Array, x: Array, y: Array) -> tuple[Array, Array]:
    """Encrypt pairs of words (x, y) under the keys (one, two): uint32 arrays of one shape."""
    parity = apply(ops.xor, one, two)
    schedule = [one, two, apply(ops.xor, parity, full_like(parity, _PARITY))]
    x = apply(ops.add, x, schedule[0])
    y = apply(ops.add, y, schedule[1])
    for group in range(_GROUPS):
        for distance in _ROTATIONS[group % 2]:
            x = apply(ops.add, x, y)
            y = apply(ops.xor, x, _rotated(y, distance))
        x = apply(ops.add, x, schedule[(group + 1) % 3])
        injected = apply(ops.add, schedule[(group + 2) % 3], full_like(x, group + 1))
        y = apply(ops.add, y, injected)
    return x, y


def _rotated(x: Array, distance: int) -> Array:
    left = apply(ops.shift_left, x, full_like(x, distance))
    right = apply(ops.shift_right_logical, x, full_like(x, 32 - distance))
    return apply(ops.or_, left, right)
