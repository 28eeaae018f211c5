"""Long inner products as sums: what is written, and that it computes the same."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.optimizer.graphs import apply, evaluated, rewritten, text, traced
from tracer.ir import Graph
from tracer.optimizer.legalize.inner_products import summed_products_pass
from tracer.target import ACCELERATORS, DEFAULT_TARGET

PASS = summed_products_pass(DEFAULT_TARGET)


def einsum(form: str, left: tuple[int, ...], right: tuple[int, ...], dtype: Any) -> Graph:
    return traced(lambda x, y: tnp.einsum(form, x, y), (left, dtype), (right, dtype))


def test_what_is_written() -> None:
    before = """
        graph(%0: float32[3,1,1000], %1: float32[1000,3]) {
          %2: float32[1] = dot_general(%0, %1) {lhs_batch=(), rhs_batch=(), \
lhs_contracting=(0, 2), rhs_contracting=(1, 0)}
          return %2
        }"""
    assert rewritten(PASS, before) == (
        """
graph(%0: float32[3,1,1000], %1: float32[1000,3]) {
  %2: float32[3,1000] = transpose(%1) {permutation=(1, 0)}
  %3: float32[3,1000] = reshape(%0) {shape=(3, 1000)}
  %4: float32[3,1000] = reshape(%2) {shape=(3, 1000)}
  %5: float32[3,1000] = multiply(%3, %4)
  %6: float32[] = reduce_add(%5) {axes=(0, 1)}
  %7: float32[1] = reshape(%6) {shape=(1,)}
  return %7
}""".strip()
    )


FORMS = [
    ("i,i->", (5000,), (5000,)),
    ("ij,ji->", (70, 90), (90, 70)),
    ("bij,bij->b", (3, 301, 50), (3, 301, 50)),
    ("ibj,jbi->b", (301, 3, 50), (50, 3, 301)),
    ("ibjc,cjib->cb", (90, 2, 70, 3), (3, 70, 90, 2)),
    ("ibjc,cjib->bc", (90, 1, 70, 3), (3, 70, 90, 1)),
]


@pytest.mark.parametrize(("form", "left", "right"), FORMS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
def test_values_are_the_same(form: str, left: Any, right: Any, dtype: str) -> None:
    before = einsum(form, left, right, dtype)
    after, log = apply(PASS, before)
    assert log.applied
    assert "dot_general" not in text(after)
    rng = np.random.default_rng(0)
    arrays = [rng.random(shape).astype(dtype) for shape in (left, right)]
    got, wanted = evaluated(after, *arrays)[0], evaluated(before, *arrays)[0]
    np.testing.assert_allclose(got, wanted, rtol=1e-4)


@pytest.mark.parametrize(
    ("form", "left", "right", "dtype"),
    [
        ("i,i->", (2047,), (2047,), "float32"),
        ("ij,j->i", (2, 5000), (5000,), "float32"),
        ("i,i->", (5000,), (5000,), "bfloat16"),
        ("i,i->", (5000,), (5000,), "int32"),
    ],
    ids=["short", "of a matrix", "narrow", "integers"],
)
def test_left_alone(form: str, left: Any, right: Any, dtype: str) -> None:
    graph = einsum(form, left, right, dtype)
    assert apply(PASS, graph)[0] is graph


@pytest.mark.xla
def test_the_plan_names_the_pass_and_its_name_switches_it_off() -> None:
    x = np.random.default_rng(0).random(5000)
    on, off = (
        tracer.compile(tnp.vdot, passes=p) for p in ("-split", "-split, -sum-inner-products")
    )
    rows = [{row.name for row in function.plan(x, x).passes} for function in (on, off)]
    assert "sum inner products" in rows[0]
    assert "sum inner products" not in rows[1]
    assert "dot_general" in off.stablehlo(x, x)
    assert "dot_general" not in on.stablehlo(x, x)
    np.testing.assert_allclose(float(on(x, x)), float(off(x, x)), rtol=1e-12)


@pytest.mark.parametrize("platform", ACCELERATORS)
def test_accelerators_have_products_of_any_length(platform: str) -> None:
    for machine in ACCELERATORS[platform].values():
        assert machine.kernels.long_inner_product == math.inf
