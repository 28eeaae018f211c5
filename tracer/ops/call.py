"""Calls of a body that matter to differentiation only: checkpoint and custom_vjp_call.

All expand to their body; the passes and the lowering never need to know them.

Sources: Griewank & Walther, "Algorithm 799: revolve" (2000) and Chen et al., "Training Deep Nets
with Sublinear Memory Cost" (2016) for checkpoint; `jax.checkpoint` and `jax.custom_vjp` for names
and semantics.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tracer import ops
from tracer.errors import NotDifferentiableError, ShapeError
from tracer.ir import Cost, Graph, NotDifferentiable, Op, ShapeDtype, Value
from tracer.ops.batch_control import batch_call, batch_custom_vjp_call
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


def _call(
    name: str,
    doc: str,
    *,
    linearize: Callable[..., Any] | None = None,
    vjp: NotDifferentiable = _BY_LINEARIZE,
    batch: Callable[..., Any] = batch_call,
) -> Op:
    return Op(
        name,
        doc=doc,
        infer=_infer,
        evaluate=_evaluate,
        lower=_lower,
        vjp=vjp,
        axes=whole_axes,
        cost=_cost,
        linearize=linearize,
        expand=_expand,
        batch=batch,
    )


def _linearize_checkpoint(
    rules: Any,
    active: Sequence[bool],
    wanted: Sequence[bool],
    *operands: Value,
    body: Graph,
    prevent_cse: bool,
) -> tuple[tuple[Value, ...], Callable[[Cotangents], Cotangents]]:
    """Keep the operands only; the backward pass runs the body again.

    The barrier holds the operands back until the cotangents are there. Without it the compiler
    would merge the second run with the first and keep every intermediate after all.
    """
    wrt = [i for i, flag in enumerate(active) if flag]

    def pull_back(g: Cotangents) -> Cotangents:
        seeded = [i for i, cotangent in enumerate(g) if cotangent is not None]
        given = [cotangent for cotangent in g if cotangent is not None]
        backward = rules.vjp_graph(body, wrt, seeded)
        again: Sequence[Value] = [*operands, *given]
        if prevent_cse:
            again = ops.optimization_barrier(*again)
        # The backward pass is a checkpoint itself, so that gradients of gradients keep no more.
        results = checkpoint(*again, body=backward, prevent_cse=prevent_cse)
        found = dict(zip(wrt, results, strict=True))
        return tuple(found.get(i) for i in range(len(operands)))

    return checkpoint(*operands, body=body, prevent_cse=prevent_cse), pull_back


checkpoint: Op = _call(
    "checkpoint",
    "Calls `body`; a gradient keeps its operands only and computes the body again. "
    "`prevent_cse`: keep the compiler from merging the two computations.",
    linearize=_linearize_checkpoint,
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


custom_vjp_call: Op = _call(
    "custom_vjp_call",
    "Calls `body`. Its gradient runs `forward` instead, which gives the results and residuals, "
    "then `backward`: (closed-over operands, residuals, cotangents of the inexact results) -> "
    "cotangents of the inexact ones among the first `differentiable` operands; the others are "
    "values that the functions close over.",
    linearize=_linearize_custom,
    batch=batch_custom_vjp_call,
)
plain_call: Op = _call(
    "plain_call",
    "Calls `body`, and has no gradient.",
    vjp=NotDifferentiable(
        "a custom_vjp function that calls itself in its own rule is differentiated more often "
        "than was prepared for",
        mend="compute the result in fwd and bwd directly, without calling the function",
    ),
)

__all__ = ["checkpoint", "custom_vjp_call", "plain_call"]
