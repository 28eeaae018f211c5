"""StableHLO's ops as in its dialect: one function emits one op and nothing else.

Functions are named after StableHLO's ops, whose meaning is in the StableHLO specification.
Functions of operands alone are generated from the dialect. Ops with a region are in `regions.py`.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracer.errors import LoweringError
from tracer.ir import ShapeDtype
from tracer.lowering import shims
from tracer.lowering.cpu.narrow_products import may_be_summed_in, sum_type
from tracer.lowering.emit.context import ModuleContext
from tracer.lowering.emit.values import Operand, element_type
from tracer.lowering.shims import chlo, hlo, ir

_DIRECTIONS = ("EQ", "NE", "LT", "LE", "GT", "GE")

Emitter = Callable[..., Operand]


def emitter(name: str) -> Emitter:
    """Return the emitter of the StableHLO or CHLO op `name`, whose result type is inferred."""
    emit = getattr(hlo, name, None) or getattr(chlo, name, None)
    if emit is None:
        near = difflib.get_close_matches(name, [*dir(hlo), *dir(chlo)])
        raise LoweringError(
            f"StableHLO and CHLO have no op {name!r}",
            mend=f"use one of their names{', such as ' + ', '.join(near) if near else ''}",
        )

    def emit_operands(*operands: Operand) -> Operand:
        return Operand(emit(*[operand.raw for operand in operands]))

    return emit_operands


# Those that the other files of emit/ call.
add = emitter("add")
and_ = emitter("and_")
clamp = emitter("clamp")
complex_ = emitter("complex")
divide = emitter("divide")
imaginary_part = emitter("imag")
maximum = emitter("maximum")
minimum = emitter("minimum")
multiply = emitter("multiply")
negate = emitter("negate")
or_ = emitter("or_")
real_part = emitter("real")
subtract = emitter("subtract")
xor = emitter("xor")


def compare(
    b: ModuleContext, direction: str, x: Operand, y: Operand, *, total_order: bool = False
) -> Operand:
    """Emit `compare`; `total_order` orders floats -NaN < -inf < -0 < +0 < inf < NaN."""
    # XLA ends the process on an unknown direction.
    if direction not in _DIRECTIONS:
        raise LoweringError(
            f"{direction!r} is no direction of compare",
            mend=f"use one of {', '.join(_DIRECTIONS)}",
        )
    kind = {"b": "UNSIGNED", "u": "UNSIGNED", "i": "SIGNED"}.get(x.dtype.kind, "FLOAT")
    if total_order and kind == "FLOAT":
        kind = "TOTALORDER"
    return Operand(
        hlo.compare(
            x.raw,
            y.raw,
            hlo.ComparisonDirectionAttr.get(direction),
            compare_type=hlo.ComparisonTypeAttr.get(kind),
        )
    )


def convert(b: ModuleContext, type: ShapeDtype, x: Operand) -> Operand:
    """Emit `convert`; to bool it is `x != 0`."""
    source = x.type
    if source is type:
        return x
    if type.dtype.kind == "b":
        return compare(b, "NE", x, splat(b, 0, source))
    if source.dtype.kind == "c" and type.dtype.kind != "c":
        return convert(b, type, real_part(x))
    return Operand(hlo.convert(b.tensor_type(type), x.raw))


def select(b: ModuleContext, chosen: Operand, on_true: Operand, on_false: Operand) -> Operand:
    """Emit `select`."""
    return Operand(hlo.select(chosen.raw, on_true.raw, on_false.raw))


def bitcast_convert(b: ModuleContext, type: ShapeDtype, x: Operand) -> Operand:
    """Emit `bitcast_convert`."""
    return Operand(hlo.bitcast_convert(b.tensor_type(type), x.raw))


def constant(b: ModuleContext, value: np.ndarray[Any, Any]) -> Operand:
    """Emit a constant; one whose elements all have the same bits is stored as one element."""
    value = np.ascontiguousarray(value).reshape(np.shape(value))
    type = ShapeDtype(value.shape, value.dtype)
    if value.size > 1 and _is_uniform(value):
        return _splat(b, value.reshape(-1)[0], type)
    if value.dtype.kind == "b":
        return Operand(hlo.constant(shims.bool_constant(value, b.tensor_type(type))))
    return Operand(
        hlo.constant(
            ir.DenseElementsAttr.get(value, type=element_type(value.dtype), shape=value.shape)
        )
    )


def splat(b: ModuleContext, value: complex, type: ShapeDtype) -> Operand:
    """Emit a constant of `type` with every element equal to `value`."""
    return _splat(b, np.full((), value, type.dtype)[()], type)


def _splat(b: ModuleContext, value: Any, type: ShapeDtype) -> Operand:
    if type.dtype.kind == "b":
        attribute = ir.DenseElementsAttr.get_splat(
            b.tensor_type(type), ir.BoolAttr.get(bool(value))
        )
    else:
        attribute = ir.DenseElementsAttr.get(
            np.full((), value, type.dtype), type=element_type(type.dtype), shape=type.shape
        )
    return Operand(hlo.constant(attribute))


def iota(b: ModuleContext, type: ShapeDtype, dimension: int) -> Operand:
    """Emit `iota`."""
    return Operand(hlo.iota(b.tensor_type(type), dimension))


def broadcast_in_dim(
    b: ModuleContext, type: ShapeDtype, x: Operand, dimensions: Sequence[int]
) -> Operand:
    """Emit `broadcast_in_dim`."""
    return Operand(hlo.broadcast_in_dim(b.tensor_type(type), x.raw, list(dimensions)))


def reshape(b: ModuleContext, type: ShapeDtype, x: Operand) -> Operand:
    """Emit `reshape`."""
    return Operand(hlo.reshape(b.tensor_type(type), x.raw))


def concatenate(b: ModuleContext, operands: Sequence[Operand], dimension: int) -> Operand:
    """Emit `concatenate`."""
    return Operand(hlo.concatenate([x.raw for x in operands], dimension))


def pad(
    b: ModuleContext,
    x: Operand,
    value: Operand,
    low: Sequence[int],
    high: Sequence[int],
    interior: Sequence[int],
) -> Operand:
    """Emit `pad`."""
    return Operand(hlo.pad(x.raw, value.raw, list(low), list(high), list(interior)))


def slice(
    b: ModuleContext, x: Operand, start: Sequence[int], limit: Sequence[int], strides: Sequence[int]
) -> Operand:
    """Emit `slice`."""
    return Operand(hlo.slice(x.raw, list(start), list(limit), list(strides)))


def transpose(b: ModuleContext, x: Operand, permutation: Sequence[int]) -> Operand:
    """Emit `transpose`."""
    return Operand(hlo.transpose(x.raw, list(permutation)))


def reverse(b: ModuleContext, x: Operand, dimensions: Sequence[int]) -> Operand:
    """Emit `reverse`."""
    return Operand(hlo.reverse(x.raw, list(dimensions)))


def dynamic_slice(
    b: ModuleContext, x: Operand, starts: Sequence[Operand], sizes: Sequence[int]
) -> Operand:
    """Emit `dynamic_slice`."""
    return Operand(hlo.dynamic_slice(x.raw, [start.raw for start in starts], list(sizes)))


def dynamic_update_slice(
    b: ModuleContext, x: Operand, update: Operand, starts: Sequence[Operand]
) -> Operand:
    """Emit `dynamic_update_slice`."""
    return Operand(hlo.dynamic_update_slice(x.raw, update.raw, [start.raw for start in starts]))


def dot_general(
    b: ModuleContext,
    type: ShapeDtype,
    x: Operand,
    y: Operand,
    lhs_batch: Sequence[int],
    rhs_batch: Sequence[int],
    lhs_contracting: Sequence[int],
    rhs_contracting: Sequence[int],
) -> Operand:
    """Emit `dot_general` with the full precision of the dtype on every device.

    On CPUs integers of eight bits that are summed in 32 are multiplied as they are: 1,536 rows and
    columns took 0.05 s for 0.21. On GPUs they are not, though 0.13 ms for 1.5 could be had: on an
    H200 with jaxlib 0.11.2 XLA gave twice the product of 3 x 5 and 5 x 7
    (`tests/devices/test_gpu.py::test_products_of_eight_bits`). bfloat16: `narrow_products`.
    """
    if b.platform == "cpu":
        x, y = _as_given(type.dtype, x, y)
    summed = sum_type(b.platform, x.type.dtype, type)
    numbers = hlo.DotDimensionNumbers.get(
        list(lhs_batch), list(rhs_batch), list(lhs_contracting), list(rhs_contracting)
    )
    highest = hlo.PrecisionAttr.get("HIGHEST")
    found = Operand(
        hlo.dot_general(
            b.tensor_type(summed),
            x.raw,
            y.raw,
            numbers,
            precision_config=ir.ArrayAttr.get([highest, highest]),
        )
    )
    return convert(b, type, found)


def _as_given(dtype: np.dtype[Any], x: Operand, y: Operand) -> tuple[Operand, Operand]:
    """Return what both operands were converted from, if products of that are summed in `dtype`."""
    owners = [operand.raw.owner for operand in (x, y)]
    if not all(isinstance(getattr(owner, "opview", None), hlo.ConvertOp) for owner in owners):
        return x, y
    sources = [Operand(owner.operands[0]) for owner in owners]
    dtypes = {source.type.dtype for source in sources}
    if len(dtypes) > 1 or not may_be_summed_in(dtype, dtypes.pop()):
        return x, y
    return sources[0], sources[1]


def _is_uniform(value: np.ndarray[Any, Any]) -> bool:
    """Tell whether all elements have the same bits, so that NaN and -0.0 are told apart."""
    rows = value.reshape(-1).view(np.uint8).reshape(value.size, value.itemsize)
    return bool((rows[0] == rows[-1]).all()) and bool((rows == rows[0]).all())
