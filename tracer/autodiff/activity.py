"""Activity analysis: which values of a graph take part in a derivative.

A value is *active* if it depends differentiably on a requested input. It is *wanted* if it is
active and a requested output depends on it. Only wanted values get a cotangent. Source: Griewank &
Walther, Evaluating Derivatives (2008), section 6.2 ("varied" and "useful" variables).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from tracer.ir import Graph, Value
from tracer.ops.rules import is_inexact, stops_gradients


def carries_gradient(dtype: np.dtype[np.generic]) -> bool:
    """Tell whether values of this dtype have cotangents: floating and complex ones do."""
    return is_inexact(dtype)


def active_values(graph: Graph, wrt: Iterable[int]) -> set[Value]:
    """Return the values that depend differentiably on the inputs at positions `wrt`."""
    active = {graph.inputs[i] for i in wrt if carries_gradient(graph.inputs[i].dtype)}
    for node in graph.nodes:
        if not stops_gradients(node) and any(value in active for value in node.operands):
            active.update(value for value in node.results if carries_gradient(value.dtype))
    return active


def wanted_values(graph: Graph, active: set[Value], outputs: Iterable[int]) -> set[Value]:
    """Return the active values on which the outputs at positions `outputs` depend."""
    wanted = {graph.outputs[i] for i in outputs} & active
    for node in reversed(graph.nodes):
        if any(value in wanted for value in node.results):
            wanted.update(value for value in node.operands if value in active)
    return wanted


def active_outputs(graph: Graph, wrt: Sequence[bool]) -> tuple[bool, ...]:
    """Tell for each output whether it depends on the inputs flagged in `wrt`."""
    active = active_values(graph, positions(wrt))
    return tuple(value in active for value in graph.outputs)


def wanted_inputs(graph: Graph, wrt: Sequence[bool], outputs: Sequence[bool]) -> tuple[bool, ...]:
    """Tell for each input flagged in `wrt` whether an output flagged in `outputs` needs it."""
    active = active_values(graph, positions(wrt))
    wanted = wanted_values(graph, active, positions(outputs))
    return tuple(value in wanted for value in graph.inputs)


def positions(flags: Sequence[bool]) -> tuple[int, ...]:
    """Return the positions of the true entries."""
    return tuple(i for i, flag in enumerate(flags) if flag)


__all__ = [
    "active_outputs",
    "active_values",
    "carries_gradient",
    "positions",
    "wanted_inputs",
    "wanted_values",
]
