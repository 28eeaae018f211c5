"""Derivatives of every function that has JAX's name and takes one or two arrays, beside JAX's.

Found by their names, so that a new function is compared by itself: its first and second
derivatives, compiled.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.nn
import tracer.numpy as tnp
import tracer.scipy.special
from tracer.array.trace import trace

pytestmark = pytest.mark.xla
ROOMS = {"numpy": tnp, "nn": tracer.nn, "scipy.special": tracer.scipy.special}
X, Y = np.array([0.31, 0.84, 0.57]), np.array([0.72, 0.18, 0.43])
WEIGHTS = np.array([0.4, -1.3, 0.9])


def loss(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a weighted sum of the floating results."""

    def weighted(*arrays: Any) -> Any:
        return sum(
            (y * np.cos(i + np.arange(y.size)).reshape(y.shape)).sum()
            for i, y in enumerate(tracer.tree.leaves(function(*arrays)))
            if y.dtype.kind == "f"
        )

    return weighted


def second(grad: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the sum of the first derivatives, weighted: its gradient is a second derivative."""
    positions = lambda arrays: tuple(range(len(arrays)))
    return lambda *arrays: sum(
        (g * WEIGHTS).sum() for g in grad(loss(function), positions(arrays))(*arrays)
    )


def is_differentiable(function: Callable[..., Any], arrays: list[Any]) -> bool:
    """Tell whether a function takes these arrays, and has a second derivative."""
    try:
        trace(tracer.grad(second(tracer.grad, function)), arrays)
    except Exception:
        # Whatever functions say to arguments that they are not made for.
        return False
    return True


def names(count: int, step: int) -> Iterator[tuple[str, str]]:
    """Yield rooms and names of functions that take so many arrays, every so many of them."""
    return itertools.islice(_names(count), 0, None, step)


def _names(count: int) -> Iterator[tuple[str, str]]:
    for room, module in ROOMS.items():
        for name in sorted(module.__all__):
            function = getattr(module, name)
            if inspect.isclass(function) or not callable(function):
                continue
            if is_differentiable(function, [X, Y][:count]):
                yield room, name


def lookup(module: Any, path: str) -> Any:
    for name in path.split("."):
        module = getattr(module, name, None)
    return module


def derivatives(grad: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of the arrays: the gradient of the loss, and that of `second`."""

    def found(*arrays: Any) -> Any:
        every = tuple(range(len(arrays)))
        first = grad(loss(function), every)(*arrays)
        return *first, *grad(second(grad, function), every)(*arrays)

    return found


@pytest.mark.parametrize(
    ("count", "step", "least"),
    [
        (1, 2, 65),
        (2, 2, 30),
        pytest.param(1, 1, 130, marks=pytest.mark.sweep),
        pytest.param(2, 1, 60, marks=pytest.mark.sweep),
    ],
)
def test_derivatives_of_compiled_functions_are_jaxs(count: int, step: int, least: int) -> None:
    jax = pytest.importorskip("jax")
    arrays, compared = [X, Y][:count], 0
    for room, name in names(count, step):
        theirs = lookup(jax, f"{room}.{name}")
        if theirs is None:
            continue
        try:
            with jax.enable_x64(True):
                wanted = jax.jit(derivatives(jax.grad, theirs))(*arrays)
        except Exception:  # it takes other arguments, or has no derivative
            continue
        found = tracer.compile(derivatives(tracer.grad, getattr(ROOMS[room], name)))(*arrays)
        for ours, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(ours, np.asarray(other), 1e-7, 1e-9, err_msg=name)
        compared += 1
    assert compared >= least
