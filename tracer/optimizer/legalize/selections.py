"""The k largest of rows: of long rows in two exact stages, of short ones in rounds.

**Stages.** A row is cut into blocks of consecutive elements. The k best blocks, ordered by largest
element and then by position, contain the k best elements: an element of any other block is beaten
by the largest element of each of the k. The first stage reads the row once for the maxima, in a
loop that XLA vectorises, spreads over the cores and fuses with the computation of the row. The
second reads the chosen blocks again in the order of the row, so ties still go to the lowest index.
XLA's own kernel (`TopK`) then sees about 2 sqrt(n k) elements instead of n. It works on one core,
on float32 only, and on a stored array; other dtypes are sorted.

**Rounds.** One integer holds an element's order and position (`ops/packed_extreme.py`), so no two
are equal. The next one is the largest of those below the last one: a reduction. XLA's kernel keeps
a heap on one core.

Measured on 2 cores, float32; to have NumPy's NaN the kernel would also need a copy:

| rows, n, k         | XLA's kernel | two stages | rounds |
|--------------------|--------------|------------|--------|
| 1,000, 100,000, 10 | 103 ms       | 25 ms      |        |
| 100, 1,000,000, 10 | 99           | 15         |        |
| 1,000, 60,000, 100 | 100          | 72         |        |
| 10,000, 10,000, 10 | 125          | 70         |        |
| 1,000, 20, 10      | 0.42 us a row|            | 0.10   |
| 1,000, 160, 10     | 1.5          |            | 0.24   |
| 1,000, 500, 10     | 2.4          |            | 0.71   |
| 1,000, 200, 100    | 9.4          |            | 1.5    |
| 10, 250, 10        | 0.83         |            | 0.42   |
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracer import ops
from tracer.ir import Builder, Graph, Node, ShapeDtype, Value, rebuild
from tracer.ops import helpers
from tracer.ops.packed_extreme import element_of, fits, flipped, pack, pack_with_places, place_of
from tracer.ops.rules import is_float
from tracer.ops.selection import ordered_alike, selection_call
from tracer.optimizer.legalize.writer import GraphWriter, stored
from tracer.optimizer.passes import Pass, PassLog
from tracer.target import Target
from tracer.target.selection import Stages

_INT32, _INT64 = np.dtype(np.int32), np.dtype(np.int64)
_WRITTEN_OUT = 16
"""More rounds are a loop: XLA compiles each that is written out, which takes 10 to 20 ms."""
Found = tuple[Value, Value]
"""Elements and their places in the row."""


def staged_selections_pass(target: Target) -> Pass:
    """Return the pass that writes selections in the stages and rounds of a target."""
    return Pass(
        "stage selections", lambda graph, log: _selected(target, graph, log), writes_out_cost=True
    )


def _selected(target: Target, graph: Graph, log: PassLog) -> Graph:
    def rewrite(_: Builder, node: Node, operands: tuple[Value, ...]) -> Sequence[Value] | None:
        if node.op is not ops.top_k:
            return None
        (x,), k = operands, node.params["k"]
        call = selection_call(x.type, k)
        ways = target.selection
        is_cut = ways.stages(call.size, k) is not None or ways.are_rounds_faster(call)
        if not (is_cut and call.rows):
            return None
        log.applied.append(f"{k} largest of {x.type}")
        flat = helpers.convert(x, ordered_alike(x.dtype))
        rows = helpers.reshape(flat, (call.rows, call.size))
        values, places = _Selection(target, node.operands[0]).largest(rows, k)
        values = helpers.convert(values, x.dtype)
        pairs = zip((values, places), node.types, strict=True)
        return [helpers.reshape(found, type.shape) for found, type in pairs]

    return rebuild(graph, rewrite)


@dataclass(frozen=True)
class _Selection:
    """Writes a selection; `computed` tells what an element takes to compute."""

    target: Target
    computed: Value

    def largest(self, x: Value, k: int) -> Found:
        """Write the k largest of (rows, n); what a stage leaves may be long enough for stages."""
        rows, n = x.shape
        stages = self.target.selection.stages(n, k)
        if stages is None:
            return self._at_once(x, k)
        blocks, rest = _cut(x, stages)
        _, chosen = self.largest(_block_maxima(blocks), k)
        left = ShapeDtype((rows, stages.candidates), x.dtype)
        is_last = self.target.selection.stages(stages.candidates, k) is None
        in_rounds = is_last and fits(x.type, 1) and self._are_rounds_faster(left, k)
        if not in_rounds:
            chosen = self._ascending(chosen)
        candidates = helpers.reshape(
            _rows_of(blocks, chosen, stages.block), (rows, k * stages.block)
        )
        if rest is not None:
            candidates = ops.concatenate(candidates, rest, dimension=1)
            last = helpers.full(stages.count, ShapeDtype((rows, 1), _INT32))
            chosen = ops.concatenate(chosen, last, dimension=1)
        if in_rounds:
            # Whose words have the places of the row, so blocks need not be in its order.
            places = _places_of(chosen, stages)
            return self._in_rounds(pack_with_places(candidates, places, largest=True), x.dtype, k)
        values, places = self.largest(candidates, k)
        block = helpers.full_like(places, stages.block)
        begin = ops.multiply(_rows_of(chosen, ops.divide(places, block), 1), block)
        return values, ops.add(begin, ops.remainder(places, block))

    def _at_once(self, x: Value, k: int) -> Found:
        if self._are_rounds_faster(x.type, k):
            return self._in_rounds(pack(x, axis=1, largest=True), x.dtype, k)
        return ops.top_k(x, k=k)  # type: ignore[no-any-return]

    def _are_rounds_faster(self, type: ShapeDtype, k: int) -> bool:
        return self.target.selection.are_rounds_faster(selection_call(type, k))

    def _in_rounds(
        self, packed: Value, dtype: np.dtype[Any], k: int, *, largest: bool = True
    ) -> Found:
        """Find one after the other; NaN is both largest and smallest, the first of equals best."""
        # Stored once: else XLA computes the elements again in every round.
        packed = stored(packed)
        first = self._largest_of(packed)
        way = self._in_a_loop if k > _WRITTEN_OUT else self._one_by_one
        best = way(packed, first, k)
        return element_of(best, dtype, largest=largest), place_of(best)

    def _one_by_one(self, packed: Value, last: Value, k: int) -> Value:
        columns = [helpers.reshape(last, (*last.shape, 1))]
        for _ in range(k - 1):
            last = self._next(packed, last)
            columns.append(helpers.reshape(last, (*last.shape, 1)))
        return ops.concatenate(*columns, dimension=1)  # type: ignore[no-any-return]

    def _in_a_loop(self, packed: Value, first: Value, k: int) -> Value:
        """Write one round as the body of a loop: each costs XLA as long as the first."""
        with helpers.builder_at_source() as builder:
            elements, last = builder.input(packed.type), builder.input(first.type)
            new = self._next(elements, last)
            body = builder.finish([new, new])
        _, others = ops.scan(
            packed, first, body=body, length=k - 1, num_consts=1, num_carry=1, reverse=False
        )
        rows = helpers.reshape(first, (1, *first.shape))
        return ops.transpose(ops.concatenate(rows, others, dimension=0), permutation=(1, 0))  # type: ignore[no-any-return]

    def _next(self, packed: Value, last: Value) -> Value:
        """Return the largest below the last one of each row."""
        least = np.iinfo(_INT64).min
        limits = ops.broadcast_in_dim(last, shape=packed.shape, dimensions=(0,))
        excluded = GraphWriter(self.target).stored_number(np.array(least), packed)
        excluded = helpers.full_like(packed, least) if excluded is None else excluded
        is_below = ops.compare(packed, limits, direction="LT")
        return self._largest_of(ops.select(is_below, packed, excluded))

    def _largest_of(self, x: Value) -> Value:
        writer = GraphWriter(self.target)
        found = writer.in_stages(ops.reduce_maximum, x, (1,), self.computed, more_flops=2)
        return ops.reduce_maximum(x, axes=(1,)) if found is None else found

    def _ascending(self, x: Value) -> Value:
        """Sort the rows of an integer matrix."""
        k = x.shape[1]
        if self._are_rounds_faster(x.type, k):
            return self._in_rounds(pack(x, axis=1, largest=False), x.dtype, k, largest=False)[0]
        return ops.sort(x, dimension=1, num_keys=1, is_stable=False)[0]  # type: ignore[no-any-return]


def _cut(x: Value, stages: Stages) -> tuple[Value, Value | None]:
    """Return (rows, count, block) and what is left behind the last whole block."""
    rows, n = x.shape
    whole = stages.count * stages.block
    front = helpers.slice_axis(x, 1, 0, whole)
    rest = helpers.slice_axis(x, 1, whole, n) if stages.rest else None
    return ops.reshape(front, shape=(rows, stages.count, stages.block)), rest


def _block_maxima(blocks: Value) -> Value:
    """Reduce the last axis by maximum; NaN is largest.

    Floats are compared as integers of the same order: LLVM vectorises those for any length of
    blocks, while a maximum that keeps NaN took five times as long for blocks of 64.
    """
    if not is_float(blocks.dtype):
        return ops.reduce_maximum(blocks, axes=(2,))  # type: ignore[no-any-return]
    keys = flipped(ops.bitcast_convert(blocks, dtype=np.dtype(f"int{8 * blocks.dtype.itemsize}")))
    is_nan = ops.compare(blocks, blocks, direction="NE")
    keys = ops.select(is_nan, helpers.full_like(keys, np.iinfo(keys.dtype).max), keys)
    found = flipped(ops.reduce_maximum(keys, axes=(2,)))
    return ops.bitcast_convert(found, dtype=blocks.dtype)  # type: ignore[no-any-return]


def _places_of(blocks: Value, stages: Stages) -> Value:
    """Return int64 places of the candidates: those of the chosen blocks, and the rest."""
    rows, count = blocks.shape
    blocks = helpers.convert(blocks, _INT64)
    begin = ops.multiply(blocks, helpers.full_like(blocks, stages.block))
    begin = ops.broadcast_in_dim(begin, shape=(rows, count, stages.block), dimensions=(0, 1))
    places = ops.add(begin, ops.iota(shape=begin.shape, dtype=_INT64, dimension=2))
    flat = ops.reshape(places, shape=(rows, count * stages.block))
    return helpers.slice_axis(flat, 1, 0, stages.candidates)


def _rows_of(x: Value, indices: Value, size: int) -> Value:
    """Take x[row, indices[row, i]]: (rows, i) elements, or (rows, i, size) blocks."""
    is_block = len(x.shape) == 3
    return ops.gather(  # type: ignore[no-any-return]
        x,
        indices,
        offset_dims=(2,) if is_block else (),
        collapsed_slice_dims=(1,),
        start_index_map=(1,),
        index_vector_dim=2,
        slice_sizes=(1, 1, size) if is_block else (1, 1),
        operand_batching_dims=(0,),
        start_indices_batching_dims=(0,),
    )


__all__ = ["staged_selections_pass"]
