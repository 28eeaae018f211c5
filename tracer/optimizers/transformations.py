"""Transformations of gradients, in optax's form: a pair of functions, and their composition."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import tracer.numpy as tnp
from tracer import tree
from tracer.arguments import is_array_like, passed_through_the_user
from tracer.array.array import Array
from tracer.array.convert import array_or_number, as_array
from tracer.errors import ArgumentError, DTypeError, TracerError, shown
from tracer.numpy.elementwise import where
from tracer.optimizers.schedules import Schedule, at_step


class Transformation(NamedTuple):
    """A pair of functions that turn gradients into updates.

    Attributes
    ----------
    init : callable
        `init(params) -> state`.
    update : callable
        `update(grads, state, params=None, **more) -> (updates, state)`. Updates have the structure,
        shapes and dtypes of the gradients; `apply_updates` adds them to the parameters. `more` is
        for `lbfgs`; others take no notice of it.
    """

    init: Callable[[Any], Any]
    update: Callable[..., tuple[Any, Any]]


class EmptyState(NamedTuple):
    """The state of a transformation that needs none."""


class CountState(NamedTuple):
    """The state of a schedule: how often it was used, int32."""

    count: Any


class TraceState(NamedTuple):
    """The state of momentum: the sum of gradients so far, of the parameters' types."""

    trace: Any


class MomentsState(NamedTuple):
    """The state of Adam: the number of steps, int32, and two moments of the parameters' types."""

    count: Any
    mu: Any
    nu: Any


class LionState(NamedTuple):
    """The state of Lion: one moment of the parameters' types."""

    mu: Any


def apply_updates(params: Any, updates: Any) -> Any:
    """Add updates to parameters, in the parameters' dtypes.

    Parameters
    ----------
    params, updates : tree of Array
        Of one structure and equal shapes.

    Returns
    -------
    tree of Array
        The new parameters. A compiled step that donates the old ones writes over them.
    """

    def updated(parameter: Any, update: Any) -> Array:
        array = as_array(parameter)
        total: Array = array + array_or_number(update)
        return total.astype(array.dtype)

    return tree.map(updated, params, updates)


def transformation(
    init: Callable[[Any], Any], update: Callable[..., tuple[Any, Any]]
) -> Transformation:
    """Return a pair of functions whose errors name the argument that was wrong."""

    @functools.wraps(init)
    def begun(params: Any) -> Any:
        try:
            return init(params)
        except Exception as error:
            wrong = None if _is_users(error) else _no_arrays("init", "params", params)
            if wrong is None:
                raise
            raise wrong from error

    @functools.wraps(update)
    def updated(grads: Any, state: Any, params: Any = None, **more: Any) -> tuple[Any, Any]:
        try:
            return update(grads, state, params, **more)
        except Exception as error:
            wrong = None if _is_users(error) else _wrong_of(init, grads, state, params)
            if wrong is None:
                raise
            raise wrong from error

    return Transformation(begun, updated)


def _is_users(error: Exception) -> bool:
    """Tell whether an error says what was wrong already, or is that of a user's function."""
    return isinstance(error, TracerError) or passed_through_the_user(error)


def _no_arrays(function: str, name: str, given: Any) -> TracerError | None:
    """Return the error for a tree of which a leaf is no array."""
    try:
        leaves = tree.leaves(given)
    except RecursionError:
        leaves = [given]
    for leaf in leaves:
        if not hasattr(leaf, "dtype") or not is_array_like(leaf):
            return DTypeError(
                f"{function}: {name} has {shown(leaf)} in it, which is no array",
                mend="give a tree of arrays",
            )
    return None


def _wrong_of(
    init: Callable[[Any], Any], grads: Any, state: Any, params: Any
) -> TracerError | None:
    """Return the error for what no update can be made of."""
    for name, given in (("grads", grads), ("params", params)):
        wrong = _no_arrays("update", name, given)
        if wrong is not None:
            return wrong
    wanted, mend = tree.structure(grads), "give what belongs to the parameters that init was given"
    if params is not None and tree.structure(params) != wanted:
        return ArgumentError(
            f"update: params is {shown(params)}, and grads has the structure {wanted}", mend=mend
        )
    if tree.structure(state) != tree.structure(init(grads)):
        return ArgumentError(
            f"update: state is {shown(state)}, which init does not return for the structure of "
            f"grads, {wanted}",
            mend=mend,
        )
    return _no_arrays("update", "state", state)


def chain(*transformations: Transformation) -> Transformation:
    """Apply transformations one after the other; the state is a tuple of theirs."""

    def init(params: Any) -> Any:
        return tuple(each.init(params) for each in transformations)

    def update(grads: Any, state: Any, params: Any = None, **more: Any) -> tuple[Any, Any]:
        states = []
        for each, own in zip(transformations, state, strict=True):
            grads, own = each.update(grads, own, params, **more)
            states.append(own)
        return grads, tuple(states)

    return transformation(init, update)


def stateless(function: Callable[[Any, Any], Any]) -> Transformation:
    """Return the transformation `function(updates, params) -> updates`."""

    def update(grads: Any, state: Any, params: Any = None, **_: Any) -> tuple[Any, Any]:
        return function(grads, params), state

    return transformation(lambda params: EmptyState(), update)


def scale(factor: float) -> Transformation:
    """Multiply updates by a number."""
    return stateless(lambda grads, _: tree.map(lambda g: (g * factor).astype(g.dtype), grads))


def scale_by_learning_rate(learning_rate: float | Schedule) -> Transformation:
    """Multiply updates by minus the learning rate, a number or a schedule (step -> number)."""
    if not callable(learning_rate):
        return scale(0.0 - learning_rate)  # A truth value of NumPy's has no minus of its own.
    schedule = learning_rate

    def update(grads: Any, state: Any, params: Any = None, **_: Any) -> tuple[Any, Any]:
        def scaled(g: Any) -> Any:
            return (g * -at_step(schedule, state.count, g.dtype)).astype(g.dtype)

        return tree.map(scaled, grads), CountState(state.count + 1)

    return transformation(lambda params: CountState(_zero()), update)


def trace(decay: float, *, nesterov: bool = False) -> Transformation:
    """Add up gradients, the older ones times `decay` at each step: momentum."""

    def update(grads: Any, state: Any, params: Any = None, **_: Any) -> tuple[Any, Any]:
        total = tree.map(lambda g, t: (g + decay * t).astype(g.dtype), grads, state.trace)
        ahead = tree.map(lambda g, t: (g + decay * t).astype(g.dtype), grads, total)
        return (ahead if nesterov else total), TraceState(total)

    return transformation(lambda params: TraceState(_zeros(params)), update)


def scale_by_adam(
    b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8, eps_root: float = 0.0
) -> Transformation:
    """Divide the gradients' mean by the root of their squares' mean, both running (Adam)."""

    def update(grads: Any, state: Any, params: Any = None, **_: Any) -> tuple[Any, Any]:
        count = state.count + 1
        mu, nu = _moments(grads, state, b1, b2)

        def scaled(m: Any, v: Any) -> Any:
            mean, square = m / _corrected(b1, count, m), v / _corrected(b2, count, v)
            return (mean / (tnp.sqrt(square + eps_root) + eps)).astype(m.dtype)

        return tree.map(scaled, mu, nu), MomentsState(count, mu, nu)

    return transformation(
        lambda params: MomentsState(_zero(), _zeros(params), _zeros(params)), update
    )


def scale_by_lion(b1: float = 0.9, b2: float = 0.99) -> Transformation:
    """Return the signs of a running mean of the gradients (Chen et al., 2023)."""

    def update(grads: Any, state: Any, params: Any = None, **_: Any) -> tuple[Any, Any]:
        def mixed(decay: float, g: Any, m: Any) -> Any:
            return (decay * m + (1 - decay) * g).astype(g.dtype)

        signs = tree.map(lambda g, m: tnp.sign(mixed(b1, g, m)), grads, state.mu)
        return signs, LionState(tree.map(lambda g, m: mixed(b2, g, m), grads, state.mu))

    return transformation(lambda params: LionState(_zeros(params)), update)


def add_decayed_weights(weight_decay: float) -> Transformation:
    """Add the parameters times `weight_decay` to the updates."""

    def decayed(grads: Any, params: Any) -> Any:
        if params is None:
            raise ArgumentError(
                "weights that decay (adamw, lion, add_decayed_weights) are params, and update was "
                "given none",
                mend="call update(grads, state, params)",
            )
        return tree.map(lambda g, p: (g + weight_decay * p).astype(g.dtype), grads, params)

    return stateless(decayed)


def clip(max_delta: float) -> Transformation:
    """Clip each element of the updates to `-max_delta` ... `max_delta`."""
    return stateless(lambda grads, _: tree.map(lambda g: tnp.clip(g, -max_delta, max_delta), grads))


def clip_by_global_norm(max_norm: float) -> Transformation:
    """Scale the updates down so that their norm, over all leaves, is `max_norm` at most."""

    def clipped(grads: Any, _: Any) -> Any:
        norm = global_norm(grads)
        return tree.map(
            lambda g: where(norm < max_norm, g, (g / norm * max_norm).astype(g.dtype)), grads
        )

    return stateless(clipped)


def global_norm(updates: Any) -> Any:
    """Return the Euclidean norm over all elements of all leaves of a tree."""
    return tnp.sqrt(sum(tnp.sum(tnp.square(tnp.abs(leaf))) for leaf in tree.leaves(updates)))


def _moments(grads: Any, state: MomentsState, b1: float, b2: float) -> tuple[Any, Any]:
    def mixed(decay: float, new: Any, old: Any) -> Any:
        return (decay * old + (1 - decay) * new).astype(old.dtype)

    mu = tree.map(lambda g, m: mixed(b1, g, m), grads, state.mu)
    nu = tree.map(lambda g, v: mixed(b2, tnp.square(g), v), grads, state.nu)
    return mu, nu


def _corrected(decay: float, count: Any, like: Any) -> Any:
    """Return what makes up for a running mean that began at zero."""
    steps = count.astype(tnp.promote_types(like.dtype, "float32"))
    return 1 - decay**steps


def _zero() -> Any:
    return tnp.zeros((), "int32")


def _zeros(params: Any) -> Any:
    return tree.map(tnp.zeros_like, params)


__all__ = [
    "CountState",
    "EmptyState",
    "LionState",
    "MomentsState",
    "TraceState",
    "Transformation",
    "add_decayed_weights",
    "apply_updates",
    "chain",
    "clip",
    "clip_by_global_norm",
    "global_norm",
    "scale",
    "scale_by_adam",
    "scale_by_learning_rate",
    "scale_by_lion",
    "trace",
    "transformation",
]
