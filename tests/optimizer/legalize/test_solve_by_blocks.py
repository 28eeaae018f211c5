"""Triangular solves of large matrices for one right-hand side, block by block."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import scipy.linalg

import tracer
from tests.optimizer.graphs import apply as apply_pass
from tests.optimizer.graphs import evaluated, legal, ops_of, text
from tracer import lowering, ops
from tracer.array.dispatch import apply
from tracer.compilation.eager import EagerProgram
from tracer.ir import Builder, Graph, ShapeDtype
from tracer.optimizer.legalize.solves import block_solves_pass
from tracer.optimizer.passes import PassManager
from tracer.scipy.linalg import solve_triangular
from tracer.target import DEFAULT_TARGET

SIZES = [512, 640, 700]
PASS = block_solves_pass(DEFAULT_TARGET)
SMALL_BLOCKS = replace(DEFAULT_TARGET.packing, solve_by_blocks=4, solved_rows=4)
SMALL = block_solves_pass(replace(DEFAULT_TARGET, packing=SMALL_BLOCKS))
PLAIN = {
    "left_side": True,
    "lower": True,
    "unit_diagonal": False,
    "transpose_a": "NO_TRANSPOSE",
}


def system(n: int, dtype: Any, columns: int = 1, **changed: Any) -> Graph:
    with Builder() as builder:
        a = builder.input(ShapeDtype((n, n), dtype))
        x = builder.input(ShapeDtype((n, columns), dtype))
        return builder.finish([ops.triangular_solve(a, x, **PLAIN | changed)])


def test_a_block_is_multiplied_with_what_is_solved_and_the_library_solves_the_diagonal() -> None:
    after, log = apply_pass(SMALL, system(10, "float64"))
    assert log.applied == ["float64[10,10] with one right-hand side"]
    assert (
        text(after)
        == (
            """
graph(%0: float64[10,10], %1: float64[10,1]) {
  %2: float64[] = constant() {value=float64[] 0.0}
  %3: float64[10,1] = broadcast_in_dim(%2) {shape=(10, 1), dimensions=()}
  %4: int32[] = constant() {value=int32[] 0}
  %5: int32[] = constant() {value=int32[] 0}
  %6: float64[2,1] = dynamic_slice(%1, %4, %5) {sizes=(2, 1)}
  %7: int32[] = constant() {value=int32[] 0}
  %8: float64[2,10] = dynamic_slice(%0, %4, %7) {sizes=(2, 10)}
  %9: float64[10] = reshape(%3) {shape=(10,)}
  %10: float64[2,10] = broadcast_in_dim(%9) {shape=(2, 10), dimensions=(1,)}
  %11: int32[2,10] = iota() {shape=(2, 10), dtype=int32, dimension=1}
  %12: int32[2,10] = broadcast_in_dim(%4) {shape=(2, 10), dimensions=()}
  %13: bool[2,10] = compare(%11, %12) {direction='LT'}
  %14: float64[2,10] = multiply(%8, %10)
  %15: float64[] = constant() {value=float64[] 0.0}
  %16: float64[2,10] = broadcast_in_dim(%15) {shape=(2, 10), dimensions=()}
  %17: float64[2,10] = select(%13, %14, %16)
  %18: float64[2] = reduce_add(%17) {axes=(1,)}
  %19: float64[2,1] = reshape(%18) {shape=(2, 1)}
  %20: float64[2,1] = subtract(%6, %19)
  %21: float64[2,2] = dynamic_slice(%0, %4, %4) {sizes=(2, 2)}
  %22: float64[2,1] = triangular_solve(%21, %20) {left_side=True, """
            """lower=True, unit_diagonal=False, transpose_a='NO_TRANSPOSE'}
  %23: float64[10,1] = dynamic_update_slice(%3, %22, %4, %5)
  %24: int32[] = constant() {value=int32[] 0}
  %25: int32[], %26: float64[10,10], %27: float64[10,1], %28: float64[10,1] = """
            """while(%24, %0, %1, %23) with
    condition=graph(%0: int32[], %1: float64[10,10], %2: float64[10,1], %3: float64[10,1]) {
      %4: int32[] = constant() {value=int32[] 2}
      %5: bool[] = compare(%0, %4) {direction='LT'}
      return %5
    }
    body=graph(%0: int32[], %1: float64[10,10], %2: float64[10,1], %3: float64[10,1]) {
      %4: int32[] = constant() {value=int32[] 4}
      %5: int32[] = multiply(%0, %4)
      %6: int32[] = constant() {value=int32[] 2}
      %7: int32[] = add(%5, %6)
      %8: int32[] = constant() {value=int32[] 0}
      %9: float64[4,1] = dynamic_slice(%2, %7, %8) {sizes=(4, 1)}
      %10: int32[] = constant() {value=int32[] 0}
      %11: float64[4,10] = dynamic_slice(%1, %7, %10) {sizes=(4, 10)}
      %12: float64[10] = reshape(%3) {shape=(10,)}
      %13: float64[4,10] = broadcast_in_dim(%12) {shape=(4, 10), dimensions=(1,)}
      %14: int32[4,10] = iota() {shape=(4, 10), dtype=int32, dimension=1}
      %15: int32[4,10] = broadcast_in_dim(%7) {shape=(4, 10), dimensions=()}
      %16: bool[4,10] = compare(%14, %15) {direction='LT'}
      %17: float64[4,10] = multiply(%11, %13)
      %18: float64[] = constant() {value=float64[] 0.0}
      %19: float64[4,10] = broadcast_in_dim(%18) {shape=(4, 10), dimensions=()}
      %20: float64[4,10] = select(%16, %17, %19)
      %21: float64[4] = reduce_add(%20) {axes=(1,)}
      %22: float64[4,1] = reshape(%21) {shape=(4, 1)}
      %23: float64[4,1] = subtract(%9, %22)
      %24: float64[4,4] = dynamic_slice(%1, %7, %7) {sizes=(4, 4)}
      %25: float64[4,1] = triangular_solve(%24, %23) {left_side=True, """
            """lower=True, unit_diagonal=False, transpose_a='NO_TRANSPOSE'}
      %26: float64[10,1] = dynamic_update_slice(%3, %25, %7, %8)
      %27: int32[] = constant() {value=int32[] 1}
      %28: int32[] = add(%0, %27)
      return %28, %1, %2, %26
    }
  return %28
}"""
        ).strip()
    )


@pytest.mark.parametrize(
    "graph",
    [
        system(511, "float64"),
        system(512, "float64", 2),
        system(512, "complex64"),
        system(512, "bfloat16"),
    ],
    ids=str,
)
def test_small_systems_and_several_right_hand_sides_stay(graph: Graph) -> None:
    assert apply_pass(PASS, graph)[0] is graph


def test_from_the_right_and_batches_stay() -> None:
    with Builder() as builder:
        a, x = (
            builder.input(ShapeDtype((600, 600), "f4")),
            builder.input(ShapeDtype((1, 600), "f4")),
        )
        right = builder.finish([ops.triangular_solve(a, x, **PLAIN | {"left_side": False})])
    with Builder() as builder:
        a, x = (builder.input(ShapeDtype((2, 600, n), "f4")) for n in (600, 1))
        batch = builder.finish([ops.triangular_solve(a, x, **PLAIN)])
    for graph in (right, batch):
        assert apply_pass(PASS, graph)[0] is graph


@pytest.mark.parametrize("n", [4, 10, 16])
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("transpose_a", ["NO_TRANSPOSE", "TRANSPOSE"])
def test_the_oracle_finds_the_same(n: int, lower: bool, transpose_a: str) -> None:
    rng = np.random.default_rng(0)
    keep = np.tril(np.ones((n, n), bool)) if lower else np.triu(np.ones((n, n), bool))
    a = np.where(keep, rng.standard_normal((n, n)) + 3 * np.eye(n), np.nan)
    x = rng.standard_normal((n, 1))
    before = system(n, "float64", lower=lower, transpose_a=transpose_a)
    after, log = apply_pass(SMALL, before)
    assert log.applied
    np.testing.assert_allclose(evaluated(after, a, x)[0], evaluated(before, a, x)[0], rtol=1e-12)


def test_its_sums_are_cut_and_its_masks_stored_by_the_passes_behind() -> None:
    names = ops_of(legal(system(4096, "float32")))
    assert "reduce_partial_sums" in names
    assert names.count("optimization_barrier") > 1


def solved_in_a_loop(a: Any, x: Any) -> Any:
    return tracer.fori_loop(0, 3, lambda _, c: solve_triangular(a, c, lower=True), x)


@pytest.mark.xla
def test_bodies_are_written_too_and_the_name_switches_it_off() -> None:
    a = np.tril(np.full((600, 600), 0.01)) + np.eye(600)
    x = np.ones(600)
    blocks, plain = (
        tracer.compile(solved_in_a_loop, passes=passes) for passes in (None, "-solve-by-blocks")
    )
    names = [{row.name for row in function.plan(a, x).passes} for function in (blocks, plain)]
    assert "solve by blocks" in names[0] - names[1]
    manager = PassManager()
    assert ops_of(manager.run(plain.graph(a, x), (PASS,))).count("while") == 2
    (row,) = manager.rows
    # What the library packs is not counted for a system that goes by blocks.
    assert row.peak_bytes_before == row.peak_bytes_after
    np.testing.assert_allclose(np.asarray(blocks(a, x)), np.asarray(plain(a, x)), rtol=1e-10)


def solve(a: np.ndarray, b: np.ndarray, **params: object) -> tuple[np.ndarray, str]:
    compiled = tracer.compile(
        lambda a, b: apply(ops.triangular_solve, a, b, left_side=True, **params)
    )
    return np.asarray(compiled(a, b)), compiled.hlo(a, b)


@pytest.mark.xla
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("transpose_a", ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"])
@pytest.mark.parametrize("unit_diagonal", [True, False])
def test_as_scipy_and_never_reads_the_other_triangle(
    n: int, lower: bool, transpose_a: str, unit_diagonal: bool
) -> None:
    rng = np.random.default_rng(0)
    a = 0.02 * rng.standard_normal((n, n)) + 2 * np.eye(n)
    keep = np.tril(np.ones((n, n), bool)) if lower else np.triu(np.ones((n, n), bool))
    if unit_diagonal:
        keep &= ~np.eye(n, dtype=bool)
    b = rng.standard_normal((n, 1))
    found, text = solve(
        np.where(keep, a, np.nan),
        b,
        lower=lower,
        transpose_a=transpose_a,
        unit_diagonal=unit_diagonal,
    )
    expected = scipy.linalg.solve_triangular(
        np.where(keep, a, 0), b, trans=transpose_a[0], lower=lower, unit_diagonal=unit_diagonal
    )
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)
    assert f"f64[{n},{n}]" not in "".join(line for line in text.splitlines() if "trsm" in line)


@pytest.mark.xla
def test_in_float32_and_narrower() -> None:
    a = np.tril(np.full((600, 600), 0.01)) + np.eye(600)
    b = np.ones((600, 1))
    expected = scipy.linalg.solve_triangular(a, b, lower=True)
    for dtype, tolerance in (("float32", 1e-5), ("float16", 5e-2)):
        found, _ = solve(
            a.astype(dtype),
            b.astype(dtype),
            lower=True,
            transpose_a="NO_TRANSPOSE",
            unit_diagonal=False,
        )
        assert found.dtype == dtype
        np.testing.assert_allclose(found.astype(float), expected, atol=tolerance)


@pytest.mark.xla
def test_operations_one_by_one_write_out_what_they_consist_of_first() -> None:
    """A solve with an LU decomposition is two triangular solves."""
    types = (((512, 512), "f8"), ((512, 512), "f8"), ((512,), "i4"), ((512, 1), "f8"))
    with Builder() as builder:
        operands = [builder.input(ShapeDtype(*type)) for type in types]
        graph = builder.finish([ops.lu_solve(*operands, transpose=False)])
    text = EagerProgram(graph, lowering.default_device())._execute.hlo()
    assert "trsm" in text
    assert not any("f64[512,512]" in line for line in text.splitlines() if "trsm" in line)


@pytest.mark.xla
def test_a_singular_matrix_gives_what_substitution_gives() -> None:
    a = np.eye(512)
    a[300, 300] = 0
    found, _ = solve(
        a, np.ones((512, 1)), lower=True, transpose_a="NO_TRANSPOSE", unit_diagonal=False
    )
    assert np.isposinf(found[300, 0])
    np.testing.assert_array_equal(found[:300], 1)


@pytest.mark.xla
def test_others_are_left_to_lapack() -> None:
    for n, columns in ((511, 1), (512, 2)):
        _, text = solve(
            np.eye(n),
            np.ones((n, columns)),
            lower=True,
            transpose_a="NO_TRANSPOSE",
            unit_diagonal=False,
        )
        assert any(f"f64[{n},{n}]" in line for line in text.splitlines() if "trsm" in line)
