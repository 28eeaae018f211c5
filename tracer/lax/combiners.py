"""Functions of two elements that reductions take, and those among them that are one op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracer import tree
from tracer.array.array import Array
from tracer.array.convert import as_array
from tracer.array.recording import Recording, recorded
from tracer.ir import Graph, Op, ShapeDtype


def recognised(combine: Callable[..., Any], dtype: np.dtype[Any]) -> Op | None:
    """Return the op that a function of two scalars is, if it is one op of both and no more."""
    type = ShapeDtype((), dtype)

    def record(recording: Recording) -> tuple[Graph, list[Array]]:
        arguments = [recording.argument(type) for _ in range(2)]
        return recording.finish([as_array(leaf) for leaf in tree.leaves(combine(*arguments))])

    graph, captured = recorded(record)
    if captured or len(graph.outputs) != 1:
        return None
    node = graph.outputs[0].node
    if node.op is None or node.params or set(node.operands) != set(graph.inputs):
        return None
    return node.op
