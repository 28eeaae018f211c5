"""Derivatives of every function that has JAX's name and takes one or two arrays, beside JAX's.

Found by their names, so that a new function is compared by itself: its first and second
derivatives, compiled.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
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
TOGETHER = 12
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


def names(count: int) -> Iterator[tuple[str, str]]:
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


def programs(grad: Callable[..., Any], functions: Sequence[Callable[..., Any]]) -> Any:
    """Return the derivatives of several functions as one program: that compiles faster."""
    return lambda *arrays: [derivatives(grad, function)(*arrays) for function in functions]


def common(jax: Any, arrays: Sequence[Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield the functions that have these derivatives here and in JAX."""
    for room, name in names(len(arrays)):
        theirs = lookup(jax, f"{room}.{name}")
        if theirs is None:
            continue
        try:
            jax.eval_shape(derivatives(jax.grad, theirs), *arrays)
        except Exception:  # it takes other arguments, or has no derivative
            continue
        yield name, getattr(ROOMS[room], name), theirs


@pytest.mark.parametrize(("count", "least"), [(1, 130), (2, 60)])
def test_derivatives_of_compiled_functions_are_jaxs(count: int, least: int) -> None:
    jax = pytest.importorskip("jax")
    arrays = [X, Y][:count]
    with jax.enable_x64(True):
        compared = [*common(jax, arrays)]
    assert len(compared) >= least
    for i in range(0, len(compared), TOGETHER):
        labels, ours, theirs = zip(*compared[i : i + TOGETHER], strict=True)
        with jax.enable_x64(True):
            wanted = jax.jit(programs(jax.grad, theirs))(*arrays)
        found = tracer.compile(programs(tracer.grad, ours))(*arrays)
        for name, results, expected in zip(labels, found, wanted, strict=True):
            for one, other in zip(results, expected, strict=True):
                np.testing.assert_allclose(one, np.asarray(other), 1e-7, 1e-9, err_msg=name)
