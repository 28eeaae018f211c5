"""The table of rules: what each of JAX's primitives is among the ops of tracer.

A rule takes an `Equation` and the arrays of its operands, and returns the array of its result, or a
sequence of them. Rules are found by the primitive's name, which is what jaxprs print.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tracer.array.array import Array
from tracer.errors import Source
from tracer.ir import ShapeDtype

Rule = Callable[..., Any]


@dataclass(frozen=True)
class Equation:
    """One equation of a jaxpr, as rules see it.

    Attributes
    ----------
    name : str
        The primitive's.
    params : mapping of str to object
        The primitive's parameters.
    operands, results : tuple of ShapeDtype
        Types of the arrays that the rule is given, and of those that it must return.
    original : object
        JAX's own equation.
    source : Source or None
        The user's line.
    evaluator : Evaluator
        Evaluates bodies.
    """

    name: str
    params: Mapping[str, Any]
    operands: tuple[ShapeDtype, ...]
    results: tuple[ShapeDtype, ...]
    original: Any
    source: Source | None
    evaluator: Any

    @property
    def result(self) -> ShapeDtype:
        """Type of the only result."""
        return self.results[0]

    def run(self, closed: Any, arrays: Sequence[Array]) -> list[Array]:
        """Evaluate a body, a closed jaxpr."""
        return self.evaluator.run(closed, arrays)  # type: ignore[no-any-return]


RULES: dict[str, Rule] = {}
"""The rule of each primitive, by name."""
KEY_RULES: set[str] = set()
"""Names of the primitives whose rules take typed random keys as arrays of their words."""
REFUSALS: dict[str, tuple[str, str]] = {}
"""Why a primitive is refused, and what to write instead."""


def rule(*names: str, takes_keys: bool = False) -> Callable[[Rule], Rule]:
    """Enter a function as the rule of primitives.

    Parameters
    ----------
    *names : str
        The primitives; one that changed its name has several.
    takes_keys : bool
        The rule takes random keys as arrays of words (with the axes of the words last). All others
        are applied to the words one by one: to them, keys are elements like any other.
    """

    def enter(function: Rule) -> Rule:
        for name in names:
            RULES[name] = function
        if takes_keys:
            KEY_RULES.update(names)
        return function

    return enter


def refuse(reason: str, mend: str, *names: str) -> None:
    """Enter primitives that have no meaning within a memory limit."""
    for name in names:
        REFUSALS[name] = reason, mend
