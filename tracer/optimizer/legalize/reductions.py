"""Long reductions in stages, where the device's compiler does not cut them well itself.

Which stages is said by the target's record (`target/reductions.py`, with the reasons); here they
are written: the operand is reshaped into blocks (padded, or in two parts, where an axis has no good
divisor), the blocks are reduced, and what they leave is reduced behind a barrier, without which XLA
would fuse the stages again. Floats narrower than float32 go through the stages in float32.

XLA merges a sum of a sum where both begin with the same value, and small barriers are left out in
loops: a sum of 590,000 float32 was one chain there, and off by 2e-4. So every second stage is a
`reduce_partial_sums`, which begins with -0.

The bytes of the partial results are counted before, as a long reduction's memory on the target.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tracer import ops
from tracer.ir import Builder, Graph, Node, Op, Value, fused_flops, rebuild
from tracer.ops import helpers
from tracer.optimizer.passes import Pass, PassLog
from tracer.target import Target
from tracer.target.reductions import TWICE_AS_WIDE, Cut, Pad, Reductions, Split, Step, Widen

_REDUCTIONS = frozenset(
    {
        ops.reduce_add,
        ops.reduce_and,
        ops.reduce_maximum,
        ops.reduce_minimum,
        ops.reduce_multiply,
        ops.reduce_or,
    }
)
_OTHER_ZERO = {
    ops.reduce_add: ops.reduce_partial_sums,
    ops.reduce_partial_sums: ops.reduce_add,
}


def staged_reductions_pass(target: Target) -> Pass:
    """Return the pass that writes long reductions in the stages of a target."""
    rules = target.reductions
    assert rules is not None, "the table asks before"
    return Pass(
        "stage reductions",
        lambda graph, log: _staged_graph(rules, graph, log),
        exact=False,
        writes_out_cost=True,
    )


def is_reduction(node: Node) -> bool:
    """Tell whether a node is what this pass may cut."""
    return node.op in _REDUCTIONS


def _staged_graph(rules: Reductions, graph: Graph, log: PassLog) -> Graph:
    def rewrite(_: Builder, node: Node, operands: tuple[Value, ...]) -> Sequence[Value] | None:
        if not is_reduction(node):
            return None
        assert node.op is not None
        axes, x = node.params["axes"], operands[0]
        wide = _wide_dtype(x.dtype)
        is_sum = node.op is ops.reduce_add and wide.kind in "fc"
        cheap = rules.cheap_flops
        may_pad = fused_flops(node.operands[0], enough=cheap) <= cheap
        stage = _Stage(rules, node.op, axes, is_sum, may_pad)
        if stage.step(x.shape, wide) is None:
            return None
        log.applied.append(f"{node.name} of {node.operand_types[0]} over {axes}")
        return (helpers.convert(stage.write(helpers.convert(x, wide)), node.types[0].dtype),)

    return rebuild(graph, rewrite)


def _wide_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
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
                found = ops.optimization_barrier(self.op(pieces, axes=step.first_axes))[0]
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


__all__ = ["is_reduction", "staged_reductions_pass"]
