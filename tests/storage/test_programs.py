"""Programs of arguments in storage compute what they compute of arrays in memory."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.storage.files import Watched, points, stored

pytestmark = pytest.mark.xla
QUERIES = points(20, seed=1)


def _nearest(x: Any, q: Any) -> Any:
    return tracer.lax.top_k(-((q[:, None] - x[None]) ** 2).sum(-1), 5)


def _k_means(x: Any, centres: Any) -> Any:
    def step(_: Any, c: Any) -> Any:
        nearest = ((x[:, None] - c) ** 2).sum(-1).argmin(1)
        chosen = tnp.asarray(nearest[:, None] == tnp.arange(c.shape[0]), "float32")
        return (chosen.T @ x) / tnp.maximum(chosen.sum(0), 1)[:, None]

    return tracer.fori_loop(0, 3, step, centres)


def _logistic(x: Any, w: Any) -> Any:
    def loss(w: Any) -> Any:
        z = x @ w
        return tnp.mean(tnp.logaddexp(0, z) - (x[:, 0] > 0) * z)

    return tracer.value_and_grad(loss)(w)


def _scanned(x: Any, w: Any) -> Any:
    return tracer.scan(lambda c, _: (c + tnp.tanh(x @ c).mean() * c, c.sum()), w, None, length=3)


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], str]] = {
    "mean and deviation": (lambda x: (x.mean(0), x.std(0)), (), "40kB"),
    "Gram matrix": (lambda x: x.T @ x, (), "40kB"),
    "largest row sum": (lambda x: x.sum(1).max(), (), "40kB"),
    "where the largest is": (lambda x: x.argmax(0), (), "40kB"),
    "softmax over what is stored": (
        lambda x, q: tracer.nn.softmax(q @ x.T, axis=1) @ x, (QUERIES,), "60kB"
    ),
    "kernel product, both stored": (
        lambda x: tnp.exp(-((x[:, None] - x[None]) ** 2).sum(-1)).sum(1).max(), (), "90kB"
    ),
    "nearest neighbours": (_nearest, (QUERIES,), "90kB"),
    "k-means": (_k_means, (QUERIES[:4],), "150kB"),
    "logistic regression": (_logistic, (QUERIES[0],), "50kB"),
    "scan": (_scanned, (QUERIES[0],), "100kB"),
    "histogram": (lambda x: tnp.histogram(x[:, 0], bins=7, range=(-3, 3))[0], (), "60kB"),
    "a part": (lambda x: x[10:2000].sum(0) + x[-1], (), "30kB"),
    "gradient with respect to what is stored": (
        lambda x, w: tracer.grad(lambda x: tnp.tanh(x @ w).sum())(x).sum(0), (QUERIES[0],), "60kB"
    ),
}  # fmt: skip


LOOPS = ("k-means", "scan")
"""Loops compute values again that are larger than 64 KiB."""


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_are_those_of_memory_and_pieces_keep_the_limit(tmp_path: Path, name: str) -> None:
    function, others, limit = PROGRAMS[name]
    x = points(30_000 if name in LOOPS else 3000)
    compiled = tracer.compile(function, memory_limit=limit)
    found = tracer.tree.leaves(compiled(stored(tmp_path, x), *others))
    expected = tracer.tree.leaves(tracer.compile(function)(x, *others))
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2e-5, atol=2e-5)
    plan = compiled.plan(stored(tmp_path, x), *others)
    assert plan.compiled_bytes <= plan.limit_bytes < x.nbytes * 1.6


def test_batches_are_read_as_they_are_needed() -> None:
    watched = Watched(points(30_000))

    def steps(x: Any, w: Any) -> Any:
        def step(i: Any, w: Any) -> Any:
            batch = tracer.lax.dynamic_slice_in_dim(x, i * 3000, 3000)
            return w - 0.1 * batch.T @ (batch @ w) / 3000

        return tracer.fori_loop(0, 10, step, w)

    w = QUERIES[0]
    compiled = tracer.compile(steps, memory_limit="250kB")
    found = compiled(tracer.open(watched), w)
    np.testing.assert_allclose(found, tracer.compile(steps)(watched.array, w), rtol=1e-5)
    assert watched.rows_read == 30_000


def test_columns_are_no_parts_of_their_own() -> None:
    """They would be read row by row."""
    watched = Watched(points())

    def program(x: Any, i: Any) -> Any:
        first = x[:, 0].sum() + x[100:2000, 1:3].sum()
        return first + tracer.lax.dynamic_slice_in_dim(x, i, 2, 1).max()

    x = watched.array
    found = tracer.compile(program, memory_limit="30kB")(tracer.open(watched), 4)
    expected = x[:, 0].sum() + x[100:2000, 1:3].sum() + x[:, 3:5].max()
    assert found == pytest.approx(expected, rel=1e-3)
    assert all(index[1] == slice(0, 5) for index in watched.read)


def test_a_window_that_would_not_fit_is_moved_as_in_memory() -> None:
    x = points(50)
    window = tracer.compile(lambda x, i: tracer.lax.dynamic_slice(x, (i, 1), (20, 3)).sum(0))
    for i in (-70, -3, 0, 29, 35, 2**31 - 1):
        np.testing.assert_allclose(window(tracer.open(Watched(x)), i), window(x, i), rtol=1e-6)
    parts = tracer.compile(lambda x: (x[40:10:-3], x[5:5], x[-1], x[3:45:7, ::2], x[1:][1:][2:3]))
    for mine, theirs in zip(parts(tracer.open(Watched(x))), parts(x), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_each_file_is_read_whose_program_was_made_for_another(tmp_path: Path) -> None:
    total = tracer.compile(lambda x: x.sum(), memory_limit="30kB")
    for seed in range(3):
        x = points(seed=seed)
        assert total(stored(tmp_path, x, f"{seed}.npy")) == pytest.approx(x.sum(), abs=1e-2)
    assert len(total._programs) == 1


def test_what_is_read_once_is_read_once() -> None:
    watched = Watched(points())
    total = tracer.compile(lambda x: (x.mean(0), x.max(0), (x * x).sum()), memory_limit="30kB")
    total(tracer.open(watched))
    assert watched.rows_read == 3000
    assert len(watched.read) > 3


def test_the_plan_says_how_often_a_file_is_read(tmp_path: Path) -> None:
    x = stored(tmp_path, points())
    plan = tracer.compile(lambda x: x.std(0), memory_limit="30kB").plan(x)
    wanted = "reads argument 0, stored float32[3000,5], 2 times: 120 kB, less than 0.1 s"
    assert wanted in plan.notes
    large = tracer.open(np.broadcast_to(np.float32(0), (10**8, 5)))
    notes = tracer.compile(lambda x: x.sum(0), memory_limit="30MB").plan(large).notes
    assert any(re.search(r"1 times: 2 GB, about \d+\.\d s$", note) for note in notes)
    assert plan.argument_bytes == 4


def test_without_a_limit_and_where_all_fits_it_is_read_whole(tmp_path: Path) -> None:
    x = points()
    assert tracer.compile(lambda x: tnp.sort(x, 0)[0])(stored(tmp_path, x)) == pytest.approx(
        x.min(0)
    )


def test_a_program_that_needs_all_of_it_is_refused_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(tracer.MemoryLimitError, match=r"sort|read_stored"):
        tracer.compile(lambda x: tnp.sort(x, 0).T @ x, memory_limit="30kB")(
            stored(tmp_path, points())
        )


def test_checks_compare_with_the_program_as_written(tmp_path: Path) -> None:
    function = tracer.compile(lambda x: tnp.exp(x).mean(0), memory_limit="30kB")
    assert function.check(stored(tmp_path, points())).ok


@pytest.mark.parametrize("shape", [(0, 3), (1, 3), (7, 0), (2, 3, 4), (9,), (1, 50_000)])
def test_awkward_shapes(tmp_path: Path, shape: tuple[int, ...]) -> None:
    x = points(1, int(np.prod(shape))).reshape(shape)
    total = tracer.compile(lambda x: (x.sum(), x * 2), memory_limit="1MB")
    found, doubled = total(stored(tmp_path, x))
    assert found == pytest.approx(x.sum(), abs=1e-3)
    np.testing.assert_array_equal(doubled, x * 2)


def test_rows_of_many_bytes_are_cut_within(tmp_path: Path) -> None:
    x = points(3, 400_000)
    total = tracer.compile(lambda x: tnp.exp(x).sum(1), memory_limit="400kB")
    np.testing.assert_allclose(total(stored(tmp_path, x)), np.exp(x).sum(1), rtol=1e-4)
