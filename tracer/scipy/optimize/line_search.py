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

from collections.abc import Callable
from typing import Any, NamedTuple

import tracer.numpy as tnp
from tracer.array.array import Array
from tracer.array.convert import convert
from tracer.scipy.choice import choose
from tracer.scipy.iteration import iterate_nested

_ARMIJO, _CURVATURE = 1e-4, 0.9
_MOST_ZOOMS = 30
"""Trials within a bracket, as many as JAX's."""
_MARGIN = 0.1
"""A trial lies at least this part of the bracket from its ends."""

Along = Callable[[Any], tuple[Any, Any, Any]]


class Point(NamedTuple):
    """A step, with the value and the slope there."""

    step: Any
    value: Any
    slope: Any


class Search(NamedTuple):
    """The state of the search.

    Attributes
    ----------
    low : Point
        The best step so far, at first none.
    grad : Array
        The gradient there.
    high : Point
        The other end of the bracket, infinite until there is one; its step may be below `low`.
    trial : Array
        The step to try next.
    longer, zooms : Array
        Trials until there was a bracket, and since then.
    is_done : Array
        `low` meets both conditions.
    """

    low: Point
    grad: Any
    high: Point
    trial: Any
    longer: Any
    zooms: Any
    is_done: Any


def line_search(along: Along, start: Point, grad: Array, first: Array, most: int) -> Search:
    """Search a step that lowers the value enough and makes the slope flat enough.

    Parameters
    ----------
    along : callable
        `step -> (value, slope, gradient)`.
    start : Point
        What is at step 0, with a negative slope; else nothing is tried.
    grad : Array
        The gradient there.
    first : Array
        The step to begin with.
    most : int
        Trials at most until there is a bracket.

    Returns
    -------
    Search
        `low` is the step where `is_done`, else the best one that was met, which may be 0.
    """

    def again(*state: Any) -> Search:
        search = Search(*state)
        value, slope, grad = along(search.trial)
        return _with(search, start, Point(search.trial, value, slope), grad)

    def goes_on(*state: Any) -> Any:
        search = Search(*state)
        is_bracket = tnp.isfinite(search.high.step)
        is_allowed = (search.zooms < _MOST_ZOOMS) & (is_bracket | (search.longer < most))
        return ~search.is_done & is_allowed & (search.trial != search.low.step)

    infinite, none = tnp.zeros_like(start.step) + tnp.inf, tnp.zeros((), int)
    far = Point(infinite, infinite, infinite)
    first = choose(start.slope < 0, first, start.step)
    begin = Search(start, grad, far, first, none, none, tnp.zeros((), bool))
    found: Search = iterate_nested(goes_on, again, begin)
    return found


def _with(search: Search, start: Point, here: Point, grad: Any) -> Search:
    """Return the search after a trial."""
    low, high = search.low, search.high
    is_high = _is_too_high(start, low, here)
    is_done = ~is_high & (abs(here.slope) <= -_CURVATURE * start.slope)
    is_behind = ~is_high & (here.slope * (high.step - low.step) >= 0)
    # The far end is now this step where it is too long, and the last one behind a minimum.
    high = _chosen(is_high, here, _chosen(is_behind, low, high))
    low = _chosen(is_high, low, here)
    had = tnp.isfinite(search.high.step)
    return Search(
        low,
        choose(is_high, search.grad, grad),
        high,
        _next(low, high),
        search.longer + convert(~had, search.longer.dtype),
        search.zooms + convert(had, search.zooms.dtype),
        is_done,
    )


def _is_too_high(start: Point, low: Point, here: Point) -> Any:
    """Tell whether a step is too long; so is one where something is no number."""
    rounding = 2 * tnp.finfo(start.value.dtype).eps * abs(start.value)
    is_level = here.value <= start.value + rounding
    is_descent = here.value <= start.value + _ARMIJO * here.step * start.slope
    is_descent = is_descent | (is_level & (here.slope <= (2 * _ARMIJO - 1) * start.slope))
    is_lower = (here.value < low.value) | (is_level & (here.value <= low.value + rounding))
    is_number = tnp.isfinite(here.value) & tnp.isfinite(here.slope)
    return ~(is_descent & is_lower & is_number)


def _chosen(condition: Any, some: Point, others: Point) -> Point:
    return Point(*(choose(condition, a, b) for a, b in zip(some, others, strict=True)))


def _next(low: Point, high: Point) -> Array:
    """Return twice the step without a bracket; in one the cubic's minimum, or the middle."""
    width = high.step - low.step
    mixed = low.slope + high.slope - 3 * (high.value - low.value) / width
    root = tnp.sign(width) * tnp.sqrt(mixed * mixed - low.slope * high.slope)
    part = 1 - (high.slope + root - mixed) / (high.slope - low.slope + 2 * root)
    is_within = (part >= _MARGIN) & (part <= 1 - _MARGIN)
    inner = low.step + choose(is_within, part, 0.5) * width
    return choose(tnp.isfinite(high.step), inner, 2 * low.step)


__all__ = ["Point", "Search", "line_search"]
