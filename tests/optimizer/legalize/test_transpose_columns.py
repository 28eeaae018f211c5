"""Columns that loops read are rows of one array: what is written, what is not, and the values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.optimizer.graphs import apply, evaluated, ops_of, rewritten, text
from tracer.ir import parse_graph
from tracer.optimizer.legalize.columns import stored_columns_pass

LOOP = """
graph(%0: float32[40,2], %1: int32[], %2: float32[40]) {{
  %3: float32[40,1] = slice(%0) {{start=(0, 0), limit=(40, 1), strides=(1, 1)}}
  %4: float32[40,1] = slice(%0) {{start=(0, 1), limit=(40, 2), strides=(1, 1)}}
  {between}
  %7: int32[], %8: float32[40], %9: float32[40,1], %10: float32[40] = while(%1, %2, %5, %6) with
    condition=graph(%0: int32[], %1: float32[40], %2: float32[40,1], %3: float32[40]) {{
      {condition}
      return %5
    }}
    body=graph(%0: int32[], %1: float32[40], %2: float32[40,1], %3: float32[40]) {{
      %4: int32[] = constant() {{value=int32[] 1}}
      %5: int32[] = add(%0, %4)
      {body}
    }}
  return {results}
}}"""
BETWEEN = """%5: float32[40,1] = optimization_barrier(%3)
  %6: float32[40] = reshape(%4) {shape=(40,)}"""
CONDITION = """%4: int32[] = constant() {value=int32[] 4}
      %5: bool[] = compare(%0, %4) {direction='LT'}"""
BODY = """%6: int32[] = constant() {value=int32[] 10}
      %7: int32[] = multiply(%0, %6)
      %8: float32[10,1] = dynamic_slice(%2, %7, %0) {sizes=(10, 1)}
      %9: float32[10,1] = optimization_barrier(%8)
      %10: float32[10] = dynamic_slice(%3, %7) {sizes=(10,)}
      %11: float32[10] = reshape(%9) {shape=(10,)}
      %12: float32[10] = multiply(%10, %11)
      %13: float32[40] = dynamic_update_slice(%1, %12, %7)
      %14: float32[40] = reshape(%2) {shape=(40,)}
      %15: float32[40] = optimization_barrier(%3)
      %16: float32[40] = subtract(%13, %14)
      %17: float32[40] = add(%16, %15)
      return %5, %17, %2, %3"""


def loop(**parts: str) -> str:
    given = {"between": BETWEEN, "condition": CONDITION, "body": BODY, "results": "%8"}
    return LOOP.format(**(given | parts))


def rewritten_loop(**parts: str) -> str:
    return rewritten(stored_columns_pass(), loop(**parts))


def test_what_is_written() -> None:
    assert rewritten_loop() == (
        """
graph(%0: float32[40,2], %1: int32[], %2: float32[40]) {
  %3: float32[2,40] = transpose(%0) {permutation=(1, 0)}
  %4: float32[2,40] = optimization_barrier(%3)
  %5: int32[], %6: float32[40], %7: float32[2,40] = while(%1, %2, %4) with
    condition=graph(%0: int32[], %1: float32[40], %2: float32[2,40]) {
      %3: int32[] = constant() {value=int32[] 4}
      %4: bool[] = compare(%0, %3) {direction='LT'}
      return %4
    }
    body=graph(%0: int32[], %1: float32[40], %2: float32[2,40]) {
      %3: float32[1,40] = slice(%2) {start=(0, 0), limit=(1, 40), strides=(1, 1)}
      %4: float32[40,1] = reshape(%3) {shape=(40, 1)}
      %5: float32[1,40] = slice(%2) {start=(1, 0), limit=(2, 40), strides=(1, 1)}
      %6: float32[40] = reshape(%5) {shape=(40,)}
      %7: int32[] = constant() {value=int32[] 1}
      %8: int32[] = add(%0, %7)
      %9: int32[] = constant() {value=int32[] 10}
      %10: int32[] = multiply(%0, %9)
      %11: int32[] = constant() {value=int32[] 0}
      %12: float32[2,10] = dynamic_slice(%2, %11, %10) {sizes=(2, 10)}
      %13: float32[2,10] = optimization_barrier(%12)
      %14: float32[1,10] = slice(%13) {start=(0, 0), limit=(1, 10), strides=(1, 1)}
      %15: float32[10,1] = reshape(%14) {shape=(10, 1)}
      %16: float32[1,10] = slice(%13) {start=(1, 0), limit=(2, 10), strides=(1, 1)}
      %17: float32[10] = reshape(%16) {shape=(10,)}
      %18: float32[10] = reshape(%15) {shape=(10,)}
      %19: float32[10] = multiply(%17, %18)
      %20: float32[40] = dynamic_update_slice(%1, %19, %10)
      %21: float32[40] = reshape(%4) {shape=(40,)}
      %22: float32[40] = subtract(%20, %21)
      %23: float32[40] = add(%22, %6)
      return %8, %23, %2
    }
  return %6
}""".strip()
    )


LEFT_ALONE = {
    "a column is a result": {"results": "%8, %5"},
    "not all columns": {"between": BETWEEN.replace("(%4)", "(%3)")},
    "another shape": {
        "between": BETWEEN.replace(
            "%5: float32[40,1] = optimization_barrier(%3)",
            """\
%11: float32[20,2] = reshape(%3) {shape=(20, 2)}
  %12: float32[20,2] = sine(%11) {}
  %5: float32[40,1] = reshape(%12) {shape=(40, 1)}""",
        )
    },
    "stored with others": {
        "between": """%5: float32[40,1], %11: float32[40] = optimization_barrier(%3, %2)
  %6: float32[40] = reshape(%4) {shape=(40,)}"""
    },
    "read by the condition": {
        "condition": """%4: int32[] = constant() {value=int32[] 4}
      %6: int32[40] = bitcast_convert(%3) {dtype=int32}
      %7: int32[] = reduce_maximum(%6) {axes=(0,)}
      %5: bool[] = compare(%0, %7) {direction='LT'}"""
    },
    "changed by the loop": {
        "body": BODY.replace("return %5, %17, %2, %3", "return %5, %17, %2, %17")
    },
    "an operand of a product": {
        "body": BODY.replace(
            "%16: float32[40] = subtract(%13, %14)",
            """%18: float32[40,40] = broadcast_in_dim(%13) {shape=(40, 40), dimensions=(0,)}
      %16: float32[40] = dot_general(%18, %14) """
            "{lhs_batch=(), rhs_batch=(), lhs_contracting=(1,), rhs_contracting=(0,)}",
        )
    },
}


@pytest.mark.parametrize("parts", list(LEFT_ALONE.values()), ids=list(LEFT_ALONE))
def test_left_alone(parts: dict[str, str]) -> None:
    before = loop(**parts)
    assert rewritten(stored_columns_pass(), before) == text(parse_graph(before))


def test_a_single_point_is_left_alone() -> None:
    body = """%6: float32[40] = reshape(%2) {shape=(40,)}
      %7: float32[40] = add(%3, %6)
      return %5, %7, %2, %3"""
    before = loop(body=body).replace("40", "1")
    assert rewritten(stored_columns_pass(), before) == text(parse_graph(before))


def test_other_slices_of_the_matrix_do_not_matter() -> None:
    between = f"""{BETWEEN}
  %11: float32[20,2] = slice(%0) {{start=(0, 0), limit=(20, 2), strides=(1, 1)}}
  %12: float32[20,2] = sine(%11) {{}}"""
    _, log = apply(stored_columns_pass(), parse_graph(loop(between=between, results="%8, %12")))
    assert log.applied == ["2 columns of float32[40,2]"]


def test_barriers_of_other_values_stay() -> None:
    body = BODY.replace(
        "%9: float32[10,1] = optimization_barrier(%8)",
        "%9: float32[10,1], %18: float32[40] = optimization_barrier(%8, %1)",
    )
    before = parse_graph(loop(body=body))
    after, _ = apply(stored_columns_pass(), before)
    assert ops_of(after).count("optimization_barrier") == 3


TURNED = BODY.replace(
    "%8: float32[10,1] = dynamic_slice(%2, %7, %0) {sizes=(10, 1)}",
    """%18: float32[1,40] = reshape(%2) {shape=(1, 40)}
      %19: float32[1,10] = dynamic_slice(%18, %0, %7) {sizes=(1, 10)}
      %8: float32[10,1] = reshape(%19) {shape=(10, 1)}""",
)
PARTS = {
    "at two places": BODY.replace("dynamic_slice(%3, %7)", "dynamic_slice(%3, %0)"),
    "of two sizes": BODY.replace(
        "%10: float32[10] = dynamic_slice(%3, %7) {sizes=(10,)}",
        """%18: float32[11] = dynamic_slice(%3, %7) {sizes=(11,)}
      %10: float32[10] = slice(%18) {start=(1,), limit=(11,), strides=(1,)}""",
    ),
    "of one row": BODY.replace("dynamic_slice(%3, %7)", "dynamic_slice(%1, %7)"),
    "of another shape": BODY.replace(
        "%8: float32[10,1] = dynamic_slice(%2, %7, %0) {sizes=(10, 1)}",
        """%18: float32[20,2] = reshape(%2) {shape=(20, 2)}
      %19: float32[5,2] = dynamic_slice(%18, %7, %0) {sizes=(5, 2)}
      %8: float32[10,1] = reshape(%19) {shape=(10, 1)}""",
    ),
}


@pytest.mark.parametrize("body", list(PARTS.values()), ids=list(PARTS))
def test_slices_that_are_not_read_together(body: str) -> None:
    found, log = apply(stored_columns_pass(), parse_graph(loop(body=body)))
    assert log.applied
    assert "dynamic_slice(%2, %11" not in text(found)
    assert ops_of(found).count("dynamic_slice") == 2


@pytest.mark.parametrize(
    "body", [BODY, TURNED, *PARTS.values()], ids=["together", "turned", *PARTS]
)
def test_the_same_values(body: str) -> None:
    x, y = np.random.default_rng(0).standard_normal((2, 40, 2)).astype(np.float32)
    graph = parse_graph(loop(body=body))
    found, _ = apply(stored_columns_pass(), graph)
    operands = x, np.int32(0), y[:, 0]
    (before,), (after,) = evaluated(graph, *operands), evaluated(found, *operands)
    np.testing.assert_array_equal(before, after)


def test_slices_of_rows_are_read_together_whatever_their_axes_of_one() -> None:
    found, _ = apply(stored_columns_pass(), parse_graph(loop(body=TURNED)))
    assert ops_of(found).count("dynamic_slice") == 1


def absolute(x: tracer.Array, y: tracer.Array) -> tracer.Array:
    return tnp.exp(-tnp.abs(x[:, None] - y[None]).sum(-1)) @ y


def to_itself(x: tracer.Array, y: tracer.Array) -> tracer.Array:
    away = ((x[:, None] - x[None]) ** 2).sum(-1)
    return tnp.exp(-away) @ y[: len(x)]


def forces(x: tracer.Array, y: tracer.Array) -> tracer.Array:
    return tracer.grad(lambda x: absolute(x, y).sum())(x)


def compiled(program: Callable[..., Any], *arrays: np.ndarray[Any, Any], off: bool = False) -> Any:
    limit = 3 * sum(array.nbytes for array in arrays) + 500_000
    return tracer.compile(program, memory_limit=limit, passes="-transpose-columns" if off else None)


@pytest.mark.xla
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("program", [absolute, to_itself, forces])
def test_compiled(program: Callable[..., Any], dtype: str) -> None:
    rng = np.random.default_rng(0)
    x, y = (
        rng.standard_normal((1531, 3)).astype(dtype),
        rng.standard_normal((1777, 3)).astype(dtype),
    )
    on, off = compiled(program, x, y), compiled(program, x, y, off=True)
    rows = [{row.name for row in function.plan(x, y).passes} for function in (on, off)]
    assert "transpose columns" in rows[0] - rows[1]
    np.testing.assert_array_equal(np.asarray(on(x, y)), np.asarray(off(x, y)))
    assert on.plan(x, y).compiled_bytes <= off.plan(x, y).compiled_bytes
    assert on.hlo(x, y).count(" fusion(") < off.hlo(x, y).count(" fusion(")
