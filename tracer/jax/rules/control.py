"""Rules of loops and branches. What their bodies close over is found by tracing them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tracer import ops
from tracer.array.array import Array
from tracer.array.convert import scalar
from tracer.array.dispatch import apply
from tracer.control import scan, switch, while_loop
from tracer.jax.platforms import branch_of_platform, branches_here
from tracer.jax.table import Equation, rule


@rule("scan", takes_keys=True)
def scan_loop(equation: Equation, *operands: Array) -> Sequence[Array]:
    """Loop over slices, with a carry."""
    p = equation.params
    consts, carried = int(p["num_consts"]), int(p["num_carry"])
    closed, body = operands[:consts], p["jaxpr"]

    def step(carry: Any, rows: Any) -> Any:
        results = equation.run(body, [*closed, *carry, *rows])
        return tuple(results[:carried]), tuple(results[carried:])

    carry, stacked = scan(
        step,
        tuple(operands[consts : consts + carried]),
        tuple(operands[consts + carried :]),
        length=int(p["length"]),
        reverse=bool(p["reverse"]),
        unroll=max(1, int(p["unroll"])),
    )
    return [*carry, *stacked]


@rule("while", takes_keys=True)
def while_(equation: Equation, *operands: Array) -> Sequence[Array]:
    """Loop as long as a condition holds; for a batch, as long as it holds for any."""
    p = equation.params
    first, second = int(p["cond_nconsts"]), int(p["body_nconsts"])
    of_condition, of_body = operands[:first], operands[first : first + second]
    initial = operands[first + second :]
    is_batched = bool(p["cond_jaxpr"].out_avals[0].shape)

    def holds(carry: Sequence[Array]) -> Array:
        return equation.run(p["cond_jaxpr"], [*of_condition, *carry])[0]

    def condition(carry: Sequence[Array]) -> Array:
        result = holds(carry)
        axes = tuple(range(result.ndim))
        return apply(ops.reduce_or, result, axes=axes) if is_batched else result

    def body(carry: Sequence[Array]) -> tuple[Array, ...]:
        results = equation.run(p["body_jaxpr"], [*of_body, *carry])
        if not is_batched:
            return tuple(results)
        goes_on = holds(carry)
        return tuple(_where(goes_on, x, old) for x, old in zip(results, carry, strict=True))

    return list(while_loop(condition, body, tuple(initial)))


def _where(pred: Array, x: Array, y: Array) -> Array:
    """Choose for each element of a batch, whose axes are the first ones."""
    dimensions = tuple(range(pred.ndim))
    mask = apply(ops.broadcast_in_dim, pred, shape=x.shape, dimensions=dimensions)
    return apply(ops.select, mask, x, y)


@rule("platform_index")
def platform_index(equation: Equation) -> Array:
    """Say which of the branches for several platforms is this one's."""
    position = branch_of_platform(equation.params["platforms"])
    return scalar(position, equation.result.dtype)


@rule("cond", takes_keys=True)
def cond(equation: Equation, index: Array, *operands: Array) -> Sequence[Array]:
    """Apply one of several functions."""

    def branch(body: Any) -> Any:
        return lambda *arrays: tuple(equation.run(body, arrays))

    functions = [branch(body) for body in branches_here(equation.params)]
    if len(functions) == 1:
        return list(functions[0](*operands))
    return list(switch(index, functions, *operands))
