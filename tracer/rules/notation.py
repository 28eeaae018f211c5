"""How rules are written: Python functions of arrays, and shapes as letters."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from tracer.ir import Graph, ShapeDtype, Value
from tracer.optimizer.match.rule import (
    Guard,
    Numbers,
    Purpose,
    Rule,
    Spelling,
    Types,
    no_numbers,
)
from tracer.trace import trace

_SIZES = {letter: size for size, letter in enumerate("bijklmn", start=2)}
_FLOATS = ("float32", "float64")

Function = Callable[..., Any]


def spelling(function: Function) -> Spelling:
    """Return the spelling that traces a function of arrays and keyword numbers."""

    @functools.lru_cache(maxsize=256)
    def traced(types: Types, numbers: tuple[tuple[str, Any], ...]) -> Graph:
        return trace(functools.partial(function, **dict(numbers)), types).graph

    def spell(types: Types, numbers: Numbers) -> Graph:
        return traced(types, tuple(sorted(numbers.items())))

    return spell


def sample_types(sample: str) -> list[Types]:
    """Return the types that a sample stands for.

    Parameters
    ----------
    sample : str
        The shapes of the leaves: a letter for each axis, the same one where sizes are equal, "."
        for a scalar. A dtype may follow after a colon; leaves without one are float32 or float64.

    Examples
    --------
    >>> from tracer.rules.notation import sample_types
    >>> [str(t) for t in sample_types("ij i:int32")[0]]
    ['float32[3,4]', 'int32[3]']
    """
    return list(dict.fromkeys(_types(sample, dtype) for dtype in _FLOATS))


def _types(sample: str, dtype: str) -> Types:
    found = []
    for word in sample.split():
        letters, _, own = word.partition(":")
        shape = tuple(_SIZES[letter] for letter in letters if letter != ".")
        found.append(ShapeDtype(shape, own or dtype))
    return tuple(found)


def rule(
    name: str,
    patterns: Sequence[Function],
    replacement: Function,
    *,
    samples: Sequence[str],
    source: str,
    guards: Sequence[Guard] = (),
    numbers: Callable[[Value], Numbers] = no_numbers,
    sample_numbers: Numbers | None = None,
    at_hand: Function | None = None,
    purpose: Purpose = "cost",
) -> Rule:
    """Make a rule of functions in the program's own notation; see `Rule` and `sample_types`."""
    return Rule(
        name=name,
        patterns=tuple(map(spelling, patterns)),
        replacement=spelling(replacement),
        samples=tuple(types for sample in samples for types in sample_types(sample)),
        source=source,
        guards=tuple(guards),
        numbers=numbers,
        sample_numbers=sample_numbers,
        at_hand=None if at_hand is None else spelling(at_hand),
        purpose=purpose,
    )
