"""The geometry of sliding windows, shared by convolution and windowed reductions.

Along each axis an array is dilated (`base_dilation - 1` fillers between elements) and padded (a
pair of numbers; negative ones crop). Windows read it `window_strides` apart, and their own elements
are `window_dilation` apart. Source: StableHLO specification, reduce_window.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tracer.errors import ArgumentError, ShapeError
from tracer.ops.join import pad

Array = np.ndarray[Any, Any]
Sizes = tuple[int, ...]
Pairs = tuple[tuple[int, int], ...]


def dilated(size: int, dilation: int) -> int:
    """Return the size of an axis with `dilation - 1` fillers between its elements."""
    return (size - 1) * dilation + 1 if size else 0


@dataclass(frozen=True)
class Windows:
    """Windows over some axes: one number, or one pair, for each."""

    window_dimensions: Sizes
    window_strides: Sizes
    base_dilation: Sizes
    window_dilation: Sizes
    padding: Pairs

    @cached_property
    def size(self) -> int:
        """Elements in one window."""
        return math.prod(self.window_dimensions)

    @cached_property
    def sliding_axes(self) -> Sizes:
        """Axes along which a window is anything but one element in place."""
        rows = zip(
            self.window_dimensions,
            self.window_strides,
            self.base_dilation,
            self.padding,
            strict=True,
        )
        return tuple(axis for axis, row in enumerate(rows) if row != (1, 1, 1, (0, 0)))

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of a windowed reduction."""
        return {
            "window_dimensions": self.window_dimensions,
            "window_strides": self.window_strides,
            "base_dilation": self.base_dilation,
            "window_dilation": self.window_dilation,
            "padding": self.padding,
        }

    def check(self, name: str, shape: Sequence[int]) -> None:
        """Raise unless the parameters fit the axes of sizes `shape`."""
        lengths = {len(numbers) for numbers in self.parameters.values()}
        if lengths != {len(shape)}:
            raise ShapeError(
                f"{name}: the window's parameters do not all have {len(shape)} entries, one for "
                f"each axis of {tuple(shape)}: {self.parameters}",
                mend="give one entry for each axis that the window slides over",
            )
        for key, numbers in self.parameters.items():
            if key != "padding" and min(numbers, default=1) < 1:
                raise ArgumentError(
                    f"{name}: {key.replace('_', ' ')} {numbers} is not positive",
                    mend="give integers of 1 or more",
                )
        if min(self.padded_sizes(shape), default=0) < 0:
            raise ShapeError(
                f"{name}: padding {self.padding} cuts off more than {tuple(shape)} has",
                mend="cut off at most the size of the axis",
            )

    def padded_sizes(self, shape: Sequence[int]) -> Sizes:
        """Return the sizes after dilation and padding."""
        rows = zip(shape, self.base_dilation, self.padding, strict=True)
        return tuple(dilated(n, step) + low + high for n, step, (low, high) in rows)

    def counts(self, shape: Sequence[int]) -> Sizes:
        """Return how many windows there are along each axis."""
        rows = zip(
            self.padded_sizes(shape),
            self.window_dimensions,
            self.window_dilation,
            self.window_strides,
            strict=True,
        )
        return tuple(
            max(0, (size - dilated(window, step)) // stride + 1)
            for size, window, step, stride in rows
        )

    def padded(self, x: Array, fill: Any) -> Array:
        """Return a NumPy array dilated and padded."""
        low, high = (tuple(pair[i] for pair in self.padding) for i in (0, 1))
        interior = tuple(n - 1 for n in self.base_dilation)
        value = np.array(fill, x.dtype)
        return np.asarray(pad.evaluate(x, value, low=low, high=high, interior=interior))

    def positions(self, counts: Sizes) -> Iterator[tuple[tuple[Any, ...], tuple[Any, ...]]]:
        """Yield each place in the window with what all windows see there of the padded array."""
        for place in np.ndindex(*self.window_dimensions):
            starts = [i * step for i, step in zip(place, self.window_dilation, strict=True)]
            rows = zip(starts, counts, self.window_strides, strict=True)
            yield place, tuple(slice(a, a + (n - 1) * step + 1, step) for a, n, step in rows)

    def transposed(self, shape: Sequence[int], counts: Sequence[int]) -> Windows:
        """Return the windows that lead back: from the results to the operand of sizes `shape`.

        Every element is seen through the mirrored window by the results that it went into.
        """
        padding = []
        for axis, (low, _) in enumerate(self.padding):
            window = dilated(self.window_dimensions[axis], self.window_dilation[axis])
            before = window - low - 1
            base = dilated(shape[axis], self.base_dilation[axis])
            results = dilated(counts[axis], self.window_strides[axis])
            padding.append((before, base + window - 1 - results - before))
        return Windows(
            self.window_dimensions,
            self.base_dilation,
            self.window_strides,
            self.window_dilation,
            tuple(padding),
        )

    def kernel_padding(self, shape: Sequence[int], counts: Sequence[int]) -> Pairs:
        """Return the padding with which windows of sizes `counts` stand at every kernel place."""
        padding = []
        for axis, (low, _) in enumerate(self.padding):
            window = dilated(self.window_dimensions[axis], self.window_dilation[axis])
            base = dilated(shape[axis], self.base_dilation[axis])
            results = dilated(counts[axis], self.window_strides[axis])
            padding.append((low, results + window - 1 - base - low))
        return tuple(padding)

    def behind(self, count: int) -> Windows:
        """Return the same windows behind `count` more axes along which nothing slides."""
        ones = (1,) * count
        return Windows(
            (*ones, *self.window_dimensions),
            (*ones, *self.window_strides),
            (*ones, *self.base_dilation),
            (*ones, *self.window_dilation),
            (*((0, 0),) * count, *self.padding),
        )


__all__ = ["Pairs", "Sizes", "Windows", "dilated"]
