"""The elements at given places of a sorted axis, of an array that is in memory: bit by bit.

As in `nth_elements.py`, but one bit after the other, in a loop over an array of keys: each trip
counts for each place the elements below one number. XLA compares words of 32 bits as vectors; keys
of 64 bits go by halves: the lower ones count where the upper one is that of the element.

Measured on one of two cores, 5,000,000 elements; milliseconds for one place, two, and NumPy's
sort, which programs call:

|          | one | two | sort |
|----------|-----|-----|------|
| float32  | 12  | 20  | 16   |
| float16  |     | 7.3 | 6.6  |
| int8     |     | 2.7 | 4.6  |
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tracer import ops
from tracer.ir import Value
from tracer.ops.helpers import builder_at_source, convert, full, full_like, scalar
from tracer.ops.rules import is_float
from tracer.ops.sort_keys import signed_keys, sort_keys, sorted_floats, unsigned_keys

_HALF = 32


def nth_elements_in_memory(x: Value, axis: int, places: Value) -> Value:
    """Emit the elements that are at some places of an axis once it is sorted.

    Parameters and result are those of `nth_elements`.
    """
    if is_float(x.dtype):
        return sorted_floats(_nth(sort_keys(x), axis, places), x.dtype)
    if x.dtype.kind == "u":
        return unsigned_keys(_nth(signed_keys(x), axis, places))
    return _nth(x, axis, places)


def _nth(keys: Value, axis: int, places: Value) -> Value:
    """Emit elements of signed integers."""
    if keys.dtype.itemsize < 8:
        return _Words(keys, axis, places).nth()
    upper, lower = _halves(keys)
    words = _Words(upper, axis, places)
    found = words.nth()
    inside = ops.subtract(places, words.below(found))
    return _joined(found, _Words(lower, axis, inside, upper, found).nth())


def _halves(keys: Value) -> tuple[Value, Value]:
    """Return the halves of 64 bits, as signed integers in their order."""
    upper = ops.shift_right_arithmetic(keys, full_like(keys, _HALF))
    lower = convert(ops.and_(keys, full_like(keys, (1 << _HALF) - 1)), np.dtype(np.uint32))
    return convert(upper, np.dtype(np.int32)), signed_keys(lower)


def _joined(upper: Value, lower: Value) -> Value:
    upper, lower = (convert(half, np.dtype(np.int64)) for half in (upper, unsigned_keys(lower)))
    return ops.or_(ops.shift_left(upper, full_like(upper, _HALF)), lower)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class _Words:
    """Signed integers, and places of an axis once it is sorted.

    Attributes
    ----------
    word : Value
    axis : int
    places : Value
        The first axis, then those of `word` without `axis`.
    other, wanted : Value, optional
        Elements count where `other` is `wanted`, which is in the shape of `places`.
    """

    word: Value
    axis: int
    places: Value
    other: Value | None = None
    wanted: Value | None = None

    @cached_property
    def _whole(self) -> tuple[int, ...]:
        return (self.places.shape[0], *self.word.shape)

    def nth(self) -> Value:
        """Emit a loop over the bits of a word, the highest first."""
        bits = 8 * self.word.dtype.itemsize
        unsigned = np.dtype(f"uint{bits}")
        given = [x for x in (self.word, self.places, self.other, self.wanted) if x is not None]
        bit = scalar(1 << (bits - 1), unsigned)
        found = full(0, self.places.type.with_dtype(unsigned))
        types = [value.type for value in (bit, found, *given)]
        with builder_at_source() as builder:
            inside, *_ = (builder.input(t) for t in types)
            condition = builder.finish([ops.compare(inside, scalar(0, unsigned), direction="NE")])
        with builder_at_source() as builder:
            inside, so_far, word, places, *same = (builder.input(t) for t in types)
            found_by = _Words(word, self.axis, places, *same)._step(inside, so_far)
            body = builder.finish([*found_by, word, places, *same])
        return signed_keys(ops.while_(bit, found, *given, condition=condition, body=body)[1])

    def _step(self, bit: Value, found: Value) -> tuple[Value, Value]:
        """Return the next bit, and numbers that have this one where few elements lie below."""
        ones = ops.broadcast_in_dim(bit, shape=found.shape, dimensions=())
        larger = ops.or_(found, ones)
        is_reached = ops.compare(self.below(signed_keys(larger)), self.places, direction="LE")
        next_bit = ops.shift_right_logical(bit, full_like(bit, 1))
        return next_bit, ops.select(is_reached, larger, found)

    def below(self, bounds: Value) -> Value:
        """Count the elements below each bound."""
        below = ops.compare(self._of_words(self.word), self._of_places(bounds), direction="LT")
        if self.other is not None and self.wanted is not None:
            other, wanted = self._of_words(self.other), self._of_places(self.wanted)
            below = ops.and_(below, ops.compare(other, wanted, direction="EQ"))
        axes = (self.axis + 1,)
        return ops.reduce_add(convert(below, self.places.dtype), axes=axes)  # type: ignore[no-any-return]

    def _of_words(self, x: Value) -> Value:
        """Return what is in the shape of the words, for each place."""
        return _spread(x, self._whole, 0)

    def _of_places(self, x: Value) -> Value:
        """Return what is in the shape of the places, for all words of a row."""
        return _spread(x, self._whole, self.axis + 1)


def _spread(x: Value, shape: tuple[int, ...], new: int) -> Value:
    dimensions = tuple(i for i in range(len(shape)) if i != new)
    return ops.broadcast_in_dim(x, shape=shape, dimensions=dimensions)  # type: ignore[no-any-return]


__all__ = ["nth_elements_in_memory"]
