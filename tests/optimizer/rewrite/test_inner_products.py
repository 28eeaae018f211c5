"""Inner products of computed vectors become sums, and those become matrix products."""

from __future__ import annotations

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.optimizer.graphs import apply, evaluated, of, ops_of, traced
from tracer import ops
from tracer.ir import Builder, ShapeDtype
from tracer.optimizer.rewrite.match import CONTRACTIONS, INNER_PRODUCTS

pytestmark = pytest.mark.usefixtures("small_matches")
POINTS = (((6, 20), "float32"), ((7, 20), "float32"))


def difference(x, y):
    return x[:, None, :] - y[None, :, :]


def columns(x, y):
    return x.T[:, :, None] - y.T[:, None, :]


SPELLINGS = {
    "einsum": lambda x, y: tnp.einsum("ijk,ijk->ij", difference(x, y), difference(x, y)),
    "einsum to the transpose": lambda x, y: tnp.einsum(
        "ijk,ijk->ji", difference(x, y), difference(x, y)
    ),
    "contracted first": lambda x, y: tnp.einsum("kij,kij->ij", columns(x, y), columns(x, y)),
    "weighted": lambda x, y: tnp.einsum("ijk,ijk,k->ij", difference(x, y), difference(x, y), x[0]),
    "rows times columns": lambda x, y: (
        difference(x, y)[..., None, :] @ difference(x, y)[..., :, None]
    )[..., 0, 0],
    "vecdot": lambda x, y: tnp.vecdot(difference(x, y), difference(x, y)),
    "dot of one pair": lambda x, y: tracer.vmap(
        lambda a: tracer.vmap(lambda b: tnp.dot(a - b, a - b))(y)
    )(x),
    "over two axes": lambda x, y: tnp.einsum("ijk,ijk->i", difference(x, y), difference(x, y)),
}
LEFT_ALONE = {
    "stored vectors": (
        lambda x, y: tnp.vecdot(tnp.sort(x[:6], axis=1), tnp.sort(y[:6], axis=1)),
        "float32",
    ),
    "an axis of one side": (lambda x, y: tnp.exp(x) @ tnp.exp(y).T, "float32"),
    "one inner product": (lambda x, y: tnp.dot(tnp.exp(x[0]), tnp.exp(y[0])), "float32"),
    "narrow floats": (SPELLINGS["einsum"], "float16"),
    "complex numbers": (SPELLINGS["einsum"], "complex64"),
    "integers": (SPELLINGS["einsum"], "int32"),
}


def points(dtype: str = "float32") -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape).astype(dtype) for shape, _ in POINTS]


@pytest.mark.parametrize("name", SPELLINGS)
def test_spellings_are_written_out_and_matched(name: str) -> None:
    x, y = points()
    before = traced(SPELLINGS[name], *of(x, y))
    after, log = apply(INNER_PRODUCTS, before)
    assert log.applied
    assert "reduce_add" in ops_of(after)
    matched = apply(CONTRACTIONS, after)[0]
    assert max(node.types[0].size for node in matched.nodes) < 6 * 7 * 20
    wide = [x.astype("f8"), y.astype("f8")]
    wanted = evaluated(traced(SPELLINGS[name], *of(*wide)), *wide)[0]
    for graph in (before, after, matched):
        np.testing.assert_allclose(evaluated(graph, x, y)[0], wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_others_are_left_alone(name: str) -> None:
    function, dtype = LEFT_ALONE[name]
    before = traced(function, *[(shape, dtype) for shape, _ in POINTS])
    assert "dot_general" in ops_of(before)
    assert apply(INNER_PRODUCTS, before)[0] is before


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_axes_in_another_order_are_refused(order: tuple[int, int]) -> None:
    with Builder() as builder:
        x = builder.input(ShapeDtype((6, 6, 20), "float32"))
        product = ops.dot_general(
            ops.exponential(x),
            x,
            lhs_batch=(0, 1),
            rhs_batch=order,
            lhs_contracting=(2,),
            rhs_contracting=(2,),
        )
        before = builder.finish([product])
    after, log = apply(INNER_PRODUCTS, before)
    assert (after is before) == (order == (1, 0))
    refusals = [str(refusal) for refusal in log.refusals]
    assert len(refusals) == order[0]
    assert all("another order" in refusal for refusal in refusals)
