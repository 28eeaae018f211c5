"""Every op forwards and backwards: <cotangent, J v> = <vjp cotangent, v>; and nobody is silent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.ops.samples import SAMPLES, Sample
from tests.ops.test_every_op import (
    OPS,
    check_gradient,
    graph_of,
    has_gradient,
    is_zero,
    noise,
    positions,
    result_types,
    tolerance,
    types_of,
)
from tracer import ops
from tracer.autodiff import jvp_graph, vjp_graph
from tracer.errors import NotDifferentiableError
from tracer.ir import Builder, Graph, NotDifferentiable, interpret, registry
from tracer.ops.rules import elementwise_axes

Array = np.ndarray[Any, Any]

FORWARD_ONLY = {"while"}
"""Ops that reverse mode refuses and forward mode does not; tests/autodiff has tests of them."""


def carries(name: str, sample: Sample) -> bool:
    """Tell whether a float goes into the op and one comes out of it."""
    results = result_types(registry()[name], sample)
    return bool(positions(types_of(sample.operands)) and positions(results))


def is_finite(sample: Sample) -> bool:
    return all(np.isfinite(x).all() for x in sample.operands)


def is_refused(name: str, sample: Sample) -> bool:
    """Tell whether reverse mode says that there is no derivative with these parameters."""
    graph = graph_of(registry()[name], sample)
    try:
        vjp_graph(graph, positions(graph.input_types))
    except NotDifferentiableError:
        return True
    return False


def is_elementwise(name: str, sample: Sample) -> bool:
    op, operands = registry()[name], types_of(sample.operands)
    results = result_types(op, sample)
    same = len({t.shape for t in (*operands, *results)}) == 1
    return same and op.axes(operands, results, **sample.params) == elementwise_axes(
        operands, results
    )


CASES = [
    (name, sample, f"{name}-{i}")
    for name in OPS
    if has_gradient(registry()[name])
    for i, sample in enumerate(SAMPLES[name])
    if carries(name, sample)
]
FINITE = [
    pytest.param(name, sample, id=label)
    for name, sample, label in CASES
    if (sample.smooth or is_finite(sample)) and not is_refused(name, sample)
]
REFUSED = [
    pytest.param(name, sample, id=label)
    for name, sample, label in CASES
    if is_refused(name, sample) and name not in FORWARD_ONLY
]
ELEMENTWISE = [
    pytest.param(name, sample, id=label)
    for name, sample, label in CASES
    if not sample.smooth and is_elementwise(name, sample)
]


def pairing(xs: Sequence[Array], ys: Sequence[Array]) -> float:
    """Return Re(sum(x y)): cotangents are not conjugated."""
    return float(sum(np.sum((x * y).real) for x, y in zip(xs, ys, strict=True)))


def both_ways(
    graph: Graph, wrt: list[int], arrays: Sequence[Array], vs: list[Array], cts: list[Array]
) -> tuple[list[Array], list[Array]]:
    """Return the tangents of the outputs and the cotangents of the inputs."""
    forward = interpret(jvp_graph(graph, wrt), [*arrays, *vs])[len(graph.outputs) :]
    return forward, interpret(vjp_graph(graph, wrt), [*arrays, *cts])


@pytest.mark.parametrize(("name", "sample"), FINITE)
def test_forward_mode_is_the_transpose_of_reverse_mode(
    name: str, sample: Sample, rng: np.random.Generator
) -> None:
    graph = graph_of(registry()[name], sample)
    wrt, outputs = positions(graph.input_types), positions(graph.output_types)
    vs = [noise(graph.input_types[i], rng) for i in wrt]
    cts = [noise(graph.output_types[i], rng) for i in outputs]
    with np.errstate(all="ignore"):
        tangents, cotangents = both_ways(graph, wrt, sample.operands, vs, cts)
    assert types_of(tangents) == types_of(cts)
    forward, backward = pairing(cts, tangents), pairing(cotangents, vs)
    assert np.isfinite(backward) or not sample.smooth
    limit = max(tolerance(x.dtype) for x in (*cts, *vs)) + 1e-9
    np.testing.assert_allclose(forward, backward, rtol=limit, atol=limit)


@pytest.mark.parametrize(("name", "sample"), REFUSED)
def test_forward_mode_refuses_what_reverse_mode_refuses(name: str, sample: Sample) -> None:
    graph = graph_of(registry()[name], sample)
    assert not sample.smooth
    with pytest.raises(NotDifferentiableError, match=r"(?s)where:.*mend:"):
        jvp_graph(graph, positions(graph.input_types))


@pytest.mark.parametrize(("name", "sample"), ELEMENTWISE)
def test_slopes_at_special_values_are_the_same_both_ways(name: str, sample: Sample) -> None:
    """Element by element, also where a slope is infinite or NaN."""
    graph = graph_of(registry()[name], sample)
    ones = np.ones(graph.output_types[0].shape, graph.output_types[0].dtype)
    for i in positions(graph.input_types):
        with np.errstate(all="ignore"):
            forward, backward = both_ways(
                graph, [i], sample.operands, [ones.astype(graph.input_types[i].dtype)], [ones]
            )
        np.testing.assert_allclose(forward[0], backward[0], rtol=1e-12, err_msg=f"operand {i}")


# Nobody blocks a gradient silently.


@pytest.mark.parametrize("name", OPS)
def test_every_op_says_what_its_derivative_is(name: str) -> None:
    op = registry()[name]
    if isinstance(op.vjp, NotDifferentiable):
        assert len(op.vjp.reason.split()) >= 4
        assert len(op.vjp.mend.split()) >= 4
        assert not (op.vjp.zero and op.linearize)
    else:
        assert callable(op.vjp)


# Its operands hang together, so that they are measured together, below.
TOGETHER = {"lu_solve"}


@pytest.mark.parametrize(
    "name", [name for name in OPS if has_gradient(registry()[name]) and name not in TOGETHER]
)
def test_every_derivative_is_measured(name: str) -> None:
    """Finite differences see every floating operand: one that a rule forgets cannot hide."""
    carrying = [sample for sample in SAMPLES[name] if carries(name, sample)]
    refused = [is_refused(name, sample) for sample in carrying]
    assert carrying
    # Refused with all parameters: the samples say that it is on purpose, see above.
    assert any(sample.smooth for sample in carrying) or all(refused)


@pytest.mark.parametrize("transpose", [False, True])
def test_solutions_with_the_factors_of_their_matrix(
    transpose: bool, rng: np.random.Generator
) -> None:
    a, b = rng.normal(size=(2, 4, 4)), rng.normal(size=(2, 4, 3))
    with Builder() as builder:
        matrix, right = (builder.input(type) for type in types_of([a, b]))
        packed, _, permutation = ops.lu(ops.stop_gradient(matrix))
        solution = ops.lu_solve(matrix, packed, permutation, right, transpose=transpose)
        graph = builder.finish([solution])
    check_gradient(graph, [0, 1], [a + 4 * np.eye(4), b], 2, rng)


# These carry values on and say themselves that the gradient ends there.
ON_PURPOSE = {"stop_gradient", "bitcast_convert"}


@pytest.mark.parametrize(
    "name", [name for name in OPS if is_zero(registry()[name]) and name not in ON_PURPOSE]
)
def test_only_piecewise_constant_ops_have_zero_gradients(
    name: str, rng: np.random.Generator
) -> None:
    """Floats come out that do not move with the floats that go in, or no floats come out."""
    op = registry()[name]
    for sample in SAMPLES[name]:
        outputs = positions(result_types(op, sample))
        inputs = positions(types_of(sample.operands))
        if not (outputs and inputs and sample.smooth):
            continue
        graph, moved = graph_of(op, sample), list(sample.operands)
        for i in inputs:
            moved[i] = moved[i] + 1e-7 * noise(graph.input_types[i], rng)
        before, after = interpret(graph, sample.operands), interpret(graph, moved)
        for i in outputs:
            np.testing.assert_array_equal(before[i], after[i])
