"""Convolutions of an array with zeros between its elements, without the zeros.

Such are transposed convolutions, and gradients of those with strides. Of the results along an axis
dilated `step` times, each `step`-th one meets the same taps of the kernel: a phase, which is a
convolution of the elements themselves. (W. Shi and others, "Is the deconvolution layer the same as
a convolutional layer?", arXiv:1609.07009.) The phases are convolutions of their own, or one whose
output features are those of all phases, with taps of zero where they have fewer. The latter where
few such taps are added: it reads the array once, and has more features.

Zeros written out took 1.5 to 800 times as long (docs/memory-model.md, "Convolution").
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from tracer import ops
from tracer.ir import Value
from tracer.ops import helpers
from tracer.ops.convolution_rules import Parameters

_MOST_PHASES = 16
"""Phases that are convolutions of their own."""
_MOST_WASTE = 1.5
"""Taps of one convolution for all phases, over those of the kernel, up to which it is chosen."""


@dataclass(frozen=True)
class _Phase:
    """The taps `first`, `first + step`, ... of which the first meets the element `-before`."""

    first: int
    taps: int
    before: int


@dataclass(frozen=True)
class _Axis:
    """One spatial axis: `count` results of each phase, of which `wanted` are results in all."""

    size: int
    taps: int
    step: int
    count: int
    wanted: int
    phases: tuple[_Phase, ...]

    @property
    def before(self) -> int:
        """Elements of padding that the phases have in front at most."""
        return max(phase.before for phase in self.phases if phase.taps)

    @property
    def common(self) -> int:
        """Taps from the first to the last element that any phase meets."""
        return self.before + max(p.taps - p.before for p in self.phases if p.taps)

    def padding(self, before: int, taps: int) -> tuple[int, int]:
        """Return the padding with which `count` windows of `taps` fit, negative to cut off."""
        return before, self.count + taps - 1 - self.size - before


def without_zeros(p: Parameters, x: Value, kernel: Value, wanted: Sequence[int]) -> Value | None:
    """Convolve with the features last, or return None where the zeros have to be written out.

    Parameters
    ----------
    p : Parameters
        Axes in that layout; the padding is of the dilated array.
    x, kernel : Value
        Shapes (batch, places..., features) and (places..., inputs, outputs).
    wanted : sequence of int
        Places of the result along each spatial axis.
    """
    if not p.has_phases or 0 in (*x.shape, *kernel.shape, *wanted):
        return None
    sizes, taps = x.shape[1:-1], kernel.shape[:-2]
    axes = [
        _axis(size, length, p.lhs_dilation[i], p.padding[i][0], wanted[i])
        for i, (size, length) in enumerate(zip(sizes, taps, strict=True))
    ]
    spread = math.prod(axis.step * axis.common for axis in axes if axis.step > 1)
    waste = spread / math.prod(axis.taps for axis in axes if axis.step > 1)
    if p.groups == 1 and waste <= _MOST_WASTE:
        return _at_once(p, axes, x, kernel)
    if math.prod(axis.step for axis in axes) <= _MOST_PHASES:
        return _one_by_one(p, axes, x, kernel)
    return _at_once(p, axes, x, kernel) if p.groups == 1 else None


def _axis(size: int, taps: int, step: int, before: int, wanted: int) -> _Axis:
    phases = []
    for place in range(step):
        first = (before - place) % step
        count = max(0, -(-(taps - first) // step))
        phases.append(_Phase(first, count, (before - place - first) // step))
    return _Axis(size, taps, step, -(-wanted // step), wanted, tuple(phases))


def _one_by_one(p: Parameters, axes: Sequence[_Axis], x: Value, kernel: Value) -> Value:
    """Write each phase as a convolution, and put their results beside each other."""
    counts = tuple(axis.count for axis in axes)
    shape = (x.shape[0] // p.batch_group_count, *counts, 1, kernel.shape[-1])
    parts = []
    for phases in itertools.product(*(axis.phases for axis in axes)):
        part: Value | None = None
        if all(phase.taps for phase in phases):
            part = _phase(p, axes, phases, x, kernel)
        if part is None:
            part = helpers.spread(helpers.scalar(0, x.dtype), shape)
        parts.append(helpers.reshape(part, shape))
    beside = ops.concatenate(*parts, dimension=len(axes) + 1) if len(parts) > 1 else parts[0]
    return _interleaved(axes, beside)


def _phase(
    p: Parameters, axes: Sequence[_Axis], phases: Sequence[_Phase], x: Value, kernel: Value
) -> Value | None:
    """Convolve with the taps of one phase; None if no window meets an element."""
    padding = list(p.padding)
    for i, (axis, phase) in enumerate(zip(axes, phases, strict=True)):
        if axis.step == 1:
            continue
        kernel = _strided(kernel, i, phase.first, axis.step)
        cropped = _cropped(x, i + 1, axis.padding(phase.before, phase.taps))
        if cropped is None:
            return None
        x, padding[i] = cropped
    return replace(p, lhs_dilation=(1,) * len(axes), padding=tuple(padding)).apply(x, kernel)


def _cropped(x: Value, axis: int, padding: tuple[int, int]) -> tuple[Value, tuple[int, int]] | None:
    """Cut off what negative padding does, and return the rest of it; None if nothing is left."""
    low, high = padding
    start, stop = max(0, -low), x.shape[axis] - max(0, -high)
    if stop <= start:
        return None
    return helpers.slice_axis(x, axis, start, stop), (max(0, low), max(0, high))


def _at_once(p: Parameters, axes: Sequence[_Axis], x: Value, kernel: Value) -> Value | None:
    """Write one convolution, whose output features are those of all phases."""
    padding, rank = list(p.padding), len(axes)
    for i, axis in enumerate(axes):
        if axis.step == 1:
            continue
        cropped = _cropped(x, i + 1, axis.padding(axis.before, axis.common))
        if cropped is None:
            return None
        x, padding[i] = cropped
    for i in reversed(range(rank)):
        kernel = _by_phases(kernel, i, axes[i])
    # Its axes are (phases, taps) for each spatial axis, then inputs and outputs.
    taps, phases = range(1, 2 * rank, 2), range(0, 2 * rank, 2)
    kernel = helpers.in_order(kernel, (*taps, 2 * rank, *phases, 2 * rank + 1))
    outputs = math.prod(kernel.shape[rank + 1 :])
    kernel = helpers.reshape(kernel, (*kernel.shape[: rank + 1], outputs))
    found = replace(p, lhs_dilation=(1,) * rank, padding=tuple(padding)).apply(x, kernel)
    steps = math.prod(axis.step for axis in axes)
    return _interleaved(axes, helpers.reshape(found, (*found.shape[:-1], steps, outputs // steps)))


def _by_phases(kernel: Value, i: int, axis: _Axis) -> Value:
    """Put a phase axis before axis `i`, along which taps of the same place meet one element."""
    shape = (*kernel.shape[:i], 1, *kernel.shape[i:])
    if axis.step == 1:
        return helpers.reshape(kernel, shape)
    parts = []
    for phase in axis.phases:
        low, high = [0] * len(kernel.shape), [0] * len(kernel.shape)
        part = _strided(kernel, i, phase.first, axis.step) if phase.taps else None
        low[i] = axis.before - phase.before
        high[i] = axis.common - low[i] - phase.taps
        whole = (*kernel.shape[:i], 1, axis.common, *kernel.shape[i + 1 :])
        zero = helpers.scalar(0, kernel.dtype)
        if part is None:
            parts.append(helpers.spread(zero, whole))
            continue
        padded = ops.pad(part, zero, low=tuple(low), high=tuple(high), interior=(0,) * len(low))
        parts.append(helpers.reshape(padded, whole))
    return ops.concatenate(*parts, dimension=i)  # type: ignore[no-any-return]


def _strided(x: Value, axis: int, start: int, step: int) -> Value:
    starts, strides = [0] * len(x.shape), [1] * len(x.shape)
    starts[axis], strides[axis] = start, step
    return ops.slice(  # type: ignore[no-any-return]
        x, start=tuple(starts), limit=x.shape, strides=tuple(strides)
    )


def _interleaved(axes: Sequence[_Axis], x: Value) -> Value:
    """Return (batch, places..., outputs) of (batch, counts..., all phases, outputs)."""
    rank = len(axes)
    counts, steps = x.shape[1 : rank + 1], tuple(axis.step for axis in axes)
    x = helpers.reshape(x, (x.shape[0], *counts, *steps, x.shape[-1]))
    pairs = (axis for i in range(rank) for axis in (1 + i, 1 + rank + i))
    x = helpers.in_order(x, (0, *pairs, 2 * rank + 1))
    places = tuple(n * step for n, step in zip(counts, steps, strict=True))
    x = helpers.reshape(x, (x.shape[0], *places, x.shape[-1]))
    for i, axis in enumerate(axes):
        x = helpers.slice_axis(x, i + 1, 0, axis.wanted)
    return x


__all__ = ["without_zeros"]
