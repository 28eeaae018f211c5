"""The values of constants.

The bindings hand over integers, bools and the floats that NumPy has. Others (bfloat16, floats of 8
bits, complex) are read as their parts: StableHLO's reference interpreter takes them apart.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracer.ir import ShapeDtype
from tracer.lowering.emit.values import real_dtype, tensor_type
from tracer.lowering.shims import cast, func, hlo, ir


def value_of(operation: Any, type: ShapeDtype) -> np.ndarray[Any, Any]:
    """Return the value of a `constant` of this type; equal elements share their memory."""
    if type.size == 0:
        return np.zeros(type.shape, type.dtype)
    if type.dtype.kind in "biu" or type.dtype in (np.float16, np.float32, np.float64):
        for kind in (ir.DenseIntElementsAttr, ir.DenseFPElementsAttr):
            known = cast(kind, operation.attributes["value"])
            if known is not None:
                return _dense(known, type)
    literal = _splat_literal(operation)
    if literal is None:
        return _interpreted(operation, type)
    return np.broadcast_to(_parsed(literal, type), type.shape)


def _dense(attribute: Any, type: ShapeDtype) -> np.ndarray[Any, Any]:
    elements = np.asarray(attribute)
    if attribute.is_splat:
        return np.broadcast_to(elements[(0,) * elements.ndim].astype(type.dtype), type.shape)
    return np.array(elements, type.dtype).reshape(type.shape)


def _splat_literal(operation: Any) -> str | None:
    """Return how an element is written that all are equal to; None where they differ."""
    text = operation.operation.get_asm(large_elements_limit=1)
    _, found, rest = text.partition("dense<")
    return None if not found or rest.startswith(("[", '"')) else rest.split(">")[0]


def _parsed(literal: str, type: ShapeDtype) -> np.ndarray[Any, Any]:
    """Return one element from its text."""
    with ir.Location.unknown():
        scalar = type.with_shape(())
        constant = f"stablehlo.constant dense<{literal}> : {tensor_type(scalar)}"
        text = f"func.func @f() {{\n%0 = {constant}\nreturn }}"
        module = ir.Module.parse(text)
        entry = module.body.operations[0]
        return _interpreted(entry.regions[0].blocks[0].operations[0], scalar)


def _interpreted(operation: Any, type: ShapeDtype) -> np.ndarray[Any, Any]:
    is_complex = type.dtype.kind == "c"
    part = real_dtype(type.dtype) if is_complex else np.dtype(np.float64)
    with ir.Location.unknown():
        result = tensor_type(type.with_dtype(part))
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            entry = func.FuncOp("main", ([], [result] * (2 if is_complex else 1)))
        with ir.InsertionPoint(entry.add_entry_block()):
            constant = operation.operation.clone().results[0]
            if is_complex:
                parts = [hlo.real(constant), hlo.imag(constant)]
            else:
                parts = [hlo.convert(result, constant)]
            func.ReturnOp(parts)
        found = [np.array(ir.DenseFPElementsAttr(value)) for value in hlo.eval_module(module, [])]
    value = np.empty(type.shape, type.dtype)
    if is_complex:
        value.real, value.imag = (x.reshape(type.shape) for x in found)
    else:
        value[...] = found[0].reshape(type.shape).astype(type.dtype)
    return value
