"""scan: a loop with a known number of steps over slices, with a carry. Expands to `while`.

The record states the shape of the loop (what is constant, carried, sliced, stacked), which its
gradient needs: the derivative of a scan is a scan in the opposite direction. Semantics are those of
`jax.lax.scan`; the expansion writes the stacked results in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracer import ops
from tracer.errors import ShapeError
from tracer.ir import Cost, Graph, NotDifferentiable, Op, ShapeDtype, Value
from tracer.ops.batch_control import batch_scan
from tracer.ops.bodies import evaluate_body, graph_cost, inline, lower_expansion
from tracer.ops.generator import Generator
from tracer.ops.helpers import builder_at_source, full, reshape, scalar
from tracer.ops.rules import as_tuple, moved_bytes, whole_axes
from tracer.ops.scan_gradient import linearize_scan

Types = Sequence[ShapeDtype]


def stacked(type: ShapeDtype, length: int) -> ShapeDtype:
    """Return the type of `length` slices stacked along a new leading axis."""
    return type.with_shape((length, *type.shape))


def _operand_types(body: Graph, length: int, num_consts: int, num_carry: int) -> Types:
    sliced = num_consts + num_carry
    return (
        *body.input_types[:sliced],
        *(stacked(type, length) for type in body.input_types[sliced:]),
    )


def _infer(
    *types: ShapeDtype, body: Graph, length: int, num_consts: int, num_carry: int, reverse: bool
) -> tuple[ShapeDtype, ...]:
    wanted = _operand_types(body, length, num_consts, num_carry)
    if types != wanted:
        raise ShapeError(
            f"scan's body with inputs {[*map(str, body.input_types)]} and {length} steps needs "
            f"operands {[*map(str, wanted)]}, got {[*map(str, types)]}",
            mend="give constants, carry and stacked slices of these types",
        )
    carry = body.input_types[num_consts : num_consts + num_carry]
    if body.output_types[:num_carry] != carry or length < 1:
        raise ShapeError(
            f"scan's body takes the carry {[*map(str, carry)]} and returns "
            f"{[*map(str, body.output_types[:num_carry])]} in {length} steps",
            mend="return the carry with the types it came with, and run one step or more",
        )
    return (*carry, *(stacked(type, length) for type in body.output_types[num_carry:]))


def _evaluate(
    *arrays: Any, body: Graph, length: int, num_consts: int, num_carry: int, reverse: bool
) -> tuple[Any, ...]:
    first_slice = num_consts + num_carry
    consts, carry, xs = arrays[:num_consts], arrays[num_consts:first_slice], arrays[first_slice:]
    ys = [np.zeros((length, *type.shape), type.dtype) for type in body.output_types[num_carry:]]
    for i in reversed(range(length)) if reverse else range(length):
        results = evaluate_body(body, [*consts, *carry, *(x[i] for x in xs)])
        carry = results[:num_carry]
        for y, result in zip(ys, results[num_carry:], strict=True):
            y[i] = result
    return (*carry, *ys)


def _expand(
    *operands: Value, body: Graph, length: int, num_consts: int, num_carry: int, reverse: bool
) -> tuple[Value, ...]:
    """Write the loop as `while` over (counter, consts, carry, xs, ys)."""
    ys = [
        _unwritten(stacked(type, length), 2 * i + reverse)
        for i, type in enumerate(body.output_types[num_carry:])
    ]
    state = [scalar(0, _index_dtype(length)), *operands, *ys]
    types = [value.type for value in state]
    step = _step(body, types, length, num_consts, num_carry, reverse)
    results = ops.while_(*state, condition=_condition(types, length), body=step)
    carry = results[1 + num_consts : 1 + num_consts + num_carry]
    return (*carry, *results[1 + len(operands) :])


def _unwritten(type: ShapeDtype, number: int) -> Value:
    """Emit an array whose every element will be overwritten.

    The number makes the stacks of one loop, and those of its gradient, differ: XLA would make
    equal ones once and copy them, which takes one more stack at the peak.
    """
    return full(number % (2 if type.dtype.kind == "b" else 128), type)


def _index_dtype(length: int) -> np.dtype[Any]:
    return np.dtype(np.int32 if length <= np.iinfo(np.int32).max else np.int64)


def _condition(types: Types, length: int) -> Graph:
    with builder_at_source() as builder:
        inputs = [builder.input(type) for type in types]
        limit = scalar(length, types[0].dtype)
        return builder.finish([ops.compare(inputs[0], limit, direction="LT")])


def _step(
    body: Graph, types: Types, length: int, num_consts: int, num_carry: int, reverse: bool
) -> Graph:
    first_slice, first_stack = 1 + num_consts + num_carry, 1 + len(body.inputs)
    with builder_at_source() as builder:
        inputs = [builder.input(type) for type in types]
        counter, xs, ys = inputs[0], inputs[first_slice:first_stack], inputs[first_stack:]
        one = scalar(1, counter.dtype)
        last = scalar(length - 1, counter.dtype)
        index = ops.subtract(last, counter) if reverse else counter
        slices = [_read(x, index) for x in xs]
        results = inline(body, [*inputs[1:first_slice], *slices])
        written = [
            _write(y, result, index) for y, result in zip(ys, results[num_carry:], strict=True)
        ]
        carry = results[:num_carry]
        return builder.finish(
            [ops.add(counter, one), *inputs[1 : 1 + num_consts], *carry, *xs, *written]
        )


def _starts(index: Value, ndim: int) -> list[Value]:
    zero = scalar(0, index.dtype)
    return [index, *[zero] * (ndim - 1)]


def _read(x: Value, index: Value) -> Value:
    sizes = (1, *x.shape[1:])
    row = ops.dynamic_slice(x, *_starts(index, len(sizes)), sizes=sizes)
    return reshape(row, x.shape[1:])


def _write(y: Value, row: Value, index: Value) -> Value:
    update = reshape(row, (1, *row.shape))
    result: Value = ops.dynamic_update_slice(y, update, *_starts(index, len(y.shape)))
    return result


def _lower(b: Any, types: Any, *operands: Any, **params: Any) -> tuple[Any, ...]:
    body, length = params["body"], params["length"]
    given = _operand_types(body, length, params["num_consts"], params["num_carry"])
    return lower_expansion(_expand, given, b, operands, **params)


def _cost(
    operands: tuple[ShapeDtype, ...],
    results: tuple[ShapeDtype, ...],
    *,
    body: Graph,
    length: int,
    **_: Any,
) -> Cost:
    step = graph_cost(body)
    moved = max(length * step.bytes, moved_bytes(operands, results))
    return Cost(length * step.flops, moved, step.scratch, packing=step.packing, calls=step.calls)


def _linearize(*arguments: Any, **params: Any) -> Any:
    return linearize_scan(scan, *arguments, **params)


def _sink(
    operands: Sequence[Value],
    leaves: Sequence[Value],
    generator: Generator,
    *,
    body: Graph,
    num_consts: int,
    **params: Any,
) -> Sequence[Value]:
    consts = generator.remaining(operands[:num_consts])
    return as_tuple(
        scan(
            *consts,
            *leaves,
            *operands[num_consts:],
            body=generator.body(body, place=num_consts),
            num_consts=len(consts) + len(leaves),
            **params,
        )
    )


scan: Op = Op(
    "scan",
    doc="Runs `body`: (constants, carry, slices) -> (carry, results) `length` times; operands "
    "are the `num_consts` constants, the `num_carry` first carries and the arrays whose slices "
    "along axis 0 the body gets, from the last to the first if `reverse`. Results are the last "
    "carry and the stacked results. Source: jax.lax.scan.",
    infer=_infer,
    evaluate=_evaluate,
    lower=_lower,
    vjp=NotDifferentiable("it is differentiated by its linearize rule"),
    axes=whole_axes,
    cost=_cost,
    linearize=_linearize,
    expand=_expand,
    batch=batch_scan,
    invariants=lambda count, *, num_consts, **_: range(num_consts),
    sink=_sink,
)

__all__ = ["scan", "stacked"]
