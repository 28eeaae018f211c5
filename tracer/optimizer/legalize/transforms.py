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

from collections.abc import Callable, Sequence
from functools import partial

from tracer import ops
from tracer.ir import Builder, Graph, Node, Value, rebuild
from tracer.ir.library_calls import TransformCall
from tracer.ops.helpers import in_order
from tracer.optimizer.passes import Pass, PassLog
from tracer.target import Target
from tracer.target.transforms import Transforms

_OF_REAL = ("RFFT", "IRFFT")


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
    order, kind, lengths = tuple(range(x.type.ndim)), node.params["kind"], node.params["lengths"]
    if x.node.op is ops.transpose:
        order, x = x.node.params["permutation"], x.node.operands[0]
    every = order[-len(lengths) :]

    def along(x: Value, kind: str, axes: Sequence[int]) -> Value:
        length = dict(zip(every, lengths, strict=True))[axes[-1]]
        op = ops.scipy_real_fft if kind in _OF_REAL else ops.scipy_fft
        return op(x, kind=kind, axes=tuple(axes), length=length)  # type: ignore[no-any-return]

    return in_order(_by_parts(x, kind, every, along), order)


def _by_parts(x: Value, kind: str, axes: Sequence[int], along: Callable[..., Value]) -> Value:
    """Transform real numbers along the last one of the axes, complex ones along the others."""
    if kind not in _OF_REAL:
        return along(x, kind, axes)
    *others, last = axes
    if kind == "IRFFT":
        return along(along(x, "IFFT", others) if others else x, kind, [last])
    half = along(x, kind, [last])
    return along(half, "FFT", others) if others else half


def _composed(x: Value, permutation: Sequence[int]) -> Value:
    """Transpose what may be transposed already."""
    if x.node.op is not ops.transpose:
        return in_order(x, permutation)
    inner = x.node.params["permutation"]
    return in_order(x.node.operands[0], tuple(inner[axis] for axis in permutation))


__all__ = ["scipy_transforms_pass"]
