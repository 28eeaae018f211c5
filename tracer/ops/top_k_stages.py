"""How the k largest elements of long rows are found on CPU: in two exact stages.

A row is cut into blocks of consecutive elements. The k best blocks, ordered by largest element and
then by position, contain the k best elements: an element of any other block is beaten by the
largest element of each of the k. The first stage reads the row once for the maxima, in a loop that
XLA vectorises, spreads over the cores and fuses with the computation of the row. The second reads
the chosen blocks again in the order of the row, so ties still go to the lowest index. XLA's own
kernel (`TopK`) then sees about 2 sqrt(n k) elements instead of n. It works on one core, on float32
only, and on a stored array.

Measured on 2 cores, float32, milliseconds (XLA's kernel as `jax.lax.top_k` calls it;
to have NumPy's NaN we would also need a copy):

| rows, n, k        | XLA's kernel | two stages |
|-------------------|--------------|------------|
| 1,000, 100,000, 10 | 103         | 25         |
| 100, 1,000,000, 10 | 99          | 15         |
| 1,000, 60,000, 100 | 100         | 72         |
| 10,000, 10,000, 10 | 125         | 70         |
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracer.ir import Cost, ShapeDtype
from tracer.ir.op import Types
from tracer.ops.packed_extreme import PACKED_BYTES, fits, larger, lower_packed
from tracer.ops.reduce import lowest, partial_results
from tracer.ops.rules import is_float, moved_bytes
from tracer.ops.top_k_rounds import Work, are_rounds_faster, lower_rounds, work_at_once

_STEP = 16
"""Blocks are multiples of this: the width of the widest vectors, in float32."""
_GAIN = 4
"""The stages behind the first must see at most this part of the row."""
_PLACES = 9
"""Further arrays like the indices that the stages hold: values and places, sorted, gathered by."""
_COMPARE_FLOPS, _ACROSS_FLOPS = 3, 80
"""What the first stage costs, in operations: of each element, and of each block."""
_INT32 = np.dtype(np.int32)
_EXACT_BITS = 16
"""Integers of up to so many bits are exact in float32, and narrow floats are too."""


@dataclass(frozen=True)
class _Stages:
    """A row of `size` elements as `count` blocks of `block` elements, and a `rest`."""

    size: int
    k: int
    block: int

    @property
    def count(self) -> int:
        return self.size // self.block

    @property
    def rest(self) -> int:
        return self.size % self.block

    @property
    def candidates(self) -> int:
        """Elements of a row that the second stage sees: the chosen blocks and the rest."""
        return self.k * self.block + self.rest


def _stages(size: int, k: int) -> _Stages | None:
    """Return the stages for rows of `size` elements, if they are worth it.

    A maximum and a candidate cost about the same, so the sum of their numbers counts; it is
    smallest for blocks of sqrt(size / k).
    """
    if k == 0:
        return None
    block = max(_STEP, round(math.sqrt(size / k) / _STEP) * _STEP)
    stages = _Stages(size, k, block)
    if stages.count < k or _GAIN * (stages.count + stages.candidates) > size:
        return None
    return stages


def lower_top_k(b: Any, types: Types, x: Any, *, k: int) -> tuple[Any, Any]:
    """Lower `top_k`: as a reduction if k is 1, in two stages where rows are long."""
    if b.target.kernels.packed_extremes and _is_reduction(x.type, k):
        value, index = lower_packed(b, x, axis=len(x.shape) - 1, largest=True)
        return b.reshape(types[0], value), b.reshape(types[1], index)
    wide = x.type.with_dtype(_ordered_alike(x.dtype))
    rows, size = math.prod(x.shape[:-1]), x.shape[-1]
    is_cut = _stages(size, k) is not None or are_rounds_faster(rows, size, k, wide.dtype)
    if not (b.target.kernels.top_k_in_stages and is_cut):
        return b.top_k(types, x, k)  # type: ignore[no-any-return]
    flat = b.reshape(wide.with_shape((rows, size)), b.convert(wide, x))
    values, indices = _top_k_of_rows(b, flat, k)
    values = b.convert(values.type.with_dtype(x.dtype), values)
    return b.reshape(types[0], values), b.reshape(types[1], indices)


def _is_reduction(type: ShapeDtype, k: int) -> bool:
    return k == 1 and fits(type, type.ndim - 1)


def _ordered_alike(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return a dtype that holds the same numbers and that XLA's kernel takes, if there is one."""
    is_narrow = 8 * dtype.itemsize <= _EXACT_BITS
    return np.dtype(np.float32) if is_narrow else dtype


def _top_k_of_rows(b: Any, x: Any, k: int) -> tuple[Any, Any]:
    """Emit top_k of (rows, n); what a stage leaves may be long enough for stages again."""
    rows, n = x.shape
    stages = _stages(n, k)
    if stages is None:
        return _at_once(b, x, k)
    blocks, rest = _cut(b, x, stages)
    _, chosen = _top_k_of_rows(b, _block_maxima(b, blocks), k)
    chosen = _ascending(b, chosen)
    candidates = b.reshape(
        x.type.with_shape((rows, k * stages.block)),
        _rows_of(b, blocks, chosen, stages.block),
    )
    if stages.rest:
        candidates = b.concatenate((candidates, rest), 1)
        last = b.splat(stages.count, ShapeDtype((rows, 1), _INT32))
        chosen = b.concatenate((chosen, last), 1)
    values, places = _top_k_of_rows(b, candidates, k)
    block = b.splat(stages.block, places.type)
    begin = b.multiply(_rows_of(b, chosen, b.divide(places, block), 1), block)
    return values, b.add(begin, b.remainder(places, block))


def _at_once(b: Any, x: Any, k: int) -> tuple[Any, Any]:
    rows, n = x.shape
    if are_rounds_faster(rows, n, k, x.dtype):
        return lower_rounds(b, x, k)
    types = (x.type.with_shape((rows, k)), ShapeDtype((rows, k), _INT32))
    return b.top_k(types, x, k)  # type: ignore[no-any-return]


def _ascending(b: Any, x: Any) -> Any:
    """Sort the rows of an integer matrix."""
    rows, n = x.shape
    if are_rounds_faster(rows, n, n, x.dtype):
        return lower_rounds(b, x, n, largest=False)[0]
    return b.sort((x,), 1, lambda b, x, y: b.compare("LT", x, y), False)[0]


def _cut(b: Any, x: Any, stages: _Stages) -> tuple[Any, Any]:
    """Return (rows, count, block) and what is left behind the last whole block."""
    rows, n = x.shape
    whole = stages.count * stages.block
    front, rest = x, None
    if stages.rest:
        front = b.slice(x, (0, 0), (rows, whole), (1, 1))
        rest = b.slice(x, (0, whole), (rows, n), (1, 1))
    return b.reshape(x.type.with_shape((rows, stages.count, stages.block)), front), rest


def _block_maxima(b: Any, blocks: Any) -> Any:
    """Reduce the last axis by maximum; NaN is largest.

    Floats are compared as integers of the same order: LLVM vectorises those for any length of
    blocks, while a maximum that keeps NaN took five times as long for blocks of 64.
    """
    type = blocks.type.with_shape(blocks.shape[:2])
    if not is_float(type.dtype):
        return _maximum(b, type, blocks)
    integer = np.dtype(f"int{8 * type.dtype.itemsize}")
    keys_type, found_type = blocks.type.with_dtype(integer), type.with_dtype(integer)
    largest = np.iinfo(integer).max

    def flip(keys: Any) -> Any:
        """Flip all bits but the sign of negative numbers, whose bit patterns descend."""
        sign = b.shift_right_arithmetic(keys, b.splat(8 * integer.itemsize - 1, keys.type))
        return b.xor(keys, b.and_(sign, b.splat(largest, keys.type)))

    keys = flip(b.bitcast_convert(keys_type, blocks))
    is_nan = b.compare("NE", blocks, blocks)
    keys = b.select(is_nan, b.splat(largest, keys_type), keys)
    return b.bitcast_convert(type, flip(_maximum(b, found_type, keys)))


def _maximum(b: Any, type: ShapeDtype, x: Any) -> Any:
    initial = b.splat(lowest(type.dtype), type.with_shape(()))
    return b.reduce_at_once((type,), (x,), (initial,), (2,), larger)[0]


def _rows_of(b: Any, x: Any, indices: Any, size: int) -> Any:
    """Take x[row, indices[row, i]]: (rows, i) elements, or (rows, i, size) blocks."""
    is_block = len(x.shape) == 3
    shape = (*indices.shape, size) if is_block else indices.shape
    return b.gather(
        x.type.with_shape(shape),
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


def top_k_cost(operands: Types, results: Types, *, k: int) -> Cost:
    """Count one pass over the row, and the other work on what the stages see of it."""
    (x,) = operands
    moved = moved_bytes(operands, results)
    if _is_reduction(x, k):
        partial = PACKED_BYTES * partial_results(x, (x.ndim - 1,))
        return Cost(x.size, moved, partial)
    size, dtype = x.shape[-1], _ordered_alike(x.dtype)
    rows = math.prod(x.shape[:-1])
    stages, work = _stages(size, k), _work(rows, size, k, dtype)
    seen = stages.count + stages.candidates if stages else 0
    places = _PLACES * results[1].nbytes if stages else 0
    return Cost(
        work.flops,
        moved + 2 * rows * seen * dtype.itemsize,
        work.alive_bytes + places,
        steps=work.steps,
    )


def _maxima_flops(stages: _Stages) -> int:
    """Return the operations of the first stage: each block ends with one across a vector.

    Measured on 2 cores, nanoseconds an element: 0.2 for blocks of 16, 0.1 for 48.
    """
    return _COMPARE_FLOPS * stages.size + _ACROSS_FLOPS * stages.count


def _work(rows: int, size: int, k: int, dtype: np.dtype[Any]) -> Work:
    """Return what rows take: the stages' work, and the most bytes that they hold at a time.

    XLA's kernel takes a copy of the maxima, for NaN; candidates are gathered in that form.
    """
    stages = _stages(size, k)
    if stages is None:
        return work_at_once(rows, size, k, dtype)
    blocks, candidates = (
        _work(rows, count, k, dtype) for count in (stages.count, stages.candidates)
    )
    order = work_at_once(rows, k, k, _INT32)
    gathered = rows * k * stages.block * dtype.itemsize if stages.rest else 0
    maxima, chosen = (rows * count * dtype.itemsize for count in (stages.count, stages.candidates))
    return Work(
        rows * _maxima_flops(stages) + blocks.flops + order.flops + candidates.flops,
        blocks.steps + order.steps + candidates.steps,
        max(
            maxima + (blocks.alive_bytes or maxima),
            chosen + max(gathered, candidates.alive_bytes),
        ),
    )
