"""Axes that eight devices do not divide: `test_eight_devices.py` runs this where they are."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as run_settings
from hypothesis import strategies as st

import tracer
import tracer.numpy as tnp
from benchmarks.peak_programs import (
    cross_entropy,
    nearest_by_differences,
    recurrent_loss,
    sparse_process_loss,
)
from tests.devices.eight import GRID, LINE
from tests.sampling import one_in
from tracer.errors import MemoryLimitError, ShapeError
from tracer.sharding import Mesh, NamedSharding, PartitionSpec

pytestmark = pytest.mark.xla

WHOLE = NamedSharding(LINE, PartitionSpec())


def distances(x: Any, y: Any) -> Any:
    return tnp.exp(-((x[:, None, :] - y[None, :, :]) ** 2).sum(-1))


def product(x: Any, y: Any, v: Any) -> Any:
    return distances(x, y) @ v


def points(n: int, m: int | None = None) -> list[Any]:
    rng = np.random.default_rng(5)
    shapes = (n, 3), (m or n, 3), (m or n, 2)
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def by_squares(x: Any, y: Any, v: Any) -> Any:
    squares = (x * x).sum(1)[:, None] + (y * y).sum(1)[None, :]
    return tnp.exp(2 * x @ y.T - squares) @ v


def smallest_limit(arrays: list[Any], limit: int) -> int:
    """Return the smallest limit that an error reports."""
    with pytest.raises(MemoryLimitError) as caught:
        tracer.compile(by_squares, mesh=LINE, memory_limit=limit).plan(*arrays)
    assert caught.value.minimum_bytes is not None
    return caught.value.minimum_bytes


@cache
def smallest(n: int) -> int:
    """Return what is reported where next to nothing is asked for."""
    return smallest_limit(points(n), 1000)


def test_rows_that_remain_are_computed_on_each_device() -> None:
    arrays = points(1023)
    f = tracer.compile(product, mesh=LINE)
    plan = f.plan(*arrays)
    assert "axis of 1023" in plan.devices[1]
    assert "8 devices, 127 on each and the last 7 on all" in plan.devices[1]
    alone = tracer.compile(product).plan(*arrays)
    assert 6 * plan.compiled_bytes < alone.compiled_bytes
    assert 0.9 * plan.compiled_bytes < plan.peak_bytes < 1.1 * plan.compiled_bytes
    result = f(*arrays)
    assert result.device == WHOLE
    wanted = product(*map(tnp.asarray, arrays))
    np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-4)


def test_loops_run_in_the_parts_of_an_uneven_axis() -> None:
    arrays = points(2047)
    f = tracer.compile(product, mesh=LINE, memory_limit="300kB")
    plan = f.plan(*arrays)
    assert plan.compiled_bytes <= 300_000
    assert plan.loops
    assert "the last 7 on all" in plan.devices[1]
    inside = f.stablehlo(*arrays).split("sdy.manual_computation")[1]
    assert "stablehlo.while" in inside
    wanted = product(*map(tnp.asarray, arrays))
    np.testing.assert_allclose(f(*arrays), wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("n", [509, 512])
def test_the_smallest_limit_is_met_is_least_and_is_no_worse_than_one_devices(n: int) -> None:
    arrays, found = points(n), smallest(n)
    assert found <= tracer.compile(by_squares, memory_limit="1GB").plan(*arrays).minimum_bytes
    f = tracer.compile(by_squares, mesh=LINE, memory_limit=found)
    assert f.plan(*arrays).compiled_bytes == found
    wanted = by_squares(*map(tnp.asarray, arrays))
    np.testing.assert_allclose(f(*arrays), wanted, rtol=1e-4, atol=1e-4)
    assert smallest_limit(arrays, int(0.9 * found)) == found


@pytest.mark.parametrize("limit", [None, "1MB", "least"])
def test_the_smallest_limit_is_the_same_whatever_was_asked(limit: Any) -> None:
    limit = smallest(509) if limit == "least" else limit
    plan = tracer.compile(by_squares, mesh=LINE, memory_limit=limit).plan(*points(509))
    assert plan.minimum_bytes == smallest(509)


def test_larger_limits_are_met_where_smaller_ones_are() -> None:
    for factor in np.geomspace(1, 30, 8):
        limit = int(factor * smallest(509))
        plan = tracer.compile(by_squares, mesh=LINE, memory_limit=limit).plan(*points(509))
        assert plan.compiled_bytes <= limit


def test_every_device_runs_the_program_of_one_where_that_takes_least() -> None:
    arrays = points(2047)
    alone = tracer.compile(by_squares, memory_limit="1GB").plan(*arrays).minimum_bytes
    f = tracer.compile(by_squares, mesh=LINE, memory_limit=alone)
    plan = f.plan(*arrays)
    assert plan.compiled_bytes <= alone
    assert plan.devices[1] == "nothing, every device computes all of it: spread, it takes more"
    wanted = by_squares(*map(tnp.asarray, arrays))
    np.testing.assert_allclose(f(*arrays), wanted, rtol=1e-4, atol=1e-4)


def sparse_process(x: Any, y: Any) -> Any:
    return sparse_process_loss(x, y, x[:16], tnp.asarray(0.0, dtype=x.dtype))


@pytest.mark.parametrize(
    ("function", "types"),
    [
        (tracer.grad(cross_entropy, argnums=(0, 1)), ["f(509,16)", "f(16,211)", "i(509)"]),
        (tracer.value_and_grad(sparse_process), ["f(1021,3)", "f(1021)"]),
        (tracer.grad(recurrent_loss), ["f(24,24)", "f(50,31,24)"]),
        (nearest_by_differences, ["f(101,4)", "f(997,4)"]),
    ],
    ids=["cross-entropy", "sparse process", "recurrence", "neighbours"],
)
@pytest.mark.parametrize("mesh", [LINE, GRID], ids=["line", "grid"])
def test_values_of_programs_are_those_of_one_device(
    function: Callable[..., Any], types: list[str], mesh: Mesh
) -> None:
    """With gathers and scatters, at which XLA's partitioner ends the process if cut unevenly."""
    rng = np.random.default_rng(4)
    arrays = []
    for type in types:
        shape = tuple(map(int, type[2:-1].split(",")))
        numbers = rng.standard_normal(shape) / 4
        arrays.append(numbers if type[0] == "f" else rng.integers(0, 200, shape))
    f = tracer.compile(function, mesh=mesh)
    assert "on all" in f.plan(*arrays).devices[1]
    wanted = tracer.compile(function)(*arrays)
    pairs = zip(tracer.tree.leaves(f(*arrays)), tracer.tree.leaves(wanted), strict=True)
    for got, want in pairs:
        assert np.isfinite(np.asarray(want)).all()
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)


def test_explicit_shardings_are_refused_with_the_size_to_pad_to() -> None:
    parts = (PartitionSpec("x"), None, None)
    f = tracer.compile(product, mesh=LINE, in_shardings=parts)
    with pytest.raises(ShapeError, match="pad the axis to 512 elements"):
        f.plan(*points(509))


WIDTH = 67
"""Of the other axis: no number of devices divides it, either."""

PROGRAMS: dict[str, Callable[[Any, Any], Any]] = {
    "rows": lambda x, y: tnp.abs(x @ y) @ y.T,
    "sum": lambda x, y: tnp.abs(x @ y).sum(0),
    "maximum": lambda x, y: tnp.abs(x @ y).max(0),
    "product over both": lambda x, y: (tnp.abs(x @ y) % 2).sum(),
    "argmax": lambda x, y: tnp.argmax(x @ y, axis=1),
    "argmax over the rows": lambda x, y: tnp.argmax(x @ y, axis=0),
    "top_k": lambda x, y: tnp.top_k(x @ y, 3),
}


@pytest.mark.parametrize("name", one_in(2, PROGRAMS))
@run_settings(max_examples=6, deadline=None)
@given(st.integers(1, 40), st.sampled_from([LINE, GRID]))
def test_all_sizes_give_the_same_values(name: str, n: int, mesh: Mesh) -> None:
    """Exactly: sums of integers do not hang on their order."""
    rng = np.random.default_rng(n)
    x = rng.integers(-9, 9, (n, 5)).astype(np.float64)
    y = rng.integers(-9, 9, (5, WIDTH)).astype(np.float64)
    f = tracer.compile(PROGRAMS[name], mesh=mesh)
    is_large = n * WIDTH * x.itemsize > 4096
    assert is_large == ("8 devices" in f.plan(x, y).devices[1])
    wanted = PROGRAMS[name](tnp.asarray(x), tnp.asarray(y))
    pairs = zip(tracer.tree.leaves(f(x, y)), tracer.tree.leaves(wanted), strict=True)
    for got, want in pairs:
        np.testing.assert_array_equal(got, want)


def loss_of(w: Any, x: Any, y: Any) -> Any:
    return ((tnp.tanh(tnp.tanh(x @ w) @ w.T) - y) ** 2).mean()


def descend(w: Any, x: Any, y: Any) -> Any:
    loss, slope = tracer.value_and_grad(loss_of)(w, x, y)
    return loss, w - 0.1 * slope


@pytest.mark.parametrize(
    ("rows", "width", "mesh"), [(509, 64, GRID), (512, 67, LINE), (509, 67, LINE), (5, 67, GRID)]
)
@pytest.mark.parametrize("is_least", [False, True], ids=["", "least"])
def test_training_with_an_uneven_batch_takes_its_own_results(
    rows: int, width: int, mesh: Mesh, is_least: bool
) -> None:
    """Donated weights are taken over, by the program of one device on each, too."""
    rng = np.random.default_rng(6)
    w, x, y = (rng.standard_normal(s) / 8 for s in ((16, width), (rows, 16), (rows, 16)))
    step = tracer.compile(descend, mesh=mesh, donate_argnums=(0,))
    plan = step.plan(w, x, y)
    if is_least:
        limit = plan.minimum_bytes
        step = tracer.compile(descend, mesh=mesh, donate_argnums=(0,), memory_limit=limit)
        plan = step.plan(w, x, y)
        assert plan.compiled_bytes == plan.minimum_bytes == limit
    assert 0.8 * plan.compiled_bytes < plan.peak_bytes < 1.25 * plan.compiled_bytes
    found, wanted = tnp.asarray(w), tnp.asarray(w)
    for _ in range(3):
        given = found
        _, found = step(given, x, y)
        assert given.is_deleted()
        _, wanted = descend(wanted, x, y)
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)
    assert "alias" in step.hlo(w, x, y)


def test_whole_results_of_loops_come_out_beside_an_uneven_batch() -> None:
    def counted(w: Any, xs: Any) -> Any:
        def body(carry: Any, x: Any) -> Any:
            state, count = carry
            return (tnp.tanh(state @ w + x), count + 1.5), None

        state, count = tracer.scan(body, (tnp.zeros(xs.shape[1:]), 0.0), xs)[0]
        scale = tnp.exp(-count * tnp.arange(xs.shape[1]) / 100)
        return count, (state * scale[:, None]).sum(0)

    rng = np.random.default_rng(7)
    w, xs = rng.standard_normal((24, 24)) / 5, rng.standard_normal((3, 1021, 24))
    f = tracer.compile(tracer.value_and_grad(lambda w, xs: counted(w, xs)[1].sum()), mesh=LINE)
    g = tracer.compile(counted, mesh=LINE)
    for spread, alone in ((f, f.__wrapped__), (g, counted)):
        pairs = zip(
            tracer.tree.leaves(spread(w, xs)), tracer.tree.leaves(alone(w, xs)), strict=True
        )
        for got, want in pairs:
            np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12)
        assert "the last 5 on all, through" in spread.plan(w, xs).devices[1]
