"""Gradients against differences of values, all interpreted in float64."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tests.fuzz import frameworks
from tests.fuzz.evaluate import Array, values
from tests.fuzz.program import Program
from tracer.array.trace import trace

_STEP = 1e-4
_SMOOTH = 1e-3
"""Slopes on both sides that differ by more than this share show a kink: nothing is said there."""
_OFF = 1e-4
_SIDES = 4
_FINER = (1e-6, 1e-8)
"""Steps at which a slope that can be trusted is the same.

`sin` of 1e4 turns many times within a step: its differences agree with one another by chance only.
"""


def off_differences(
    program: Program, arguments: Sequence[Array], exact: Sequence[Array]
) -> str | None:
    """Return how far a gradient is from the slope along one direction; None where they agree.

    None as well where differences are no judge: at kinks, for complex numbers and for functions
    that bend too much for the step.
    """
    function = frameworks.differentiated(program)
    if function is None or np.dtype(program.dtype).kind != "f":
        return None
    wide = program.with_dtype("float64")
    given = [np.asarray(a).astype("float64") if a.dtype.kind == "f" else a for a in arguments]
    function = frameworks.differentiated(wide)
    assert function is not None
    traced = trace(function, given)
    rng = np.random.default_rng(program.seed)
    directions = {i: rng.standard_normal(given[i].shape) for i in program.inexact}
    closed_over = [np.asarray(array) for array in traced.captured]

    def along(step: float) -> float:
        moved = [a + step * directions[i] if i in directions else a for i, a in enumerate(given)]
        return float(values(traced.graph, [*moved, *closed_over])[0])

    return _compared(along, directions, exact)


def _slope(along: Callable[[float], float], step: float) -> float:
    return (along(step) - along(-step)) / (2 * step)


def _noise(value: float, step: float) -> float:
    """Return how much the rounding of values may move a slope."""
    return 1e-13 * (1.0 + abs(value)) / step


def _is_right_nearby(
    along: Callable[[float], float], middle: float, said: float, off: float, size: float
) -> bool:
    """Tell whether a gradient is the slope at a step that is finer, and can show the difference.

    Of 15,000 elements a few have a kink within the coarse step, which moves its slope a little.
    """
    return any(
        _noise(middle, h) < off / 4 and abs(_slope(along, h) - said) <= _OFF * size + off / 4
        for h in _FINER
    )


def _compared(
    along: Callable[[float], float], directions: dict[int, Array], exact: Sequence[Array]
) -> str | None:
    middle = along(0.0)
    slopes = {h: _slope(along, h) for h in (_STEP, _STEP / 2)}
    right, left = ((along(s * _STEP / 8) - middle) / (s * _STEP / 8) for s in (1, -1))
    gradients = exact[len(exact) - len(directions) :]
    terms = [np.asarray(g * v) for g, v in zip(gradients, directions.values(), strict=True)]
    said = sum(float(np.sum(term)) for term in terms)
    size = sum(float(np.sum(np.abs(term))) for term in terms) + abs(said) + 1e-8 * abs(middle)
    best = (4 * slopes[_STEP / 2] - slopes[_STEP]) / 3
    unsure = abs(slopes[_STEP] - slopes[_STEP / 2]) + 1e-12 * abs(middle) / _STEP
    if not np.isfinite([said, best, right, left]).all():
        return None
    size = max(size, abs(best))
    if abs(right - left) > _SMOOTH * size or unsure > 0.1 * _OFF * size:
        return None
    if any(abs(_slope(along, h) - best) > _SMOOTH * size + _noise(middle, h) for h in _FINER):
        return None
    off = abs(said - best)
    room = _OFF * size + 10 * unsure
    # At a kink, too small beside the rest to be left out, any slope between those of its sides is
    # right. A direction shows two sides of many: ties of a maximum over minima have others, too.
    if off <= room + _SIDES * abs(right - left):
        return None
    if _is_right_nearby(along, middle, said, off, size):
        return None
    return f"slope {best:.8g} along a direction, {said:.8g} by the gradient"
