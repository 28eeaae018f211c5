"""The tangents of a loop of unknown length: one loop over the carry and its tangents.

Reverse mode has no way back through it, as the steps are not counted and what they had is not
kept. Forward mode needs none. It is made here by transposing twice (`autodiff.forward`), so the
loop takes part in a pull-back that is read at zero cotangents only, where it gives zeros; the rule
of that is the loop of the tangents. Source of the loop: the forward mode of while_loop in JAX
(jax/_src/lax/control_flow/loops.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tracer import ops
from tracer.errors import NotDifferentiableError, Source
from tracer.ir import Builder, Graph, Value
from tracer.ops.bodies import inline
from tracer.ops.helpers import full
from tracer.ops.rules import as_tuple, is_inexact

Cotangents = tuple[Value | None, ...]


def linearize_while(
    rules: Any,
    active: Sequence[bool],
    wanted: Sequence[bool],
    *operands: Value,
    condition: Graph,
    body: Graph,
) -> tuple[tuple[Value, ...], Callable[[Cotangents], Cotangents]]:
    """Emit the loop; its pull-back is there in forward mode only. See `Op.linearize`."""
    results = as_tuple(ops.while_(*operands, condition=condition, body=body))
    jvp_graph, source = rules.forward_mode(), results[0].node.source

    def pull_back(g: Cotangents) -> Cotangents:
        if jvp_graph is None:
            raise NotDifferentiableError(
                "while has no gradient: a while loop does not know its number of iterations before "
                "it runs, so reverse mode cannot store what each iteration needs",
                mend="use scan or fori_loop with fixed bounds, which can be differentiated, or "
                "forward mode (jvp, jacfwd)",
                where=source,
            )
        moved = _moved(rules, body, active)
        tangents = _loop_of_tangents(jvp_graph(body, moved, moved), condition, source)
        given = [full(0, results[i].type) if (c := g[i]) is None else c for i in moved]
        count = len(operands)
        found = ops.custom_vjp_call(
            *given,
            *operands,
            body=_zeros(tangents, count, keeps=False),
            forward=_zeros(tangents, count, keeps=True),
            backward=tangents,
            differentiable=len(given) + count,
        )
        by_operand = dict(zip(moved, found, strict=True))
        return tuple(by_operand.get(i) for i in range(len(operands)))

    return results, pull_back


def _moved(rules: Any, body: Graph, active: Sequence[bool]) -> list[int]:
    """Return the positions of the carry that have a tangent: at first, or after some step."""
    flags = list(active)
    while True:
        grown = [a or b for a, b in zip(flags, rules.active_outputs(body, flags), strict=True)]
        if grown == flags:
            return [i for i, flag in enumerate(flags) if flag]
        flags = grown


def _loop_of_tangents(both: Graph, condition: Graph, source: Source | None) -> Graph:
    """Return (carry, tangents) -> the tangents that the loop ends with; `both` is the step.

    The carry itself has cotangents of zero: what it stands in is zero wherever it is.
    """
    count = len(condition.inputs)
    with Builder() as builder:
        inputs = [builder.input(type) for type in both.input_types]
        ends = builder.finish(inline(condition, inputs[:count]))
    with Builder() as builder:
        inputs = [builder.input(type) for type in both.input_types]
        builder.source = source
        results = as_tuple(ops.while_(*inputs, condition=ends, body=both))
        none = [full(0, type) for type in both.input_types[:count] if is_inexact(type.dtype)]
        return builder.finish([*results[count:], *none])


def _zeros(tangents: Graph, count: int, *, keeps: bool) -> Graph:
    """Return (cotangents, carry) -> zeros, and the carry."""
    types = tangents.input_types
    with Builder() as builder:
        inputs = [builder.input(type) for type in (*types[count:], *types[:count])]
        zeros = [full(0, type) for type in types[count:]]
        return builder.finish([*zeros, *(inputs[len(zeros) :] if keeps else ())])


__all__ = ["linearize_while"]
