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

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tracer import ops
from tracer.ir import Op, Value, fused_flops
from tracer.ops import helpers
from tracer.target import Target
from tracer.target.reductions import TWICE_AS_WIDE, Cut, Pad, Reductions, Split, Step, Widen

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

    def in_stages(self, op: Op, x: Value, axes: tuple[int, ...], computed: Value) -> Value | None:
        """Reduce in stages; None where one stage is best.

        `computed` tells what an element takes to compute: where that is much, none are added.
        """
        rules = self.target.reductions
        if rules is None:
            return None
        wide = wide_dtype(x.dtype)
        cheap = rules.cheap_flops
        is_sum = op is ops.reduce_add and wide.kind in "fc"
        stage = _Stage(rules, op, axes, is_sum, fused_flops(computed, enough=cheap) <= cheap)
        if stage.step(x.shape, wide) is None:
            return None
        return helpers.convert(stage.write(helpers.convert(x, wide)), x.dtype)


def stored(x: Value) -> Value:
    """Store a value that the device's compiler would fuse with what reads it."""
    return ops.optimization_barrier(x)[0]  # type: ignore[no-any-return]


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
    axes : tuple of int
        Those that are reduced.
    is_sum : bool
        Whether it is a sum of floats: it must not be one long chain.
    may_pad : bool
        Whether the elements take little to compute.
    """

    rules: Reductions
    op: Op
    axes: tuple[int, ...]
    is_sum: bool
    may_pad: bool

    def step(self, shape: Sequence[int], dtype: np.dtype[Any]) -> Step | None:
        """Return what to do first to an operand of a type; None where one stage is best."""
        may_widen = self.is_sum and dtype in TWICE_AS_WIDE
        return self.rules.step(shape, self.axes, may_pad=self.may_pad, may_widen=may_widen)

    def write(self, x: Value) -> Value:
        """Write the stages and return the result."""
        step = self.step(x.shape, x.dtype)
        match step:
            case Pad(high):
                none = (0,) * len(x.shape)
                assert self.op.neutral is not None
                (neutral,) = self.op.neutral((x.type,), axes=self.axes)
                start = helpers.scalar(neutral, x.dtype)
                return self.write(ops.pad(x, start, low=none, high=high, interior=none))
            case Split():
                return self._in_two_parts(x, step)
            case Widen():
                wide = helpers.convert(x, TWICE_AS_WIDE[x.dtype])
                return helpers.convert(replace(self, may_pad=False).write(wide), x.dtype)
            case Cut():
                pieces = ops.reshape(x, shape=step.shape)
                found = stored(self.op(pieces, axes=step.first_axes))
                op = _OTHER_ZERO[self.op] if self.is_sum else self.op
                return replace(self, op=op, axes=step.second_axes, may_pad=True).write(found)
        return self.op(x, axes=self.axes)  # type: ignore[no-any-return]

    def _in_two_parts(self, x: Value, split: Split) -> Value:
        """Reduce most of a long axis in blocks, and the rest at once."""
        strides, part = (1,) * len(x.shape), replace(self, may_pad=False)
        columns = []
        for start, limit in split.ranges(x.shape):
            found = part.write(ops.slice(x, start=start, limit=limit, strides=strides))
            columns.append(ops.reshape(found, shape=(*found.shape, 1)))
        last = len(x.shape) - len(self.axes)
        both = ops.concatenate(*columns, dimension=last)
        return self.op(both, axes=(last,))  # type: ignore[no-any-return]


def rounded(value: Value) -> Value:
    """Write a float again, so that no compiler puts its last operation together with the next.

    `select(p != p, NaN, p)` is `p`, bit for bit but for the payload of a NaN. XLA does not simplify
    it, and LLVM contracts nothing through a choice.
    """
    is_nan = ops.compare(value, value, direction="NE")
    return ops.select(is_nan, helpers.full_like(value, np.nan), value)  # type: ignore[no-any-return]


__all__ = ["GraphWriter", "rounded", "stored"]
