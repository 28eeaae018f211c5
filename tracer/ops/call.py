"""Calls of a body with a user-defined derivative rule.

They matter only to differentiation. All expand to their body, so passes and lowering never see
them. Source: `jax.custom_vjp` and `jax.custom_jvp` for names and semantics.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from typing import Any

from tracer.errors import NotDifferentiableError, ShapeError, TracerError
from tracer.ir import (
    AxisRule,
    Builder,
    Cost,
    Graph,
    Node,
    NotDifferentiable,
    Op,
    ShapeDtype,
    Value,
    map_bodies,
    mapped_bodies,
    rebuild,
)
from tracer.ir.op import same_params
from tracer.ops.batch_control import batch_call, batch_custom_jvp_call, batch_custom_vjp_call
from tracer.ops.bodies import evaluate_body, graph_cost, inline, lower_expansion
from tracer.ops.helpers import full
from tracer.ops.rules import is_inexact, whole_axes

Cotangents = tuple[Value | None, ...]
_BY_LINEARIZE = NotDifferentiable("it is differentiated by its linearize rule")


def _infer(*types: ShapeDtype, body: Graph, **_: Any) -> tuple[ShapeDtype, ...]:
    if types != body.input_types:
        raise ShapeError(
            f"operands {[*map(str, types)]} do not fit a body with inputs "
            f"{[*map(str, body.input_types)]}",
            mend="give one operand of the right type for each input of the body",
        )
    return body.output_types


def _evaluate(*arrays: Any, body: Graph, **_: Any) -> tuple[Any, ...]:
    return evaluate_body(body, arrays)


def _expand(*operands: Value, body: Graph, **_: Any) -> tuple[Value, ...]:
    return tuple(inline(body, operands))


def _lower(b: Any, types: Any, *operands: Any, body: Graph, **_: Any) -> tuple[Any, ...]:
    return lower_expansion(_expand, body.input_types, b, operands, body=body)


def _cost(operands: Any, results: Any, *, body: Graph, **_: Any) -> Cost:
    return graph_cost(body)


def call_record(
    name: str,
    doc: str,
    *,
    linearize: Callable[..., Any] | None = None,
    batch: Callable[..., Any] = batch_call,
    axes: Callable[..., AxisRule] = whole_axes,
    slice: Callable[..., Any] = same_params,
    known_as: str = "",
) -> Op:
    """Return the record of an op that computes what its `body` computes."""
    return Op(
        name,
        doc=doc,
        infer=_infer,
        evaluate=_evaluate,
        lower=_lower,
        vjp=_BY_LINEARIZE,
        axes=axes,
        cost=_cost,
        slice=slice,
        known_as=known_as,
        linearize=linearize,
        expand=_expand,
        batch=batch,
    )


def _linearize_custom(
    rules: Any,
    active: Sequence[bool],
    wanted: Sequence[bool],
    *operands: Value,
    body: Graph,
    forward: Graph,
    backward: Graph,
    differentiable: int,
) -> tuple[tuple[Value, ...], Callable[[Cotangents], Cotangents]]:
    closed_over = operands[differentiable:]
    if any(active[differentiable:]):
        raise NotDifferentiableError(
            "a custom_vjp function closes over a value that is being differentiated; its rule "
            "gives no cotangent for that value",
            mend="pass the value as an argument of the function",
        )
    outputs = inline(forward, operands)
    results, residuals = outputs[: len(body.outputs)], outputs[len(body.outputs) :]

    def pull_back(g: Cotangents) -> Cotangents:
        start = len(closed_over) + len(residuals)
        seeded = [i for i, value in enumerate(results) if _inexact(value)]
        cotangents = [
            full(0, type) if (cotangent := g[i]) is None else cotangent
            for i, type in zip(seeded, backward.input_types[start:], strict=True)
        ]
        given = iter(inline(backward, [*closed_over, *residuals, *cotangents]))
        mine = [next(given) if _inexact(v) else None for v in operands[:differentiable]]
        return (*mine, *(None for _ in closed_over))

    return tuple(results), pull_back


def _inexact(value: Value) -> bool:
    return is_inexact(value.dtype)


custom_vjp_call: Op = call_record(
    "custom_vjp_call",
    "Calls `body`. Its gradient runs `forward` instead, which gives the results and residuals, "
    "then `backward`: (closed-over operands, residuals, cotangents of the inexact results) -> "
    "cotangents of the inexact ones among the first `differentiable` operands; the others are "
    "values that the functions close over.",
    linearize=_linearize_custom,
    batch=batch_custom_vjp_call,
)


def _linearize_custom_jvp(
    rules: Any,
    active: Sequence[bool],
    wanted: Sequence[bool],
    *operands: Value,
    body: Graph,
    rule: Graph,
    differentiable: int,
) -> tuple[tuple[Value, ...], Callable[[Cotangents], Cotangents]]:
    """Run the rule in place of the body; transpose its tangents for the backward pass."""
    if any(active[differentiable:]):
        raise NotDifferentiableError(
            "a custom_jvp function closes over a value that is being differentiated; its rule "
            "has no tangent of that value",
            mend="pass the value as an argument of the function",
        )
    own = len(body.outputs)
    movable = [i for i in range(differentiable) if _inexact(operands[i])]
    tangents = [len(operands) + k for k, i in enumerate(movable) if active[i]]
    seeds = {own + k: i for k, i in enumerate(_inexact_outputs(body)) if wanted[i]}
    halves = rules.pull_back(_without_linear_calls(rule, len(operands)), tangents, [*seeds])
    _require_linear(halves, len(operands))
    # A linear function has the same transpose everywhere: nothing reads the zeros.
    point = [*operands, *(full(0, type) for type in rule.input_types[len(operands) :])]
    outputs = inline(halves.forward, point)

    def pull_back(g: Cotangents) -> Cotangents:
        given = [
            full(0, rule.outputs[k].type) if (cotangent := g[i]) is None else cotangent
            for k, i in seeds.items()
        ]
        read = [point[i] for i in halves.inputs]
        found = inline(halves.backward, [*read, *outputs[len(rule.outputs) :], *given])
        by_operand = dict(zip([i for i in movable if active[i]], found, strict=True))
        return tuple(by_operand.get(i) for i in range(len(operands)))

    return tuple(outputs[:own]), pull_back


def _without_linear_calls(rule: Graph, first: int) -> Graph:
    """Write calls on tangents, which are inputs from `first` on, with the bodies called.

    A tangent goes through linear functions only. A function with a rule that is applied to one is
    linear itself, so that its body has a transpose and its own rule is not needed.
    """
    moved = set(rule.inputs[first:])
    for node in rule.nodes:
        if any(value in moved for value in node.operands):
            moved.update(node.results)

    def rewrite(builder: Builder, node: Node, operands: Sequence[Value]) -> Sequence[Value] | None:
        if not any(value in moved for value in node.operands) or not node.bodies:
            return None
        if _is_call(node):
            return inline(_without_calls(node.params["body"]), operands)
        return builder.copy(node, tuple(operands), **mapped_bodies(node, _without_calls))

    return rebuild(rule, rewrite)


def _without_calls(graph: Graph) -> Graph:
    """Write all calls, at every depth, with the bodies called."""
    return rebuild(
        map_bodies(graph, _without_calls),
        lambda _, node, operands: inline(node.params["body"], operands) if _is_call(node) else None,
    )


def _is_call(node: Node) -> bool:
    return node.op in (custom_vjp_call, custom_jvp_call, plain_call)


def _inexact_outputs(body: Graph) -> list[int]:
    return [i for i, value in enumerate(body.outputs) if _inexact(value)]


def _require_linear(halves: Any, first: int) -> None:
    """Raise when the transpose of a rule reads one of the tangents, from input `first` on."""
    forward = halves.forward
    moved = set(forward.inputs[first:])
    for node in forward.nodes:
        if any(value in moved for value in node.operands):
            moved.update(node.results)
    residuals = forward.outputs[len(forward.outputs) - halves.residuals :]
    read = [*(forward.inputs[i] for i in halves.inputs), *(residuals if halves.residuals else ())]
    if any(value in moved for value in read):
        raise NotDifferentiableError(
            "the rule of a custom_jvp function is not linear in the tangents, so it has no "
            "transpose",
            mend="return a tangent that is a sum of the given tangents, each times something "
            "that does not depend on any tangent",
        )


custom_jvp_call: Op = call_record(
    "custom_jvp_call",
    "Calls `body`. A derivative runs `rule` instead: (operands, tangents of the inexact ones among "
    "the first `differentiable` operands) -> (results, tangents of the inexact results); the other "
    "operands are values that the functions close over.",
    linearize=_linearize_custom_jvp,
    batch=batch_custom_jvp_call,
)


class DeferredError(str):
    """The message of an error that is raised where a derivative is asked for, and the error."""

    error: Exception


def deferred(error: Exception) -> DeferredError:
    """Keep an error for later.

    It loses its traceback, which would keep the values of a trace that has ended. As text that
    stays with errors that do not say themselves where they come from.
    """
    if not isinstance(error, TracerError):
        error.add_note("".join(traceback.format_tb(error.__traceback__)))
    below: BaseException | None = error
    while below is not None:
        below.__traceback__ = None
        below = below.__cause__ or below.__context__
    reason = DeferredError(error)
    reason.error = error
    return reason


def _refuse(
    rules: Any, active: Sequence[bool], wanted: Sequence[bool], *_: Value, reason: str, **__: Any
) -> Any:
    if isinstance(reason, DeferredError):
        raise reason.error.with_traceback(None)
    raise NotDifferentiableError(
        f"a function with its own rule has no gradient here: {reason}",
        mend="compute the result in the rule (custom_vjp, custom_jvp) directly, without calling "
        "the function",
    )


plain_call: Op = call_record(
    "plain_call",
    "Calls `body`, and has no gradient, for a `reason`.",
    linearize=_refuse,
)

__all__ = [
    "DeferredError",
    "call_record",
    "custom_jvp_call",
    "custom_vjp_call",
    "deferred",
    "plain_call",
]
