"""Neighbours along an axis, taken in pairs: apart, and put back.

What runs along an axis is found for every second element first, from half as many (R. Brent,
H. T. Kung, "A regular layout for parallel adders", 1982).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tracer import ops
from tracer.ir import Value
from tracer.ops import helpers


@dataclass(frozen=True)
class Pairs:
    """First and second elements along an axis.

    Attributes
    ----------
    axis : int
        Which.
    reverse : bool
        Count from the end: the last element is a first one.
    """

    axis: int
    reverse: bool

    def halves(self, x: Value) -> tuple[Value, Value]:
        """Return the first and the second elements; one more may be a first one."""
        odd = 1 if self.reverse and x.shape[self.axis] % 2 == 0 else 0
        return self._every_second(x, odd), self._every_second(x, 1 - odd)

    def with_second(self, first: Value, count: int) -> Value:
        """Return those first elements that have a second one."""
        begin = first.shape[self.axis] - count if self.reverse else 0
        return helpers.slice_axis(first, self.axis, begin, begin + count)

    def before(self, second: Value, count: int, filler: complex) -> Value:
        """Return the second elements before each of so many first ones; a number before all."""
        size = second.shape[self.axis]
        nothing = helpers.full(filler, second.type.resized(self.axis, 1))
        if self.reverse:
            return self._joined(
                [helpers.slice_axis(second, self.axis, size - count + 1, size), nothing]
            )
        return self._joined([nothing, helpers.slice_axis(second, self.axis, 0, count - 1)])

    def interleaved(self, first: Value, second: Value) -> Value:
        """Put first and second elements back in order."""
        axis, half = self.axis, first.shape[self.axis]
        size = half + second.shape[axis]
        if size < 2 * half:
            unread = helpers.zeros_like(helpers.slice_axis(second, axis, 0, 1))
            second = self._joined([second, unread])
        both = (second, first) if self.reverse and size % 2 == 0 else (first, second)
        before, behind = first.shape[:axis], first.shape[axis + 1 :]
        apart = [helpers.reshape(x, (*before, half, 1, *behind)) for x in both]
        together = ops.concatenate(*apart, dimension=axis + 1)
        return helpers.slice_axis(
            helpers.reshape(together, (*before, 2 * half, *behind)), axis, 0, size
        )

    def _every_second(self, x: Value, begin: int) -> Value:
        start, strides = [0] * len(x.shape), [1] * len(x.shape)
        start[self.axis], strides[self.axis] = begin, 2
        return ops.slice(  # type: ignore[no-any-return]
            x, start=tuple(start), limit=x.shape, strides=tuple(strides)
        )

    def _joined(self, parts: Sequence[Value]) -> Value:
        parts = [part for part in parts if part.shape[self.axis]]
        return parts[0] if len(parts) == 1 else ops.concatenate(*parts, dimension=self.axis)


__all__ = ["Pairs"]
