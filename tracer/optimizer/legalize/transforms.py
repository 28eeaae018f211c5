"""Fourier transforms by SciPy, along any axis.

XLA transforms the last axes only, so that others are written out transposed before and behind, and
takes a line at a time. SciPy's library (pocketfft, DUCC from 1.18 on) takes as many lines as a
vector has numbers, on several threads, where they are. Two passes over the array, and one of it in
memory, are saved for each other axis.

Measured on 2 cores with AVX-512, whole programs, milliseconds for XLA and for SciPy 1.17:

|                                       | Zen 4      | Xeon       |
|---------------------------------------|------------|------------|
| complex64, columns of 4,096 x 1,000   | 40.8, 25.7 | 42.1, 22.4 |
| the middle axis of 100 x 64 x 640     | 23.3, 12.4 | 21.1, 14.7 |
| float32 to half, columns of 4,096     |            | 26.1, 11.5 |
| half to float32, columns of 1,500     |            | 6.0, 2.4   |
| complex128, columns of 2,048 x 1,000  |            | 26.7, 14.2 |
| complex64, columns of 256 x 256       |            | 0.40, 0.34 |
| complex64, rows of 1,000 x 4,096      | 13.6, 10.5 | 8.9, 15.7  |

Along the last axes of complex128 two numbers fill a vector: rows took 1.1 times as long on Zen 4.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tracer import ops
from tracer.ir import Builder, Graph, Node, Value, rebuild
from tracer.ir.library_calls import TransformCall
from tracer.ops.fft import OF_REAL
from tracer.ops.helpers import in_order
from tracer.optimizer.passes import Pass, PassLog
from tracer.target import Target
from tracer.target.transforms import Transforms

Axes = tuple[int, ...]


def scipy_transforms_pass(target: Target) -> Pass:
    """Return the pass that has libraries of the host find Fourier transforms."""
    return Pass(
        "transform by scipy",
        partial(_by_scipy, target.transforms),
        exact=False,
        writes_out_cost=True,
    )


def _by_scipy(rules: Transforms | None, graph: Graph, log: PassLog) -> Graph:
    found: set[Value] = set()

    def rewrite(_: Builder, node: Node, operands: tuple[Value, ...]) -> Sequence[Value] | None:
        if node.op is ops.transpose and operands[0] in found:
            return (_composed(operands[0], node.params["permutation"]),)
        if not _is_taken(rules, node):
            return None
        log.applied.append(f"{node.params['kind']} of {node.types[0]}")
        result = _transformed(node, operands[0])
        found.add(result)
        return (result,)

    return rebuild(graph, rewrite)


def _is_taken(rules: Transforms | None, node: Node) -> bool:
    if node.op is not ops.fft or rules is None:
        return False
    (call,) = (call for call in node.cost.calls if isinstance(call, TransformCall))
    return rules.are_by_scipy(call, is_turned=node.operands[0].node.op is ops.transpose)


def _transformed(node: Node, x: Value) -> Value:
    """Transform before a transpose of the operand."""
    order, lengths = tuple(range(x.type.ndim)), node.params["lengths"]
    if x.node.op is ops.transpose:
        order, x = x.node.params["permutation"], x.node.operands[0]
    sizes = dict(zip(order[-len(lengths) :], lengths, strict=True))
    for kind, axes in _parts(node.params["kind"], tuple(sizes)):
        op = ops.scipy_real_fft if kind in OF_REAL else ops.scipy_fft
        x = op(x, kind=kind, axes=axes, length=sizes[axes[-1]])
    return in_order(x, order)


def _parts(kind: str, axes: Axes) -> list[tuple[str, Axes]]:
    """Return which transforms are made: real numbers along the last axis, others complex."""
    others, last = axes[:-1], axes[-1:]
    parts = {"RFFT": [(kind, last), ("FFT", others)], "IRFFT": [("IFFT", others), (kind, last)]}
    return [(part, along) for part, along in parts.get(kind, [(kind, axes)]) if along]


def _composed(x: Value, permutation: Sequence[int]) -> Value:
    """Transpose what may be transposed already."""
    if x.node.op is not ops.transpose:
        return in_order(x, permutation)
    inner = x.node.params["permutation"]
    return in_order(x.node.operands[0], tuple(inner[axis] for axis in permutation))


__all__ = ["scipy_transforms_pass"]
