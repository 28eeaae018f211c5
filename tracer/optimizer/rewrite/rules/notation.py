"""How rules are written: Python functions of arrays, and shapes as letters."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

from tracer.array.trace import trace
from tracer.errors import TracerError
from tracer.ir import Graph, ShapeDtype, Value
from tracer.optimizer.rewrite.match.rule import (
    Guard,
    Numbers,
    Purpose,
    Rule,
    Spelling,
    Types,
    no_numbers,
)
from tracer.optimizer.rewrite.match.skeleton import Skeleton, normal_form, skeletons

_SIZES = {letter: size for size, letter in enumerate("ubijklmnr", start=1)}
_AXIS = re.compile(r"\(([a-z]+)\)|([a-z])")
_FLOATS = ("float32",)

Function = Callable[..., Any]


def spelling(function: Function) -> Spelling:
    """Return the spelling that traces a function of arrays and keyword numbers, once for each."""

    @functools.lru_cache(maxsize=1024)
    def traced(types: Types, numbers: tuple[tuple[str, Any], ...]) -> Graph:
        return normal_form(trace(functools.partial(function, **dict(numbers)), types).graph)

    def spell(types: Types, numbers: Numbers) -> Graph:
        return traced(types, tuple(sorted(numbers.items())))

    return spell


def sample_types(sample: str) -> list[Types]:
    """Return the types of a sample.

    Parameters
    ----------
    sample : str
        The shapes of the leaves: a letter for each axis, the same one where sizes are equal,
        letters in parentheses for the product of their sizes, "." for a scalar. A dtype may follow
        after a colon; leaves without one are all float32 or all float64.

    Examples
    --------
    >>> from tracer.optimizer.rewrite.rules.notation import sample_types
    >>> [str(t) for t in sample_types("ij (ij):int32")[0]]
    ['float32[3,4]', 'int32[12]']
    """
    return list(dict.fromkeys(_types(sample, dtype) for dtype in _FLOATS))


def _types(sample: str, dtype: str) -> Types:
    found = []
    for word in sample.split():
        axes, _, own = word.partition(":")
        shape = [
            math.prod(_SIZES[letter] for letter in match[1] or match[2])
            for match in _AXIS.finditer(axes)
        ]
        found.append(ShapeDtype(tuple(shape), own or dtype))
    return tuple(found)


def _all_types(samples: Sequence[str]) -> tuple[Types, ...]:
    return tuple(types for sample in samples for types in sample_types(sample))


def rule(
    name: str,
    patterns: Sequence[Function],
    replacement: Function,
    *,
    samples: Sequence[str],
    source: str,
    guards: Sequence[Guard] = (),
    numbers: Callable[[Value], Numbers] = no_numbers,
    sample_numbers: Sequence[Numbers] = ({},),
    at_hand: Function | None = None,
    purpose: Purpose = "cost",
) -> Rule:
    """Make a rule of functions in the program's own notation; see `Rule` and `sample_types`."""
    return Rule(
        name=name,
        patterns=tuple(map(spelling, patterns)),
        replacement=spelling(replacement),
        samples=_all_types(samples),
        source=source,
        guards=tuple(guards),
        numbers=numbers,
        sample_numbers=tuple(sample_numbers),
        at_hand=None if at_hand is None else spelling(at_hand),
        purpose=purpose,
    )


class Expression:
    """An expression that guards look for.

    Parameters
    ----------
    patterns : sequence of callable
        Spellings.
    samples : sequence of str
        As in `rule`.
    """

    def __init__(self, patterns: Sequence[Function], samples: Sequence[str]) -> None:
        self._patterns = tuple(map(spelling, patterns))
        self._types = _all_types(samples)

    @functools.cached_property
    def _skeletons(self) -> tuple[Skeleton, ...]:
        return tuple(skeletons(self._patterns, self._types, ({},)))

    def leaves_at(self, value: Value) -> tuple[Value, ...] | None:
        """Return what the variables are where a value is this expression, else None."""
        for skeleton in self._skeletons:
            for leaves in skeleton.loose_leaves(value):
                if _stands_at(skeleton, value, leaves):
                    return leaves
        return None


def _stands_at(skeleton: Skeleton, value: Value, leaves: tuple[Value, ...]) -> bool:
    """Tell whether an expression, of these leaves, is a value."""
    try:
        return skeleton.bound(value, leaves, {}) is not None
    except (TracerError, IndexError):  # It does not exist for them: x @ x.T of a stack.
        return False
