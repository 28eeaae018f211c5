"""Maxima and minima that devices of a mesh join keep their NaNs.

Where XLA's partitioner cuts what an extreme is taken of, devices join theirs in an all-reduce. That
of XLA:CPU compares with `<`, in one process and through gloo: a device's part with a NaN was
dropped, all of it. So whether there was a NaN is found beside the extreme, as an `or`. What each
device computes on its own part (`shard`) is joined by nobody.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tracer import ops
from tracer.ir import Builder, Graph, Node, Value, rebuild
from tracer.ops import helpers
from tracer.ops.rules import is_float
from tracer.optimizer.passes import Pass, PassLog

_EXTREMES = (ops.reduce_maximum, ops.reduce_minimum)


def kept_nan_pass() -> Pass:
    """Return the pass that joins NaNs beside extremes."""
    return Pass("keep nan", _kept, bodies=False, writes_out_cost=True)


def _kept(graph: Graph, log: PassLog) -> Graph:
    def rewrite(
        builder: Builder, node: Node, operands: tuple[Value, ...]
    ) -> Sequence[Value] | None:
        if node.op is ops.shard:
            return None
        if node.bodies:
            bodies = _bodies(node, log)
            return None if bodies == node.bodies else builder.copy(node, operands, **bodies)
        if not is_float(node.types[0].dtype):
            return None
        is_nan = _has_nan(node, operands)
        if is_nan is None:
            return None
        log.applied.append(f"{node.name} of {node.operand_types[0]}")
        (extreme,) = builder.copy(node, operands)
        return (ops.select(is_nan, helpers.full_like(extreme, np.nan), extreme),)

    return rebuild(graph, rewrite)


def _bodies(node: Node, log: PassLog) -> dict[str, Graph | tuple[Graph, ...]]:
    return {
        key: tuple(_kept(body, log) for body in bodies)
        if isinstance(bodies, tuple)
        else _kept(bodies, log)
        for key, bodies in node.bodies.items()
    }


def _has_nan(node: Node, operands: tuple[Value, ...]) -> Value | None:
    """Write where an extreme has a NaN to keep; None for what is no extreme."""
    if node.op in _EXTREMES:
        return ops.reduce_or(_is_nan(operands[0]), **node.params)  # type: ignore[no-any-return]
    if node.op is ops.scatter and node.params["combiner"] in ("maximum", "minimum"):
        x, indices, updates = operands
        params = {**node.params, "combiner": "maximum"}
        return ops.scatter(_is_nan(x), indices, _is_nan(updates), **params)  # type: ignore[no-any-return]
    return None


def _is_nan(x: Value) -> Value:
    return ops.compare(x, x, direction="NE")  # type: ignore[no-any-return]


__all__ = ["kept_nan_pass"]
