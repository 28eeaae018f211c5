"""A rewrite rule as data: pattern, replacement, and conditions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from tracer.ir import Graph, ShapeDtype, Value

Types = tuple[ShapeDtype, ...]
Numbers = Mapping[str, Any]
"""What a pattern needs in addition to arrays: an axis, a count; read off the program."""
Spelling = Callable[[Types, Numbers], Graph]
"""Returns the graph of an expression for leaves of these types: one result, in normal form."""
Purpose = Literal["cost", "accuracy", "measured"]


@dataclass(frozen=True)
class Bound:
    """A place in a program where a pattern matches.

    Attributes
    ----------
    root : Value
        What the pattern computes.
    leaves : tuple of Value
        What the pattern's variables are, in order.
    numbers : mapping
        The other parameters of the pattern.
    inner : tuple of Value
        The values of the program that match the pattern's own nodes, the root among them.
    """

    root: Value
    leaves: tuple[Value, ...]
    numbers: Numbers
    inner: tuple[Value, ...]


Guard = Callable[[Bound], str | None]
"""Returns the reason why a rule must not be applied here, or None."""


def no_numbers(root: Value) -> Numbers:
    """Say that a pattern has arrays only."""
    return {}


@dataclass(frozen=True, eq=False)
class Rule:
    """One rewrite.

    Parameters
    ----------
    name : str
        By which it is switched off.
    patterns : tuple of callable
        Spellings of what is replaced.
    replacement : callable
        The spelling of its replacement.
    samples : tuple of tuple of ShapeDtype
        Types of the leaves, one tuple for each rank at which the pattern is another sequence of
        ops. The pattern matches at any sizes.
    source : str
        Where the identity and its numerical behaviour are described.
    guards : tuple of callable
        All must agree.
    numbers : callable
        `root value -> numbers` of the pattern at that place.
    sample_numbers : tuple of mapping
        Numbers that go with the samples, each at which the pattern is another sequence of ops.
    at_hand : callable, optional
        A spelling of a value that the program must compute anyway for the rule to hold or to pay.
    purpose : {"cost", "accuracy", "measured"}
        A rule for cost is applied where it saves by the cost rules of the op records, one for
        accuracy wherever its guards agree, and so one whose guards hold measured limits.
    """

    name: str
    patterns: tuple[Spelling, ...]
    replacement: Spelling
    samples: tuple[Types, ...]
    source: str
    guards: tuple[Guard, ...] = ()
    numbers: Callable[[Value], Numbers] = no_numbers
    sample_numbers: tuple[Numbers, ...] = ({},)
    at_hand: Spelling | None = None
    purpose: Purpose = "cost"
