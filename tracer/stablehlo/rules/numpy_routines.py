"""The rule of calls of Python: NumPy's routines, which modules of ours call by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from tracer import ops
from tracer.array.array import Array
from tracer.array.dispatch import apply, apply_many
from tracer.ir import ShapeDtype
from tracer.lowering import NUMPY_ROUTINE
from tracer.numpy.fft import fftn, ifftn, irfft, rfft
from tracer.numpy.linalg import eigvalsh, svdvals
from tracer.stablehlo.table import Instruction, call

_TARGET = "xla_buffer_python_cpu_callback"


_RUNNING = {
    "add": ops.cumulative_add,
    "multiply": ops.cumulative_multiply,
    "maximum": ops.cumulative_maximum,
    "minimum": ops.cumulative_minimum,
}


_BY_AXES: dict[str, Callable[[Array, tuple[int, ...], ShapeDtype], Array]] = {
    "fft": lambda x, axes, _: fftn(x, axes=axes),
    "ifft": lambda x, axes, _: ifftn(x, axes=axes),
    "rfft": lambda x, axes, _: rfft(x, axis=axes[0]),
    "irfft": lambda x, axes, result: irfft(x, result.shape[axes[0]], axis=axes[0]),
    "eigvalsh": lambda x, *_: eigvalsh(x),
    "svdvals": lambda x, *_: svdvals(x),
}
"""Functions of the operand, the axes along which, and the result's type."""


def _routine(instruction: Instruction) -> tuple[str, tuple[int, ...], bool] | None:
    """Return the routine that is called, the axes along which, and whether from its end."""
    attributes = instruction.attributes.get("mhlo.frontend_attributes")
    if not isinstance(attributes, Mapping) or len(instruction.operands) != 1:
        return None
    name, along, *rest = [*str(attributes.get(NUMPY_ROUTINE, "")).split(" "), ""][:3]
    places = along.split(",")
    is_known = name in ("sort", "argsort", *_RUNNING, *_BY_AXES)
    if not is_known or not all(map(str.isdigit, places)):
        return None
    axes = tuple(map(int, places))
    is_there = max(axes) < instruction.operands[0].ndim
    return (name, axes, rest == ["reversed"]) if is_there else None


def _is_unknown(instruction: Instruction) -> str | None:
    is_known = _routine(instruction) is not None
    return None if is_known else "of a Python function, which is no part of the module,"


@call(_TARGET, unless=_is_unknown)
def numpy_routine(instruction: Instruction, x: Array) -> Array:
    """Sort, find places of a stable sort, combine elements, transform, or find spectra."""
    found = _routine(instruction)
    assert found is not None
    name, axes, is_reversed = found
    if name in _BY_AXES:
        return _BY_AXES[name](x, axes, instruction.result)
    (axis,) = axes
    if name in _RUNNING:
        return apply(_RUNNING[name], x, axis=axis, reverse=is_reversed)
    params = {"dimension": axis, "num_keys": 1, "is_stable": name == "argsort"}
    if name == "sort":
        return apply_many(ops.sort, x, **params)[0]
    places = apply(ops.iota, shape=x.shape, dtype=np.dtype(np.int64), dimension=axis)
    return apply_many(ops.sort, x, places, **params)[1]
