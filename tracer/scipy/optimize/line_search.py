"""A line search for the strong Wolfe conditions, in one loop with one evaluation each trip.

References
----------
Nocedal and Wright, Numerical Optimization (2006), algorithms 3.5 and 3.6, and formula 3.59: a
bracket whose end is infinite until a step is too long, and then the minimum of a cubic within.
Hager and Zhang, A new conjugate gradient method with guaranteed descent (2005): near a minimum,
where values differ by rounding only, slopes decide.

Left out: a longest step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import tracer.numpy as tnp
from tracer.array.array import Array
from tracer.control import while_loop

_ARMIJO, _CURVATURE = 1e-4, 0.9
_MOST_ZOOMS = 30
"""Trials within a bracket, as many as JAX's."""
_MARGIN = 0.1
"""A trial lies at least this part of the bracket from its ends."""

Slope = Callable[[Any], tuple[Any, Any, Any]]


class Point(NamedTuple):
    """A step, with the value, the slope and the gradient there."""

    step: Any
    value: Any
    slope: Any
    grad: Any


class Search(NamedTuple):
    """The state of the search.

    Attributes
    ----------
    low : Point
        The best step so far, at first none.
    high, high_value, high_slope : Array
        The other end of the bracket, infinite until there is one; it may be below `low`.
    trial : Array
        The step to try next.
    longer, zooms : Array
        Trials until there was a bracket, and since then.
    is_done : Array
        `low` meets both conditions.
    """

    low: Point
    high: Any
    high_value: Any
    high_slope: Any
    trial: Any
    longer: Any
    zooms: Any
    is_done: Any


def line_search(along: Slope, start: Point, first: Array, most: int) -> Search:
    """Search a step that lowers the value enough and makes the slope flat enough.

    Parameters
    ----------
    along : callable
        `step -> (value, slope, gradient)`.
    start : Point
        What is at step 0, with a negative slope; else nothing is tried.
    first : Array
        The step to begin with.
    most : int
        Trials at most until there is a bracket.

    Returns
    -------
    Search
        `low` is the step where `is_done`, else the best one that was met, which may be 0.
    """
    rounding = 2 * tnp.finfo(start.value.dtype).eps * abs(start.value)

    def is_too_high(value: Any, slope: Any, step: Any, low: Point) -> Any:
        """Tell a step that is too long; so is one with a value that is no number."""
        is_descent = value <= start.value + _ARMIJO * step * start.slope
        is_level = value <= start.value + rounding
        is_flat = is_level & (slope <= (2 * _ARMIJO - 1) * start.slope)
        is_number = tnp.isfinite(value) & tnp.isfinite(slope)
        is_lower = (value < low.value) | (is_level & (value <= low.value + rounding))
        return ~((is_descent | is_flat) & is_lower & is_number)

    def again(search: Search) -> Search:
        low, step = search.low, search.trial
        value, slope, grad = along(step)
        is_high = is_too_high(value, slope, step, low)
        is_done = ~is_high & (abs(slope) <= -_CURVATURE * start.slope)
        turns = ~is_high & (slope * (search.high - low.step) >= 0)
        here = Point(step, value, slope, grad)
        new = Point(*_chosen(is_high, low, here))
        # The end of the bracket: this step where it is too long, the last one behind a minimum.
        far = (search.high, search.high_value, search.high_slope)
        far = _chosen(turns, low[:3], far)
        high = _chosen(is_high, here[:3], far)
        had = tnp.isfinite(search.high)
        return Search(
            new,
            *high,
            _next(new, *high),
            tnp.where(had, search.longer, search.longer + 1),
            tnp.where(had, search.zooms + 1, search.zooms),
            is_done,
        )

    def goes_on(search: Search) -> Any:
        is_allowed = (search.zooms < _MOST_ZOOMS) & (
            (search.longer < most) | tnp.isfinite(search.high)
        )
        moves = abs(search.trial - search.low.step) > 0
        return ~search.is_done & is_allowed & moves & (start.slope < 0)

    zero, none = tnp.zeros_like(start.step), tnp.zeros((), int)
    infinite = zero + tnp.inf
    begin = Search(start, infinite, infinite, infinite, first, none, none, tnp.zeros((), bool))
    found: Search = while_loop(goes_on, again, begin)
    return found


def _chosen(condition: Any, some: Sequence[Any], others: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(tnp.where(condition, a, b) for a, b in zip(some, others, strict=True))


def _next(low: Point, high: Any, high_value: Any, high_slope: Any) -> Array:
    """Return twice the step without a bracket; in one the cubic's minimum, or the middle."""
    width = high - low.step
    mixed = low.slope + high_slope - 3 * (high_value - low.value) / width
    root = tnp.sign(width) * tnp.sqrt(mixed * mixed - low.slope * high_slope)
    part = 1 - (high_slope + root - mixed) / (high_slope - low.slope + 2 * root)
    is_within = (part >= _MARGIN) & (part <= 1 - _MARGIN)
    inner = low.step + tnp.where(is_within, part, 0.5) * width
    return tnp.where(tnp.isfinite(high), inner, 2 * low.step)


__all__ = ["Point", "Search", "line_search"]
