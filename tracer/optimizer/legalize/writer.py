"""What the passes of this room write nodes with: barriers, and reductions in stages.

Source of the stages: `target/reductions.py`. The operand of a long reduction is reshaped into
blocks (padded, or in two parts, where an axis has no good divisor), the blocks are reduced, and
what they leave is reduced behind a barrier, without which XLA would fuse the stages again. Floats
narrower than float32 go through the stages in float32.

XLA merges a sum of a sum where both begin with the same value, and small barriers are left out in
loops: a sum of 590,000 float32 was one chain there, and off by 2e-4. So every second stage is a
`reduce_partial_sums`, which begins with -0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tracer import ops
from tracer.ir import Op, Value, fused_flops, registry
from tracer.ir.library_calls import ReductionCall
from tracer.ops import helpers
from tracer.ops.packed_extreme import floats_of, ordered_bits
from tracer.ops.rules import as_tuple, is_float
from tracer.optimizer.model.in_order import is_computed_in_place
from tracer.target import Target
from tracer.target.reductions import TWICE_AS_WIDE, Cut, Fold, Pad, Reductions, Split, Step, Widen

Values = tuple[Value, ...]
_OTHER_ZERO = {
    ops.reduce_add: ops.reduce_partial_sums,
    ops.reduce_partial_sums: ops.reduce_add,
}


@dataclass(frozen=True)
class GraphWriter:
    """Writes nodes into the builder that is current, in the forms of a target."""

    target: Target

    def stored_number(self, number: np.ndarray[Any, Any], like: Value) -> Value | None:
        """Return an array of one number that is read from memory; None if that may not be.

        What is stored is a row of the last axis, not one number: a barrier of few bytes may not
        stand in a loop.
        """
        row = like.type.with_shape(like.shape[-1:])
        if 0 in like.shape or row.nbytes < self.target.kernels.least_barrier_bytes:
            return None
        last = (len(like.shape) - 1,)
        found = stored(ops.constant(value=np.full(row.shape, number)))
        return ops.broadcast_in_dim(found, shape=like.shape, dimensions=last)  # type: ignore[no-any-return]

    def in_stages(
        self, op: Op, x: Value, axes: tuple[int, ...], computed: Value, *, more_flops: int = 0
    ) -> Value | None:
        """Reduce in stages; None where one stage is best.

        `computed` tells what an element takes to compute, besides `more_flops`: where that is much,
        none are added.
        """
        rules = self.target.reductions
        if rules is None:
            return None
        wide = wide_dtype(x.dtype)
        is_sum = op is ops.reduce_add and wide.kind in "fc"
        flops = _flops(rules, computed)
        call = _call(op, (x,), flops + more_flops, axes=axes)
        call = replace(call, is_elementwise=is_computed_in_place(computed))
        stage = _Stage(rules, op, call, is_sum, flops <= rules.cheap_flops)
        if stage.step(x.shape, wide) is None:
            return None
        (found,) = stage.write((helpers.convert(x, wide),))
        return helpers.convert(found, x.dtype)

    def is_worthwhile(self, x: Value) -> bool:
        """Tell whether an operand is so large that a form of its own saves time."""
        rules = self.target.reductions
        return rules is not None and x.type.size >= rules.lanes.least_elements

    def extreme_in_stages(
        self, x: Value, axis: int, dtype: np.dtype[Any], computed: Value, *, largest: bool
    ) -> Values | None:
        """Find an extreme and its place, of a dtype, in stages; None where one stage is best."""
        rules = self.target.reductions
        if rules is None:
            return None
        flops, params = _flops(rules, computed), {"largest": largest}
        pair = (x, ops.iota(shape=x.shape, dtype=dtype, dimension=axis))
        call = _call(ops.reduce_extreme, pair, flops, axes=(axis,), **params)
        stage = _Stage(rules, ops.reduce_extreme, call, False, flops <= rules.cheap_flops, params)
        return None if stage.step(x.shape, x.dtype) is None else stage.write(pair)


def stored(x: Value) -> Value:
    """Store a value that the device's compiler would fuse with what reads it."""
    return ops.optimization_barrier(x)[0]  # type: ignore[no-any-return]


def _flops(rules: Reductions, computed: Value) -> int:
    """Return what an element takes to compute, as far as it decides anything."""
    return fused_flops(computed, enough=max(rules.cheap_flops, rules.lanes.longest))


def _call(op: Op, xs: Values, flops: int, **params: Any) -> ReductionCall:
    """Return what a target has to know of a reduction of elements of so many operations."""
    types = tuple(x.type for x in xs)
    (call,) = op.cost(types, as_tuple(op.infer(*types, **params)), **params).calls
    assert isinstance(call, ReductionCall)
    dtype = types[0].dtype
    parts = 2 if wide_dtype(dtype) != dtype or dtype.kind == "c" else 0
    flops *= 2 if dtype.kind == "b" and not call.is_extreme else 1
    return replace(call, flops=flops, step_flops=call.step_flops + parts)


def wide_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype that partial results are in: float32 for narrower floats."""
    is_narrow_float = dtype.kind in "fV" and dtype.itemsize < 4
    return np.dtype(np.float32) if is_narrow_float else dtype


@dataclass(frozen=True)
class _Stage:
    """A reduction that is to be written; what the second stage reduces is another one.

    Attributes
    ----------
    rules : Reductions
        Of the target.
    op : Op
        What joins two elements.
    call : ReductionCall
        What the target has to know of it. Its axes are those that are reduced.
    is_sum : bool
        Whether it is a sum of floats: it must not be one long chain.
    may_pad : bool
        Whether the elements take little to compute.
    params : dict
        Of the op, besides the axes.
    """

    rules: Reductions
    op: Op
    call: ReductionCall
    is_sum: bool
    may_pad: bool
    params: Mapping[str, Any] = field(default_factory=dict)

    def step(self, shape: Sequence[int], dtype: np.dtype[Any]) -> Step | None:
        """Return what to do first to an operand of a type; None where one stage is best."""
        may_widen = self.is_sum and dtype in TWICE_AS_WIDE
        itemsize = max(self.call.itemsize, dtype.itemsize)
        call = replace(self.call, shape=tuple(shape), itemsize=itemsize)
        return self.rules.step(call, may_pad=self.may_pad, may_widen=may_widen)

    def write(self, xs: Values) -> Values:
        """Write the stages and return the results; what is reduced together has one shape."""
        shape = xs[0].shape
        step = self.step(shape, xs[0].dtype)
        match step:
            case Pad(high):
                return self.write(self._padded(xs, high))
            case Split():
                return self._in_two_parts(xs, step)
            case Widen():
                wide = tuple(helpers.convert(x, TWICE_AS_WIDE[x.dtype]) for x in xs)
                found = replace(self, may_pad=False).write(wide)
                return tuple(helpers.convert(y, x.dtype) for x, y in zip(xs, found, strict=True))
            case Cut():
                pieces = tuple(ops.reshape(x, shape=step.shape) for x in xs)
                found = ops.optimization_barrier(*self._once(pieces, step.first_axes))
                op = _OTHER_ZERO[self.op] if self.is_sum else self.op
                call = replace(self.call, axes=step.second_axes, flops=0)
                return replace(self, op=op, call=call, may_pad=True).write(found)
            case Fold(slices):
                return (self._in_slices(xs[0], slices),)
        return self._once(xs, self.call.axes)

    def _once(self, xs: Values, axes: tuple[int, ...]) -> Values:
        found = self.op(*xs, axes=axes, **self.params)
        return found if isinstance(found, tuple) else (found,)

    def _padded(self, xs: Values, high: tuple[int, ...]) -> Values:
        return tuple(
            self._longer(x, number, high) for x, number in zip(xs, self._numbers(xs), strict=True)
        )

    def _longer(self, x: Value, number: Any, high: tuple[int, ...]) -> Value:
        """Lengthen axes by a number that changes nothing; places go on, which come after all.

        XLA would compute longer places while it compiles, and store them in the program.
        """
        if self.op is ops.reduce_extreme and x.node.op is ops.iota:
            shape = tuple(size + more for size, more in zip(x.shape, high, strict=True))
            return ops.iota(**{**x.node.params, "shape": shape})  # type: ignore[no-any-return]
        none = (0,) * len(high)
        number = helpers.scalar(number, x.dtype)
        return ops.pad(x, number, low=none, high=high, interior=none)  # type: ignore[no-any-return]

    def _in_slices(self, x: Value, count: int) -> Value:
        """Reduce rows as slices that are combined element by element.

        Extremes of floats are those of integers in their order: a maximum that keeps NaN and tells
        zeros apart is four instructions or more, and of integers one. Each slice is turned into
        integers for itself: the compiler stores what a kernel reads in more than 15 slices.
        """
        parts = self._slices(x, count)
        if not (self.call.is_extreme and is_float(x.dtype)):
            return self._combined(parts)
        largest = self.op is ops.reduce_maximum
        found = self._combined([ordered_bits(part, largest=largest) for part in parts])
        return floats_of(found, x.dtype, largest=largest)

    def _slices(self, x: Value, count: int) -> list[Value]:
        last, length = len(x.shape) - 1, x.shape[-1]
        size = -(-length // count)
        starts = [min(i * size, length - size) for i in range(-(-length // size))]
        parts = [helpers.slice_axis(x, last, start, start + size) for start in starts]
        twice = len(parts) * size - length
        if twice and not self.call.is_extreme:
            parts[-1] = self._without(parts[-1], twice)
        return parts

    def _combined(self, parts: list[Value]) -> Value:
        """Reduce rows that are given in slices."""
        combiner, last = self._combiner(parts[0]), len(parts[0].shape) - 1
        while len(parts) > 1:
            pairs = zip(parts[::2], parts[1::2], strict=False)
            odd = parts[-1:] if len(parts) % 2 else []
            parts = [combiner(*pair) for pair in pairs] + odd
        return self._once(tuple(parts), (last,))[0]

    def _without(self, x: Value, count: int) -> Value:
        """Return rows with so many elements in front that change nothing."""
        (number,) = self._numbers((x,))
        places = ops.iota(shape=x.shape, dtype=np.dtype(np.int32), dimension=len(x.shape) - 1)
        is_new = ops.compare(places, helpers.full_like(places, count), direction="GE")
        return ops.select(is_new, x, helpers.full_like(x, number))  # type: ignore[no-any-return]

    def _combiner(self, x: Value) -> Op:
        """Return the element-wise op that joins two elements."""
        result = as_tuple(self.op.infer(x.type, axes=self.call.axes, **self.params))
        rule = self.op.axes((x.type,), result, axes=self.call.axes, **self.params)
        (name,) = set(rule.reduced.values())
        return registry()[name]

    def _numbers(self, xs: Values) -> tuple[Any, ...]:
        """Return what changes no result, for each of what is reduced together."""
        assert self.op.neutral is not None
        return self.op.neutral(tuple(x.type for x in xs), axes=self.call.axes, **self.params)

    def _in_two_parts(self, xs: Values, split: Split) -> Values:
        """Reduce most of a long axis in blocks, and the rest at once."""
        shape = xs[0].shape
        strides, part = (1,) * len(shape), replace(self, may_pad=False)
        columns = []
        for start, limit in split.ranges(shape):
            pieces = (ops.slice(x, start=start, limit=limit, strides=strides) for x in xs)
            found = part.write(tuple(pieces))
            columns.append([ops.reshape(y, shape=(*y.shape, 1)) for y in found])
        last = len(shape) - len(self.call.axes)
        both = (ops.concatenate(*pair, dimension=last) for pair in zip(*columns, strict=True))
        return self._once(tuple(both), (last,))


def rounded(value: Value) -> Value:
    """Write a float again, so that no compiler puts its last operation together with the next.

    `select(p != p, NaN, p)` is `p`, bit for bit but for the payload of a NaN. XLA does not simplify
    it, and LLVM contracts nothing through a choice.
    """
    is_nan = ops.compare(value, value, direction="NE")
    return ops.select(is_nan, helpers.full_like(value, np.nan), value)  # type: ignore[no-any-return]


__all__ = ["GraphWriter", "rounded", "stored"]
