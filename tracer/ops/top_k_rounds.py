"""How the k largest elements of short rows are found on CPU: one after the other.

One integer holds an element's order and position (`packed_extreme`), so no two are equal. The next
one is the largest of those below the last one: a reduction, which XLA vectorises and spreads over
the cores. XLA's own kernel (`TopK`) keeps a heap on one core, for float32 only; other dtypes are
sorted. Measured on 2 cores, float32, microseconds a row:

| rows, n, k     | XLA's kernel | rounds |
|----------------|--------------|--------|
| 1,000, 20, 10  | 0.42         | 0.10   |
| 1,000, 160, 10 | 1.5          | 0.24   |
| 1,000, 500, 10 | 2.4          | 0.71   |
| 1,000, 200, 100 | 9.4         | 1.5    |
| 10, 250, 10    | 0.83         | 0.42   |
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracer.ir import ShapeDtype
from tracer.ops.packed_extreme import PACKED_BYTES, fits, larger, pack, unpack

_INT64 = np.dtype(np.int64)
# Rounds are written out one by one: more would take long to compile (0.3 s for 100).
_MOST_ROUNDS = 128
# What an element of a round costs, in operations; in steps of one core, and what a round costs.
_ROUND_FLOPS, _ROUND_STEPS, _START_STEPS = 10, 0.5, 1_500
# Steps of a comparison that moves something: to put an element in, and to take the best one out.
_SHIFT_STEPS, _ORDER_STEPS = 35, 9


@dataclass(frozen=True)
class Work:
    """What rows take: operations, steps of one core one after the other, and hidden bytes."""

    flops: int
    steps: int = 0
    alive_bytes: int = 0


def work_at_once(rows: int, size: int, k: int, dtype: np.dtype[Any]) -> Work:
    """Return what rows of `size` elements take, by rounds or by XLA's kernel."""
    if are_rounds_faster(rows, size, k, dtype):
        flops = _ROUND_FLOPS * rows * size * k
        # The last of each row besides, twice: it is a row and a column.
        return Work(flops, k * _START_STEPS, PACKED_BYTES * rows * (size + k + 2))
    return Work(rows * size * max(k, 1).bit_length(), rows * _kernel_steps(size, k, dtype))


def are_rounds_faster(rows: int, size: int, k: int, dtype: np.dtype[Any]) -> bool:
    """Tell whether rounds take less time than XLA's kernel, if there were but one core."""
    if not 0 < k <= _MOST_ROUNDS or not fits(ShapeDtype((rows, size), dtype), 1):
        return False
    by_rounds = k * (rows * size * _ROUND_STEPS + _START_STEPS)
    return by_rounds < rows * _kernel_steps(size, k, dtype)


def _kernel_steps(size: int, k: int, dtype: np.dtype[Any]) -> int:
    """Return the steps of XLA's kernel for one row.

    Of elements in random order k ln(n / k) get into a heap of the k best, each past log2(k) others
    (Knuth, *The Art of Computer Programming*, volume 3, 5.2.3). Microseconds measured, and by this
    count at 0.43 ns a step: k = 10: n = 80 1.05, 1.2; 1,260 3.4, 3.3; 6,000 6.1, 5.8; k = 100:
    n = 172 8.1, 8.1; 1,260 24, 28; 6,000 39, 46. Other dtypes: 15 ns a comparison of a sort.
    """
    if dtype != np.float32:
        return int(_SHIFT_STEPS * size * math.log2(max(size, 2)))
    if not k:
        return size
    put_in = math.log(max(size, 1) / k)
    return int(size + k * math.log2(max(k, 2)) * (_SHIFT_STEPS * put_in + _ORDER_STEPS))


def lower_rounds(b: Any, x: Any, k: int, *, largest: bool = True) -> tuple[Any, Any]:
    """Emit the k largest (or smallest) of each row of a matrix, best first, and int32 indices.

    NaN is both largest and smallest; of equals the first is the best.
    """
    # Stored once: else XLA computes the elements again in every round.
    (packed,) = b.optimization_barrier((pack(b, x, axis=1, largest=largest),), "stored ranks")
    row_type = packed.type.with_shape(packed.shape[:1])
    least = np.iinfo(_INT64).min
    initial, excluded = b.splat(least, row_type.with_shape(())), b.splat(least, packed.type)
    found: list[Any] = []
    below = packed
    for _ in range(k):
        (last,) = b.reduce_in_stages((row_type,), (below,), (initial,), (1,), larger)
        found.append(b.reshape(row_type.with_shape((*row_type.shape, 1)), last))
        limits = b.broadcast_in_dim(packed.type, last, (0,))
        below = b.select(b.compare("LT", packed, limits), packed, excluded)
    return unpack(b, b.concatenate(found, 1), x.dtype, largest=largest)
