"""Training loops on eight CPU devices: results are the next call's arguments.

`test_eight_devices.py` runs this in a process that has the devices.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from benchmarks.device_processes import collectives
from tests.devices.eight import GRID, LINE, on
from tracer.array.array import Array
from tracer.sharding import Mesh, local_parts

pytestmark = pytest.mark.xla

STEPS = 5


# Loops with the mesh alone.


def loss_of(w: Any, b: Any, x: Any, y: Any) -> Any:
    return ((tnp.tanh(x @ w + b) - y) ** 2).mean()


def descend(w: Any, b: Any, x: Any, y: Any) -> Any:
    slopes = tracer.grad(loss_of, argnums=(0, 1))(w, b, x, y)
    return w - 0.1 * slopes[0], b - 0.1 * slopes[1]


def descend_with_loss(w: Any, b: Any, x: Any, y: Any) -> Any:
    loss, slopes = tracer.value_and_grad(loss_of, argnums=(0, 1))(w, b, x, y)
    return loss, w - 0.1 * slopes[0], b - 0.1 * slopes[1]


def data() -> list[Any]:
    rng = np.random.default_rng(0)
    shapes = (16, 2048), (2048,), (64, 16), (64, 2048)
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def layers(*sizes: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(1)
    return [
        {"w": rng.standard_normal((m, n)) / m**0.5, "b": np.zeros(n)} for m, n in pairwise(sizes)
    ]


def network_loss(parameters: Any, x: Any, y: Any) -> Any:
    for layer in parameters[:-1]:
        x = tnp.tanh(x @ layer["w"] + layer["b"])
    return ((x @ parameters[-1]["w"] + parameters[-1]["b"] - y) ** 2).mean()


def adam(parameters: Any, state: Any, x: Any, y: Any) -> Any:
    """Return the parameters and the state after a step of Adam, and the loss."""
    loss, slopes = tracer.value_and_grad(network_loss)(parameters, x, y)
    each = tracer.tree.map
    count = state["count"] + 1
    first = each(lambda m, g: 0.9 * m + 0.1 * g, state["first"], slopes)
    second = each(lambda v, g: 0.99 * v + 0.01 * g * g, state["second"], slopes)
    rate = 0.01 * tnp.sqrt(1 - 0.99**count) / (1 - 0.9**count)
    parameters = each(
        lambda w, m, v: w - rate * m / (tnp.sqrt(v) + 1e-8), parameters, first, second
    )
    return parameters, {"count": count, "first": first, "second": second}, loss


def adam_data() -> list[Any]:
    rng = np.random.default_rng(2)
    parameters = layers(16, 256, 256, 8)
    zeros = [tracer.tree.map(np.zeros_like, parameters) for _ in range(2)]
    state = {"count": np.array(0.0), "first": zeros[0], "second": zeros[1]}
    return [parameters, state, rng.standard_normal((128, 16)), rng.standard_normal((128, 8))]


def assert_close(found: Any, wanted: Any, tolerance: float = 1e-4) -> None:
    pairs = zip(tracer.tree.leaves(found), tracer.tree.leaves(wanted), strict=True)
    for got, want in pairs:
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def trained(step: Callable[..., Any], arrays: list[Any], feed: Callable[..., Any]) -> list[Any]:
    """Return the arguments of the call after some steps; `feed` makes them of a call's results."""
    for _ in range(STEPS):
        arrays = feed(step(*arrays), arrays)
    return arrays


LOOPS: dict[str, tuple[Any, Any, Any, tuple[int, ...]]] = {
    "descent": (descend, data, lambda new, old: [*new, *old[2:]], (0, 1)),
    "descent with its loss": (
        descend_with_loss, data, lambda new, old: [*new[1:], *old[2:]], (0, 1),
    ),
    "adam": (adam, adam_data, lambda new, old: [*new[:2], *old[2:]], (0, 1)),
}  # fmt: skip
"""A step, its first arguments, the next ones of its results, and those that can be donated."""


@pytest.mark.parametrize("mesh", [LINE, GRID], ids=["line", "grid"])
@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("donates", [False, True], ids=["", "donated"])
def test_training_takes_its_own_results(name: str, mesh: Mesh, donates: bool) -> None:
    function, make, feed, donated = LOOPS[name]
    numbers = donated if donates else ()
    step = tracer.compile(function, mesh=mesh, donate_argnums=numbers)
    wanted = trained(tracer.compile(function), make(), feed)
    found = trained(step, make(), feed)
    assert_close(found, wanted)
    assert "axis of" in step.plan(*make()).devices[1], "nothing was spread"


@pytest.mark.parametrize("name", LOOPS)
def test_nothing_moves_between_the_steps(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, make, feed, donated = LOOPS[name]
    step = tracer.compile(function, mesh=LINE, donate_argnums=donated)
    first = make()
    arrays = feed(step(*first), first)

    def refuse(*_: Any) -> None:
        raise AssertionError("an array is moved")

    monkeypatch.setattr(Array, "to_device", refuse)
    for _ in range(2):
        arrays = feed(step(*arrays), arrays)
    leaves = tracer.tree.leaves(arrays[:2])
    assert any(not leaf.device.is_fully_replicated for leaf in leaves)
    # Every donated array's memory is taken over by the one that it returns as.
    donors = sum(len(tracer.tree.leaves(first[i])) for i in donated)
    assert len(re.findall("may-alias|must-alias", step.hlo(*first))) == donors


def test_state_that_is_read_whole_is_stored_in_parts() -> None:
    """Weights of which each device reads all, to multiply, and updates its part."""
    step = tracer.compile(descend, mesh=LINE, donate_argnums=(0, 1))
    arrays = data()
    w, _ = step(*arrays)
    assert w.device == on(LINE, "x")
    plan = step.plan(*arrays)
    parts = sum(array.nbytes for array in (arrays[0], *arrays[2:])) // 8 + arrays[1].nbytes
    assert plan.argument_bytes == parts
    assert plan.compiled_bytes < 0.3 * plan.baseline_peak_bytes


def test_what_is_returned_as_it_was_stays_in_parts() -> None:
    def with_data(w: Any, b: Any, x: Any, y: Any) -> Any:
        return (*descend(w, b, x, y), x, y)

    step = tracer.compile(with_data, mesh=LINE)
    found = trained(step, data(), lambda new, old: list(new))
    assert_close(found, trained(tracer.compile(with_data), data(), lambda new, old: list(new)))
    assert found[2].device == found[3].device == on(LINE, "x")


def test_training_keeps_a_limit_on_each_device() -> None:
    limit = tracer.compile(adam, mesh=LINE).plan(*adam_data()).compiled_bytes * 3 // 4
    step = tracer.compile(adam, mesh=LINE, memory_limit=limit, donate_argnums=(0, 1))
    feed = LOOPS["adam"][2]
    assert_close(trained(step, adam_data(), feed), trained(tracer.compile(adam), adam_data(), feed))
    assert step.plan(*adam_data()).compiled_bytes <= limit


# A recurrence that leaves a whole result beside its parts.


def recurrent(w: Any, xs: Any) -> Any:
    """Return the last state of each sequence, and the weights that changed on the way."""

    def body(carry: Any, x: Any) -> Any:
        state, w = carry
        return (tnp.tanh(state @ w + x), w * 0.9), None

    start = tnp.zeros(xs.shape[1:], dtype=xs.dtype)
    (state, last), _ = tracer.scan(body, (start, w), xs)
    return state * last.sum(), last


def test_a_loop_leaves_whole_results_on_every_device() -> None:
    rng = np.random.default_rng(3)
    w, xs = rng.standard_normal((32, 32)) / 8, rng.standard_normal((20, 64, 32))
    f = tracer.compile(recurrent, mesh=LINE)
    state, last = f(w, xs)
    assert_close((state, last), tracer.compile(recurrent)(w, xs), 1e-9)
    assert state.device == on(LINE, "x")
    assert last.device == on(LINE)
    for _, _, part in local_parts(last):
        np.testing.assert_array_equal(part, np.asarray(last))
    plan = f.plan(w, xs)
    assert "through 1 loop" in plan.devices[1]
    assert collectives(f.hlo(w, xs)) == []
    assert plan.compiled_bytes < tracer.compile(recurrent).plan(w, xs).compiled_bytes / 4
