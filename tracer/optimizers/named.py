"""The optimizers by name: chains of transformations."""

from __future__ import annotations

from tracer.optimizers.schedules import Schedule
from tracer.optimizers.transformations import (
    Transformation,
    add_decayed_weights,
    chain,
    scale_by_adam,
    scale_by_learning_rate,
    scale_by_lion,
    trace,
)


def sgd(
    learning_rate: float | Schedule, momentum: float | None = None, nesterov: bool = False
) -> Transformation:
    """Gradient descent, with momentum if it is given.

    Parameters
    ----------
    learning_rate : float, 0-d array or schedule
        A schedule is a function of the number of steps before.
    momentum : float, optional
        What stays of the sum of gradients at each step. It takes as much memory as the parameters.
    nesterov : bool
        Look ahead by one step of momentum.

    Returns
    -------
    Transformation
        `init(params)` and `update(grads, state, params)`.

    Examples
    --------
    >>> import tracer, tracer.numpy as tnp
    >>> from tracer import optimizers
    >>> optimizer = optimizers.sgd(0.5)
    >>> params = {"w": tnp.asarray([1.0, -2.0])}
    >>> state = optimizer.init(params)
    >>> grads = tracer.grad(lambda p: (p["w"] ** 2).sum() / 2)(params)
    >>> updates, state = optimizer.update(grads, state, params)
    >>> optimizers.apply_updates(params, updates)
    {'w': Array([ 0.5, -1. ])}
    """
    parts = () if momentum is None else (trace(momentum, nesterov=nesterov),)
    return chain(*parts, scale_by_learning_rate(learning_rate))


def adam(
    learning_rate: float | Schedule,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
) -> Transformation:
    """Adam (Kingma and Ba, 2015). It takes twice the memory of the parameters.

    Parameters
    ----------
    learning_rate : float, 0-d array or schedule
    b1, b2 : float
        What stays of the running means of the gradients and of their squares at each step.
    eps, eps_root : float
        Added to the root of the second mean, and below it.

    Examples
    --------
    A step that writes over its parameters and its state:

    >>> import tracer, tracer.numpy as tnp
    >>> from tracer import optimizers
    >>> optimizer = optimizers.adam(0.1)
    >>> def step(params, state, x):
    ...     loss, grads = tracer.value_and_grad(lambda p: ((x @ p) ** 2).mean())(params)
    ...     updates, state = optimizer.update(grads, state, params)
    ...     return optimizers.apply_updates(params, updates), state, loss
    >>> step = tracer.compile(step, donate_argnums=(0, 1), memory_limit="1MB")
    >>> params = tnp.ones(3)
    >>> state = optimizer.init(params)
    >>> params, state, loss = step(params, state, tnp.ones((5, 3)))
    >>> float(loss), params
    (9.0, Array([0.9, 0.9, 0.9]))
    """
    return chain(scale_by_adam(b1, b2, eps, eps_root), scale_by_learning_rate(learning_rate))


def adamw(
    learning_rate: float | Schedule,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    weight_decay: float = 1e-4,
) -> Transformation:
    """Adam with weights that decay by themselves (Loshchilov and Hutter, 2019).

    Parameters
    ----------
    learning_rate : float, 0-d array or schedule
    b1, b2, eps, eps_root : float
        As in `adam`.
    weight_decay : float
        What the parameters lose at each step, times the learning rate.
    """
    return chain(
        scale_by_adam(b1, b2, eps, eps_root),
        add_decayed_weights(weight_decay),
        scale_by_learning_rate(learning_rate),
    )


def lion(
    learning_rate: float | Schedule, b1: float = 0.9, b2: float = 0.99, weight_decay: float = 1e-3
) -> Transformation:
    """Lion (Chen et al., 2023): steps of one size. It takes the memory of the parameters once.

    Parameters
    ----------
    learning_rate : float, 0-d array or schedule
        About a tenth of Adam's.
    b1, b2 : float
        What stays of the running mean for the step, and for what is kept.
    weight_decay : float
        As in `adamw`.
    """
    return chain(
        scale_by_lion(b1, b2),
        add_decayed_weights(weight_decay),
        scale_by_learning_rate(learning_rate),
    )


__all__ = ["adam", "adamw", "lion", "sgd"]
