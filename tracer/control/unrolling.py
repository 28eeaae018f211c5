"""scan with several steps per iteration of the loop."""

from __future__ import annotations

from collections.abc import Sequence

from tracer import ops
from tracer.array.array import Array
from tracer.array.convert import reshape
from tracer.array.dispatch import apply, apply_graph, apply_many
from tracer.ir import Builder, Graph, Value


def run_unrolled(
    body: Graph,
    consts: Sequence[Array],
    carry: Sequence[Array],
    xs: Sequence[Array],
    *,
    steps: int,
    copies: int,
    reverse: bool,
) -> list[Array]:
    """Run `copies` steps in each iteration, and the steps that are left over after the loop.

    Parameters
    ----------
    body : Graph
        `(constants, carry, slices) -> (carry, results)`.
    consts, carry, xs : sequence of Array
        The operands of `scan`.
    steps, copies : int
        Steps in all, and in one iteration.
    reverse : bool
        Go from the last slice to the first.

    Returns
    -------
    list of Array
        The last carry and the stacked results.
    """
    rounds, left = divmod(steps, copies)
    # The steps left over come last in the order of execution.
    main = (left, steps) if reverse else (0, steps - left)
    rest = (0, left) if reverse else (steps - left, steps)
    blocks = _unrolled(body, len(consts), len(carry), copies, reverse)
    if rounds == 1:
        parts = [_rows(x, *main) for x in xs]
        results = apply_graph(blocks, [*consts, *carry, *parts])
    else:
        parts = [_blocked(_rows(x, *main), rounds, copies) for x in xs]
        results = list(
            apply_many(
                ops.scan,
                *consts,
                *carry,
                *parts,
                body=blocks,
                length=rounds,
                num_consts=len(consts),
                num_carry=len(carry),
                reverse=reverse,
            )
        )
        results[len(carry) :] = [_flat(y) for y in results[len(carry) :]]
    if not left:
        return results
    tail = _unrolled(body, len(consts), len(carry), left, reverse)
    last = [_rows(x, *rest) for x in xs]
    final = apply_graph(tail, [*consts, *results[: len(carry)], *last])
    ends = zip(results[len(carry) :], final[len(carry) :], strict=True)
    joined = [
        apply(ops.concatenate, *((b, a) if reverse else (a, b)), dimension=0) for a, b in ends
    ]
    return [*final[: len(carry)], *joined]


def _unrolled(body: Graph, num_consts: int, num_carry: int, copies: int, reverse: bool) -> Graph:
    """Return a body of `copies` steps; its slices and results have one more axis, the steps."""
    first = num_consts + num_carry
    with Builder() as builder:
        fixed = [builder.input(type) for type in body.input_types[:num_consts]]
        carry = [builder.input(type) for type in body.input_types[num_consts:first]]
        xs = [
            builder.input(type.with_shape((copies, *type.shape)))
            for type in body.input_types[first:]
        ]
        rows: dict[int, list[Value]] = {}
        for i in reversed(range(copies)) if reverse else range(copies):
            slices = [_row(x, i) for x in xs]
            outputs = builder.inline(body, [*fixed, *carry, *slices])
            carry = outputs[:num_carry]
            rows[i] = [ops.reshape(y, shape=(1, *y.shape)) for y in outputs[num_carry:]]
        stacks = zip(*(rows[i] for i in range(copies)), strict=True)
        return builder.finish([*carry, *(ops.concatenate(*s, dimension=0) for s in stacks)])


def _row(x: Value, position: int) -> Value:
    rest = x.shape[1:]
    zeros = (0,) * len(rest)
    row = ops.slice(
        x, start=(position, *zeros), limit=(position + 1, *rest), strides=(1,) * len(x.shape)
    )
    result: Value = ops.reshape(row, shape=rest)
    return result


def _rows(x: Array, start: int, stop: int) -> Array:
    if (start, stop) == (0, x.shape[0]):
        return x
    rest = x.shape[1:]
    strides = (1,) * x.ndim
    starts = (start, *(0,) * len(rest))
    return apply(ops.slice, x, start=starts, limit=(stop, *rest), strides=strides)


def _blocked(x: Array, rounds: int, copies: int) -> Array:
    return reshape(x, (rounds, copies, *x.shape[1:]))


def _flat(y: Array) -> Array:
    return reshape(y, (y.shape[0] * y.shape[1], *y.shape[2:]))


__all__ = ["run_unrolled"]
