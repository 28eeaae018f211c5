"""What is asked of a program in its final form: which results take over donated arguments.

Its liveness counts some bytes twice, and others not at all: a sort as integers in a loop takes a
third more there, products a seventh less. So nothing plans on it (`FinalPasses.legalized`); the
pairs of arguments and results are those of the program before.
"""

from __future__ import annotations

from typing import Any

import pytest

import tracer
import tracer.numpy as tnp
from tests.optimizer.graphs import traced
from tracer.optimizer.alias.donations import match_donations
from tracer.optimizer.final_passes import legalized
from tracer.optimizer.passes import PassManager
from tracer.optimizer.pipeline import Context, standard_passes
from tracer.scipy.linalg import solve_triangular


def convolved(x: Any, w: Any) -> Any:
    return tracer.nn.conv_general_dilated(x, w, (1, 1), "SAME")


def sorted_in_a_loop(x: Any) -> Any:
    return tracer.fori_loop(0, 3, lambda _, c: tnp.sort(-c) + 1, x)


PROGRAMS: dict[str, tuple[Any, tuple[tuple[int, ...], ...], str]] = {
    "sort": (tnp.sort, ((5000,),), "float32"),
    "sort of what is computed": (lambda x: tnp.sort(tnp.sin(x)), ((5000, 3),), "float64"),
    "sort beside a sum": (lambda x: (tnp.sort(x) + 1, x.sum()), ((5000,),), "float16"),
    "sort in a loop": (sorted_in_a_loop, ((5000,),), "float32"),
    "solve": (lambda a, x: solve_triangular(a, x, lower=True), ((600, 600), (600,)), "float64"),
    "convolution": (convolved, ((2, 8, 9, 9), (8, 8, 3, 3)), "float32"),
    "gradient of a convolution": (
        tracer.grad(lambda x, w: (convolved(x, w) ** 2).sum(), argnums=(0, 1)),
        ((2, 8, 9, 9), (8, 8, 3, 3)),
        "float32",
    ),
    "top-k": (lambda x: (tnp.top_k(x, 10)[0], x * 2), ((1000, 160),), "float32"),
    "arg-max": (lambda x: x.at[tnp.argmax(x, 0)].set(0), ((4096,),), "float64"),
    "sums": (lambda x: (x.sum(0), x + x.max(0)), ((4096, 70),), "float32"),
    "products": (lambda x, w: tnp.tanh(x @ w).T @ x + w.T, ((64, 64), (64, 64)), "float32"),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_donated_arguments_have_the_results_that_they_had_before(name: str) -> None:
    function, shapes, dtype = PROGRAMS[name]
    graph = traced(function, *((shape, dtype) for shape in shapes))
    graph = PassManager().run(graph, standard_passes())
    after, rows = legalized(graph, Context())
    assert rows
    pairs = [match_donations(g, range(len(shapes))).pairs for g in (graph, after)]
    assert pairs[0]
    assert pairs[0] == pairs[1]
