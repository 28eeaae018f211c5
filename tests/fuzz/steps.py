"""Which rewrite was the first to change what a program computes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

from tests.fuzz.evaluate import Array, Noise, difference, in_own_dtypes, reads_bits, values
from tests.fuzz.program import Program
from tests.fuzz.watch import Step, Watch
from tracer.ir import Graph

_SECONDS = 40.0
"""Spent at most on the steps of one program; passes of which no step was seen yet come first."""


class _Values:
    """What graphs compute, each once."""

    def __init__(self, arrays: Sequence[Array]) -> None:
        self.arrays = arrays
        self.known: dict[str, list[Array]] = {}

    def of(self, graph: Graph) -> list[Array]:
        key = graph.fingerprint
        if key not in self.known:
            self.known[key] = values(graph, self.arrays)
        return self.known[key]


def first_wrong_step(
    watch: Watch, arrays: Sequence[Array], exact: Sequence[Array], program: Program
) -> str | None:
    """Return the name of the first rewrite whose result computes other values, if there is one.

    Both programs run in float64. What roundings may change is measured on both: a form that loses
    digits is judged by the compiled program, not here. Constants that were folded are of the
    program's own type, so the roundings are those of it.
    """
    found = _Values(arrays)
    stop = time.process_time() + _SECONDS
    wrong: list[tuple[int, Step]] = []
    for order, step in _rare_first(watch.distinct()):
        if time.process_time() > stop:
            break
        if _changes(step, found, arrays, program, may_gain_numbers=watch.may_gain_numbers):
            wrong.append((order, step))
    # A pass is made of rules: the rule's own step stands before that of its pass.
    return min(wrong, key=lambda row: row[0])[1].name if wrong else None


def _rare_first(steps: Sequence[Step]) -> list[tuple[int, Step]]:
    """Return steps with their places, the first of each name before the second of any."""
    seen: dict[str, int] = {}
    rows = []
    for place, step in enumerate(steps):
        seen[step.name] = seen.get(step.name, 0) + 1
        rows.append((seen[step.name], place, step))
    rows.sort(key=lambda row: row[:2])
    return [(place, step) for _, place, step in rows]


def _changes(
    step: Step,
    found: _Values,
    arrays: Sequence[Array],
    program: Program,
    *,
    may_gain_numbers: Callable[[Array, Step], Array],
) -> bool:
    if step.before.input_types != step.after.input_types:
        return True
    if not takes(step.before, arrays):
        return False
    before = found.of(step.before)
    if step.lanes is None and reads_bits(step.after) and _overflows(step.before, arrays, before):
        return False  # In its own dtypes the program says nothing: what was compiled is judged.
    after = found.of(step.after) if step.lanes is None else step.results(arrays)
    pairs = zip(after, before, strict=True)
    after = [np.where(may_gain_numbers(old, step), old, new) for new, old in pairs]
    if Noise(step.before, arrays, before, program.dtype).is_plainly_right(after):
        return False
    for draws in (2, 10):
        noise = Noise(step.before, arrays, before, program.dtype).draw(draws, seed=draws)
        other = Noise(step.after, arrays, after, program.dtype)
        if step.lanes is None:
            other.draw(draws, seed=draws)
        if all(
            difference(new, old, noise.tolerance(i) + other.tolerance(i)) is None
            for i, (new, old) in enumerate(zip(after, before, strict=True))
        ):
            return False
    return True


def takes(graph: Graph, arrays: Sequence[Array]) -> bool:
    """Tell whether a graph's inputs are of the shapes of some arrays."""
    return [value.shape for value in graph.inputs] == [np.shape(array) for array in arrays]


def _overflows(graph: Graph, arrays: Sequence[Array], wide: Sequence[Array]) -> bool:
    """Tell whether a program overflows in its own dtypes where it does not in float64."""
    own = in_own_dtypes(graph, arrays)
    return any(
        (np.isfinite(true) & ~np.isfinite(mine)).any() for mine, true in zip(own, wide, strict=True)
    )
