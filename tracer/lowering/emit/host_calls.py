"""Calls of Python functions out of a running program, by XLA's own way to call back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tracer.ir import ShapeDtype, Stop
from tracer.lowering.emit.context import HostCall, ModuleContext
from tracer.lowering.emit.dialect import splat
from tracer.lowering.emit.numpy_routines import NUMPY_ROUTINE, NumpyCall
from tracer.lowering.emit.values import Operand
from tracer.lowering.shims import hlo, ir

TARGET = "xla_buffer_python_cpu_callback"
"""XLA's handler; it finds the function by its number among those given to the compiler."""
_API_VERSION = 4
_ORDER = ShapeDtype((), np.int32)


def host_call(
    b: ModuleContext,
    types: Sequence[ShapeDtype],
    operands: Sequence[Operand],
    call: Callable[..., tuple[Any, ...]],
    *,
    has_effect: bool,
    stop: Stop | None = None,
) -> tuple[Operand, ...]:
    """Emit a call of a Python function of arrays that returns a tuple of arrays of `types`.

    One with an effect reads what the one before it returned, an int32 as its first result is: XLA
    orders calls by what they read alone. Once `stop` is set, the function raises.
    """
    if not has_effect:
        return _emit(b, types, operands, HostCall(call, len(operands), stop), has_effect=False)

    def behind_the_last(_: Any, *arrays: Any) -> tuple[Any, ...]:
        return call(*arrays)

    given = [order(b), *operands]
    found = _emit(b, types, given, HostCall(behind_the_last, len(given), stop), has_effect=True)
    b.order = found[0]
    return found


def numpy_call(
    b: ModuleContext,
    types: Sequence[ShapeDtype],
    x: Operand,
    routine: str,
    *axes: int,
    is_reversed: bool = False,
) -> Operand:
    """Emit a call of a routine of NumPy; see `numpy_routines.NumpyCall`.

    It copies the program's arguments itself: XLA's copy would be one more in a result whose memory
    is there before the call.
    """
    named = NumpyCall(routine, axes, is_reversed)
    call = replace(numpy_host_call(named), is_in_place=named.is_in_place and x.raw not in b.kept)
    op = _call(b, types, (x,), call, has_effect=False)
    # XLA keeps it in the program's text, where `memory.scratch` reads what the call stores.
    along = ",".join(map(str, axes))
    text = ir.StringAttr.get(f"{routine} {along}{' reversed' * is_reversed}")
    op.attributes["mhlo.frontend_attributes"] = ir.DictAttr.get({NUMPY_ROUTINE: text})
    return Operand(op.results[0])


def numpy_host_call(call: NumpyCall) -> HostCall:
    """Return what a program calls for a routine of NumPy."""
    return HostCall(call, operands=1, writes=True, is_in_place=call.is_in_place)


def order(b: ModuleContext) -> Operand:
    """Return what the next call with an effect has to read."""
    return splat(b, 0, _ORDER) if b.order is None else b.order


def _emit(
    b: ModuleContext,
    types: Sequence[ShapeDtype],
    operands: Sequence[Operand],
    call: HostCall,
    *,
    has_effect: bool,
) -> tuple[Operand, ...]:
    op = _call(b, types, operands, call, has_effect=has_effect)
    return tuple(Operand(raw) for raw in op.results)


def _call(
    b: ModuleContext,
    types: Sequence[ShapeDtype],
    operands: Sequence[Operand],
    call: HostCall,
    *,
    has_effect: bool,
) -> Any:
    number = ir.IntegerAttr.get(ir.IntegerType.get_unsigned(64), len(b.host_calls))
    b.host_calls.append(call)
    taken_over = hlo.OutputOperandAlias.get(
        output_tuple_indices=[], operand_index=0, operand_tuple_indices=[]
    )
    return hlo.CustomCallOp(
        [b.tensor_type(type) for type in types],
        [x.raw for x in operands],
        call_target_name=ir.StringAttr.get(TARGET),
        has_side_effect=ir.BoolAttr.get(has_effect),
        api_version=ir.IntegerAttr.get(ir.IntegerType.get_signless(32), _API_VERSION),
        backend_config=ir.DictAttr.get({"index": number}),
        called_computations=ir.ArrayAttr.get([]),
        operand_layouts=ir.ArrayAttr.get([_by_rows(x.type.ndim) for x in operands]),
        result_layouts=ir.ArrayAttr.get([_by_rows(type.ndim) for type in types]),
        output_operand_aliases=ir.ArrayAttr.get([taken_over] if call.is_in_place else []),
    )


def _by_rows(ndim: int) -> Any:
    places = np.arange(ndim - 1, -1, -1, dtype=np.int64)
    return ir.DenseIntElementsAttr.get(places, type=ir.IndexType.get())
