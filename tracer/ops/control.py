"""Loops, branches and barriers. Bodies are Graphs that capture nothing. Source: StableHLO."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracer import ops
from tracer.errors import DTypeError, NotDifferentiableError, ShapeError
from tracer.ir import AxisRule, Cost, Graph, NotDifferentiable, Op, ShapeDtype, Value
from tracer.ir.op import Types
from tracer.ops.batch_control import batch_barrier, batch_case, batch_while
from tracer.ops.bodies import calls_of, evaluate_body, graph_cost
from tracer.ops.generator import Generator
from tracer.ops.named_axis import reads_named_axis
from tracer.ops.rules import as_tuple, elementwise_axes, whole_axes
from tracer.ops.while_tangents import linearize_while

Array = np.ndarray[Any, Any]
Cotangents = tuple[Value | None, ...]


def _shown(types: Sequence[ShapeDtype]) -> str:
    return f"({', '.join(map(str, types))})"


def _infer_while(*types: ShapeDtype, condition: Graph, body: Graph) -> Types:
    for name, graph in (("condition", condition), ("body", body)):
        if graph.input_types != types:
            raise ShapeError(
                f"while: the {name} takes {_shown(graph.input_types)}, the carry is "
                f"{_shown(types)}",
                mend="condition and body take exactly the carried values",
            )
    if body.output_types != types:
        raise ShapeError(
            f"while: the body turns {_shown(types)} into {_shown(body.output_types)}",
            mend="the body must return the carry with unchanged shapes and dtypes",
        )
    if condition.output_types != (ShapeDtype((), bool),):
        raise DTypeError(
            f"while: the condition gives {_shown(condition.output_types)}, not one bool scalar",
            mend="return a single comparison of scalars",
        )
    return types


def _evaluate_while(*carry: Array, condition: Graph, body: Graph) -> tuple[Array, ...]:
    while evaluate_body(condition, carry)[0]:
        carry = evaluate_body(body, carry)
    return carry


def _while_cost(operands: Types, results: Types, *, condition: Graph, body: Graph) -> Cost:
    """One iteration: how many there will be is not known before the loop runs."""
    costs = [graph_cost(condition), graph_cost(body)]
    return Cost(
        sum(cost.flops for cost in costs),
        sum(cost.bytes for cost in costs),
        max(cost.scratch for cost in costs),
        packing=max(cost.packing for cost in costs),
        calls=calls_of(costs),
    )


def _handed_on(count: int, *, condition: Graph, body: Graph) -> list[int]:
    return [i for i in range(count) if body.outputs[i] is body.inputs[i]]


def _sink_while(
    operands: Sequence[Value],
    leaves: Sequence[Value],
    generator: Generator,
    *,
    condition: Graph,
    body: Graph,
) -> list[Value]:
    place = len(operands)
    results = iter(
        ops.while_(
            *generator.remaining(operands),
            *leaves,
            condition=generator.body(condition, place=place),
            body=generator.body(body, place=place, carried=True),
        )
    )
    sunk = generator.sunk
    return [value if i in sunk else next(results) for i, value in enumerate(operands)]


while_: Op = Op(
    "while",
    doc="Apply `body` to the carried operands as long as `condition` holds for them.",
    infer=_infer_while,
    evaluate=_evaluate_while,
    lower=lambda b, types, *operands, condition, body: b.while_(types, operands, condition, body),
    vjp=NotDifferentiable("it is differentiated by its linearize rule"),
    axes=whole_axes,
    cost=_while_cost,
    fusion="opaque",
    batch=batch_while,
    linearize=linearize_while,
    invariants=_handed_on,
    sink=_sink_while,
)


def _infer_case(index: ShapeDtype, *types: ShapeDtype, branches: tuple[Graph, ...]) -> Types:
    if index is not ShapeDtype((), np.int32):
        raise DTypeError(f"case: the index is {index}, not int32[]", mend="convert it to int32")
    if not branches:
        raise ShapeError("case needs a branch", mend="give one branch or more")
    for number, branch in enumerate(branches):
        if branch.input_types != types:
            raise ShapeError(
                f"case: branch {number} takes {_shown(branch.input_types)}, the operands are "
                f"{_shown(types)}",
                mend="every branch takes all operands",
            )
        if branch.output_types != branches[0].output_types:
            raise ShapeError(
                f"case: branch {number} gives {_shown(branch.output_types)}, branch 0 gives "
                f"{_shown(branches[0].output_types)}",
                mend="return the same shapes and dtypes from every branch",
            )
    return branches[0].output_types


def _evaluate_case(
    index: Array, *operands: Array, branches: tuple[Graph, ...]
) -> tuple[Array, ...]:
    inside = 0 <= index < len(branches)
    return evaluate_body(branches[int(index) if inside else -1], operands)


def _case_cost(operands: Types, results: Types, *, branches: tuple[Graph, ...]) -> Cost:
    """Take the most expensive branch in each respect."""
    costs = [graph_cost(branch) for branch in branches]
    return Cost(
        max(cost.flops for cost in costs),
        max(cost.bytes for cost in costs),
        max(cost.scratch for cost in costs),
        packing=max(cost.packing for cost in costs),
        calls=calls_of(costs),
    )


def _linearize_case(
    rules: Any,
    active: Sequence[bool],
    wanted: Sequence[bool],
    index: Value,
    *operands: Value,
    branches: tuple[Graph, ...],
) -> tuple[tuple[Value, ...], Callable[[Cotangents], Cotangents]]:
    """Choose among the branches' backward graphs with the same index.

    They compute what they need of the forward branch again: only the operands are kept, not the
    union of what all branches would have to store.
    """
    if any(map(reads_named_axis, branches)):
        # The cotangents of elements that took another branch would be summed too.
        raise NotDifferentiableError(
            "a branch of cond or switch has a collective over a named axis of vmap, and so no "
            "gradient inside of the batch",
            mend="compute the collective in front of the branches, or take the gradient of vmap",
        )
    wrt = [i for i, flag in enumerate(active[1:]) if flag]

    def pull_back(g: Cotangents) -> Cotangents:
        seeded = [i for i, cotangent in enumerate(g) if cotangent is not None]
        given = [cotangent for cotangent in g if cotangent is not None]
        backward = tuple(rules.vjp_graph(branch, wrt, seeded) for branch in branches)
        results = ops.case(index, *operands, *given, branches=backward)
        found = dict(zip(wrt, results, strict=True))
        return (None, *(found.get(i) for i in range(len(operands))))

    return ops.case(index, *operands, branches=branches), pull_back


def _sink_case(
    operands: Sequence[Value],
    leaves: Sequence[Value],
    generator: Generator,
    *,
    branches: tuple[Graph, ...],
) -> Sequence[Value]:
    """Only the branch that is taken computes what was sunk."""
    inside = generator.behind(1)
    bodies = tuple(inside.body(branch, place=len(operands) - 1) for branch in branches)
    return as_tuple(ops.case(*generator.remaining(operands), *leaves, branches=bodies))


case: Op = Op(
    "case",
    doc="Apply the branch at `index` to the operands; an index out of bounds takes the last one.",
    infer=_infer_case,
    evaluate=_evaluate_case,
    lower=lambda b, types, index, *operands, branches: b.case(types, index, operands, branches),
    vjp=NotDifferentiable("it is differentiated by its linearize rule"),
    axes=whole_axes,
    cost=_case_cost,
    fusion="opaque",
    linearize=_linearize_case,
    batch=batch_case,
    invariants=lambda count, **_: range(1, count),
    sink=_sink_case,
)


def _barrier_axes(operands: Types, results: Types) -> AxisRule:
    """Operands of one shape are cut together; of others some results would lack the axis."""
    rule = elementwise_axes if len({type.shape for type in operands}) == 1 else whole_axes
    return rule(operands, results)


optimization_barrier: Op = Op(
    "optimization_barrier",
    doc="The operands themselves, but no operation is moved or merged across. Results are there "
    "only when all operands are.",
    infer=lambda *types: types,
    evaluate=lambda *arrays: arrays,
    lower=lambda b, types, *operands: b.optimization_barrier(operands),
    vjp=lambda g, out, *operands: as_tuple(g),
    axes=_barrier_axes,
    cost=lambda operands, results: Cost(0, 0),
    reuses=(0,),
    fusion="opaque",
    pure=False,
    batch=batch_barrier,
)
