"""The table of rules: what each op of StableHLO and CHLO is among the ops of tracer.

A rule takes an `Instruction` and the arrays of its operands, and returns the array of its result,
or a sequence of them. Rules are found by the name of the op, with its dialect. Where a rule does
not take every form of its op, it is entered with what says why not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracer.array.array import Array
from tracer.errors import Source
from tracer.ir import ShapeDtype
from tracer.lowering import Module, Operation, Region

Rule = Callable[..., Any]


_REPEATING = ("stablehlo.broadcast_in_dim", "stablehlo.reshape", "stablehlo.convert")
"""Ops whose result is one element repeated, where the operand is one element."""


@dataclass(frozen=True)
class Instruction:
    """One operation of a module, as rules see it.

    Attributes
    ----------
    operation : Operation
        What the module says.
    module : Module
        The module.
    evaluator : Evaluator
        Evaluates bodies; None where an operation is only looked at.
    """

    operation: Operation
    module: Module
    evaluator: Any = None

    @property
    def name(self) -> str:
        """The op's, with its dialect."""
        return self.operation.name

    @property
    def attributes(self) -> Mapping[str, Any]:
        """The attributes by name."""
        return self.operation.attributes

    @property
    def source(self) -> Source | None:
        """Where the module says that it comes from."""
        return self.operation.source

    @property
    def operands(self) -> tuple[ShapeDtype, ...]:
        """Types of the arrays that the rule is given."""
        return _arrays(self.operation.operand_types)

    @property
    def results(self) -> tuple[ShapeDtype, ...]:
        """Types of the arrays that the rule must return."""
        return _arrays(self.operation.result_types)

    @property
    def result(self) -> ShapeDtype:
        """Type of the only result."""
        return self.results[0]

    def known(self, position: int) -> np.ndarray[Any, Any] | None:
        """Return the value of an operand that is a constant, or one element repeated; else None."""
        number = self.operation.operands[position]
        if number in self.module.constants:
            return self.module.constants[number]
        producer = self.module.producers.get(number)
        if producer is None or producer.name not in _REPEATING:
            return None
        value = Instruction(producer, self.module).known(0)
        if value is None or value.size != 1:
            return None
        type = _arrays(producer.result_types)[0]
        return np.broadcast_to(value.reshape(()).astype(type.dtype), type.shape)

    def run(self, region: Region, arrays: Sequence[Array]) -> list[Array]:
        """Evaluate a body, which may read what this operation sees."""
        return self.evaluator.run(region, arrays)  # type: ignore[no-any-return]


def _arrays(types: Sequence[ShapeDtype | str]) -> tuple[ShapeDtype, ...]:
    return tuple(type for type in types if isinstance(type, ShapeDtype))


Reason = Callable[[Instruction], str | None]
"""Says what a form of an op has that its rule does not take; None where it takes it."""

RULES: dict[str, Rule] = {}
"""The rule of each op, by name."""
CALLS: dict[str, Rule] = {}
"""The rule of each target of `stablehlo.custom_call`; `lapack_?...` is for all four dtypes."""
REASONS: dict[str, Reason] = {}
"""What says why a form of an op, or of a target, is refused."""
REFUSALS: dict[str, tuple[str, str]] = {}
"""Why an op is refused, and what to write instead."""


def rule(*names: str, unless: Reason | None = None) -> Callable[[Rule], Rule]:
    """Enter a function as the rule of ops.

    Parameters
    ----------
    *names : str
        The ops, with their dialect.
    unless : callable, optional
        Says why a form of the op is refused.
    """

    def enter(function: Rule) -> Rule:
        for name in names:
            RULES[name] = function
            if unless is not None:
                REASONS[name] = unless
        return function

    return enter


def call(*targets: str, unless: Reason | None = None) -> Callable[[Rule], Rule]:
    """Enter a function as the rule of targets of `stablehlo.custom_call`."""

    def enter(function: Rule) -> Rule:
        for target in targets:
            CALLS[target] = function
            if unless is not None:
                REASONS[target] = unless
        return function

    return enter


def refuse(reason: str, mend: str, *names: str) -> None:
    """Enter ops that have no meaning within a memory limit."""
    for name in names:
        REFUSALS[name] = reason, mend


def target_of(operation: Operation) -> str:
    """Return the target of a custom call, by the name in the table."""
    target = str(operation.attributes.get("call_target_name", ""))
    if target.startswith("lapack_") and len(target) > 8 and target[7] in "sdcz":
        return f"lapack_?{target[8:]}"
    return target
