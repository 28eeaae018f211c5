"""Reductions: in stages on CPU, where XLA's own way costs memory and time.

XLA:CPU rewrites a long reduction into windows of 32 (the pass `tree_reduction_rewriter`), which it
cannot fuse with what computes the operand: `exp(-d2).sum(1)` then stores the whole matrix. Without
the pass the sum is fused, but one over leading axes strides through memory, up to forty times
slower, and long sums of float32 lose a digit. So the pass is off (`xla_options.disabled_passes`)
and reductions are cut into blocks here: the first stage fuses with the operand, and a barrier keeps
XLA from fusing the stages again. Measurements: docs/memory-model.md.

No running sum of floats is long: an error grows with the number of terms. XLA merges a reduction
of a reduction where both begin with the same value, so stages begin with 0 and -0 in turns (small
barriers are left out in loops: a sum of 590,000 float32 was one chain there, and off by 2e-4). What
no block cuts, as an axis is long and has no good divisor, is summed in twice the bits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tracer.ir import ShapeDtype, Value
from tracer.lowering.emit.context import ModuleContext
from tracer.lowering.emit.dialect import concatenate, convert, pad, reshape, slice, splat
from tracer.lowering.emit.regions import Combiner, reduce_at_once
from tracer.lowering.emit.stored import fused_flops, optimization_barrier, with_stored_fill
from tracer.lowering.emit.values import Operand, wide_dtype


@dataclass(frozen=True)
class _Blocks:
    """Which sizes a block may have, which is best, and from which size of axis on."""

    smallest: int
    best: int
    largest: int
    worthwhile: int

    def size(self, axis_size: int) -> int | None:
        """Return the divisor of an axis to cut it by, if there is a good one."""
        if axis_size < self.worthwhile:
            return None
        divisors = [n for n in range(self.smallest, self.largest + 1) if axis_size % n == 0]
        return min(divisors, key=lambda n: abs(math.log(n / self.best)), default=None)


# A block of a leading axis keeps one cache line alive for each of its rows, and rows whose distance
# is a power of two share a few places in the cache. One of the last axis is read in order: it only
# has to be long enough to be worth a partial result.
_LEADING = _Blocks(smallest=8, best=24, largest=64, worthwhile=65)
_LAST = _Blocks(smallest=64, best=256, largest=1024, worthwhile=2048)
# One axis is summed in vectors; of several axes one element may be added after the other.
_LEAST_TERMS, _MOST_TERMS = 32, 512


# Rows of a sum over a whole matrix stay whole up to this length: there are partial results enough.
_LONGEST_ROW = 1 << 14
_LONGEST_CHAIN = 1 << 10
"""Elements that are combined one after the other; a row is read as vectors."""
_TWICE_AS_WIDE: dict[np.dtype[Any], np.dtype[Any]] = {
    np.dtype(np.float32): np.dtype(np.float64),
    np.dtype(np.complex64): np.dtype(np.complex128),
}
_PAD_TO = 32
_CHEAP_FLOPS = 8
"""Operations for each element, in what is fused into a reduction, that padding may slow down."""


@dataclass(frozen=True)
class _Reduction:
    """What stays the same from stage to stage."""

    types: Sequence[ShapeDtype]
    initial_values: Sequence[Operand]
    combiner: Combiner
    is_sum: bool
    """A sum of floats: it must not be one long chain."""
    is_later: bool = False
    """The second of the stages, the fourth, ..."""

    @property
    def can_be_wider(self) -> bool:
        """Tell whether it is a sum that there are twice the bits for."""
        return self.is_sum and all(type.dtype in _TWICE_AS_WIDE for type in self.types)


def reduce(
    b: ModuleContext,
    types: Sequence[ShapeDtype],
    operands: Sequence[Operand],
    initial_values: Sequence[Operand],
    axes: Sequence[int],
    combiner: Combiner,
    *,
    is_sum: bool = False,
) -> tuple[Operand, ...]:
    """Emit `reduce`; `combiner(b, *lhs, *rhs)` gives one scalar for each operand.

    The combiner must be associative and commutative, with the initial values as identity;
    `is_sum` says that it adds. Floats narrower than float32 are combined in float32.
    """
    wide = [type.with_dtype(wide_dtype(type.dtype)) for type in types]
    operands = [
        convert(b, x.type.with_dtype(type.dtype), x)
        for x, type in zip(with_stored_fill(b, operands), wide, strict=True)
    ]
    initial_values = [
        convert(b, type.with_shape(()), x) for x, type in zip(initial_values, wide, strict=True)
    ]
    may_pad = all(_is_cheap(value) for value in b.operand_values)
    is_sum = is_sum and all(type.dtype.kind in "fc" for type in wide)
    reduction = _Reduction(wide, initial_values, combiner, is_sum)
    results = _reduce_in_stages(b, reduction, operands, tuple(axes), may_pad=may_pad)
    return tuple(convert(b, type, result) for type, result in zip(types, results, strict=True))


def _reduce_in_stages(
    b: ModuleContext,
    reduction: _Reduction,
    operands: Sequence[Operand],
    axes: tuple[int, ...],
    *,
    may_pad: bool,
) -> tuple[Operand, ...]:
    if b.platform != "cpu":
        return _one_stage(b, reduction, operands, axes)
    if may_pad:
        operands = _pad(b, operands, reduction.initial_values, axes)
    blocks = _blocks(operands[0].shape, axes)
    tail = _tail_axis(operands[0].shape, axes, blocks) if may_pad else None
    if tail is not None:
        return _reduce_with_tail(b, reduction, operands, axes, tail)
    chain = _longest_chain(operands[0].shape, axes, blocks)
    if reduction.can_be_wider and chain > _LONGEST_CHAIN:
        return _in_twice_the_bits(b, reduction, operands, axes)
    if not blocks:
        return _one_stage(b, reduction, operands, axes)
    cut = _cut(operands[0].shape, axes, blocks)
    pieces = [reshape(b, x.type.with_shape(cut.shape), x) for x in operands]
    first = replace(reduction, types=[type.with_shape(cut.partial) for type in reduction.types])
    found = _one_stage(b, first, pieces, cut.first_axes)
    # Without the barrier XLA would fuse both stages again.
    found = optimization_barrier(b, found, "reductions in stages")
    later = _later(b, reduction) if reduction.is_sum else reduction
    return _reduce_in_stages(b, later, found, cut.second_axes, may_pad=True)


def _later(b: ModuleContext, reduction: _Reduction) -> _Reduction:
    """Return the sum of sums that XLA does not merge with them: it begins with another zero."""
    zero = 0.0 if reduction.is_later else -0.0
    initial_values = [splat(b, zero, type.with_shape(())) for type in reduction.types]
    return replace(reduction, initial_values=initial_values, is_later=not reduction.is_later)


def _one_stage(
    b: ModuleContext, reduction: _Reduction, operands: Sequence[Operand], axes: Sequence[int]
) -> tuple[Operand, ...]:
    return reduce_at_once(
        b, reduction.types, operands, reduction.initial_values, axes, reduction.combiner
    )


def _in_twice_the_bits(
    b: ModuleContext, reduction: _Reduction, operands: Sequence[Operand], axes: tuple[int, ...]
) -> tuple[Operand, ...]:
    types = [type.with_dtype(_TWICE_AS_WIDE[type.dtype]) for type in reduction.types]
    initial_values = [
        convert(b, type.with_shape(()), value)
        for type, value in zip(types, reduction.initial_values, strict=True)
    ]
    pieces = [
        convert(b, x.type.with_dtype(type.dtype), x)
        for x, type in zip(operands, types, strict=True)
    ]
    wide = replace(reduction, types=types, initial_values=initial_values)
    found = _reduce_in_stages(b, wide, pieces, axes, may_pad=False)
    pairs = zip(reduction.types, found, strict=True)
    return tuple(convert(b, type, result) for type, result in pairs)


def _pad(
    b: ModuleContext,
    operands: Sequence[Operand],
    initial_values: Sequence[Operand],
    axes: Sequence[int],
) -> Sequence[Operand]:
    """Lengthen leading axes that have no good divisor by what changes no result."""
    shape = operands[0].shape
    high = [0] * len(shape)
    for axis in axes:
        blocks = _LEADING if _is_leading(shape, axes, axis) else None
        if blocks and shape[axis] >= blocks.worthwhile and blocks.size(shape[axis]) is None:
            high[axis] = -shape[axis] % _PAD_TO
    if not any(high):
        return operands
    none = [0] * len(shape)
    return [
        pad(b, x, value, none, high, none)
        for x, value in zip(operands, initial_values, strict=True)
    ]


def _reduce_with_tail(
    b: ModuleContext,
    reduction: _Reduction,
    operands: Sequence[Operand],
    axes: tuple[int, ...],
    axis: int,
) -> tuple[Operand, ...]:
    """Reduce a long axis without a good divisor: most of it in blocks, the rest at once.

    To lengthen it instead takes ten times as long: rows are no longer read as vectors.
    """
    shape = operands[0].shape
    stop = shape[axis] - shape[axis] % _LAST.best
    zeros, ones = [0] * len(shape), [1] * len(shape)
    split = [stop if i == axis else 0 for i in range(len(shape))]
    end = [stop if i == axis else size for i, size in enumerate(shape)]
    head = [slice(b, x, zeros, end, ones) for x in operands]
    tail = [slice(b, x, split, shape, ones) for x in operands]
    found = (
        _reduce_in_stages(b, reduction, head, axes, may_pad=False),
        _reduce_in_stages(b, reduction, tail, axes, may_pad=False),
    )
    columns = [
        [reshape(b, type.with_shape((*type.shape, 1)), x) for x in pair]
        for type, *pair in zip(reduction.types, *found, strict=True)
    ]
    last = len(reduction.types[0].shape)
    pairs = [concatenate(b, pair, last) for pair in columns]
    return _one_stage(b, reduction, pairs, (last,))


def _is_cheap(value: Value) -> bool:
    """Tell whether a value is stored anyway, or takes little to compute from what is stored.

    A padded operand is computed under a condition, element by element, which exponentials and
    their like cannot afford.
    """
    return fused_flops(value, enough=_CHEAP_FLOPS) <= _CHEAP_FLOPS


@dataclass
class _Cut:
    """The first of two stages: the operand's new shape, what it reduces, and what it leaves."""

    shape: list[int] = field(default_factory=list)
    first_axes: list[int] = field(default_factory=list)
    partial: list[int] = field(default_factory=list)
    second_axes: tuple[int, ...] = ()


def _cut(shape: Sequence[int], axes: Sequence[int], blocks: dict[int, int]) -> _Cut:
    cut = _Cut()
    for axis, size in enumerate(shape):
        if axis in blocks:
            cut.second_axes += (len(cut.partial),)
            cut.shape.append(size // blocks[axis])
            cut.partial.append(size // blocks[axis])
            size = blocks[axis]
            if size == 1:
                continue
        if axis in axes:
            cut.first_axes.append(len(cut.shape))
        else:
            cut.partial.append(size)
        cut.shape.append(size)
    return cut


def _blocks(shape: Sequence[int], axes: Sequence[int]) -> dict[int, int]:
    """Return the size of the blocks for each reduced axis that is cut.

    A block of one element leaves an axis to the second stage: a sum over a whole matrix is one of
    its rows first, since a single chain of so many terms would lose digits.
    """
    blocks: dict[int, int] = {}
    terms, longest = 1, _longest_row(shape, axes)
    for axis in sorted(axes, reverse=True):
        size: int | None = None
        is_leading = _is_leading(shape, axes, axis)
        least, most = (
            (_LEADING.smallest, _LEADING.largest) if is_leading else (_LEAST_TERMS, _MOST_TERMS)
        )
        if terms >= least:
            size = 1 if terms * shape[axis] > most and shape[axis] > 1 else None
        elif is_leading or shape[axis] > longest:
            size = (_LEADING if is_leading else _LAST).size(shape[axis])
        if size is not None:
            blocks[axis] = size
        terms *= blocks.get(axis, shape[axis])
    return blocks


def _longest_chain(shape: Sequence[int], axes: Sequence[int], blocks: Mapping[int, int]) -> int:
    """Return how many elements the first stage combines one after the other.

    Sixteen and more at a time where it is one axis that is read in order.
    """
    sizes = {axis: blocks.get(axis, shape[axis]) for axis in axes}
    long = [axis for axis, size in sizes.items() if size > 1]
    terms = math.prod(sizes.values())
    is_row = len(long) == 1 and not _is_leading(shape, axes, long[0])
    return terms // (_LONGEST_ROW // _LONGEST_CHAIN) if is_row else terms


def _tail_axis(shape: Sequence[int], axes: Sequence[int], blocks: Mapping[int, int]) -> int | None:
    """Return a reduced axis, read in order, that is long and that no divisor cuts well."""
    longest = max(_longest_row(shape, axes), _LAST.worthwhile - 1)
    uncut = [a for a in axes if a not in blocks and not _is_leading(shape, axes, a)]
    return next((a for a in uncut if shape[a] > longest and _LAST.size(shape[a]) is None), None)


def _longest_row(shape: Sequence[int], axes: Sequence[int]) -> int:
    """Return up to which length the last reduced axis is summed at once."""
    is_row = any(shape[axis] >= _LAST.smallest for axis in axes if axis != max(axes))
    return _LONGEST_ROW if is_row else 0


def _is_leading(shape: Sequence[int], axes: Sequence[int], axis: int) -> bool:
    """Tell whether an axis that is kept lies behind a reduced one."""
    return any(other not in axes and shape[other] > 1 for other in range(axis + 1, len(shape)))
