"""Eigenvalues and singular values by NumPy: what `eigh` and `svd` without vectors become."""

from __future__ import annotations

from typing import Any

import numpy as np

from tracer.errors import ArgumentError, DTypeError
from tracer.ir import Cost, NotDifferentiable, Op, ShapeDtype
from tracer.ir.library_calls import SpectrumCall
from tracer.ir.op import Types
from tracer.ops.eigen import eigh
from tracer.ops.matrix_rules import matrix_axes
from tracer.ops.rules import moved_bytes
from tracer.ops.svd import svd

Array = np.ndarray[Any, Any]
_SINGLE = 4
_KINDS: dict[str, tuple[Op, dict[str, bool]]] = {
    "eigvalsh": (eigh, {"compute_vectors": False}),
    "svdvals": (svd, {"compute_vectors": False, "full_matrices": False}),
}


def _infer(a: ShapeDtype, *, kind: str) -> ShapeDtype | Types:
    if kind not in _KINDS:
        raise ArgumentError(f"numpy_spectrum knows no {kind!r}", mend=f"use one of {list(_KINDS)}")
    if a.dtype.itemsize < _SINGLE:
        raise DTypeError(f"numpy_spectrum of {a}", mend="convert it to float32")
    op, params = _KINDS[kind]
    return op.infer(a, **params)


def _evaluate(a: Array, *, kind: str) -> Array:
    op, params = _KINDS[kind]
    return np.asarray(op.evaluate(a, **params))


def _cost(operands: Types, results: Types, *, kind: str) -> Cost:
    op, params = _KINDS[kind]
    flops = op.cost(operands, results, **params).flops
    rows, columns = operands[0].shape[-2:]
    call = SpectrumCall(rows, columns, operands[0].dtype.itemsize)
    return Cost(flops, moved_bytes(operands, results), calls=(call,))


numpy_spectrum: Op = Op(
    "numpy_spectrum",
    doc="Eigenvalues of Hermitian matrices, or singular values, by NumPy, which takes parts of the "
    "matrices on several threads. NaN where LAPACK does not converge.",
    infer=_infer,
    evaluate=_evaluate,
    lower=lambda b, types, a, *, kind: b.numpy_call(
        types, a, kind, a.type.ndim - 2, a.type.ndim - 1
    ),
    vjp=NotDifferentiable("decompositions become it after they are differentiated"),
    axes=matrix_axes,
    cost=_cost,
    calls_host=True,
    batch=lambda operands, batching, *, kind: numpy_spectrum(*operands, kind=kind),
)
