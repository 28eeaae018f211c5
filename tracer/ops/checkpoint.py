"""checkpoint: a call whose gradient recomputes what a policy does not keep.

Sources: Griewank & Walther, "Algorithm 799: revolve" (2000) and Chen et al., "Training Deep Nets
with Sublinear Memory Cost" (2016); `jax.checkpoint` and its policies for names and semantics.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tracer import ops
from tracer.ir import AxisRule, Cost, Graph, Node, Op, ShapeDtype, Value
from tracer.ops.call import call_record
from tracer.ops.helpers import full
from tracer.ops.rules import as_tuple, elementwise_axes

Cotangents = tuple[Value | None, ...]
Policy = tuple[str, ...]

_SAVES: dict[str, Callable[[Node, Sequence[str]], bool]] = {
    "nothing": lambda node, names: False,
    "everything": lambda node, names: True,
    "dots": lambda node, names: node.op is ops.dot_general,
    "dots without batch": lambda node, names: (
        node.op is ops.dot_general and not node.params["lhs_batch"]
    ),
    "names": lambda node, names: node.op is checkpoint_name and node.params["name"] in names,
}
"""What a policy keeps, by its first word; the other words are names of values."""


def _linearize(
    rules: Any,
    active: Sequence[bool],
    wanted: Sequence[bool],
    *operands: Value,
    body: Graph,
    prevent_cse: bool,
    policy: Policy = ("nothing",),
) -> tuple[tuple[Value, ...], Callable[[Cotangents], Cotangents]]:
    """Keep the operands and what the policy says; the backward pass computes the rest again.

    The barrier holds these values back until the cotangents exist. Without it the compiler
    would merge the second run with the first and keep every intermediate after all.
    """
    wrt = [i for i, flag in enumerate(active) if flag]
    seeded = [i for i, flag in enumerate(wanted) if flag]
    kind, *names = policy
    saves = _SAVES[kind]
    halves = rules.pull_back(body, wrt, seeded, saves=lambda node: saves(node, names))
    params = {"prevent_cse": prevent_cse, "policy": policy}
    outputs = as_tuple(checkpoint(*operands, body=halves.forward, **params))
    results, kept = outputs[: len(body.outputs)], outputs[len(body.outputs) :]

    def pull_back(g: Cotangents) -> Cotangents:
        pairs = [(g[i], body.outputs[i].type) for i in seeded]
        seeds = [full(0, type) if ct is None else ct for ct, type in pairs]
        given: Sequence[Value] = [*(operands[i] for i in halves.inputs), *kept, *seeds]
        if prevent_cse:
            given = as_tuple(ops.optimization_barrier(*given))
        # The backward pass is a checkpoint itself, so that gradients of gradients keep no more.
        found = as_tuple(checkpoint(*given, body=halves.backward, **params))
        by_operand = dict(zip(wrt, found, strict=True))
        return tuple(by_operand.get(i) for i in range(len(operands)))

    return results, pull_back


checkpoint: Op = call_record(
    "checkpoint",
    "Calls `body`; a gradient keeps its operands and what `policy` says, and computes the rest "
    "again. `prevent_cse`: keep the compiler from merging the two computations. `policy`: "
    "('nothing',), ('everything',), ('dots',), ('dots without batch',) or ('names', *names).",
    linearize=_linearize,
)


def _same(x: ShapeDtype, *, name: str) -> ShapeDtype:
    return x


def _axes(operands: Any, results: Any, *, name: str) -> AxisRule:
    return elementwise_axes(operands, results)


checkpoint_name: Op = Op(
    "checkpoint_name",
    doc="The operand itself, under a name that checkpoint's policy may ask for. Source: "
    "jax.ad_checkpoint.checkpoint_name.",
    infer=_same,
    evaluate=lambda x, *, name: x,
    lower=lambda b, types, x, *, name: x,
    vjp=lambda g, out, x, *, name: (g,),
    axes=_axes,
    cost=lambda operands, results, *, name: Cost(0, 0),
    fusion="view",
    expand=lambda x, *, name: (x,),
)

__all__ = ["checkpoint", "checkpoint_name"]
