"""A part of a program in a call of its own, which can be cut along axes that its body leaves alone.

Loops over steps need every axis of their carries whole by themselves. A loop whose steps treat the
elements of an axis alike and apart, such as the integration of many trajectories, is cut along it
as a whole: slices outside, steps inside (loop interchange; Allen & Kennedy, "Optimizing Compilers
for Modern Architectures", 2001, section 5.2).
"""

from __future__ import annotations

from functools import lru_cache

from tracer.ir import AxisRule, Chunk, Graph, Label, Op, Value
from tracer.ir.op import Types
from tracer.ops.body_axes import Axis, BodyAxes, SliceOfBody
from tracer.ops.call import call_record
from tracer.ops.rules import own_label


@lru_cache(maxsize=64)
def _known(body: Graph) -> BodyAxes:
    """Return the classes of a body's axes; graphs are told apart by identity."""
    return BodyAxes(body)


def parallel_axes(body: Graph) -> list[Axis]:
    """Return the classes of axes that all results have and along which the body can be cut."""
    axes = _known(body)
    first, *others = body.outputs
    found = [axes.of(first, axis) for axis in range(first.type.ndim)]
    return [
        one
        for one in found
        if axes.is_parallel(one) and all(axes.axis_of(v, one) is not None for v in others)
    ]


def _axes(operands: Types, results: Types, *, body: Graph) -> AxisRule:
    """Axes that the body leaves alone are parallel, if all results have them; others are whole."""
    axes, parallel = _known(body), parallel_axes(body)

    def labels(values: tuple[Value, ...], group: int) -> tuple[tuple[Label, ...], ...]:
        rows = []
        for place, value in enumerate(values):
            classes = [axes.of(value, axis) for axis in range(value.type.ndim)]
            rows.append(
                tuple(
                    parallel.index(one) if one in parallel else own_label(group + place, axis)
                    for axis, one in enumerate(classes)
                )
            )
        return tuple(rows)

    taken, given = labels(body.inputs, 0), labels(body.outputs, len(body.inputs))
    own = {label for row in (*taken, *given) for label in row if isinstance(label, str)}
    return AxisRule(taken, given, whole=frozenset(own))


def _slice(operands: tuple[Value, ...], chunk: Chunk, *, body: Graph) -> tuple[Value, ...]:
    found = parallel_axes(body)[chunk.label]
    return tuple(SliceOfBody(_known(body), found, chunk.size).emit(body, operands, chunk.start))


outlined_call: Op = call_record(
    "outlined_call",
    "Computes what `body` computes. It can be cut along the axes that the body leaves alone.",
    axes=_axes,
    slice=_slice,
)
