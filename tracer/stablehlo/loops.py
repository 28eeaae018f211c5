"""Loops that count: with a known number of steps they can be differentiated, and planned better."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tracer.lowering import Module, Operation, Region

_MOST_STEPS = 2**31 - 1


@dataclass(frozen=True)
class Count:
    """How a loop counts.

    Attributes
    ----------
    position : int
        Which of the values that it hands on is the counter.
    start, step, steps : int
        The first number, what is added, and how often the body runs.
    kept : frozenset of int
        The values that the body hands on as they are.
    """

    position: int
    start: int
    step: int
    steps: int
    kept: frozenset[int]


def count_of(loop: Operation, module: Module) -> Count | None:
    """Return how a `while` counts; None where the number of steps is not known.

    It is known where the condition compares a counter with a constant, the body adds a constant to
    it, and it starts with a constant.
    """
    condition, body = loop.regions
    kept = frozenset(
        i for i, (x, y) in enumerate(zip(body.arguments, body.results, strict=True)) if x == y
    )
    compared = _only(condition, module)
    if compared is None or compared.name != "stablehlo.compare":
        return None
    if compared.attributes["comparison_direction"] != "LT" or compared.operands[0] not in (
        condition.arguments
    ):
        return None
    position = condition.arguments.index(compared.operands[0])
    start = _number(loop.operands[position], module)
    end = _bound(compared.operands[1], loop, kept, module)
    step = _step(body, position, module)
    if start is None or end is None or step is None or step <= 0:
        return None
    steps = max(0, -(-(end - start) // step))
    # A counter that passes the largest number of its dtype begins again.
    last = np.iinfo(module.constants[loop.operands[position]].dtype).max
    if steps > _MOST_STEPS or start + steps * step > last:
        return None
    return Count(position, start, step, steps, kept)


def _only(region: Region, module: Module) -> Operation | None:
    """Return the operation that gives the result of a region with one operation but constants."""
    others = [
        op for op in region.operations if not op.results or op.results[0] not in module.constants
    ]
    if len(others) != 1 or others[0].results != region.results:
        return None
    return others[0]


def _number(value: int, module: Module) -> int | None:
    constant = module.constants.get(value)
    if constant is None or constant.shape or constant.dtype.kind not in "iu":
        return None
    return int(constant)


def _bound(value: int, loop: Operation, kept: frozenset[int], module: Module) -> int | None:
    """Return what the counter is compared with: a constant, or one that is handed on."""
    arguments = loop.regions[0].arguments
    if value in arguments:
        position = arguments.index(value)
        return _number(loop.operands[position], module) if position in kept else None
    return _number(value, module)


def _step(body: Region, position: int, module: Module) -> int | None:
    """Return the constant that a body adds to the counter."""
    result, counter = body.results[position], body.arguments[position]
    for operation in body.operations:
        if result in operation.results and operation.name == "stablehlo.add":
            left, right = operation.operands
            if counter == left:
                return _number(right, module)
            if counter == right:
                return _number(left, module)
    return None
