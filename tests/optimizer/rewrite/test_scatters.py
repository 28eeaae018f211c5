"""One element for each row, scattered into zeros: a choice by the index, and what is left alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as run_settings
from hypothesis import strategies as st

import tracer
import tracer.numpy as tnp
from tests.optimizer.graphs import apply, evaluated, ops_of, traced
from tracer import ShapeDtype, ops
from tracer.ir import Builder, Graph
from tracer.ops.helpers import full
from tracer.optimizer.rewrite.scatters import SELECT_FOR_SCATTER


def scattered(
    shape: tuple[int, ...],
    axis: int,
    index: str = "int32",
    dtype: str = "float64",
    combiner: str = "add",
    begin: int = 0,
    count: int = 1,
) -> Graph:
    """Return the graph of `count` elements for each row of a fill, put along an axis."""
    rows = tuple(i for i in range(len(shape)) if i != axis)
    batch = tuple(shape[i] for i in rows)
    with Builder() as builder:
        indices = builder.input(ShapeDtype((*batch, count, 1), index))
        updates = builder.input(ShapeDtype((*batch, count), dtype))
        result = ops.scatter(
            full(begin, ShapeDtype(shape, dtype)),
            indices,
            updates,
            combiner=combiner,
            update_window_dims=(),
            inserted_window_dims=(axis,),
            scatter_dims_to_operand_dims=(axis,),
            index_vector_dim=len(batch) + 1,
            unique_indices=False,
            input_batching_dims=rows,
            scatter_indices_batching_dims=tuple(range(len(batch))),
        )
        return builder.finish([result])


@run_settings(max_examples=150, deadline=None)
@given(
    st.lists(st.sampled_from([1, 2, 3, 5]), min_size=2, max_size=4),
    st.integers(0, 3),
    st.sampled_from(["int8", "uint8", "int32", "int64", "uint32", "uint64"]),
    st.sampled_from(["float64", "int32", "complex128"]),
    st.sampled_from(["add", "replace"]),
    st.integers(0, 99),
)
def test_it_computes_the_same(
    shape: list[int], axis: int, index: str, dtype: str, combiner: str, seed: int
) -> None:
    axis %= len(shape)
    graph = scattered(tuple(shape), axis, index, dtype, combiner)
    after, log = apply(SELECT_FOR_SCATTER, graph)
    assert log.applied
    assert "scatter" not in ops_of(after)
    rng = np.random.default_rng(seed)
    low = -2 if index.startswith("i") else 0
    indices = rng.integers(low, 7, graph.input_types[0].shape).astype(index)
    if rng.integers(2):
        indices.flat[0] = np.iinfo(index).max
    updates = rng.standard_normal(graph.input_types[1].shape)
    if dtype != "int32" and updates.size:
        updates.flat[-1] = np.nan
    given_arrays = indices, (updates * 9).astype(dtype)
    np.testing.assert_array_equal(
        evaluated(after, *given_arrays)[0], evaluated(graph, *given_arrays)[0]
    )


LEFT = {
    "two for each row": scattered((3, 5), 1, count=2),
    "into ones": scattered((3, 5), 1, begin=1),
    "the largest": scattered((3, 5), 1, combiner="maximum"),
    "a vector": scattered((5,), 0),
    "no rows": scattered((0, 5), 1),
}


@pytest.mark.parametrize("name", LEFT)
def test_others_are_left_alone(name: str) -> None:
    assert apply(SELECT_FOR_SCATTER, LEFT[name])[0] is LEFT[name]


def loss(scores: Any, labels: Any) -> Any:
    right = tnp.take_along_axis(scores, labels[:, None], 1)[:, 0]
    return (tracer.scipy.special.logsumexp(scores, axis=1) - right).mean()


def test_the_gradient_of_a_cross_entropy_has_no_scatter() -> None:
    graph = traced(tracer.grad(loss), ((6, 9), "float64"), ((6,), "int32"))
    assert "scatter" in ops_of(graph)
    assert "scatter" not in ops_of(apply(SELECT_FOR_SCATTER, graph)[0])


@pytest.mark.xla
def test_the_choice_is_made_in_slices() -> None:
    """The places of all rows, which are the same in each trip, are not stored before the loop."""
    rng = np.random.default_rng(0)
    features = rng.standard_normal((512, 32), dtype=np.float32)
    weights = rng.standard_normal((32, 20_000), dtype=np.float32)
    given_arrays = weights, features, rng.integers(20_000, size=512, dtype=np.int32)

    def of_weights(weights: Any, features: Any, labels: Any) -> Any:
        return loss(features @ weights, labels)

    limited = tracer.compile(tracer.grad(of_weights), memory_limit="24MB")
    loops = [node for node in limited.graph(*given_arrays).nodes if node.body_graphs]
    assert loops
    for loop in loops:
        for body in loop.body_graphs:
            computed = [type.shape for node in body.nodes for type in node.types]
            assert (512, 20_000) not in computed
    found = np.asarray(limited(*given_arrays))
    whole = np.asarray(tracer.compile(tracer.grad(of_weights), split="never")(*given_arrays))
    np.testing.assert_allclose(found, whole, rtol=1e-4, atol=1e-6)
