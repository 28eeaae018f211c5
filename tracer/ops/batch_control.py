"""Batching of ops that hold bodies: loops, branches and calls.

A carry is batched if it enters batched or if a step makes it so. A loop whose condition differs
between elements runs until it fails for all; elements that are done keep their carry. If the branch
index differs between elements, all branches run; those that an element does not take give it no
derivative. Source: the batching of while, cond and scan in JAX (jax/_src/lax/control_flow).
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

from tracer import ops
from tracer.ir import Batching, Builder, Graph, ShapeDtype, Value
from tracer.ops import helpers
from tracer.ops.batch import move_axis, with_axis
from tracer.ops.bodies import inline
from tracer.ops.named_axis import reads_named_axis
from tracer.ops.rules import as_tuple, is_inexact

Flags = tuple[bool, ...]
Results = tuple[Value, ...]


def _lifted(operands: Sequence[Value], flags: Flags, wanted: Flags, size: int) -> list[Value]:
    triples = zip(operands, flags, wanted, strict=True)
    return [with_axis(x, has or not wants, size) for x, has, wants in triples]


def _settled(batching: Batching, body: Graph, flags: Flags, carry: slice) -> Flags:
    """Return the flags of the body's inputs once no step makes a further carry batched."""
    count = len(flags[carry])
    while True:
        _, results = batching.batch_graph(body, flags, batching.size)
        pairs = zip(flags[carry], results[:count], strict=True)
        grown = (*flags[: carry.start], *(a or b for a, b in pairs), *flags[carry.stop :])
        if grown == flags:
            return flags
        flags = grown


def batch_while(
    operands: tuple[Value, ...], batching: Batching, *, condition: Graph, body: Graph
) -> Results:
    """Run until the condition fails for every element."""
    size, everything = batching.size, slice(0, len(operands))
    flags = _settled(batching, body, batching.batched, everything)
    _, (differs,) = batching.batch_graph(condition, flags, size)
    if differs:
        # What the body hands on unchanged (a value that it closes over) can stay as it is.
        changes = [x is not y for x, y in zip(body.inputs, body.outputs, strict=True)]
        flags = tuple(a or b for a, b in zip(flags, changes, strict=True))
    flagged, (differs,) = batching.batch_graph(condition, flags, size)
    stepped, _ = batching.batch_graph(body, flags, size, flags)
    if differs:
        flagged, stepped = _any_element(flagged), _unless_done(flagged, stepped, flags)
    given = _lifted(operands, batching.batched, flags, size)
    return as_tuple(ops.while_(*given, condition=flagged, body=stepped))


def _any_element(condition: Graph) -> Graph:
    with Builder() as builder:
        inputs = [builder.input(type) for type in condition.input_types]
        (holds,) = inline(condition, inputs)
        return builder.finish([ops.reduce_or(holds, axes=(0,))])


def _unless_done(condition: Graph, body: Graph, flags: Flags) -> Graph:
    """Step only those elements for which the condition holds."""
    with Builder() as builder:
        carry = [builder.input(type) for type in body.input_types]
        (holds,) = inline(condition, carry)
        results = [
            _choose(holds, new, old) if flag else new
            for new, old, flag in zip(inline(body, carry), carry, flags, strict=True)
        ]
        return builder.finish(results)


def _choose(holds: Value, on_true: Value, on_false: Value) -> Value:
    """Select by element of the batch."""
    shape = on_true.shape
    if len(shape) > 1:
        holds = ops.broadcast_in_dim(holds, shape=shape, dimensions=(0,))
    return ops.select(holds, on_true, on_false)  # type: ignore[no-any-return]


def batch_case(
    operands: tuple[Value, ...], batching: Batching, *, branches: tuple[Graph, ...]
) -> Results:
    """Batch the branches; an index that differs chooses among the results of all of them."""
    index, *arguments = operands
    flags, size = batching.batched[1:], batching.size
    if batching.batched[0]:
        return _all_branches(index, arguments, flags, batching, branches)
    found = [batching.batch_graph(branch, flags, size)[1] for branch in branches]
    wanted = tuple(map(any, zip(*found, strict=True)))
    batched = tuple(batching.batch_graph(branch, flags, size, wanted)[0] for branch in branches)
    return as_tuple(ops.case(index, *arguments, branches=batched))


def _all_branches(
    index: Value,
    arguments: Sequence[Value],
    flags: Flags,
    batching: Batching,
    branches: tuple[Graph, ...],
) -> Results:
    size, wanted = batching.size, (True,) * len(branches[0].outputs)
    spread = tuple(_is_guarded_apart(branches, flags, i) for i in range(len(flags)))
    flags = tuple(map(operator.or_, flags, spread))
    arguments = [with_axis(x, not new, size) for x, new in zip(arguments, spread, strict=True)]
    taken, results = _taken(index, len(branches)), []
    for here, branch in zip(taken, branches, strict=True):
        given = [
            _guarded(here, x) if guarded and is_inexact(x.dtype) else x
            for x, guarded in zip(arguments, _guards(branch, flags), strict=True)
        ]
        results.append(inline(batching.batch_graph(branch, flags, size, wanted)[0], given))
    chosen = results.pop()
    for here, others in zip(taken, results, strict=False):
        chosen = [_choose(here, new, old) for new, old in zip(others, chosen, strict=True)]
    return tuple(chosen)


def _taken(index: Value, count: int) -> list[Value]:
    """Return for each branch which elements take it; every other index is the last one's."""
    found = [
        ops.compare(index, helpers.full_like(index, number), direction="EQ")
        for number in range(count - 1)
    ]
    before = functools.reduce(ops.or_, found, helpers.full(False, ShapeDtype(index.shape, "bool")))
    return [*found, ops.not_(before)]


def _guards(branch: Graph, flags: Flags) -> Flags:
    """Tell which arguments a branch has guarded, none if it has a collective.

    Through one, an element that takes the branch reads those that do not.
    """
    return (False,) * len(flags) if reads_named_axis(branch) else flags


def _is_guarded_apart(branches: Sequence[Graph], flags: Flags, i: int) -> bool:
    """Tell whether a value that the elements share is repeated for them, to be guarded.

    Not a larger one than each element has anyway, such as weights: a product with it would become
    one product for each element.
    """
    inputs, outputs = branches[0].inputs, branches[0].outputs
    own = [x.type.size for x, flag in zip(inputs, flags, strict=True) if flag]
    own += [x.type.size for x in outputs]
    shared = inputs[i].type
    return not flags[i] and is_inexact(shared.dtype) and shared.size <= max(own, default=0)


def _guarded(here: Value, x: Value) -> Value:
    """Return `x`, whose derivative is zero for the elements that do not take this branch.

    A branch may be infinitely steep where it is not taken, and zero times infinity is NaN.
    """
    with Builder() as builder:
        value, _ = (builder.input(operand.type) for operand in (x, here))
        body = builder.finish([value])
    with Builder() as builder:
        value, taken, tangent = (builder.input(operand.type) for operand in (x, here, x))
        rule = builder.finish([value, _choose(taken, tangent, helpers.full(0, x.type))])
    results = as_tuple(ops.custom_jvp_call(x, here, body=body, rule=rule, differentiable=1))
    return results[0]  # type: ignore[no-any-return]


def batch_scan(
    operands: tuple[Value, ...],
    batching: Batching,
    *,
    body: Graph,
    num_consts: int,
    num_carry: int,
    **params: Any,
) -> Results:
    """Batch the body; of stacked arrays the steps stay in front of the batch."""
    first_slice, size = num_consts + num_carry, batching.size
    flags = _settled(batching, body, batching.batched, slice(num_consts, first_slice))
    free = (False,) * (len(body.outputs) - num_carry)
    carried = flags[num_consts:first_slice]
    stepped, found = batching.batch_graph(body, flags, size, (*carried, *free))
    given = _lifted(operands, batching.batched, flags, size)
    for i in range(first_slice, len(given)):
        given[i] = move_axis(given[i], 0, 1) if flags[i] else given[i]
    counts = {"num_consts": num_consts, "num_carry": num_carry}
    results = list(as_tuple(ops.scan(*given, body=stepped, **counts, **params)))
    for i in range(num_carry, len(results)):
        results[i] = move_axis(results[i], 1, 0) if found[i] else results[i]
    return tuple(results)


def batch_call(
    operands: tuple[Value, ...], batching: Batching, *, body: Graph, **params: Any
) -> Results:
    """Batch the body."""
    batched, _ = batching.batch_graph(body, batching.batched, batching.size)
    return as_tuple(batching.op(*operands, body=batched, **params))


def batch_custom_vjp_call(
    operands: tuple[Value, ...],
    batching: Batching,
    *,
    body: Graph,
    forward: Graph,
    backward: Graph,
    differentiable: int,
) -> Results:
    """Batch all three bodies; a cotangent of what the elements share is summed over them.

    All results are batched, so that the rule meets the cotangent of each element by itself.
    """
    size, flags = batching.size, batching.batched
    own = len(body.outputs)
    everything = (True,) * own
    kept = (False,) * (len(forward.outputs) - own)
    batched_body, _ = batching.batch_graph(body, flags, size, everything)
    batched_forward, found = batching.batch_graph(forward, flags, size, (*everything, *kept))
    given = (*flags[differentiable:], *found[own:])
    given += (True,) * (len(backward.inputs) - len(given))
    arguments = zip(flags, body.inputs[:differentiable], strict=False)
    wanted = tuple(flag for flag, x in arguments if is_inexact(x.dtype))
    results = ops.custom_vjp_call(
        *operands,
        body=batched_body,
        forward=batched_forward,
        backward=_summed_where_shared(batching, backward, given, wanted),
        differentiable=differentiable,
    )
    return as_tuple(results)


def _summed_where_shared(batching: Batching, backward: Graph, given: Flags, wanted: Flags) -> Graph:
    batched, found = batching.batch_graph(backward, given, batching.size, wanted)
    with Builder() as builder:
        inputs = [builder.input(type) for type in batched.input_types]
        results = [
            ops.reduce_add(x, axes=(0,)) if has and not wants else x
            for x, has, wants in zip(inline(batched, inputs), found, wanted, strict=True)
        ]
        return builder.finish(results)


def batch_custom_jvp_call(
    operands: tuple[Value, ...],
    batching: Batching,
    *,
    body: Graph,
    rule: Graph,
    differentiable: int,
) -> Results:
    """Batch both bodies; a tangent is batched as its operand, and all results are."""
    size, flags = batching.size, batching.batched
    arguments = zip(flags, body.inputs[:differentiable], strict=False)
    tangents = tuple(flag for flag, x in arguments if is_inexact(x.dtype))
    batched_body, _ = batching.batch_graph(body, flags, size, (True,) * len(body.outputs))
    everything = (True,) * len(rule.outputs)
    batched_rule, _ = batching.batch_graph(rule, (*flags, *tangents), size, everything)
    params = {"body": batched_body, "rule": batched_rule, "differentiable": differentiable}
    return as_tuple(ops.custom_jvp_call(*operands, **params))


def batch_barrier(operands: tuple[Value, ...], batching: Batching) -> Results:
    """Hold the operands back as they are."""
    return as_tuple(batching.op(*operands))


__all__ = [
    "batch_barrier",
    "batch_call",
    "batch_case",
    "batch_custom_jvp_call",
    "batch_custom_vjp_call",
    "batch_scan",
    "batch_while",
]
