"""Arrays in storage on eight CPU devices: each reads, and writes, the part that it computes with.

`test_eight_devices.py` runs this in a process that has the devices.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.devices.eight import GRID, LINE, on
from tests.storage.files import Watched, points, stored
from tracer.sharding import local_parts

pytestmark = pytest.mark.xla
ROWS = 8000
BATCH = np.random.default_rng(0).integers(0, ROWS, 800)
# How often each row is read at most: eight times where no axis is spread, or rows are near others.
PROGRAMS: dict[str, tuple[Callable[..., Any], float]] = {
    "mean and deviation": (lambda x: (x.mean(0), x.std(0)), 2),
    "Gram matrix": (lambda x: x.T @ x, 1),
    "sum of functions": (lambda x: tnp.tanh(x @ x[:3].T).sum(0), 1),
    "nearest": (lambda x: ((x[:, None] - x[:4]) ** 2).sum(-1).argmin(0), 8),
    "largest": (lambda x: x.sum(1).max(), 1),
    "loop": (lambda x: tracer.fori_loop(0, 3, lambda _, c: tnp.tanh(x @ c) @ x / ROWS, x[0]), 24),
    "rows": (lambda x: tnp.tanh(x[BATCH]).sum(0), 8),
    "gradient": (lambda x: tracer.grad(lambda w: (tnp.tanh(x @ w) ** 2).sum())(x[0]), 1),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_are_those_of_one_device(name: str) -> None:
    function, passes = PROGRAMS[name]
    watched = Watched(points(ROWS))
    compiled = tracer.compile(function, mesh=LINE, memory_limit="40kB")
    found = tracer.tree.leaves(compiled(tracer.open(watched)))
    expected = tracer.tree.leaves(tracer.compile(function)(watched.array))
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)
    plan = compiled.plan(tracer.open(watched))
    assert plan.compiled_bytes <= plan.limit_bytes < watched.array.nbytes / 3
    # Each device reads one block ahead, beyond its part.
    assert watched.rows_read <= 1.5 * passes * ROWS + 8 * 20


def test_each_device_reads_its_part() -> None:
    watched = Watched(points(ROWS))
    total = tracer.compile(lambda x: tnp.exp(x).sum(0), mesh=LINE, memory_limit="12kB")
    total(tracer.open(watched))
    starts = sorted({index[0].start for index in watched.read})
    assert {ROWS * i // 8 for i in range(8)} <= set(starts)
    plan = total.plan(tracer.open(watched))
    assert any("1 times: 160 kB" in note for note in plan.notes)


def test_results_go_to_storage(tmp_path: Path) -> None:
    x = points(ROWS)
    standard = tracer.compile(lambda x: (x - x.mean(0)) / x.std(0), mesh=GRID, memory_limit="40kB")
    found = standard.into(tmp_path / "out.npy")(stored(tmp_path, x))
    np.testing.assert_allclose(np.asarray(found), (x - x.mean(0)) / x.std(0), atol=1e-5)


def test_parts_are_put_on_their_devices() -> None:
    watched = Watched(points(ROWS))
    put = tracer.device_put({"x": tracer.open(watched)}, on(LINE, "x"))["x"]
    assert watched.read == [
        (slice(i * 1000, (i + 1) * 1000), slice(0, 5)) for i in range(8)
    ]  # fmt: skip
    for _, index, part in local_parts(put):
        np.testing.assert_array_equal(part, watched.array[index])
    whole = tracer.device_put(tracer.open(watched), LINE.flat[3])
    np.testing.assert_array_equal(whole, watched.array)


def test_an_error_of_one_device_is_that_of_the_call(tmp_path: Path) -> None:
    x = stored(tmp_path, points(ROWS))
    total = tracer.compile(lambda x: tnp.exp(x).sum(0), mesh=LINE, memory_limit="12kB")
    wanted = np.asarray(total(x))
    array = np.load(tmp_path / "x.npy")
    with open(tmp_path / "x.npy", "r+b") as file:
        file.truncate(100_000)
    with pytest.raises(tracer.StorageError, match=r"x\.npy"):
        total(x)
    np.testing.assert_allclose(total(stored(tmp_path, array)), wanted)


def test_what_several_devices_cannot_is_refused(tmp_path: Path) -> None:
    x = stored(tmp_path, points(ROWS))
    total = tracer.compile(lambda x: x.sum(0), mesh=LINE, in_shardings=on(LINE, "x"))
    with pytest.raises(tracer.UnsupportedError, match="device_put"):
        total(x)
    printing = tracer.compile(lambda x: (tracer.debug.print("{}", x.sum()), x.sum())[1], mesh=LINE)
    with pytest.raises(tracer.UnsupportedError, match="calls Python"):
        printing(x)
