"""Derivatives of the *compiled* program, for every op: first and second order, both modes.

`tests/ops/test_every_op.py` asks the interpreter; here everything runs as users run it, through all
passes and XLA. The samples are those of the registry, so that a new op is tested by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

import tracer.numpy as tnp
from tests.autodiff.compiled import Case, check
from tests.ops.samples import SAMPLES, Sample
from tests.ops.test_every_op import graph_of, has_gradient, noise, positions
from tracer.array.dispatch import apply_graph
from tracer.ir import Graph, registry

pytestmark = pytest.mark.xla
TOGETHER = 12
"""Samples in one program: what is compiled at once costs less."""
QUICK = 3
"""Samples of each op that are not slow."""


def case_of(label: str, graph: Graph, sample: Sample) -> Case:
    """Return a weighted sum of all floating results, as a function of the floating operands."""
    rng = np.random.default_rng(3)
    wrt, outputs = positions(graph.input_types), positions(graph.output_types)
    weights = {i: noise(graph.output_types[i], rng) for i in outputs}

    def loss(points: Sequence[Any]) -> Any:
        operands = [tnp.asarray(x) for x in sample.operands]
        for i, point in zip(wrt, points, strict=True):
            operands[i] = point
        results = apply_graph(graph, operands)
        return sum((tnp.real(results[i] * w).sum() for i, w in weights.items()), 0.0)

    along, then = (
        tuple(sample.direction(i, noise(graph.input_types[i], rng)) for i in wrt) for _ in range(2)
    )
    return Case(label, loss, tuple(sample.operands[i] for i in wrt), along, then)


def cases(name: str) -> list[Case]:
    """Return the smooth samples of an op; first those whose dtypes differ, real and complex."""
    op, found, later, seen = registry()[name], [], [], set()
    for i, sample in enumerate(SAMPLES[name]):
        if not sample.smooth or not has_gradient(op):
            continue
        graph = graph_of(op, sample)
        kinds = tuple(x.dtype for x in sample.operands)
        if positions(graph.input_types) and positions(graph.output_types):
            (later if kinds in seen else found).append(case_of(f"{name}-{i}", graph, sample))
            seen.add(kinds)
    return found + later


def groups() -> Iterator[Any]:
    """Yield samples that are compiled together, and an order; of what is slow one order in turn."""
    everything = [cases(name) for name in sorted(SAMPLES)]
    quick = [case for of_one_op in everything for case in of_one_op[:QUICK]]
    slow = [case for of_one_op in everything for case in of_one_op[QUICK:]]
    for found, is_slow in ((quick, False), (slow, True)):
        for i in range(0, len(found), TOGETHER):
            group = found[i : i + TOGETHER]
            for order in (1, 2):
                left_out = is_slow and (i // TOGETHER + order) % 2
                marks = [pytest.mark.slow] * is_slow + [pytest.mark.sweep] * bool(left_out)
                yield pytest.param(group, order, id=f"from {group[0].label}-{order}", marks=marks)


@pytest.mark.parametrize(("group", "order"), [*groups()])
def test_derivatives_of_the_compiled_program(group: Sequence[Case], order: int) -> None:
    check(group, order)
