"""Products in the forms of the library: what is written, and that it computes the same.

That the library takes them is tested in tests/ops/test_product_form.py.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tracer
from tests.optimizer.graphs import apply, evaluated, ops_of, rewritten
from tracer import lowering, ops
from tracer.array.trace import trace
from tracer.ir import Builder, Graph, ShapeDtype, parse_graph
from tracer.lowering import shims
from tracer.optimizer.legalize.products import product_forms_pass
from tracer.optimizer.passes import PassManager
from tracer.target import DEFAULT_TARGET

PASS = product_forms_pass(DEFAULT_TARGET, on_mesh=False)
COLUMNS = replace(
    DEFAULT_TARGET, kernels=replace(DEFAULT_TARGET.kernels, barriers_turn_matrices=True)
)
NARROW = """
    graph(%0: float32[256,2048], %1: float32[256,3]) {
      %2: float32[2048,3] = dot_general(%0, %1) {lhs_batch=(), rhs_batch=(), lhs_contracting=(0,), \
rhs_contracting=(0,)}
      return %2
    }"""


def test_the_small_operand_and_the_small_result_are_written_out() -> None:
    assert rewritten(PASS, NARROW) == (
        """
graph(%0: float32[256,2048], %1: float32[256,3]) {
  %2: float32[256,2048] = reshape(%0) {shape=(256, 2048)}
  %3: float32[256,3] = reshape(%1) {shape=(256, 3)}
  %4: float32[3,256] = transpose(%3) {permutation=(1, 0)}
  %5: float32[3,256] = optimization_barrier(%4)
  %6: float32[3,2048] = dot_general(%5, %2) {lhs_batch=(), rhs_batch=(), lhs_contracting=(1,), \
rhs_contracting=(0,)}
  %7: float32[3,2048] = optimization_barrier(%6)
  %8: float32[2048,3] = transpose(%7) {permutation=(1, 0)}
  %9: float32[2048,3] = reshape(%8) {shape=(2048, 3)}
  return %9
}""".strip()
    )


def test_from_jaxlib_0_11_on_what_is_written_out_is_a_vector() -> None:
    found = rewritten(product_forms_pass(COLUMNS, on_mesh=False), NARROW)
    assert re.search(r"float32\[768\] = optimization_barrier", found)
    on_mesh = rewritten(product_forms_pass(COLUMNS, on_mesh=True), NARROW)
    assert on_mesh == rewritten(PASS, NARROW)


def test_a_product_is_stored_before_it_is_transposed() -> None:
    before = """
        graph(%0: float32[8,8], %1: float32[8,8]) {
          %2: float32[8,8] = dot_general(%0, %1) {lhs_batch=(), rhs_batch=(), \
lhs_contracting=(1,), rhs_contracting=(0,)}
          %3: float32[2,4,8] = reshape(%2) {shape=(2, 4, 8)}
          %4: float32[8,4,2] = transpose(%3) {permutation=(2, 1, 0)}
          return %4
        }"""
    assert rewritten(PASS, before) == (
        """
graph(%0: float32[8,8], %1: float32[8,8]) {
  %2: float32[8,8] = dot_general(%0, %1) {lhs_batch=(), rhs_batch=(), lhs_contracting=(1,), \
rhs_contracting=(0,)}
  %3: float32[2,4,8] = reshape(%2) {shape=(2, 4, 8)}
  %4: float32[2,4,8] = optimization_barrier(%3)
  %5: float32[8,4,2] = transpose(%4) {permutation=(2, 1, 0)}
  return %5
}""".strip()
    )


def scores(places: int, heads: int) -> Graph:
    """Products of queries and keys, (batch, places, heads, features), for each head."""
    shape = f"float32[1,{places},{heads},16]"
    return parse_graph(f"""
        graph(%0: {shape}, %1: {shape}) {{
          %2: float32[1,{heads},{places},{places}] = dot_general(%0, %1) {{lhs_batch=(0, 2), \
rhs_batch=(0, 2), lhs_contracting=(3,), rhs_contracting=(3,)}}
          return %2
        }}""")


def test_one_head_is_a_matrix_as_it_lies() -> None:
    # XLA would copy it to (1, 1, features, places), in every trip of a loop.
    graph, log = apply(PASS, scores(200, 1))
    assert log.applied == ["product to float32[1,1,200,200]: reads before a transpose"]
    assert "transpose" not in ops_of(graph)
    (node,) = (node for node in graph.nodes if node.op is ops.dot_general)
    assert [str(type) for type in node.operand_types] == ["float32[200,16]"] * 2


def test_heads_are_copied_by_rows() -> None:
    # XLA would transpose the keys of each head, (heads, features, places).
    graph, log = apply(PASS, scores(200, 3))
    assert log.applied == ["product to float32[1,3,200,200]: copied by rows"]
    turned = [node for node in graph.nodes if node.op is ops.transpose]
    assert [node.params["permutation"] for node in turned] == [(0, 2, 1, 3)] * 2
    (node,) = (node for node in graph.nodes if node.op is ops.dot_general)
    assert node.params["rhs_contracting"] == (2,)


def rows_contracted(size: int) -> Graph:
    return parse_graph(f"""
        graph(%0: float32[1,{size},{size}], %1: float32[{size},4]) {{
          %2: float32[1,{size},4] = dot_general(%0, %1) {{lhs_batch=(), rhs_batch=(), \
lhs_contracting=(1,), rhs_contracting=(0,)}}
          return %2
        }}""")


def test_a_small_left_operand_with_contracted_rows_is_copied_by_xla() -> None:
    # Read as it lies, Eigen would pack both operands: 52 kB more for 100 x 100, of 93 kB in all.
    graph = rows_contracted(100)
    assert apply(PASS, graph)[0] is graph


def test_a_large_left_operand_is_read_as_it_lies() -> None:
    graph, _ = apply(PASS, rows_contracted(2000))
    turned = [node.types[0].size for node in graph.nodes if node.op is ops.transpose]
    assert turned == [4 * 2000] * 2  # the right operand and the result


@pytest.mark.parametrize("places", [1, 2, 200])
@pytest.mark.parametrize("heads", [1, 3])
def test_values_of_heads_are_the_same(places: int, heads: int) -> None:
    graph = scores(places, heads)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(type.shape, np.float32) for type in graph.input_types]
    (got,), (wanted,) = (evaluated(found, *arrays) for found in (apply(PASS, graph)[0], graph))
    np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5)


def test_what_the_library_takes_stays() -> None:
    graph = parse_graph("""
        graph(%0: float32[500,300], %1: float32[300,400], %2: int32[500,300]) {
          %3: float32[500,400] = dot_general(%0, %1) {lhs_batch=(), rhs_batch=(), \
lhs_contracting=(1,), rhs_contracting=(0,)}
          %4: int32[300,300] = dot_general(%2, %2) {lhs_batch=(), rhs_batch=(), \
lhs_contracting=(0,), rhs_contracting=(0,)}
          return %3, %4
        }""")
    assert apply(PASS, graph)[0] is graph


AXES = [
    ((), (), (0,), (0,)),
    ((), (), (1,), (1,)),
    ((), (), (2, 0), (1, 2)),
    ((0,), (2,), (1,), (0,)),
    ((0,), (0,), (2,), (1,)),
    ((1,), (2,), (0,), (1,)),
    ((), (), (0, 1, 2), (2, 0, 1)),
]
SIZES = [(1, 1, 1), (0, 3, 5), (2, 31, 131), (64, 40, 300), (96, 128, 2), (1, 256, 300)]


def product(sizes: tuple[int, ...], axes: tuple[tuple[int, ...], ...], dtype: Any) -> Graph:
    """Build a product, one of a transpose of an operand, and a transpose of the product."""
    lhs_batch, rhs_batch, lhs_contracting, rhs_contracting = axes
    right = [7, 7, 7]
    for mine, theirs in zip(
        (*lhs_batch, *lhs_contracting), (*rhs_batch, *rhs_contracting), strict=True
    ):
        right[theirs] = sizes[mine]
    with Builder() as builder:
        x, y = (builder.input(ShapeDtype(shape, dtype)) for shape in (sizes, tuple(right)))
        turned = ops.transpose(ops.transpose(y, permutation=(2, 0, 1)), permutation=(1, 2, 0))
        given = {
            "lhs_batch": lhs_batch,
            "rhs_batch": rhs_batch,
            "lhs_contracting": lhs_contracting,
            "rhs_contracting": rhs_contracting,
        }
        results = [ops.dot_general(x, y, **given), ops.dot_general(x, turned, **given)]
        back = tuple(reversed(range(len(results[0].shape))))
        return builder.finish([*results, ops.transpose(results[0], permutation=back)])


@pytest.mark.parametrize("axes", AXES)
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("target", [DEFAULT_TARGET, COLUMNS], ids=["matrices", "vectors"])
def test_values_are_the_same(sizes: Any, axes: Any, target: Any) -> None:
    before = product(sizes, axes, "float64")
    after, log = apply(product_forms_pass(target, on_mesh=False), before)
    assert log.applied
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(type.shape) for type in before.input_types]
    for got, wanted in zip(evaluated(after, *arrays), evaluated(before, *arrays), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-9)


def gradient(x: Any, w: Any) -> Any:
    return tracer.grad(lambda w: (tracer.numpy.sin(x @ w) ** 2).sum())(w)


@pytest.mark.skipif(not shims.PRODUCTS_BY_YNNPACK, reason="this jaxlib takes every form")
@pytest.mark.xla
def test_the_plan_names_the_pass_and_its_name_switches_it_off() -> None:
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((2048, 96)), rng.standard_normal((96, 24))
    on, off = tracer.compile(gradient), tracer.compile(gradient, passes="-lay-out-products")
    plans = [function.plan(x, w) for function in (on, off)]
    rows = [{row.name for row in plan.passes} for plan in plans]
    assert rows[0] - rows[1] == {"lay out products"}
    assert plans[0].peak_bytes == plans[1].peak_bytes
    np.testing.assert_allclose(np.asarray(on(x, w)), np.asarray(off(x, w)), rtol=1e-9)


def test_the_row_counts_what_is_written_out_once() -> None:
    manager = PassManager()
    after = manager.run(parse_graph(NARROW), (PASS,))
    assert ops_of(after).count("transpose") == 2
    (row,) = manager.rows
    assert row.peak_bytes_before == row.peak_bytes_after


PAIRS = [(1, 1, 1), (4, 4, 4), (8, 8, 8), (3, 5, 2), (1, 8, 1), (2, 0, 3), (0, 2, 2)]


@pytest.mark.xla
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("flips", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize(("rows", "inner", "columns"), PAIRS)
def test_products_of_many_small_pairs_are_sums(
    rows: int, inner: int, columns: int, flips: tuple[bool, bool], dtype: str
) -> None:
    rng = np.random.default_rng(0)
    shapes = (rows, inner), (inner, columns)
    x, y = (
        rng.standard_normal((5, 4, *(shape[::-1] if flip else shape))).astype(dtype)
        for shape, flip in zip(shapes, flips, strict=True)
    )

    def program(x: Any, y: Any) -> Any:
        x, y = (a.swapaxes(-1, -2) if flip else a for a, flip in zip((x, y), flips, strict=True))
        return x @ y

    found = tracer.compile(program)
    np.testing.assert_allclose(found(x, y), program(x, y), rtol=1e-5, atol=1e-5)
    # Before jaxlib 0.10 all goes to Eigen, and products stay as they are.
    if x.size and y.size and rows * columns > 1 and shims.PRODUCTS_BY_YNNPACK:
        assert "dot_general" not in found.stablehlo(x, y)


@pytest.mark.xla
def test_other_products_are_not_sums() -> None:
    for shape, dtype in (((15, 4, 4), "f4"), ((16, 25, 25), "f4"), ((99, 4, 4), "f2")):
        x = np.ones(shape, dtype)
        assert "dot_general" in tracer.compile(lambda x: x @ x).stablehlo(x)


LONGER = replace(DEFAULT_TARGET, kernels=replace(DEFAULT_TARGET.kernels, summed_product=24))
LONGER_PAIRS = [(9, 9, 9), (16, 16, 16), (24, 24, 24), (24, 1, 24), (24, 20, 3), (3, 17, 0)]


@pytest.mark.xla
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("flips", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize(("rows", "inner", "columns"), LONGER_PAIRS)
def test_longer_pairs_are_sums_where_that_was_timed(
    rows: int, inner: int, columns: int, flips: tuple[bool, bool], dtype: str
) -> None:
    """But not those whose right operand would be gathered."""
    rng = np.random.default_rng(0)
    shapes = (rows, inner), (inner, columns)
    x, y = (
        rng.standard_normal((17, *(shape[::-1] if flip else shape))).astype(dtype)
        for shape, flip in zip(shapes, flips, strict=True)
    )

    def program(x: Any, y: Any) -> Any:
        x, y = (a.swapaxes(-1, -2) if flip else a for a, flip in zip((x, y), flips, strict=True))
        return x @ y

    before = trace(program, [x, y]).graph
    after, _ = apply(product_forms_pass(LONGER, on_mesh=False), before)
    execute = lowering.compile_graph(after)
    (found,) = (lowering.to_host(a) for a in execute(*map(lowering.to_device, (x, y))))
    bound = {"float32": 2e-5, "float64": 1e-12}[dtype]
    np.testing.assert_allclose(found, program(x, y), rtol=bound, atol=bound)
    if columns:
        # A column of one row or so is a vector's product by other rules.
        assert ("dot_general" not in ops_of(after)) == (not flips[1])
        default, _ = apply(PASS, before)
        assert "dot_general" in ops_of(default)


@pytest.mark.parametrize(
    ("size", "dtype", "stored"),
    [(16, "float32", False), (17, "float32", True), (8, "float64", False), (9, "float64", True)],
)
def test_operands_of_longer_pairs_are_stored(size: int, dtype: str, stored: bool) -> None:
    """They would be computed again for each row and column."""
    x = ShapeDtype((20, size, size), dtype)
    before = trace(lambda x: (x * 3 + 1) @ (x - 1), [x]).graph
    after, _ = apply(product_forms_pass(LONGER, on_mesh=False), before)
    behind = [node for node in after.nodes if node.op is ops.optimization_barrier]
    assert any(len(node.results) == 2 for node in behind) == stored


@pytest.mark.xla
def test_chains_of_small_products_and_their_gradient() -> None:
    """Each product is stored: what reads it would compute it again for each of its elements."""
    f, p = np.random.default_rng(0).standard_normal((2, 50, 4, 4))

    def chain(f: Any, p: Any) -> Any:
        for _ in range(6):
            p = 0.1 * (f @ p @ f.swapaxes(-1, -2))
        return (p**2).sum()

    np.testing.assert_allclose(tracer.compile(chain)(f, p), chain(f, p), rtol=1e-10)
    slope = tracer.compile(tracer.grad(chain))(f, p)
    direction = np.random.default_rng(1).standard_normal(f.shape)
    ahead, behind = (chain(f + sign * 1e-6 * direction, p) for sign in (1, -1))
    np.testing.assert_allclose((slope * direction).sum(), (ahead - behind) / 2e-6, rtol=1e-5)
