"""Graphs as text: golden output, exact round trips, clear refusals."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracer import ops
from tracer.errors import ArgumentError
from tracer.ir import SUPPORTED_DTYPES, Builder, Graph, ShapeDtype, parse_graph, print_graph
from tracer.ir.text import excerpt

FLOAT3 = ShapeDtype((3,), "float32")
GOLDEN = """\
graph(%0: float32[2,3], %1: float32[3,4]) {
  %2: float32[2,4] = dot_general(%0, %1) {lhs_batch=(), rhs_batch=(), lhs_contracting=(1,), \
rhs_contracting=(0,)}
  %3: bool[2,4] = is_finite(%2)
  %4: float32[2,4] = constant() {value=float32[2,4] splat -0.0}
  %5: float32[2,4] = select(%3, %2, %4)
  return %5, %0
}"""
LOOP = """\
graph(%0: int32[], %1: float32[3]) {
  %2: int32[], %3: float32[3] = while(%0, %1) with
    condition=graph(%0: int32[], %1: float32[3]) {
      %2: int32[] = constant() {value=int32[] 4}
      %3: bool[] = compare(%0, %2) {direction='LT'}
      return %3
    }
    body=graph(%0: int32[], %1: float32[3]) {
      %2: float32[3] = case(%0, %1) with
        branches=(
          graph(%0: float32[3]) {
            return %0
          },
          graph(%0: float32[3]) {
            %1: float32[3] = negate(%0)
            return %1
          },
        )
      %3: int32[] = add(%0, %0)
      return %3, %2
    }
  return %3
}"""


def constant_graph(*arrays: np.ndarray[Any, Any]) -> Graph:
    with Builder() as builder:
        return builder.finish([ops.constant(value=array) for array in arrays])


def assert_reads_back(graph: Graph) -> Graph:
    text = print_graph(graph)
    again = parse_graph(text)
    assert again.fingerprint == graph.fingerprint
    assert print_graph(again) == print_graph(graph, sources=False)
    return again


def test_golden_text() -> None:
    with Builder() as builder:
        x = builder.input(ShapeDtype((2, 3), "float32"))
        y = builder.input(ShapeDtype((3, 4), "float32"))
        product = ops.dot_general(
            x, y, lhs_batch=(), rhs_batch=(), lhs_contracting=(1,), rhs_contracting=(0,)
        )
        finite = ops.is_finite(product)
        zeros = ops.constant(value=np.full((2, 4), -0.0, np.float32))
        graph = builder.finish([ops.select(finite, product, zeros), x])
    assert print_graph(graph, sources=False) == GOLDEN
    assert_reads_back(graph)


def test_bodies_are_nested_and_read_back() -> None:
    graph = parse_graph(LOOP)
    assert print_graph(graph) == LOOP
    (loop,) = graph.nodes
    body = loop.params["body"]
    assert isinstance(body, Graph)
    assert isinstance(body.nodes[0].params["branches"], tuple)
    assert_reads_back(graph)


def test_sources_are_comments() -> None:
    with Builder() as builder:
        graph = builder.finish([ops.negate(builder.input(FLOAT3))])
    source = graph.nodes[0].source
    assert source is not None
    assert print_graph(graph).splitlines()[1].endswith(f"  # test_text.py:{source.line}")
    assert "#" not in print_graph(graph, sources=False)
    assert str(graph) == print_graph(graph)
    assert parse_graph(print_graph(graph)).nodes[0].source is None


@pytest.mark.parametrize("dtype", SUPPORTED_DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (1,), (0,), (2, 0, 3), (2, 3), (40,)])
def test_constants_of_any_bits_read_back(
    dtype: np.dtype[Any], shape: tuple[int, ...], rng: np.random.Generator
) -> None:
    high = 2 if dtype.kind == "b" else 256
    raw = rng.integers(0, high, int(np.prod(shape)) * dtype.itemsize, dtype=np.uint8)
    assert_reads_back(constant_graph(np.frombuffer(raw.tobytes(), dtype).reshape(shape)))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_every_number_of_the_small_floats_reads_back(name: str) -> None:
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    bits = np.arange(2 ** (8 * dtype.itemsize), dtype=f"u{dtype.itemsize}")
    assert_reads_back(constant_graph(bits.view(dtype)))


@given(st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1))
def test_floats_of_any_bits_read_back(single: int, double: int) -> None:
    assert_reads_back(
        constant_graph(
            np.array([single], np.uint32).view(np.float32),
            np.array([double], np.uint64).view(np.float64),
        )
    )


def test_special_numbers_are_readable() -> None:
    special = np.array([np.nan, np.inf, -np.inf, -0.0, 0.1], np.float32)
    text = print_graph(constant_graph(special), sources=False)
    assert "[nan, inf, -inf, -0.0, 0.1]" in text
    pair = np.array(complex(-0.0, np.inf), np.complex64)
    assert "(-0.0, inf)" in print_graph(constant_graph(pair))
    assert_reads_back(constant_graph(pair, special))


def test_long_constants_are_not_abbreviated(rng: np.random.Generator) -> None:
    assert_reads_back(constant_graph(rng.standard_normal((60, 50)).astype(np.float32)))


def test_constants_that_are_not_contiguous(rng: np.random.Generator) -> None:
    array = rng.standard_normal((4, 6))
    assert_reads_back(constant_graph(array.T, array[::2, ::-1], np.broadcast_to(array[0], (9, 6))))


def test_equal_text_for_negative_zero_would_be_a_lie() -> None:
    mixed = constant_graph(np.array([0.0, -0.0]))
    assert "splat" not in print_graph(mixed)
    assert_reads_back(mixed)


def test_parameters_of_every_kind_read_back() -> None:
    with Builder() as builder:
        x = builder.input(ShapeDtype((4, 5), "float32"))
        graph = builder.finish(
            [
                ops.convert(x, dtype=np.dtype(ml_dtypes.bfloat16)),
                ops.reduce_add(x, axes=(0, 1)),
                ops.reduce_add(x, axes=()),
                *ops.sort(x, dimension=1, num_keys=1, is_stable=True),
            ]
        )
    again = assert_reads_back(graph)
    assert again.nodes[0].params["dtype"] == np.dtype(ml_dtypes.bfloat16)
    assert again.nodes[1].params["axes"] == (0, 1)
    assert again.nodes[2].params["axes"] == ()
    assert again.nodes[3].params["is_stable"] is True


HEAD = "graph(%0: float32[3]) {\n"


@pytest.mark.parametrize(
    ("text", "place", "said"),
    [
        ("", "line 1, column 1", "expected 'graph', found the end of the text"),
        ("graph(%0: float32[3]) {", "column 24", "expected a value"),
        (HEAD, "line 2, column 1", "found the end of the text"),
        (HEAD + "return %0 } end", "column 13", "expected the end of the text, found 'end'"),
        ("graph(name: int8[]) { return }", "column 7", "expected a value such as %0, found 'name'"),
        ("graph(%0: float33[3]) { return }", "column 11", "did you mean float32"),
        ("graph(%0: float32[-3]) { return }", "column 19", "-3 is not a size"),
        ("graph(%0: int8[], %0: int8[]) { return }", "column 19", "%0 is defined twice"),
        (HEAD + "  return %1\n}", "line 2, column 10", "%1 is not defined"),
        (HEAD + "  return %0\n} %", "line 3, column 3", "unexpected '%'"),
        (HEAD + "  return %0\n} }", "line 3, column 3", "the end of the text"),
        (HEAD + "  %1: float32[3] = negat(%0)\n return %1 }", "column 20", "did you mean negate"),
        (HEAD + "  %1: float32[4] = negate(%0)\n return %1 }", "line 2", "of type float32[3]"),
        (HEAD + "  %1: float32[3] = negate(%0, %0)\n return %1 }", "line 2", "does not fit"),
        (HEAD + "  %1: float32[3] = add(%0)\n return %1 }", "line 2", "does not fit"),
        (HEAD + "  %1: float32[3] = negate(%1)\n return %1 }", "line 2", "%1 is not defined"),
        (HEAD + "  %1: bool[3] = compare(%0, %0) {direction=LT}\n}", "line 2", "dtype 'LT'"),
        (HEAD + "  %1: bool[3] = compare(%0, %0) {direction=bits:0x1}\n}", "line 2", "arrays only"),
    ],
)
def test_refusals_say_where(text: str, place: str, said: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        parse_graph(text)
    assert place in caught.value.what
    assert said in caught.value.what
    assert "grammar" in caught.value.mend


@pytest.mark.parametrize(
    ("dense", "said"),
    [
        ("int8[] 300", "300 is no element of int8"),
        ("int8[] 1.5", "1.5 is no element of int8"),
        ("bool[] 1", "'1' is no element of bool"),
        ("float32[] True", "'True' is no element of float32"),
        ("int8[2] [1, 2, 3]", "3 items along axis 0 of int8[2]"),
        ("int8[2,2] [[1, 2], [3]]", "1 items along axis 1 of int8[2,2]"),
        ("int8[2] 1", "expected '['"),
        ("complex64[] (1.0, 2.0, 3.0)", "(real, imaginary)"),
        ("uint8[] -1", "-1 is no element of uint8"),
        ("float16[] bits:0x12345", "is no element of float16"),
    ],
)
def test_refuses_constants_that_do_not_fit(dense: str, said: str) -> None:
    type = dense.split()[0]
    with pytest.raises(ArgumentError) as caught:
        parse_graph(f"graph() {{ %0: {type} = constant() {{value={dense}}} return %0 }}")
    assert said in caught.value.what


def test_excerpt_marks_the_node_and_is_short() -> None:
    with Builder() as builder:
        value = builder.input(FLOAT3)
        for _ in range(20):
            value = ops.negate(value)
        large = ops.constant(value=np.arange(3 * 10**5, dtype=np.float32))
        graph = builder.finish([value, large])
    lines = excerpt(graph, graph.nodes[10]).splitlines()
    marked = [line for line in lines if line.startswith("> ")]
    assert len(lines) == 12
    assert marked == [line for line in lines if line.startswith("> %11: float32[3] = negate(%10)")]
    assert lines[1] == lines[-3] == "  ..."
    assert "float32[300000] [...]" in excerpt(graph, graph.nodes[20])


DAMAGED = {
    "nested values": "abs(%0) {a=" + "(" * 50_000,
    "long numbers": "abs(%0) {a=" + "9" * 5000 + "}",
    "half an escape": r"abs(%0) {a='\x'}",
    "a zero byte": "abs(%0) {a='\0'}",
    "a parameter of another kind": "constant() {value='x'}",
    "more than any memory": "constant() {value=float32[999999999999999] splat 0.0}",
}


@pytest.mark.parametrize("text", DAMAGED.values(), ids=DAMAGED)
def test_damaged_texts_are_refused(text: str) -> None:
    with pytest.raises(ArgumentError, match="not the text of a graph"):
        parse_graph(f"graph(%0: float32[3]) {{ %1: float32[3] = {text} return %1 }}")
