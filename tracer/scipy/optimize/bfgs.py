"""BFGS: steps by an approximate inverse of the Hessian, which learns from each.

References
----------
Nocedal and Wright, Numerical Optimization (2006), algorithm 6.1; the first step has length 1.01, as
in SciPy and JAX.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import tracer.numpy as tnp
from tracer.array.array import Array
from tracer.array.convert import convert
from tracer.array.promotion import result_type
from tracer.autodiff.transforms import value_and_grad
from tracer.scipy.choice import choose
from tracer.scipy.iteration import iterate_nested
from tracer.scipy.optimize.line_search import Point, line_search

_CONVERGED, _MOST_STEPS, _ZOOM_FAILED, _SEARCH_ENDED = 0, 1, 3, 5
"""The statuses, JAX's numbers."""


class BfgsState(NamedTuple):
    """The state of the minimization.

    Attributes
    ----------
    x, value, grad, inverse : Array
        Where it is, with the value, the gradient and the approximate inverse of the Hessian.
    last_value : Array
        The value a step before.
    steps, evaluations : Array
        Counts; each evaluation is one of the value and of the gradient.
    status : Array
        Why the last line search failed, or 0.
    has_converged : Array
        The gradient is small.
    """

    x: Any
    value: Any
    grad: Any
    inverse: Any
    last_value: Any
    steps: Any
    evaluations: Any
    status: Any
    has_converged: Any


def minimize_bfgs(
    function: Callable[[Any], Any],
    x0: Array,
    maxiter: int | None = None,
    norm: Any = tnp.inf,
    gtol: float = 1e-5,
    line_search_maxiter: int = 10,
) -> BfgsState:
    """Minimize a function of a vector.

    Parameters
    ----------
    function : callable
        `vector -> real scalar`.
    x0 : Array, shape (size,)
        Where to start, a real float.
    maxiter : int, optional
        Steps at most; 200 times the size by default.
    norm : int or float
        Order of the norm of the gradient that is compared with `gtol`.
    gtol : float
        The end is where that norm is at most this.
    line_search_maxiter : int
        Trials at most until a line search has a bracket.

    Returns
    -------
    BfgsState
        With the final status.
    """
    most = 200 * x0.shape[0] if maxiter is None else maxiter
    at = value_and_grad(function)

    def is_small(grad: Any) -> Any:
        return tnp.linalg.norm(grad, norm) <= gtol

    def step(*state: Any) -> BfgsState:
        return _step(at, is_small, BfgsState(*state), line_search_maxiter)

    def goes_on(*parts: Any) -> Any:
        state = BfgsState(*parts)
        return ~state.has_converged & (state.status == 0) & (state.steps < most)

    value, grad = at(x0)
    # A guess of the last value, by which the first step has a length of about 1.
    last = value + convert(tnp.linalg.norm(grad) / 2, value.dtype)
    inverse, none = tnp.eye(x0.shape[0], dtype=x0.dtype), tnp.zeros((), int)
    begin = BfgsState(x0, value, grad, inverse, last, none, none + 1, none, is_small(grad))
    found: BfgsState = iterate_nested(goes_on, step, begin)
    failed = choose(found.steps >= most, _MOST_STEPS, found.status)
    return found._replace(status=choose(found.has_converged, _CONVERGED, failed))


def _step(
    at: Callable[[Any], Any], is_small: Callable[[Any], Any], state: BfgsState, most: int
) -> BfgsState:
    x, grad = state.x, state.grad
    direction = -(state.inverse @ grad)
    # Steps are computed in the wider one of the dtypes of the vector and of the value.
    dtype = result_type(x.dtype, state.value.dtype)

    def along(step: Any) -> tuple[Any, Any, Any]:
        value, grad = at(x + convert(step, x.dtype) * direction)
        return convert(value, dtype), convert(grad @ direction, dtype), grad

    slope = convert(grad @ direction, dtype)
    start = Point(tnp.zeros_like(slope), convert(state.value, dtype), slope)
    guess = 2.02 * (start.value - convert(state.last_value, dtype)) / slope
    first = choose((guess > 0) & (guess < 1), guess, 1)
    search = line_search(along, start, grad, first, most)
    move = convert(search.low.step, x.dtype) * direction
    why = choose(tnp.isfinite(search.high.step), _ZOOM_FAILED, _SEARCH_ENDED)
    return BfgsState(
        x + move,
        convert(search.low.value, state.value.dtype),
        search.grad,
        _learned(state.inverse, move, search.grad - grad),
        state.value,
        state.steps + 1,
        state.evaluations + search.longer + search.zooms,
        choose(search.is_done, 0, why),
        is_small(search.grad),
    )


def _learned(inverse: Any, move: Any, change: Any) -> Array:
    """Return the inverse of the Hessian that maps the change of the gradient to the move.

    As it was where they show no positive curvature.
    """
    curvature = move @ change
    is_good = curvature > 0
    rate = 1 / choose(is_good, curvature, 1)
    image = rate * (inverse @ change)
    cross = image[:, None] * move
    weight = rate * (1 + change @ image)
    new = inverse - (cross + cross.T) + weight * move[:, None] * move
    return choose(is_good & tnp.isfinite(rate), new, inverse)


__all__ = ["BfgsState", "minimize_bfgs"]
