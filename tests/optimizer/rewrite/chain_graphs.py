"""Chains of products for tests, and the pass run over graphs and checked."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.optimizer.graphs import evaluated, traced
from tracer import ops
from tracer.ir import Builder, Graph, ShapeDtype, Value, verify_same_signature
from tracer.optimizer.passes import PassManager
from tracer.optimizer.rewrite.chains import chains_pass
from tracer.optimizer.rewrite.simplify import COMMON_SUBEXPRESSIONS


def prepared(function: Callable[..., Any], *shapes: Any, dtype: str = "float64") -> Graph:
    graph = traced(function, *[(shape, dtype) for shape in shapes])
    return PassManager().run(graph, [COMMON_SUBEXPRESSIONS])


def values_for(graph: Graph, seed: int = 0) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(seed)
    return [(3 * rng.standard_normal(type.shape)).astype(type.dtype) for type in graph.input_types]


def reordered(graph: Graph, limit: int | None = None) -> Graph:
    """Run the pass and check that the result computes the same."""
    after = PassManager().run(graph, [chains_pass(limit), COMMON_SUBEXPRESSIONS])
    verify_same_signature(graph, after)
    arrays = values_for(graph)
    for got, want in zip(evaluated(after, *arrays), evaluated(graph, *arrays), strict=True):
        scale = np.abs(want).max(initial=1)
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12 * scale)
    return after


def matrices(sizes: list[int], dtype: str = "float64") -> Graph:
    """Build the product of matrices with these sizes, from left to right."""
    with Builder() as builder:
        shapes = itertools.pairwise(sizes)
        factors = [builder.input(ShapeDtype(shape, dtype)) for shape in shapes]
        return builder.finish([functools.reduce(times, factors)])


def chain_graph(sizes: list[int], dtype: str = "float64") -> Graph:
    """Build the product of matrices from left to right; a vector is the last factor."""
    with Builder() as builder:
        shapes = [*itertools.pairwise(sizes), (sizes[-1],)]
        factors = [builder.input(ShapeDtype(shape, dtype)) for shape in shapes]
        return builder.finish([functools.reduce(times, factors)])


def times(x: Value, y: Value) -> Value:
    contracting = {"lhs_contracting": (x.type.ndim - 1,), "rhs_contracting": (0,)}
    return ops.dot_general(x, y, lhs_batch=(), rhs_batch=(), **contracting)
