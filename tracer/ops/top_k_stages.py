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
from typing import Any

import numpy as np

from tracer.ir import Cost, ShapeDtype
from tracer.ir.library_calls import ReductionCall, SelectionCall
from tracer.ir.op import Types
from tracer.ops.packed_extreme import PACKED_BYTES, fits
from tracer.ops.reduce import lowest
from tracer.ops.rules import is_float, moved_bytes
from tracer.ops.top_k_rounds import larger, lower_rounds

_INT32 = np.dtype(np.int32)
_EXACT_BITS = 16
"""Integers of up to so many bits are exact in float32, and narrow floats are too."""


def lower_top_k(b: Any, types: Types, x: Any, *, k: int) -> tuple[Any, Any]:
    """Lower `top_k`: in two stages where rows are long; *pack-extremes* takes k = 1 on CPUs."""
    wide = x.type.with_dtype(_ordered_alike(x.dtype))
    rows, size = math.prod(x.shape[:-1]), x.shape[-1]
    ways = b.target.selection
    at_once = _call(rows, size, k, wide.dtype)
    is_cut = ways.stages(size, k) is not None or ways.are_rounds_faster(at_once)
    if not (b.target.kernels.top_k_in_stages and is_cut and rows):
        return b.top_k(types, x, k)  # type: ignore[no-any-return]
    flat = b.reshape(wide.with_shape((rows, size)), b.convert(wide, x))
    values, indices = _top_k_of_rows(b, flat, k)
    values = b.convert(values.type.with_dtype(x.dtype), values)
    return b.reshape(types[0], values), b.reshape(types[1], indices)


def _call(rows: int, size: int, k: int, dtype: np.dtype[Any]) -> SelectionCall:
    return SelectionCall(rows, size, k, dtype.itemsize, is_float32=dtype == np.float32)


def is_extreme(type: ShapeDtype, k: int) -> bool:
    """Tell whether it is one element of each row, which a reduction finds with its place."""
    return k == 1 and fits(type, type.ndim - 1)


def _ordered_alike(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return a dtype that holds the same numbers and that XLA's kernel takes, if there is one."""
    is_narrow = 8 * dtype.itemsize <= _EXACT_BITS
    return np.dtype(np.float32) if is_narrow else dtype


def _top_k_of_rows(b: Any, x: Any, k: int) -> tuple[Any, Any]:
    """Emit top_k of (rows, n); what a stage leaves may be long enough for stages again."""
    rows, n = x.shape
    stages = b.target.selection.stages(n, k)
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
    if b.target.selection.are_rounds_faster(_call(rows, n, k, x.dtype)):
        return lower_rounds(b, x, k)
    types = (x.type.with_shape((rows, k)), ShapeDtype((rows, k), _INT32))
    return b.top_k(types, x, k)  # type: ignore[no-any-return]


def _ascending(b: Any, x: Any) -> Any:
    """Sort the rows of an integer matrix."""
    rows, n = x.shape
    if b.target.selection.are_rounds_faster(_call(rows, n, n, x.dtype)):
        return lower_rounds(b, x, n, largest=False)[0]
    return b.sort((x,), 1, lambda b, x, y: b.compare("LT", x, y), False)[0]


def _cut(b: Any, x: Any, stages: Any) -> tuple[Any, Any]:
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
    """Count a heap's comparisons; what rows take in stages or rounds is the target's to say."""
    (x,) = operands
    moved = moved_bytes(operands, results)
    if is_extreme(x, k):
        stages = ReductionCall(x.shape, (x.ndim - 1,), PACKED_BYTES)
        return Cost(x.size, moved, calls=(stages,))
    call = _call(math.prod(x.shape[:-1]), x.shape[-1], k, _ordered_alike(x.dtype))
    return Cost(call.comparisons, moved, calls=(call,))
