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
from tracer.array.stored import StoredType
from tracer.array.trace import trace
from tracer.ir import ShapeDtype
from tracer.optimizer.loops.split.chunk import SplitSettings
from tracer.optimizer.loops.split.driver import split_graph
from tracer.optimizer.passes import PassLog

pytestmark = pytest.mark.xla
QUERIES = points(20, seed=1)


def _distances(x: Any, z: Any) -> Any:
    return ((x[:, None] - z[None]) ** 2).sum(-1)


def _unit(x: Any) -> Any:
    """Return rows of length one: each needs a sum over the row, known before the row is."""
    return x / tnp.linalg.norm(x, axis=1, keepdims=True)


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
        lambda x, q: tracer.nn.softmax(q @ x.T, axis=1) @ x, (QUERIES,), "50kB"
    ),
    "nearest neighbours": (_nearest, (QUERIES,), "150kB"),
    "k-means": (_k_means, (QUERIES[:4],), "150kB"),
    "logistic regression": (_logistic, (QUERIES[0],), "50kB"),
    "scan": (_scanned, (QUERIES[0],), "100kB"),
    "histogram": (lambda x: tnp.histogram(x[:, 0], bins=7, range=(-3, 3))[0], (), "50kB"),
    "a part": (lambda x: x[10:2000].sum(0) + x[-1], (), "30kB"),
    "gradient with respect to what is stored": (
        lambda x, w: tracer.grad(lambda x: tnp.tanh(x @ w).sum())(x).sum(0), (QUERIES[0],), "50kB"
    ),
}  # fmt: skip


LOOPS = ("k-means", "scan", "nearest neighbours")
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
    assert plan.compiled_bytes <= plan.limit_bytes < x.nbytes


PAIRS: dict[str, Callable[..., Any]] = {
    "kernel product with itself": lambda x, _: tnp.exp(-_distances(x, x) / 24) @ x[:, 0],
    "kernel product": lambda x, z: tnp.exp(-_distances(z, x) / 24) @ x[:, :2],
    "sums of absolute differences": (lambda x, z: tnp.exp(-abs(x[:2000, None] - z).sum(-1)).sum(1)),
    "Hausdorff distance": lambda x, z: _distances(x, z).min(1).max(),
    "self-attention": lambda x, _: tracer.nn.softmax(x @ x.T / 4, axis=1) @ x[:, 0],
    "nearest of each other": lambda x, z: tracer.lax.top_k(-_distances(z[:3000], x), 2)[0].sum(1),
    "where the nearest are": lambda x, z: _distances(z, x).argmin(1),
    "slope along a length": lambda x, z: tracer.grad(
        lambda length: tnp.exp(-_distances(x, z) / length).sum()
    )(24.0),
    "of unit length": lambda x, _: tnp.exp(_unit(x) @ _unit(x).T).sum(1),
    "of features": lambda x, z: tnp.tanh(tnp.tanh(x @ x[:12]) @ tnp.tanh(z @ z[:12]).T).sum(1),
}
"""Programs of pairs of points, none of which are in memory."""


@pytest.mark.parametrize("name", PAIRS)
def test_pairs_of_what_is_stored_are_computed_in_tiles(name: str) -> None:
    """One side is read once, the other for each tile: not for each thin slice."""
    x, z = points(12_011, 12), points(11_003, 12, seed=2)
    watched = Watched(x), Watched(z)
    compiled = tracer.compile(PAIRS[name], memory_limit="520kB")
    found = compiled(*map(tracer.open, watched))
    whole = tracer.compile(PAIRS[name], memory_limit="50MB")(x, z)
    scale = np.abs(np.asarray(whole)).max()
    np.testing.assert_allclose(found, whole, rtol=2e-5, atol=2e-5 * scale)
    plan = compiled.plan(*map(tracer.open, watched))
    assert plan.compiled_bytes <= plan.limit_bytes < z.nbytes
    assert sum(side.rows_read / len(side.array) for side in watched) < 300


@pytest.mark.slow
@pytest.mark.parametrize("made", [_unit, tnp.tanh])
def test_what_is_a_result_is_stored_and_not_read_again(made: Callable[[Any], Any]) -> None:
    def program(x: Any) -> Any:
        y = made(x)
        return y, tnp.tanh(y @ y.T).sum(1)

    watched = Watched(points(12_011, 12))
    found = tracer.compile(program, memory_limit="900kB")(tracer.open(watched))
    whole = tracer.compile(program, memory_limit="50MB")(watched.array)
    for mine, theirs in zip(found, whole, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2e-5, atol=1e-3)
    assert watched.rows_read < 2.2 * len(watched.array)


def _wide(q: Any, x: Any) -> Any:
    return tnp.exp(q @ x.T).sum(1)


def test_an_axis_that_reads_once_is_cut_rather_than_one_that_reads_again() -> None:
    types = ShapeDtype((500, 12), "float32"), StoredType(ShapeDtype((12_011, 12), "float32"))
    settings = SplitSettings(1 << 18, 1 << 18, 1 << 20, by_time=False)
    _, rows = split_graph(trace(_wide, types).graph, settings, PassLog())
    assert rows[0].axis.startswith("axis of 12011 of")


def test_distances_take_their_centre_from_the_side_in_memory() -> None:
    """A centre and a spread of what is stored would be two more passes; the bound is the same."""
    q, x = points(300, 12) + np.float32(1e4), points(12_011, 12, seed=2) + np.float32(1e4)
    watched = Watched(x)
    found = tracer.compile(_distances, memory_limit=15_000_000)(q, tracer.open(watched))
    assert watched.rows_read < 1.1 * len(x)
    exact = _distances(q.astype("float64"), x.astype("float64"))
    centre = q.mean(0, dtype="f8")
    spread = ((q - centre) ** 2).sum(-1)[:, None] + ((x - centre) ** 2).sum(-1)
    assert (np.abs(found - exact) <= 8 * np.finfo(np.float32).eps * spread).all()


def test_a_centre_of_what_is_stored_takes_one_pass() -> None:
    watched = Watched(points(12_011, 12)), Watched(points(11_003, 12, seed=2))
    compiled = tracer.compile(lambda x, z: _distances(x, z).min(), memory_limit="520kB")
    compiled(*map(tracer.open, watched))
    passes = sorted(side.rows_read / len(side.array) for side in watched)
    plan = compiled.plan(*map(tracer.open, watched))
    assert sum("reads argument" in note for note in plan.notes) == 2
    assert passes[0] <= 2.1  # The distances, and before them sum and extremes at once.


@pytest.mark.parametrize("is_first", [True, False])
def test_a_centre_is_of_the_stored_side_that_is_read_sooner(is_first: bool) -> None:
    few, many = Watched(points(100, 12)), Watched(points(12_011, 12, seed=2))
    sides = (few, many) if is_first else (many, few)
    compiled = tracer.compile(lambda x, z: _distances(x, z).min(), memory_limit="520kB")
    compiled(*map(tracer.open, sides))
    assert many.rows_read < 1.1 * len(many.array)


def test_what_is_compared_for_equality_is_not_computed_again() -> None:
    """The places of the largest, found in one loop, are no places of what another one computes."""

    def program(x: Any, z: Any) -> Any:
        y = tnp.exp(x)
        is_largest = tnp.asarray(y == y.max(0), "float32")
        return tnp.tanh(z @ is_largest.T).sum(1)

    given = [tracer.open(Watched(points(rows, 12))) for rows in (12_011, 9001)]
    with pytest.raises(tracer.MemoryLimitError):
        tracer.compile(program, memory_limit="400kB").plan(*given)


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
    total = tracer.compile(lambda x: tnp.exp(x).sum(1), memory_limit="520kB")
    np.testing.assert_allclose(total(stored(tmp_path, x)), np.exp(x).sum(1), rtol=1e-4)
