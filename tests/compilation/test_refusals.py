"""What the error of a limit that cannot be met says: the user's ops and lines."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tracer import lowering
from tracer.optimizer.model.liveness import Liveness
from tracer.optimizer.model.peak_values import peak_values
from tracer.scipy.linalg import solve_triangular

FLOAT = "float32"
MADE_BY_PASSES = ("while", "slice", "optimization_barrier", "dynamic_update_slice")


def points(*shape: int) -> tracer.ShapeDtype:
    return tracer.ShapeDtype(shape, FLOAT)


def squared_distances(x: Any, y: Any) -> Any:
    return ((x[:, None] - y[None]) ** 2).sum(-1)


def nearest_and_discrepancy(x: Any, y: Any) -> Any:
    d = squared_distances(x, y)
    nearest = tnp.sort(d, 1)[:, :3].mean() + tnp.sort(d, 0)[:3].mean()
    return nearest + tnp.exp(-squared_distances(x, x)).mean()


def process(x: Any, y: Any) -> Any:
    kernel = tnp.exp(-squared_distances(x, x)) + tnp.eye(x.shape[0], dtype=FLOAT)
    factor = tnp.linalg.cholesky(kernel)
    return (solve_triangular(factor, y, lower=True) ** 2).sum() + tnp.log(
        tnp.diagonal(factor)
    ).sum()


def refusal(function: Any, limit: int, *types: Any) -> tracer.MemoryLimitError:
    with pytest.raises(tracer.MemoryLimitError) as caught:
        tracer.compile(function, memory_limit=limit).plan(*types)
    return caught.value


def assert_names_no_pass(error: tracer.MemoryLimitError) -> None:
    for line in (error.binding, *error.alive):
        assert "of " not in line or line.split("of ")[1].split(",")[0] not in MADE_BY_PASSES, line


@pytest.mark.xla
def test_a_matrix_that_is_sorted_both_ways_is_named_by_the_line_that_computes_it() -> None:
    gradient = tracer.value_and_grad(nearest_and_discrepancy, argnums=(0, 1))
    error = refusal(gradient, 100_000, points(300, 3), points(320, 3))
    assert_names_no_pass(error)
    assert error.binding.startswith("float32[300,320] of "), error.binding
    assert any("in squared_distances: return ((x[:, None]" in line for line in error.alive)
    assert any("nearest = tnp.sort(d, 1)" in line for line in error.alive)
    assert all("  (test_refusals.py:" in line for line in error.alive)
    assert error.where is not None
    assert error.where.file == __file__


@pytest.mark.xla
def test_matrices_that_are_alive_together_are_listed_with_their_lines() -> None:
    error = refusal(tracer.grad(process), 100_000, points(150, 3), points(150, 1))
    assert_names_no_pass(error)
    matrices = [line for line in error.alive if line.startswith("float32[150,150] of ")]
    assert len(matrices) >= 2
    text = str(error)
    assert "alive together at the peak:" in text
    assert all(line in text for line in matrices)
    assert any("factor = tnp.linalg.cholesky(kernel)" in line for line in matrices)


@pytest.mark.xla
def test_a_loop_that_the_user_wrote_keeps_its_name() -> None:
    def grown(x: Any) -> Any:
        y = tnp.sort(x[:, None] * x, axis=0)
        z = tracer.fori_loop(0, 5, lambda i, m: tnp.sin(m) @ y, y)
        return z.sum() + y.sum()

    graph = tracer.compile(grown).graph(np.ones(40, FLOAT))
    names = [value.name for value in peak_values(Liveness(graph), graph)]
    assert "float32[40,40] of while, 6.4 kB" in names
    assert "float32[40,40] of sort, 6.4 kB" in names


@pytest.mark.xla
def test_a_graph_without_computation_has_nothing_at_the_peak() -> None:
    graph = tracer.compile(lambda x: x).graph(np.ones(3, FLOAT))
    assert peak_values(Liveness(graph), graph) == ()


@pytest.mark.xla
def test_a_donation_that_keeps_the_limit_is_named() -> None:
    error = refusal(lambda a, b: (a + 1, b.sum()), 8_500, points(1000), points(1000))
    assert error.changes == ("donate_argnums=0, if the caller needs it no more: 8 kB",)
    assert error.changes[0] in error.mend
    met = tracer.compile(lambda a, b: (a + 1, b.sum()), memory_limit=8_500, donate_argnums=0)
    assert met.plan(points(1000), points(1000)).compiled_bytes <= 8_500


def test_arguments_passed_by_name_are_donated_by_name() -> None:
    def step(state: Any, *, more: Any) -> Any:
        return {"w": state["w"] + 1}, more * 2

    with pytest.raises(tracer.MemoryLimitError) as caught:
        tracer.compile(step, memory_limit=8_000).plan({"w": points(1000)}, more=points(1000))
    assert caught.value.changes == (
        "donate_argnums=0 with donate_argnames='more', if the caller needs them no more: 8 kB",
    )
    error = refusal_with_donation(step)
    assert error.changes == ("also donate_argnames='more', if the caller needs it no more: 8 kB",)


def refusal_with_donation(step: Any) -> tracer.MemoryLimitError:
    with pytest.raises(tracer.MemoryLimitError) as caught:
        tracer.compile(step, memory_limit=8_000, donate_argnums=0).plan(
            {"w": points(1000)}, more=points(1000)
        )
    return caught.value


def test_narrower_numbers_that_keep_the_limit_are_named() -> None:
    wide = tracer.ShapeDtype((1000,), "float64")
    error = refusal(lambda x: x.sum(), 5_000, wide)
    assert error.changes == ("float32 for float64: 4 kB",)


@pytest.mark.xla
def test_changes_of_a_program_that_was_planned() -> None:
    wide = tracer.ShapeDtype((300, 300), "float64")

    def ordered(x: Any) -> Any:
        return tnp.sort(x.reshape(-1, 2), axis=0)

    fits = 1_600_000  # Argument and result take 1.44 MB, a line that is sorted 0.36 MB.
    with pytest.raises(tracer.MemoryLimitError) as caught:
        tracer.compile(ordered, memory_limit=fits).plan(wide)
    assert any(change.startswith("float32 for float64") for change in caught.value.changes)


def test_where_no_change_is_known_none_is_named() -> None:
    error = refusal(lambda x: x.sum(), 100, points(1000))
    assert error.changes == ()
    assert "smaller arguments, or donate_argnums" in error.mend


@pytest.mark.xla
def test_far_below_what_can_be_met_the_smallest_limit_is_searched_for_when_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def searched(*args: Any) -> Any:
        raise AssertionError("the smallest limit was searched for")

    def total(x: Any, y: Any) -> Any:
        return tnp.sort(tnp.exp(-squared_distances(x, y)).reshape(-1))[::7].sum()

    function = tracer.grad(total, argnums=(0, 1))
    types = points(700, 3), points(700, 3)
    with monkeypatch.context() as patch:
        patch.setattr("tracer.compilation.candidates.tenths_lower", searched)
        error = refusal(function, 60_000, *types)
        low, high = error.minimum_bytes_bounds
    assert "the smallest of the programs that were tried takes" in error.what
    assert high is not None
    assert f"memory_limit={high} can be met" in error.mend
    assert tracer.compile(function, memory_limit=high).plan(*types).compiled_bytes <= high
    assert 60_000 > low == error.fixed_bytes
    assert 60_000 < error.minimum_bytes <= high


@pytest.mark.xla
def test_a_refusal_compiles_few_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[Any] = []
    compile_graph = lowering.compile_graph

    def compiled(*args: Any, **kwargs: Any) -> Any:
        counted.append(args)
        return compile_graph(*args, **kwargs)

    monkeypatch.setattr(lowering, "compile_graph", compiled)
    refusal(
        lambda x, v: tnp.exp(-squared_distances(x, x)) @ v, 60_000, points(2000, 3), points(2000)
    )
    assert len(counted) <= 3  # Five, before those predicted to be far larger were left out.


@pytest.mark.xla
def test_the_smallest_limit_of_a_small_program_is_met() -> None:
    """A few kilobytes: predictions are off by more than of larger programs."""

    def function(x: Any, w: Any) -> Any:
        return tnp.mean(tnp.stack([tnp.tanh(w[j] @ x / 2) for j in range(8)]))

    types = tracer.ShapeDtype((2, 2), "float64"), tracer.ShapeDtype((8, 2, 2), "float64")
    least = refusal(function, 1, *types).minimum_bytes
    assert tracer.compile(function, memory_limit=least).plan(*types).compiled_bytes <= least


@pytest.mark.parametrize(
    ("shape", "mend"), [((1000, 1), r"f\.into\(path\)"), ((1000, 1000), r"tracer\.open\(path\)")]
)
def test_what_is_on_disk_needs_no_limit(shape: tuple[int, ...], mend: str) -> None:
    x = tracer.ShapeDtype(shape, "float32")
    compiled = tracer.compile(lambda x: x * tnp.ones((1, 1000)), memory_limit="100kB")
    with pytest.raises(tracer.MemoryLimitError, match=mend):
        compiled.plan(x)
