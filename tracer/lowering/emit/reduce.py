"""Reductions: one op of StableHLO each; those inside another op in the stages of the device.

A reduction that is a node of the graph is cut into stages by the pass *stage-reductions*. Arg-max
of 64 bits, over pairs, the rounds of a top-k, and solves by blocks reduce inside one op: no pass
sees these, so their stages (`target/reductions.py`) are written here. No op of the graph reduces
pairs; as two reductions, of the values and then of their places, the elements would be computed or
stored twice. Rounds and solves are loops over what they reduce themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tracer.ir import ShapeDtype, fused_flops
from tracer.lowering.emit.context import ModuleContext
from tracer.lowering.emit.dialect import concatenate, convert, pad, reshape, slice, splat
from tracer.lowering.emit.regions import Combiner, reduce_at_once
from tracer.lowering.emit.stored import optimization_barrier, with_stored_fill
from tracer.lowering.emit.values import Operand, wide_dtype
from tracer.target.reductions import TWICE_AS_WIDE, Cut, Pad, Reductions, Split, Widen


@dataclass(frozen=True)
class _Reduction:
    """What stays the same from stage to stage."""

    types: Sequence[ShapeDtype]
    initial_values: Sequence[Operand]
    combiner: Combiner
    is_sum: bool = False
    """A sum of floats: it must not be one long chain."""
    is_later: bool = False
    """The second of the stages, the fourth, ..."""

    @property
    def may_widen(self) -> bool:
        """Tell whether it is a sum that there are twice the bits for."""
        return self.is_sum and all(type.dtype in TWICE_AS_WIDE for type in self.types)

    def once(
        self, b: ModuleContext, operands: Sequence[Operand], axes: Sequence[int]
    ) -> tuple[Operand, ...]:
        """Emit it as one stage."""
        types = [
            type.with_shape(_kept(x, axes)) for type, x in zip(self.types, operands, strict=True)
        ]
        return reduce_at_once(b, types, operands, self.initial_values, axes, self.combiner)


def reduce(
    b: ModuleContext,
    types: Sequence[ShapeDtype],
    operands: Sequence[Operand],
    initial_values: Sequence[Operand],
    axes: Sequence[int],
    combiner: Combiner,
) -> tuple[Operand, ...]:
    """Emit `reduce`; `combiner(b, *lhs, *rhs)` gives one scalar for each operand.

    The combiner must be associative and commutative, with the initial values as identity. Floats
    narrower than float32 are combined in float32.
    """
    reduction, operands = _widened(b, types, operands, initial_values, combiner)
    return _converted(b, types, reduction.once(b, operands, axes))


def reduce_in_stages(
    b: ModuleContext,
    types: Sequence[ShapeDtype],
    operands: Sequence[Operand],
    initial_values: Sequence[Operand],
    axes: Sequence[int],
    combiner: Combiner,
    *,
    is_sum: bool = False,
) -> tuple[Operand, ...]:
    """Emit a reduction inside one op, in the stages of the device; `is_sum`: the combiner adds."""
    reduction, operands = _widened(
        b, types, with_stored_fill(b, operands), initial_values, combiner
    )
    stages = b.target.reductions
    if stages is None:
        return _converted(b, types, reduction.once(b, operands, axes))
    cheap = stages.cheap_flops
    may_pad = all(fused_flops(value, enough=cheap) <= cheap for value in b.operand_values)
    is_sum = is_sum and all(type.dtype.kind in "fc" for type in reduction.types)
    reduction = replace(reduction, is_sum=is_sum)
    return _converted(b, types, _staged(b, stages, reduction, operands, tuple(axes), may_pad))


def _widened(
    b: ModuleContext,
    types: Sequence[ShapeDtype],
    operands: Sequence[Operand],
    initial_values: Sequence[Operand],
    combiner: Combiner,
) -> tuple[_Reduction, list[Operand]]:
    wide = [type.with_dtype(wide_dtype(type.dtype)) for type in types]
    pairs = list(zip(operands, initial_values, wide, strict=True))
    given = [convert(b, x.type.with_dtype(type.dtype), x) for x, _, type in pairs]
    starts = [convert(b, type.with_shape(()), start) for _, start, type in pairs]
    return _Reduction(wide, starts, combiner), given


def _converted(
    b: ModuleContext, types: Sequence[ShapeDtype], results: Sequence[Operand]
) -> tuple[Operand, ...]:
    return tuple(convert(b, type, x) for type, x in zip(types, results, strict=True))


def _kept(x: Operand, axes: Sequence[int]) -> list[int]:
    return [size for axis, size in enumerate(x.shape) if axis not in axes]


def _staged(
    b: ModuleContext,
    stages: Reductions,
    reduction: _Reduction,
    operands: Sequence[Operand],
    axes: tuple[int, ...],
    may_pad: bool,
) -> tuple[Operand, ...]:
    shape = operands[0].shape
    step = stages.step(shape, axes, may_pad=may_pad, may_widen=reduction.may_widen)
    match step:
        case Pad(high):
            none, pairs = [0] * len(shape), zip(operands, reduction.initial_values, strict=True)
            padded = [pad(b, x, value, none, high, none) for x, value in pairs]
            return _staged(b, stages, reduction, padded, axes, may_pad)
        case Split():
            return _in_two_parts(b, stages, reduction, operands, axes, step)
        case Widen():
            return _in_twice_the_bits(b, stages, reduction, operands, axes)
        case Cut():
            pieces = [reshape(b, x.type.with_shape(step.shape), x) for x in operands]
            found = reduction.once(b, pieces, step.first_axes)
            # Without the barrier XLA would fuse both stages again.
            found = optimization_barrier(b, found, "reductions in stages")
            later = _later(b, reduction) if reduction.is_sum else reduction
            return _staged(b, stages, later, found, step.second_axes, True)
    return reduction.once(b, operands, axes)


def _later(b: ModuleContext, reduction: _Reduction) -> _Reduction:
    """Return the sum of sums that XLA does not merge with them: it begins with another zero."""
    zero = 0.0 if reduction.is_later else -0.0
    initial_values = [splat(b, zero, type.with_shape(())) for type in reduction.types]
    return replace(reduction, initial_values=initial_values, is_later=not reduction.is_later)


def _in_two_parts(
    b: ModuleContext,
    stages: Reductions,
    reduction: _Reduction,
    operands: Sequence[Operand],
    axes: tuple[int, ...],
    split: Split,
) -> tuple[Operand, ...]:
    shape = operands[0].shape
    found = []
    for start, limit in split.ranges(shape):
        part = [slice(b, x, start, limit, [1] * len(shape)) for x in operands]
        found.append(_staged(b, stages, reduction, part, axes, False))
    columns = [
        [reshape(b, x.type.with_shape((*x.shape, 1)), x) for x in pair]
        for pair in zip(*found, strict=True)
    ]
    last = len(shape) - len(axes)
    return reduction.once(b, [concatenate(b, pair, last) for pair in columns], (last,))


def _in_twice_the_bits(
    b: ModuleContext,
    stages: Reductions,
    reduction: _Reduction,
    operands: Sequence[Operand],
    axes: tuple[int, ...],
) -> tuple[Operand, ...]:
    types = [type.with_dtype(TWICE_AS_WIDE[type.dtype]) for type in reduction.types]
    given = [
        convert(b, x.type.with_dtype(t.dtype), x) for x, t in zip(operands, types, strict=True)
    ]
    starts = [
        convert(b, type.with_shape(()), value)
        for value, type in zip(reduction.initial_values, types, strict=True)
    ]
    wide = replace(reduction, types=types, initial_values=starts)
    return _converted(b, reduction.types, _staged(b, stages, wide, given, axes, False))
