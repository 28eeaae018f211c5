"""Programs whose results nobody writes: memory, of XLA's."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracer.ir import ShapeDtype
from tracer.lowering.emit.context import HostCall, ModuleContext
from tracer.lowering.emit.host_calls import host_call
from tracer.lowering.shims import func, ir, make_context

ENTRY = "main"
"""The name of a module's function that XLA calls."""


def bytes_of(type: ShapeDtype) -> ShapeDtype:
    """Return a type of as many bytes as another."""
    return ShapeDtype((type.nbytes,), np.uint8)


def blank_module(type: ShapeDtype) -> Any:
    """Return the module of a program whose result of a type is whatever a Python function leaves.

    The compiler is given that function, which writes nothing.
    """
    host_calls: list[HostCall] = []
    b = ModuleContext("cpu", host_calls=host_calls)
    with make_context(), ir.Location.unknown():
        module = ir.Module.create()
        module.operation.attributes["sym_name"] = ir.StringAttr.get("blank")
        with ir.InsertionPoint(module.body):
            signature = ir.FunctionType.get([], [b.tensor_type(type)])
            entry = func.FuncOp(ENTRY, signature, visibility="public")
        with ir.InsertionPoint(entry.add_entry_block()):
            (found,) = host_call(b, (type,), (), _nothing, has_effect=False)
            func.ReturnOp([found.raw])
    return module


def _nothing() -> tuple[()]:
    return ()
