"""The table of rules: what each of ATen's ops is among the ops of tracer.

A rule takes a `Node` and the arguments of the op, in the order and with the names of ATen's schema:
arrays for tensors, everything else as torch has it. It returns the array of its result, or a
sequence of them; None stands for a result that nobody asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from tracer.errors import Source
from tracer.ir import ShapeDtype

Rule = Callable[..., Any]
F = TypeVar("F", bound=Rule)


@dataclass(frozen=True)
class Node:
    """One node of a graph of torch, as rules see it.

    Attributes
    ----------
    name : str
        The op: "aten.add.Tensor".
    results : tuple of ShapeDtype or None
        Types of the arrays that the rule must return.
    values : tuple of object
        The arguments by position, with torch's tensors without data for tensors.
    source : Source or None
        The user's line.
    """

    name: str
    results: tuple[ShapeDtype | None, ...]
    values: tuple[Any, ...]
    source: Source | None

    @property
    def result(self) -> ShapeDtype:
        """Type of the first result."""
        (first, *_) = self.results
        assert first is not None
        return first


RULES: dict[str, Rule] = {}
"""The rule of each op, by its name with or without the overload: "aten.add", "aten.max.dim"."""
REFUSALS: dict[str, tuple[str, str]] = {}
"""Why an op is refused, and what to write instead."""


def rule(*names: str) -> Callable[[F], F]:
    """Enter a function as the rule of ops of ATen."""

    def enter(function: F) -> F:
        RULES.update({f"aten.{name}": function for name in names})
        return function

    return enter


def refuse(reason: str, mend: str, *names: str) -> None:
    """Enter ops that have no meaning in a planned program."""
    for name in names:
        REFUSALS[f"aten.{name}"] = reason, mend


def rule_of(target: Any) -> Rule | None:
    """Return the rule of an op, that of its overload first."""
    name = str(target)
    return RULES.get(name) or RULES.get(name.rsplit(".", 1)[0])


def refusal_of(target: Any) -> tuple[str, str] | None:
    """Return why an op is refused, and what to write instead, where that is known."""
    name = str(target)
    return REFUSALS.get(name) or REFUSALS.get(name.rsplit(".", 1)[0])
