"""Programs for `benchmarks.settings`: one for each setting that acts in none of the planner's.

They are what the settings were made for, at sizes that take some milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes  # noqa: F401 - NumPy knows "bfloat16" by it
import numpy as np

from benchmarks.framework import Framework, tracer_framework
from benchmarks.programs.workload import Size, Workload

Shapes = tuple[tuple[int, ...], ...]
Program = Callable[[Framework], Callable[..., Any]]


def potentials_in_a_scan(fw: Framework) -> Callable[..., Any]:
    """Return Sinkhorn's iteration: a matrix of distances that each step computes again."""
    np_, logsumexp = fw.numpy, fw.scipy.special.logsumexp

    def function(x: Any, y: Any) -> Any:
        cost = ((x[:, None, :] - y[None, :, :]) ** 2).sum(-1)

        def step(potential: Any, _: Any) -> tuple[Any, None]:
            scores = logsumexp(potential[None, :] - cost, axis=1)
            return logsumexp(scores[None, :] - cost.T, axis=1), None

        return fw.control.scan(step, np_.zeros_like(x[:, 0]), None, length=5)[0]

    return function


def many_small_steps(fw: Framework) -> Callable[..., Any]:
    """Return a pendulum: a loop of ops on a few numbers."""

    def step(i: Any, c: Any) -> Any:
        return (c[0] + 0.01 * c[1], c[1] - 0.01 * fw.numpy.sin(c[0]))

    return lambda x: fw.control.fori_loop(0, 5000, step, (x, 0.1 * x))


def pooled_in_a_loop(fw: Framework) -> Callable[..., Any]:
    """Return steps down the gradient of a sum of maxima over windows."""

    def pooled(x: Any) -> Any:
        return (fw.nn.max_pool(x, (2,), strides=(1,), padding="SAME") ** 2).sum()

    def step(i: Any, x: Any) -> Any:
        return x - 1e-6 * fw.transforms.grad(pooled)(x)

    return lambda x: fw.control.fori_loop(0, 10, step, x)


def best_of_short_rows(count: int) -> Program:
    """Return the largest numbers of each row."""
    return lambda fw: lambda x: fw.top_k(x, count)[0]


def maxima_of_masked_rows(fw: Framework) -> Callable[..., Any]:
    """Return the largest number of each row of a lower triangle."""
    np_ = fw.numpy

    def function(x: Any) -> Any:
        mask = np_.arange(x.shape[1]) <= np_.arange(x.shape[0])[:, None]
        return np_.where(mask, x, -np_.inf).max(-1)

    return function


def sums_of_broadcasts(fw: Framework) -> Callable[..., Any]:
    """Return a sum over exponentials of rows beside a vector that takes some work."""

    def function(a: Any, b: Any, cost: Any) -> Any:
        return fw.scipy.special.logsumexp((-0.5 * (a + b - a * b))[:, None] - cost, axis=0)

    return function


def heads(fw: Framework) -> Callable[..., Any]:
    """Return the products of attention, without what is between them."""
    return lambda q, k, v: fw.numpy.abs(q @ k.transpose(0, 2, 1)) @ v


def square(fw: Framework) -> Callable[..., Any]:
    """Return the product of a matrix with itself."""
    return lambda x: x @ x


def _workload(program: Program, shapes: Shapes, limit: str | None, dtype: str) -> Workload:
    def inputs(rng: np.random.Generator) -> tuple[Any, ...]:
        return tuple(rng.standard_normal(shape).astype(dtype) for shape in shapes)

    def check(given: Any, results: Any) -> float:
        """Compare with the interpreter, in float64."""
        import tracer
        from tracer.array.trace import trace
        from tracer.ir import interpret

        wide = [np.asarray(x, np.float64) for x in given]
        graph = trace(program(tracer_framework()), wide).graph
        pairs = zip(tracer.tree.leaves(results), interpret(graph, wide), strict=True)
        return max(
            float(np.abs(np.asarray(got) - wanted).max() / np.abs(wanted).max())
            for got, wanted in pairs
        )

    sizes: Mapping[str, Size] = {"small": Size({}, limit)}
    return Workload(program, inputs, sizes, check, _TOLERANCES[dtype])


_TOLERANCES = {"bfloat16": 1e-2, "float32": 1e-4, "float64": 1e-9}
OWN_PROGRAMS = {
    "potentials in a scan": _workload(
        potentials_in_a_scan, ((400, 3), (400, 3)), "320KB", "float32"
    ),
    "many small steps": _workload(many_small_steps, ((16,),), None, "float32"),
    "maxima over windows in a loop": _workload(
        pooled_in_a_loop, ((40, 700, 30),), "1GB", "float32"
    ),
    "3 best of 12": _workload(best_of_short_rows(3), ((200_000, 12),), "1GB", "float32"),
    "10 best of 30": _workload(best_of_short_rows(10), ((20_000, 30),), "1GB", "float32"),
    "heads of 256 words": _workload(heads, ((64, 256, 64),) * 3, "1GB", "float32"),
    "square of bfloat16": _workload(square, ((1500, 1500),), "1GB", "bfloat16"),
    "maxima of masked rows": _workload(maxima_of_masked_rows, ((3000, 3000),), "1GB", "float32"),
    "sums of broadcasts": _workload(
        sums_of_broadcasts, ((3000,), (3000,), (3000, 3000)), "1GB", "float32"
    ),
}
