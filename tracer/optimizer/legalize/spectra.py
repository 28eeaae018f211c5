"""Eigenvalues and singular values of many small matrices, found by NumPy on all cores.

LAPACK takes one matrix at a time, on one core (`lowering.emit.library` says why). Measured on 2
cores of a Xeon, float32, milliseconds without and with this pass:

TABLE
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

from tracer import ops
from tracer.ir import Builder, Graph, Node, Op, Value, rebuild
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
        if rules is None or node.op not in _KINDS or node.params["compute_vectors"]:
            return None
        *batch, rows, columns = operands[0].shape
        if not rules.are_by_numpy(math.prod(batch), rows, columns):
            return None
        log.applied.append(f"{_KINDS[node.op]} of {operands[0].type}")
        return (ops.numpy_spectrum(operands[0], kind=_KINDS[node.op]),)

    return rebuild(graph, rewrite)


__all__ = ["numpy_spectra_pass"]
