"""A part of a program in a call of its own, which can be cut along axes that its body leaves alone.

Loops over steps need every axis of their carries whole by themselves. A loop whose steps treat the
elements of an axis alike and apart, such as the integration of many trajectories, is cut along it
as a whole: slices outside, steps inside (loop interchange; Allen & Kennedy, "Optimizing Compilers
for Modern Architectures", 2001, section 5.2).
"""

from __future__ import annotations

from collections.abc import Sequence
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


def cut_axes(body: Graph) -> list[Axis]:
    """Return the classes of axes along which a body can be cut.

    Each result has the axis, or is a sum along it.
    """
    axes, results = _known(body), body.outputs
    found: dict[Axis, None] = {}
    for value in (*results, *body.inputs):
        for one in axes.classes(value):
            if axes.is_parallel(one) and all(
                axes.axis_of(result, one) is not None or axes.is_added(result, one)
                for result in results
            ):
                found[one] = None
    return [*found]


def _axes(operands: Types, results: Types, *, body: Graph) -> AxisRule:
    """Axes that the body leaves alone are parallel or added up; others are whole."""
    axes, cut = _known(body), cut_axes(body)

    def labels(values: Sequence[Value], group: int) -> tuple[tuple[Label, ...], ...]:
        return tuple(
            tuple(
                cut.index(one) if one in cut else own_label(group + place, axis)
                for axis, one in enumerate(axes.classes(value))
            )
            for place, value in enumerate(values)
        )

    taken, given = labels(body.inputs, 0), labels(body.outputs, len(body.inputs))
    own = {label for row in (*taken, *given) for label in row if isinstance(label, str)}
    sums = [
        place
        for place, one in enumerate(cut)
        if any(axes.is_added(result, one) for result in body.outputs)
    ]
    return AxisRule(taken, given, dict.fromkeys(sums, "add"), whole=frozenset(own))


def _slice(operands: tuple[Value, ...], chunk: Chunk, *, body: Graph) -> tuple[Value, ...]:
    found = cut_axes(body)[chunk.label]
    return tuple(SliceOfBody(_known(body), found, chunk.size).emit(body, operands, chunk.start))


outlined_call: Op = call_record(
    "outlined_call",
    "Computes what `body` computes. It is cut along axes that the body leaves alone or adds up.",
    axes=_axes,
    slice=_slice,
    known_as="while",
)
