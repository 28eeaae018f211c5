"""Convolutions of up to float32 in the layout of the device's library, features last.

XLA:CPU writes operands for Eigen in that layout itself only outside of loops; elsewhere its plain
loops are slow: a gradient took 0.15 s for 0.02. The zeros between the elements of a dilated array
are left out (`dilated_convolutions`); where its windows leap they are written out, as Eigen would
write every window out instead. Groups of few features are left to XLA's plain loops, since Eigen
takes group by group: it never takes a kernel that is mirrored, so such a kernel is mirrored twice.
Narrower floats are multiplied in float32. Figures: docs/memory-model.md, "Convolution".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tracer import ops
from tracer.ir import Builder, Graph, Node, ShapeDtype, Value, rebuild
from tracer.ops import helpers
from tracer.ops.convolution_rules import Parameters
from tracer.ops.rules import is_float
from tracer.optimizer.legalize.dilated_convolutions import without_zeros
from tracer.optimizer.passes import Pass, PassLog
from tracer.target import Target

_FLOAT32 = np.dtype(np.float32)


def convolution_layouts_pass(target: Target) -> Pass:
    """Return the pass that writes convolutions in the layout of a target's library."""
    direct = target.kernels.direct_features
    return Pass(
        "lay out convolutions",
        lambda graph, log: _laid_out(direct, graph, log),
        exact=False,
        writes_out_cost=True,
    )


def _laid_out(direct: int, graph: Graph, log: PassLog) -> Graph:
    def rewrite(_: Builder, node: Node, operands: tuple[Value, ...]) -> Sequence[Value] | None:
        if node.op is not ops.convolution or not _is_taken(node):
            return None
        p = Parameters(**node.params)
        is_direct = p.feature_group_count > 1 and p.sizes(operands[1], p.rhs_axes)[1] <= direct
        if p.window_reversal or (not is_direct and _is_in_layout(p)):
            return None
        log.applied.append(f"convolution to {node.types[0]}{': mirrored' if is_direct else ''}")
        x, kernel = (helpers.convert(operand, _FLOAT32) for operand in operands)
        write = _mirrored if is_direct else _features_last
        return (helpers.convert(write(p, x, kernel, node.types[0]), node.types[0].dtype),)

    return rebuild(graph, rewrite)


def _is_taken(node: Node) -> bool:
    dtype = node.types[0].dtype
    return is_float(dtype) and dtype.itemsize <= _FLOAT32.itemsize


def _is_in_layout(p: Parameters) -> bool:
    last = len(p.lhs_axes) - 1
    layout = (0, last, *range(1, last))
    has_layout = p.lhs_axes == p.result_axes == layout
    is_kernel = p.rhs_axes == (last, last - 1, *range(last - 1))
    return has_layout and is_kernel and max(p.lhs_dilation, default=1) == 1


def _mirrored(p: Parameters, x: Value, kernel: Value, _: ShapeDtype) -> Value:
    """Mirror a kernel that the convolution mirrors back: Eigen leaves these to plain loops."""
    mirrored = ops.reverse(kernel, dimensions=tuple(sorted(p.rhs_axes[2:])))
    return replace(p, window_reversal=True).apply(x, mirrored)


def _features_last(p: Parameters, x: Value, kernel: Value, type: ShapeDtype) -> Value:
    last = len(p.lhs_axes) - 1
    batch, features, *places = p.lhs_axes
    x = helpers.in_order(x, (batch, *places, features))
    outputs, inputs, *places = p.rhs_axes
    kernel = helpers.in_order(kernel, (*places, inputs, outputs))
    layout = (0, last, *range(1, last))
    order = (p.result_axes[0], *p.result_axes[2:], p.result_axes[1])
    wanted = p.sizes(type, p.result_axes)[2:]
    p = replace(p, lhs_axes=layout, rhs_axes=(last, last - 1, *range(last - 1)), result_axes=layout)
    found = _convolved(p, x, kernel, wanted)
    return helpers.in_order(found, tuple(int(axis) for axis in np.argsort(order)))


def _convolved(p: Parameters, x: Value, kernel: Value, wanted: Sequence[int]) -> Value:
    if max(p.lhs_dilation, default=1) == 1:
        return p.apply(x, kernel)
    found = without_zeros(p, x, kernel, wanted)
    if found is not None:
        return found
    x = _spread(x, p.lhs_dilation)
    return replace(p, lhs_dilation=(1,) * len(p.padding)).apply(x, kernel)


def _spread(x: Value, dilation: Sequence[int]) -> Value:
    """Write the zeros between the elements of the axes between the first and the last out."""
    none = (0,) * len(x.shape)
    interior = (0, *(step - 1 for step in dilation), 0)
    return ops.pad(x, helpers.scalar(0, x.dtype), low=none, high=none, interior=interior)  # type: ignore[no-any-return]


__all__ = ["convolution_layouts_pass"]
