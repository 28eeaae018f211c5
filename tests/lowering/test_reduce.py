"""Reductions in stages: right for every shape, exact enough, and fused with what they reduce."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.lowering.conftest import make_graph
from tracer import lowering, ops
from tracer.ir import Builder, Graph, ShapeDtype
from tracer.optimizer.final_passes import legalized
from tracer.optimizer.model.costs import counted_scratch
from tracer.optimizer.pipeline import Context
from tracer.target.reductions import Reductions

pytestmark = pytest.mark.xla

CASES = [
    ((5,), (0,)),
    ((4096,), (0,)),
    ((4099,), (0,)),
    ((64, 3), (0,)),
    ((127, 5), (0,)),
    ((128, 5), (0,)),
    ((2 * 67, 3), (0,)),
    ((3, 2048), (1,)),
    ((96, 2048), (0, 1)),
    ((3, 127, 4), (1,)),
    ((130, 3, 70), (0, 2)),
    ((130, 3, 4096), (0, 2)),
    ((3, 70, 131, 2), (1, 2)),
    ((0, 3), (0,)),
    ((3, 0), (0,)),
    ((1, 4096, 1), (1,)),
    ((7, 7), ()),
]


@pytest.fixture
def graph() -> Callable[..., Graph]:
    """Make a graph as it is compiled: with its reductions in stages."""
    return lambda build, *types: legalized(make_graph(build, *types), Context())[0]


@pytest.fixture
def run(graph: Callable[..., Graph]) -> Callable[..., list[np.ndarray]]:
    """Compile and run: `run(build, *arrays) -> arrays`."""

    def run_arrays(build: Any, *arrays: np.ndarray) -> list[np.ndarray]:
        executable = lowering.compile_graph(graph(build, *[(a.shape, a.dtype) for a in arrays]))
        return [lowering.to_host(b) for b in executable(*map(lowering.to_device, arrays))]

    return run_arrays


@pytest.mark.parametrize(("shape", "axes"), CASES)
def test_every_shape(run: Any, rng: Any, shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    x = rng.integers(-99, 99, shape).astype(np.int32)
    total, largest = run(
        lambda x: [ops.reduce_add(x, axes=axes), ops.reduce_maximum(x, axes=axes)], x
    )
    np.testing.assert_array_equal(total, x.sum(axes))
    lowest = np.iinfo(np.int32).min
    np.testing.assert_array_equal(largest, x.max(axes, initial=lowest))


@pytest.mark.parametrize("shape", [(0, 4096), (4096, 0), (3, 0, 4096), (0, 65, 129), (4096, 0, 5)])
def test_nothing_beside_a_long_axis(shape: tuple[int, ...]) -> None:
    """The plan divided by the size of the empty axis (`ZeroDivisionError`)."""
    x = np.zeros(shape, np.float32)
    for count in range(1, len(shape) + 1):
        for axes in itertools.combinations(range(len(shape)), count):
            program = tracer.compile(lambda x, axes=axes: (tnp.exp(x).sum(axes), x.prod(axes)))
            total, product = map(np.asarray, program(x))
            np.testing.assert_array_equal(total, x.sum(axes))
            np.testing.assert_array_equal(product, x.prod(axes))


@pytest.mark.parametrize("k", [1, 5])
def test_no_rows_to_choose_from(k: int) -> None:
    values, places = tracer.compile(lambda x: tnp.top_k(x, k))(np.zeros((0, 100_000), np.float32))
    assert values.shape == places.shape == (0, k)


@pytest.mark.parametrize("shape", [(131, 3), (128, 3), (3, 4096), (4099, 2)])
@pytest.mark.parametrize("fill", ["random", "lowest", "nan"])
def test_first_index_wins_through_stages_and_padding(
    run: Any, rng: Any, shape: tuple[int, ...], fill: str
) -> None:
    axis = 0 if shape[0] > shape[1] else 1
    x = rng.integers(0, 9, shape).astype(np.float32)
    if fill != "random":
        x[:] = {"lowest": -np.inf, "nan": np.nan}[fill]
    (found,) = run(lambda x: [ops.argmax(x, axis=axis, index_dtype=np.dtype(np.int32))], x)
    np.testing.assert_array_equal(found, x.argmax(axis))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("axis", [0, 1])
def test_narrow_sums_do_not_stop(run: Any, dtype: Any, axis: int) -> None:
    """A running sum in bfloat16 stops at 256, one in float16 at 2048."""
    x = np.ones((4096, 4096) if axis else (4099, 2), dtype)[: None if axis == 0 else 2]
    (total,) = run(lambda x: [ops.reduce_add(x, axes=(axis,))], x)
    assert total.dtype == dtype
    np.testing.assert_array_equal(total.astype("f8"), np.float64(dtype(x.shape[axis])))


def test_long_sums_are_accurate(run: Any, rng: Any) -> None:
    x = rng.random(1 << 22).astype(np.float32)
    (total,) = run(lambda x: [ops.reduce_add(x, axes=(0,))], x)
    assert abs(total / x.sum(dtype="f8") - 1) < 5e-7


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize("n", [2000, 2048, 1999])
def test_what_is_reduced_is_not_stored(graph: Any, axes: tuple[int, ...], n: int) -> None:
    def kernel_sum(x: Any, y: Any) -> Any:
        rows = ops.broadcast_in_dim(x, shape=(n, n), dimensions=(0,))
        columns = ops.broadcast_in_dim(y, shape=(n, n), dimensions=(1,))
        difference = ops.subtract(rows, columns)
        kernel = ops.exponential(ops.negate(ops.multiply(difference, difference)))
        return [ops.reduce_add(kernel, axes=axes)]

    executable = lowering.compile_graph(graph(kernel_sum, ((n,), "f4"), ((n,), "f4")))
    assert executable.memory.temporary_bytes < 4 * n * n / 8


def test_softmax_stores_its_result_only(graph: Any) -> None:
    n = 2000

    def softmax(x: Any) -> Any:
        def over_rows(row: Any) -> Any:
            return ops.broadcast_in_dim(row, shape=(n, n), dimensions=(0,))

        largest = ops.reduce_maximum(x, axes=(1,))
        weights = ops.exponential(ops.subtract(x, over_rows(largest)))
        return [ops.divide(weights, over_rows(ops.reduce_add(weights, axes=(1,))))]

    executable = lowering.compile_graph(graph(softmax, ((n, n), "f4")))
    assert executable.memory.temporary_bytes < 4 * n * n / 8


def test_blocks_are_divisors() -> None:
    for size in range(1, 3000):
        for shape, axis in (((size, 2), 0), ((2, size), 1)):
            for block in Reductions().blocks(shape, (axis,)).values():
                assert size % block == 0
                assert block < size


@pytest.mark.parametrize("op", [ops.reduce_maximum, ops.reduce_minimum, ops.reduce_add])
@pytest.mark.parametrize("shape", [(6000, 3), (6000, 300), (600_000, 3)])
def test_a_few_extremes_take_one_stage_and_sums_do_not(
    graph: Any, op: Any, shape: tuple[int, ...]
) -> None:
    made = graph(lambda x: [op(x, axes=(0,))], (shape, "f4"))
    is_single = op is not ops.reduce_add and shape == (6000, 3)
    assert (sum(node.name.startswith("reduce") for node in made.nodes) == 1) == is_single


@pytest.mark.parametrize(
    ("shape", "axes"),
    [
        ((3000, 3001), (0, 1)),
        ((1_000_003, 3), (0, 1)),
        ((3, 900_001), (0, 1)),
        ((300, 70, 301), (0, 1)),
    ],
)
def test_a_long_sum_keeps_its_digits(
    run: Any, rng: Any, shape: tuple[int, ...], axes: tuple[int, ...]
) -> None:
    # One chain of nine million float32 terms would be wrong by 1e-5.
    x = rng.random(shape, dtype=np.float32)
    (found,) = run(lambda x: [ops.reduce_add(x, axes=axes)], x)
    np.testing.assert_allclose(found, x.sum(axes, dtype=np.float64), rtol=1e-6)


@pytest.mark.parametrize(
    "shape", [(600, 12_000), (600, 20_000), (70, 70, 4096), (300, 40_000), (90_000, 40)]
)
def test_the_cost_knows_what_a_sum_over_everything_leaves(shape: tuple[int, ...]) -> None:
    """Long rows are cut too: a sum over 20,000 x 20,000 holds 80 partial sums of each row."""
    with Builder() as builder:
        x = builder.input(ShapeDtype(shape, "float32"))
        graph = builder.finish([ops.reduce_add(ops.exponential(x), axes=tuple(range(len(shape))))])
    staged, _ = legalized(graph, Context())
    counted = lowering.compile_graph(staged).memory.temporary_bytes
    assert 0.9 * counted - 1024 <= counted_scratch(graph.nodes[-1]) <= 1.2 * counted + 1024
