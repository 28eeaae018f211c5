"""A scan as a scan over checkpointed segments: its gradient keeps far less.

Between forward and backward pass only the carries at segment starts are kept. While a segment is
differentiated, the residuals of its steps are kept too. Segments of `s` of `n` steps need `n / s`
carries and `s` steps' residuals, which is least where both are equal. The price is one more
evaluation of every step. Sources: Griewank & Walther, "Evaluating Derivatives" (2008), chapter 12;
Chen et al., "Training Deep Nets with Sublinear Memory Cost" (2016), section 4.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tracer import ops
from tracer.ir import Graph, ShapeDtype, Value
from tracer.ops.helpers import builder_at_source, reshape
from tracer.ops.rules import as_tuple

_WORTHWHILE = 2
"""How many times less must be kept for a second evaluation of the steps to be worth it."""


def segment_size(length: int, carry_bytes: int, kept_bytes: int) -> int | None:
    """Return the number of steps in a segment, or None where segments would not help.

    `carry_bytes` and `kept_bytes` are those of one step. A divisor of the length is preferred.
    """
    if not kept_bytes:
        return None
    best = math.sqrt(length * max(1, carry_bytes) / kept_bytes)
    best = min(max(2, round(best)), length)
    near = [s for s in range(max(2, best // 2), min(2 * best, length) + 1) if length % s == 0]
    size = min(near, key=lambda s: abs(s - best), default=best)
    segmented = length // size * carry_bytes + size * kept_bytes
    return size if _WORTHWHILE * segmented < length * kept_bytes else None


def segmented_scan(
    types: Sequence[ShapeDtype],
    *,
    size: int,
    length: int,
    num_consts: int,
    num_carry: int,
    reverse: bool,
    **params: Any,
) -> Graph:
    """Return the graph of a scan of `length` steps, in segments of `size` steps.

    The operands are those of the scan. The steps that are left over are those of the highest
    indices, and make a scan of their own. All of it has the source of the active builder: the
    scan's.
    """
    params |= {"num_consts": num_consts, "num_carry": num_carry, "reverse": reverse}
    whole = length - length % size
    with builder_at_source() as builder:
        inputs = [builder.input(type) for type in types]
        fixed, xs = inputs[:num_consts], inputs[num_consts + num_carry :]
        carry: Sequence[Value] = inputs[num_consts : num_consts + num_carry]
        pieces: dict[bool, Sequence[Value]] = {}
        for is_rest in (True, False) if reverse else (False, True):
            rows = [_rows(x, whole, length) if is_rest else _rows(x, 0, whole) for x in xs]
            if is_rest and whole < length:
                results = ops.scan(*fixed, *carry, *rows, length=length - whole, **params)
            elif not is_rest:
                results = _in_segments([*fixed, *carry], rows, whole, size, params)
            else:
                continue
            carry, pieces[is_rest] = results[:num_carry], results[num_carry:]
        stacks = zip(*(pieces[key] for key in sorted(pieces)), strict=True)
        return builder.finish([*carry, *map(_joined, stacks)])


def _in_segments(
    fixed: Sequence[Value],
    xs: Sequence[Value],
    length: int,
    size: int,
    params: dict[str, Any],
) -> Sequence[Value]:
    """Emit a scan over checkpointed scans; `fixed` are the constants and the carry."""
    count = length // size
    parts = [reshape(x, (count, size, *x.shape[1:])) for x in xs]
    slices = [x.type.with_shape(x.shape[1:]) for x in parts]
    segment = _segment([*(x.type for x in fixed), *slices], size, params)
    results = as_tuple(ops.scan(*fixed, *parts, **{**params, "body": segment, "length": count}))
    carried = params["num_carry"]
    stacks = [reshape(y, (length, *y.shape[2:])) for y in results[carried:]]
    return [*results[:carried], *stacks]


def _segment(types: Sequence[ShapeDtype], size: int, params: dict[str, Any]) -> Graph:
    """Return the body of the outer scan: the inner one, as a checkpoint."""
    with builder_at_source() as builder:
        inputs = [builder.input(type) for type in types]
        steps = builder.finish(as_tuple(ops.scan(*inputs, length=size, **params)))
    with builder_at_source() as builder:
        inputs = [builder.input(type) for type in types]
        # No barrier: the second evaluation is in another loop than the first.
        return builder.finish(as_tuple(ops.checkpoint(*inputs, body=steps, prevent_cse=False)))


def _rows(x: Value, start: int, stop: int) -> Value:
    if (start, stop) == (0, x.shape[0]):
        return x
    others = x.shape[1:]
    result: Value = ops.slice(
        x,
        start=(start, *(0 for _ in others)),
        limit=(stop, *others),
        strides=(1,) * len(x.shape),
    )
    return result


def _joined(pieces: Sequence[Value]) -> Value:
    return pieces[0] if len(pieces) == 1 else ops.concatenate(*pieces, dimension=0)


__all__ = ["segment_size", "segmented_scan"]
