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

from typing import Any

import numpy as np

from tracer.ops.bodies import lower_expansion
from tracer.ops.packed_extreme import element_of, pack, place_of

_INT64 = np.dtype(np.int64)


def lower_rounds(b: Any, x: Any, k: int, *, largest: bool = True) -> tuple[Any, Any]:
    """Emit the k largest (or smallest) of each row of a matrix, best first, and int32 indices.

    NaN is both largest and smallest; of equals the first is the best.
    """
    # Stored once: else XLA computes the elements again in every round.
    ranks = lower_expansion(lambda x: [pack(x, axis=1, largest=largest)], [x.type], b, [x])
    (packed,) = b.optimization_barrier(ranks, "stored ranks")
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
    best = b.concatenate(found, 1)
    value, place = lower_expansion(
        lambda best: [element_of(best, x.dtype, largest=largest), place_of(best)],
        [best.type],
        b,
        [best],
    )
    return value, place


def larger(b: Any, x: Any, y: Any) -> tuple[Any]:
    """Emit the combiner of a maximum of integers."""
    return (b.maximum(x, y),)
