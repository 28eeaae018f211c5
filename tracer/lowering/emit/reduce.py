"""Reductions: one op of StableHLO each. The passes of `optimizer/legalize/` cut long ones."""

from __future__ import annotations

from collections.abc import Sequence

from tracer.ir import ShapeDtype
from tracer.lowering.emit.context import ModuleContext
from tracer.lowering.emit.dialect import convert
from tracer.lowering.emit.regions import Combiner, fill
from tracer.lowering.emit.values import Operand, wide_dtype
from tracer.lowering.shims import hlo


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
    wide = [type.with_dtype(wide_dtype(type.dtype)) for type in types]
    pairs = list(zip(operands, initial_values, wide, strict=True))
    given = [convert(b, x.type.with_dtype(type.dtype), x) for x, _, type in pairs]
    starts = [convert(b, type.with_shape(()), start) for _, start, type in pairs]
    op = hlo.ReduceOp(
        [b.tensor_type(type) for type in wide],
        [x.raw for x in given],
        [x.raw for x in starts],
        list(axes),
    )
    fill(b, op.body, [*wide, *wide], combiner)
    found = (Operand(raw) for raw in op.results)
    return tuple(convert(b, type, x) for type, x in zip(types, found, strict=True))
