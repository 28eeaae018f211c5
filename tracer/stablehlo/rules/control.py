"""Rules of loops, branches and calls. Bodies may read what is around them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracer.array.array import Array
from tracer.array.convert import broadcast, convert
from tracer.array.dispatch import from_host
from tracer.control import cond, fori_loop, switch, while_loop
from tracer.ir import ShapeDtype
from tracer.lowering import Operation, Region
from tracer.numpy.ufunc import compare, full_like, select
from tracer.stablehlo.loops import Count, count_of
from tracer.stablehlo.table import RULES, Instruction, rule

_INT32 = np.dtype(np.int32)


@rule("func.call")
def function_call(instruction: Instruction, *operands: Array) -> Sequence[Array]:
    """Inline the function."""
    return instruction.evaluator.call(instruction.attributes["callee"], operands)  # type: ignore[no-any-return]


@rule("stablehlo.composite")
def composite(instruction: Instruction, *operands: Array) -> Sequence[Array]:
    """Apply the rule of the op that it stands for, if there is one; else inline what it is."""
    attributes = instruction.attributes
    known = RULES.get(str(attributes["name"]))
    given = attributes.get("composite_attributes", {})
    if known is not None and attributes["name"] == "chlo.top_k":
        operation = instruction.operation
        stands_for = Operation(
            attributes["name"],
            given,
            operation.operands,
            operation.operand_types,
            operation.results,
            operation.result_types,
            (),
            operation.source,
        )
        seen = Instruction(stands_for, instruction.module, instruction.evaluator)
        return known(seen, *operands)  # type: ignore[no-any-return]
    return instruction.evaluator.call(attributes["decomposition"], operands)  # type: ignore[no-any-return]


@rule("stablehlo.case")
def case(instruction: Instruction, index: Array) -> Sequence[Array]:
    """Run one of several bodies; an index out of bounds takes the last."""
    regions = instruction.operation.regions
    branches = [_branch(instruction, region) for region in regions]
    if len(branches) == 1 or not instruction.operation.results:
        return list(branches[-1]())
    is_below = compare(index, full_like(index, 0), "LT")
    last = full_like(index, len(branches) - 1)
    return list(switch(select(is_below, last, index), branches))


@rule("stablehlo.if")
def if_(instruction: Instruction, predicate: Array) -> Sequence[Array]:
    """Run one of two bodies."""
    first, second = (_branch(instruction, region) for region in instruction.operation.regions)
    if not instruction.operation.results:
        return []
    return list(cond(predicate, first, second))


def _branch(instruction: Instruction, region: Region) -> Callable[[], tuple[Array, ...]]:
    return lambda: tuple(instruction.run(region, ()))


@rule("stablehlo.while")
def while_(instruction: Instruction, *operands: Array) -> Sequence[Array]:
    """Loop as long as a condition holds: with a known number of steps, if it counts them."""
    condition, body = instruction.operation.regions
    if not operands:
        return []
    count = count_of(instruction.operation, instruction.module)
    if count is not None:
        return _counted(instruction, count, operands)

    def holds(carry: Sequence[Array]) -> Array:
        return instruction.run(condition, carry)[0]

    def step(carry: Sequence[Array]) -> tuple[Array, ...]:
        return tuple(instruction.run(body, carry))

    return list(while_loop(holds, step, tuple(operands)))


def _counted(instruction: Instruction, count: Count, operands: Sequence[Array]) -> list[Array]:
    """Loop with the counter as the index, so that the loop can be differentiated."""
    _, body = instruction.operation.regions
    place, type = count.position, operands[count.position].type
    kept = [x for i, x in enumerate(operands) if i not in count.kept and i != place]

    def all_of(index: Array, carry: Sequence[Array]) -> list[Array]:
        rest = iter(carry)
        return [
            index if i == place else x if i in count.kept else next(rest)
            for i, x in enumerate(operands)
        ]

    def step(index: Any, carry: Sequence[Array]) -> tuple[Array, ...]:
        counter = _counter(index, count, type)
        results = instruction.run(body, all_of(counter, carry))
        return tuple(x for i, x in enumerate(results) if i not in count.kept and i != place)

    results = tuple(kept)
    if count.steps and kept:
        results = fori_loop(0, count.steps, step, results)
    last = from_host(np.array(count.start + count.steps * count.step, type.dtype))
    return all_of(last, results)


def _counter(index: Any, count: Count, type: ShapeDtype) -> Array:
    """Return the value of the counter in a step."""
    number = convert(index, type.dtype)
    if count.step != 1:
        number = number * full_like(number, count.step)
    if count.start:
        number = number + full_like(number, count.start)
    return broadcast(number, type.shape)
