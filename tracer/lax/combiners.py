"""Functions of two elements that reductions take, and those among them that are one op."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracer import tree
from tracer.array.convert import as_array
from tracer.array.recording import Recording
from tracer.ir import Op, ShapeDtype


def recognised(combine: Callable[..., Any], dtype: np.dtype[Any]) -> Op | None:
    """Return the op that a function of two scalars is, if it is one op of both and no more."""
    type = ShapeDtype((), dtype)
    with Recording() as recording:
        arguments = [recording.argument(type) for _ in range(2)]
        results = [as_array(leaf) for leaf in tree.leaves(combine(*arguments))]
        graph, captured = recording.finish(results)
    if captured or len(graph.outputs) != 1:
        return None
    node = graph.outputs[0].node
    if node.op is None or node.params or set(node.operands) != set(graph.inputs):
        return None
    return node.op
