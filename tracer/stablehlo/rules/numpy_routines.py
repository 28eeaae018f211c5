"""The rule of calls of Python: NumPy's routines, which modules of ours call by name."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tracer import ops
from tracer.array.array import Array
from tracer.array.dispatch import apply, apply_many
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


_SPECTRA = {"eigvalsh": eigvalsh, "svdvals": svdvals}
_OF_COMPLEX = {"fft": fftn, "ifft": ifftn}
_TRANSFORMS = ("fft", "ifft", "rfft", "irfft")


def _transformed(instruction: Instruction, x: Array, axes: tuple[int, ...], name: str) -> Array:
    if name == "irfft":
        return irfft(x, instruction.result.shape[axes[0]], axis=axes[0])
    return rfft(x, axis=axes[0]) if name == "rfft" else _OF_COMPLEX[name](x, axes=axes)


def _routine(instruction: Instruction) -> tuple[str, tuple[int, ...], bool] | None:
    """Return the routine that is called, the axes along which, and whether from its end."""
    attributes = instruction.attributes.get("mhlo.frontend_attributes")
    if not isinstance(attributes, Mapping) or len(instruction.operands) != 1:
        return None
    name, along, *rest = [*str(attributes.get(NUMPY_ROUTINE, "")).split(" "), ""][:3]
    places = along.split(",")
    is_known = name in ("sort", "argsort", *_RUNNING, *_TRANSFORMS, *_SPECTRA)
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
    if name in _TRANSFORMS:
        return _transformed(instruction, x, axes, name)
    if name in _SPECTRA:
        return _SPECTRA[name](x)
    (axis,) = axes
    if name in _RUNNING:
        return apply(_RUNNING[name], x, axis=axis, reverse=is_reversed)
    params = {"dimension": axis, "num_keys": 1, "is_stable": name == "argsort"}
    if name == "sort":
        return apply_many(ops.sort, x, **params)[0]
    places = apply(ops.iota, shape=x.shape, dtype=np.dtype(np.int64), dimension=axis)
    return apply_many(ops.sort, x, places, **params)[1]
