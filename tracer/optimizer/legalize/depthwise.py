"""Depthwise convolutions as sums of shifted arrays, where the device's own loops are slow.

XLA:CPU leaves depthwise convolutions to plain loops, and their kernel's gradient, a convolution of
as many batch groups, expands into one of all features. Here

* a convolution is the sum, over the places of the window, of the array seen from there times a
  number for each feature: one kernel. Where the window is small, each term chooses between
  elements and the zeros of the padding; otherwise these are stored around the array first, which
  is what the plain loops need too;
* the gradient for a kernel is, for each of its places, a sum of products over all that is seen from
  there. It reads no padding.

With the features last, the plain loops of float32 are as fast. Measured on 2 cores, medians of five
interleaved runs, with the peaks that XLA counts: docs/memory-model.md, "Convolution".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import starmap

import numpy as np

from tracer import ops
from tracer.ir import Builder, Graph, Node, Value, rebuild
from tracer.ops import helpers
from tracer.ops.convolution_rules import (
    Parameters,
    depthwise_call,
    is_depthwise,
    is_depthwise_gradient,
)
from tracer.ops.rules import is_float
from tracer.optimizer.legalize.writer import stored, wide_dtype
from tracer.optimizer.passes import Pass, PassLog
from tracer.target import Target
from tracer.target.record import Kernels


def depthwise_sums_pass(target: Target) -> Pass:
    """Return the pass that writes depthwise convolutions as sums for a target."""
    return Pass(
        "sum depthwise windows",
        lambda graph, log: _summed(target.kernels, graph, log),
        exact=False,
        writes_out_cost=True,
    )


def _summed(kernels: Kernels, graph: Graph, log: PassLog) -> Graph:
    def rewrite(_: Builder, node: Node, operands: tuple[Value, ...]) -> Sequence[Value] | None:
        if node.op is not ops.convolution or not is_float(node.types[0].dtype):
            return None
        types = (*node.operand_types, *node.types)
        p = Parameters(**node.params)
        if p.window_reversal or any(0 in type.shape for type in types):
            return None
        x, kernel = operands
        form = _Depthwise(p, x, kernel, node.types[0].shape)
        if is_depthwise(p, *node.operand_types):
            call = depthwise_call(p, *types)
            if not kernels.is_summed(call):
                return None
            log.applied.append(f"convolution to {node.types[0]}")
            form = form.with_padding_stored() if kernels.is_padded(call) else form
            return (form.sum_of_windows(),)
        places = math.prod(p.sizes(node.types[0], p.result_axes)[2:])
        if (
            is_depthwise_gradient(p, *node.operand_types)
            and places <= kernels.depthwise_gradient_window
        ):
            log.applied.append(f"gradient of a kernel {node.types[0]}")
            return (form.sums_of_products(),)
        return None

    return rebuild(graph, rewrite)


@dataclass(frozen=True)
class _Seen:
    """What the windows along one axis see from one of their places.

    Attributes
    ----------
    start, limit, step : int
        Of the array: the elements that are seen.
    first, last : int
        The windows that see them; the others see padding.
    """

    start: int
    limit: int
    step: int
    first: int
    last: int


@dataclass(frozen=True)
class _Depthwise:
    """Writes a depthwise convolution, or the gradient for its kernel; `shape` is the result's."""

    p: Parameters
    x: Value
    kernel: Value
    shape: tuple[int, ...]

    @cached_property
    def dtype(self) -> np.dtype[np.generic]:
        """In which terms are added."""
        return wide_dtype(self.x.dtype)

    @cached_property
    def places(self) -> tuple[int, ...]:
        """Sizes of the window."""
        return self.p.sizes(self.kernel, self.p.rhs_axes)[2:]

    @cached_property
    def spatial(self) -> tuple[int, ...]:
        """The array's axes along which the window slides."""
        return self.p.lhs_axes[2:]

    def sum_of_windows(self) -> Value:
        """Write the sum over the window's places; the result is stored, as a convolution's is."""
        x = _held(self.x)
        terms = (self._term(x, place) for place in np.ndindex(*self.places))
        total = helpers.convert(reduce(ops.add, terms), self.x.dtype)
        return stored(_ordered(total, self.p.lhs_axes, self.p.result_axes))

    def with_padding_stored(self) -> _Depthwise:
        """Return the same of the array with the zeros around it, and between its elements."""
        low, high, interior = ([0] * len(self.x.shape) for _ in range(3))
        rows = zip(self.spatial, self.p.padding, self.p.lhs_dilation, strict=True)
        for axis, (before, behind), step in rows:
            low[axis], high[axis], interior[axis] = before, behind, step - 1
        zero = helpers.scalar(0, self.x.dtype)
        ends = {"low": tuple(low), "high": tuple(high), "interior": tuple(interior)}
        padded = stored(ops.pad(self.x, zero, **ends))
        none = ((0, 0),) * len(self.spatial)
        ones = (1,) * len(self.spatial)
        return replace(self, p=replace(self.p, padding=none, lhs_dilation=ones), x=padded)

    def _term(self, x: Value, place: tuple[int, ...]) -> Value:
        """Return what all windows see from one place, times the kernel there."""
        counts = self._counts(self.shape, self.p.result_axes)
        seen = self._seen(place, self.p.window_strides, self.p.rhs_dilation, counts)
        part = self._slice(x, self.spatial, [(s.start, s.limit, s.step) for s in seen])
        low, high = [0] * len(x.shape), [0] * len(x.shape)
        for axis, count, row in zip(self.spatial, counts, seen, strict=True):
            low[axis], high[axis] = row.first, count - row.last
        if any(low) or any(high):
            zero, none = helpers.scalar(0, x.dtype), (0,) * len(x.shape)
            part = ops.pad(part, zero, low=tuple(low), high=tuple(high), interior=none)
        part = helpers.convert(part, self.dtype)
        at = [(i, i + 1, 1) for i in place]
        weight = self._slice(self.kernel, self.p.rhs_axes[2:], at)
        weight = helpers.convert(helpers.reshape(weight, (weight.type.size,)), self.dtype)
        of_features = (self.p.lhs_axes[1],)
        weight = ops.broadcast_in_dim(weight, shape=part.shape, dimensions=of_features)
        return ops.multiply(part, weight)  # type: ignore[no-any-return]

    def sums_of_products(self) -> Value:
        """Write the gradient for a kernel: the kernel is the cotangent here, features are first."""
        x, g = _held(self.x), _held(_ordered(self.kernel, self.p.rhs_axes, self.p.lhs_axes))
        sizes = self._counts(self.shape, self.p.result_axes)
        features = self.x.shape[self.p.lhs_axes[0]]
        sums = [
            helpers.reshape(self._sum_at(x, g, place), (1, features))
            for place in np.ndindex(*sizes)
        ]
        joined = sums[0] if len(sums) == 1 else ops.concatenate(*sums, dimension=0)
        found = helpers.reshape(helpers.convert(joined, self.x.dtype), (*sizes, 1, features))
        last = len(sizes)
        return _ordered(found, (last, last + 1, *range(last)), self.p.result_axes)

    def _sum_at(self, x: Value, g: Value, place: tuple[int, ...]) -> Value:
        """Return the sum of products for one place: of the cotangent and what is seen from it."""
        seen = self._seen(place, self.p.rhs_dilation, self.p.window_strides, self.places)
        parts = (
            self._slice(x, self.spatial, [(s.start, s.limit, s.step) for s in seen]),
            self._slice(g, self.spatial, [(s.first, s.last, 1) for s in seen]),
        )
        product = ops.multiply(*(helpers.convert(part, self.dtype) for part in parts))
        axes = tuple(axis for axis in range(len(x.shape)) if axis != self.p.lhs_axes[0])
        return ops.reduce_add(product, axes=axes)  # type: ignore[no-any-return]

    def _seen(
        self,
        place: Sequence[int],
        steps: Sequence[int],
        spacing: Sequence[int],
        counts: Sequence[int],
    ) -> list[_Seen]:
        """Return for each axis what `counts` windows, `steps` apart, see from a place."""
        sizes = [self.x.shape[axis] for axis in self.spatial]
        starts = (
            i * gap - low for i, gap, (low, _) in zip(place, spacing, self.p.padding, strict=True)
        )
        return list(starmap(_seen_along, zip(sizes, starts, steps, counts, strict=True)))

    @staticmethod
    def _counts(shape: Sequence[int], axes: Sequence[int]) -> tuple[int, ...]:
        return tuple(shape[axis] for axis in axes[2:])

    @staticmethod
    def _slice(x: Value, axes: Sequence[int], ranges: Sequence[tuple[int, int, int]]) -> Value:
        start, limit, strides = [0] * len(x.shape), list(x.shape), [1] * len(x.shape)
        for axis, row in zip(axes, ranges, strict=True):
            start[axis], limit[axis], strides[axis] = row
        return ops.slice(x, start=tuple(start), limit=tuple(limit), strides=tuple(strides))  # type: ignore[no-any-return]


def _seen_along(size: int, start: int, step: int, count: int) -> _Seen:
    """Return what windows see that begin at `start`, which may be in front of the array."""
    first = min(count, max(0, -(start // step)))
    last = max(first, min(count, (size - 1 - start) // step + 1))
    if first == last:
        return _Seen(0, 0, step, first, first)
    begin = start + first * step
    return _Seen(begin, begin + (last - first - 1) * step + 1, step, first, last)


def _held(x: Value) -> Value:
    """Store what XLA would compute again for each term."""
    return x if x.node.op is None or x.node.op.fusion == "opaque" else stored(x)


def _ordered(x: Value, source: Sequence[int], wanted: Sequence[int]) -> Value:
    """Move the axes that have their roles at `source` to where they have them in `wanted`."""
    permutation = tuple(source[role] for role in np.argsort(wanted))
    is_in_order = permutation == tuple(range(len(permutation)))
    return x if is_in_order else ops.transpose(x, permutation=permutation)


__all__ = ["depthwise_sums_pass"]
