"""L-BFGS with a line search: for losses without noise, of up to millions of parameters.

References
----------
Nocedal and Wright, Numerical Optimization (2006), algorithm 7.4: the direction.
Lewis and Overton, Nonsmooth optimization via quasi-Newton methods (2013), algorithm 2.6: the line
search by bisection, whose steps always keep the approximation of the Hessian positive.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import tracer.numpy as tnp
from tracer import tree
from tracer.arguments import explained
from tracer.autodiff.transforms import value_and_grad
from tracer.control import cond, fori_loop, while_loop
from tracer.errors import ArgumentError
from tracer.optimizers.transformations import Transformation, transformation

_ARMIJO, _CURVATURE = 1e-4, 0.9


class LbfgsState(NamedTuple):
    """The state of `lbfgs`.

    Attributes
    ----------
    count : Array, int32
        Steps so far.
    steps, changes : Array, shape (memory_size, size)
        The last steps, and the changes of the gradient with them, all leaves in one vector.
    value, grad : Array
        The loss and its gradient (one vector) after the last step; the loss is infinite where they
        are not known.
    """

    count: Any
    steps: Any
    changes: Any
    value: Any
    grad: Any


class _Search(NamedTuple):
    """One trial of the line search: the bracket, the step, and what was found there."""

    low: Any
    high: Any
    step: Any
    value: Any
    grad: Any
    is_done: Any
    trials: Any


def lbfgs(memory_size: int = 10, max_linesearch_steps: int = 25) -> Transformation:
    """L-BFGS with a line search.

    `update` takes more than others do: `update(grads, state, params, value=, value_fn=)`, where
    `value_fn(params)` is the loss and `value` is what it is now.

    Parameters
    ----------
    memory_size : int
        Steps that are kept; with two vectors each it takes 2 `memory_size` + 1 times the memory of
        the parameters.
    max_linesearch_steps : int
        Evaluations of loss and gradient in a step at most; the best trial is taken then.

    Returns
    -------
    Transformation

    Raises
    ------
    ArgumentError
        `memory_size` is not positive, or `update` is called without `params` or `value_fn`.

    Examples
    --------
    >>> import tracer, tracer.numpy as tnp
    >>> from tracer import optimizers
    >>> def rosenbrock(x):
    ...     return 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2
    >>> optimizer = optimizers.lbfgs()
    >>> @tracer.compile
    ... def step(x, state):
    ...     value, grad = optimizers.value_and_grad_from_state(rosenbrock)(x, state=state)
    ...     updates, state = optimizer.update(grad, state, x, value=value, value_fn=rosenbrock)
    ...     return optimizers.apply_updates(x, updates), state
    >>> x = tnp.asarray([-1.0, 2.0])
    >>> state = optimizer.init(x)
    >>> for _ in range(40):
    ...     x, state = step(x, state)
    >>> bool(tnp.allclose(x, 1))
    True
    """
    if memory_size < 1:
        raise ArgumentError(
            f"lbfgs keeps one step at least, not {memory_size}",
            mend="use sgd for steps along the gradient",
        )

    def init(params: Any) -> LbfgsState:
        flat = tree.ravel(params)[0]
        history = tnp.zeros((memory_size, flat.size), flat.dtype)
        infinite = tnp.full((), tnp.inf, flat.dtype)
        return LbfgsState(
            tnp.zeros((), "int32"), history, history + 0, infinite, tnp.zeros_like(flat)
        )

    def update(
        grads: Any,
        state: LbfgsState,
        params: Any = None,
        *,
        value: Any = None,
        value_fn: Callable[[Any], Any] | None = None,
        **more: Any,
    ) -> tuple[Any, LbfgsState]:
        if params is None or value_fn is None:
            raise ArgumentError(
                "lbfgs searches along a line: update needs params and value_fn",
                mend="call update(grads, state, params, value=loss, value_fn=function)",
            )
        x, unravel = tree.ravel(params)
        g = tree.ravel(grads)[0]
        loss = value_and_grad(lambda flat: value_fn(unravel(flat)))
        start = value_fn(params) if value is None else value
        direction = _direction(state, g)
        found = _line_search(loss, x, start, g, direction, max_linesearch_steps)
        move = found.step * direction
        return unravel(move), _remembered(state, move, found, g)

    return transformation(init, update)


def value_and_grad_from_state(value_fn: Callable[[Any], Any]) -> Callable[..., tuple[Any, Any]]:
    """Return a function of `(params, state=state)` that does not compute again what is known.

    The line search of `lbfgs` has evaluated loss and gradient where it ended.

    Parameters
    ----------
    value_fn : callable
        The loss, of the parameters alone.

    Returns
    -------
    callable
        `(params, *, state) -> (loss, gradient)`; `state` is that of `lbfgs`, after the step that
        led to `params`.
    """

    @explained
    def function(params: Any, *, state: LbfgsState) -> tuple[Any, Any]:
        unravel = tree.ravel(params)[1]

        def computed() -> tuple[Any, Any]:
            value, grads = value_and_grad(value_fn)(params)
            return value, tree.ravel(grads)[0]

        is_known = tnp.isfinite(state.value)
        value, grad = cond(is_known, lambda: (state.value, state.grad), computed)
        return value, unravel(grad)

    return function


def _direction(state: LbfgsState, g: Any) -> Any:
    """Return minus the gradient times the approximate inverse of the Hessian (two loops)."""
    size = state.steps.shape[0]
    curvatures = tnp.sum(state.steps * state.changes, 1)
    inverse = tnp.where(curvatures > 0, 1 / tnp.where(curvatures > 0, curvatures, 1), 0)

    def back(i: Any, carry: Any) -> Any:
        q, weights = carry
        k = (state.count - 1 - i) % size
        weight = inverse[k] * (state.steps[k] @ q)
        return q - weight * state.changes[k], weights.at[k].set(weight)

    q, weights = fori_loop(0, size, back, (g, tnp.zeros_like(inverse)))
    last = (state.count - 1) % size
    square = state.changes[last] @ state.changes[last]
    scale = tnp.where(square > 0, curvatures[last] / tnp.where(square > 0, square, 1), 1)
    # The first step has no curvature to go by: one of length 1 at most.
    first = 1 / tnp.maximum(tnp.sqrt(g @ g), 1)
    q = q * tnp.where(state.count > 0, scale, first)

    def forth(i: Any, r: Any) -> Any:
        k = (state.count + i) % size
        return r + state.steps[k] * (weights[k] - inverse[k] * (state.changes[k] @ r))

    return -fori_loop(0, size, forth, q)


def _line_search(
    loss: Callable[[Any], Any], x: Any, start: Any, g: Any, d: Any, most: int
) -> _Search:
    """Find a step with enough descent and a flatter slope, by doubling and bisection."""
    slope = g @ d

    def trial(low: Any, high: Any, step: Any, trials: Any) -> _Search:
        value, grad = loss(x + step * d)
        descends = value <= start + _ARMIJO * step * slope
        is_flat = grad @ d >= _CURVATURE * slope
        return _Search(
            tnp.where(descends, step, low),
            tnp.where(descends, high, step),
            step,
            value,
            grad,
            descends & is_flat,
            trials,
        )

    def again(search: _Search) -> _Search:
        middle = (search.low + search.high) / 2
        step = tnp.where(tnp.isfinite(search.high), middle, 2 * search.low)
        return trial(search.low, search.high, step, search.trials + 1)

    def goes_on(search: _Search) -> Any:
        return ~search.is_done & (search.trials < most)

    zero = tnp.zeros_like(slope)
    first = trial(zero, zero + tnp.inf, zero + 1, tnp.zeros((), "int32"))
    found: _Search = while_loop(goes_on, again, first)
    # Without a good step: the last that descended, which is none at a minimum.
    return found._replace(
        step=tnp.where(found.is_done, found.step, found.low),
        value=tnp.where(found.is_done, found.value, tnp.inf),
    )


def _remembered(state: LbfgsState, move: Any, found: _Search, g: Any) -> LbfgsState:
    """Keep a step in the place of the oldest, unless it has no positive curvature."""
    place = state.count % state.steps.shape[0]
    change = found.grad - g
    is_good = found.is_done & (move @ change > 0)
    return LbfgsState(
        state.count + is_good.astype("int32"),
        tnp.where(is_good, state.steps.at[place].set(move), state.steps),
        tnp.where(is_good, state.changes.at[place].set(change), state.changes),
        found.value,
        found.grad,
    )


__all__ = ["LbfgsState", "lbfgs", "value_and_grad_from_state"]
