"""Eigenvalues and singular values of many small matrices, found by NumPy on all cores.

LAPACK takes one matrix at a time, on one core (`lowering.emit.library` says why). Measured on 2
cores of a Xeon, milliseconds without and with this pass:

|                           | singular values | eigenvalues  |
|---------------------------|-----------------|--------------|
| 10,000 of 4 x 4, float32  | 30.5, 12.7      | 14.5, 8.7    |
| 10,000 of 8 x 8, float32  | 61.6, 32.7      | 37.4, 32.9   |
| 10,000 of 16 x 16         | 164, 94         | 108, 84      |
| 10,000 of 8 x 8, float64  | 69.4, 42.1      | 49.3, 29.5   |
| the same, complex64       | 80.9, 44.2      | 51.2, 59.9   |
| 1,000 of 32 x 32, float32 | 49.8, 73.9      | 36.0, 44.3   |

So those of larger matrices, and eigenvalues of complex ones, are left.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from tracer import ops
from tracer.ir import Builder, Graph, Node, Op, Value, rebuild
from tracer.optimizer.legalize.writer import wide_dtype
from tracer.optimizer.passes import Pass, PassLog
from tracer.target import Target
from tracer.target.spectra import Spectra

_KINDS: dict[Op | None, str] = {ops.eigh: "eigvalsh", ops.svd: "svdvals"}


def numpy_spectra_pass(target: Target) -> Pass:
    """Return the pass that has NumPy find the values of many matrices, without vectors."""
    return Pass(
        "decompose by numpy",
        partial(_by_numpy, target.spectra),
        exact=False,
        writes_out_cost=True,
    )


def _by_numpy(rules: Spectra | None, graph: Graph, log: PassLog) -> Graph:
    def rewrite(_: Builder, node: Node, operands: tuple[Value, ...]) -> Sequence[Value] | None:
        if rules is None or not _is_taken(rules, node):
            return None
        log.applied.append(f"{_KINDS[node.op]} of {operands[0].type}")
        return (ops.numpy_spectrum(operands[0], kind=_KINDS[node.op]),)

    return rebuild(graph, rewrite)


def _is_taken(rules: Spectra, node: Node) -> bool:
    if node.op not in _KINDS or node.params["compute_vectors"]:
        return False
    type = node.operand_types[0]
    if (node.op is ops.eigh and type.dtype.kind == "c") or wide_dtype(type.dtype) != type.dtype:
        return False
    *batch, rows, columns = type.shape
    return rules.are_by_numpy(math.prod(batch), rows, columns)


__all__ = ["numpy_spectra_pass"]
