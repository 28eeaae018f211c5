"""Arg-max and arg-min as one reduction of packed integers: ties, NaN, zeros, every narrow dtype."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tracer import lowering, ops
from tracer.ir import Builder, Graph, ShapeDtype
from tracer.optimizer.final_passes import legalized
from tracer.optimizer.pipeline import Context

pytestmark = pytest.mark.xla
OPS = {"argmax": ops.argmax, "argmin": ops.argmin}
FLOATS = ["float32", "float16", ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, "float64"]
INTEGERS = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
SHAPES = [((5, 3000), 1), ((3000, 5), 0), ((3, 70, 4), 1), ((1, 1), 0)]


def graph(op: Any, shape: tuple[int, ...], dtype: Any, axis: int, index_dtype: str) -> Graph:
    with Builder() as builder:
        x = builder.input(ShapeDtype(shape, dtype))
        return builder.finish([op(x, axis=axis, index_dtype=np.dtype(index_dtype))])


def legal(graph: Graph) -> Graph:
    """Return a graph as it is compiled: its extremes packed, its reductions in stages."""
    return legalized(graph, Context())[0]


def compiled(program: Graph, x: Any) -> Any:
    (found,) = lowering.compile_graph(legal(program))(lowering.to_device(x))
    return lowering.to_host(found)


def check(name: str, x: Any, axis: int, index_dtype: str = "int32") -> None:
    program = graph(OPS[name], x.shape, x.dtype, axis, index_dtype)
    wanted = OPS[name].evaluate(x, axis=axis, index_dtype=np.dtype(index_dtype))
    np.testing.assert_array_equal(compiled(program, x), wanted)


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: np.dtype(dtype).name)
def test_floats_in_numpys_order(name: str, dtype: Any) -> None:
    rng = np.random.default_rng(0)
    for shape, axis in SHAPES:
        x = rng.standard_normal(shape).astype(dtype)
        check(name, x, axis)
        check(name, np.abs(x), axis)
        check(name, -np.abs(x), axis)
        check(name, np.round(x), axis)  # ties, also of -0 and 0


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("value", [np.nan, -np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", ["float32", ml_dtypes.bfloat16], ids=["float32", "bfloat16"])
def test_values_that_are_not_finite(name: str, dtype: Any, value: float) -> None:
    x = np.linspace(-3, 3, 400).reshape(4, 100).astype(dtype)
    x[1, 7] = x[1, 50] = x[3, 99] = value
    x[2] = value
    check(name, x, 1)
    check(name, x, 0)
    x[1, 3] = -value
    check(name, x, 1)


@pytest.mark.parametrize("name", OPS)
@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_to_their_limits(name: str, dtype: str) -> None:
    rng = np.random.default_rng(0)
    for shape, axis in SHAPES[:2]:
        if dtype == "bool":
            check(name, rng.random(shape) < 0.5, axis)
            continue
        limits = np.iinfo(dtype)
        x = rng.integers(limits.min, limits.max, shape, endpoint=True, dtype=dtype)
        check(name, x, axis)
        x[..., -1], x[..., 0] = limits.min, limits.max
        check(name, x, axis)


def test_zeros_of_both_signs_tie() -> None:
    x = np.array([[-0.0, 0.0, -0.0], [0.0, -0.0, 0.0]], np.float32)
    for name in OPS:
        check(name, x, 0, "int64")
        check(name, x, 1, "uint8")


@pytest.mark.parametrize("dtype", [*FLOATS[:4], "uint8", "int32", "uint32"], ids=str)
def test_the_largest_one_is_a_reduction_too(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    x = (100 * rng.standard_normal((6, 300))).astype(dtype)
    if np.dtype(dtype).kind not in "iu":
        x[1, 5:9] = -np.nan
        x[2] = -np.inf
    with Builder() as builder:
        program = builder.finish(list(ops.top_k(builder.input(ShapeDtype(x.shape, dtype)), k=1)))
    executable = lowering.compile_graph(legal(program))
    assert "TopK" not in executable.hlo()
    values, indices = map(lowering.to_host, executable(lowering.to_device(x)))
    wanted = ops.top_k.evaluate(x, k=1)
    np.testing.assert_array_equal(indices, wanted[1])
    np.testing.assert_array_equal(values.astype("f8"), wanted[0].astype("f8"))


def test_it_is_one_reduction_of_one_array() -> None:
    """Pairs are not vectorised; what computes the elements stays fused, so nothing is stored."""
    with Builder() as builder:
        x = builder.input(ShapeDtype((1000, 1000), "float32"))
        found = ops.argmax(ops.exponential(x), axis=1, index_dtype=np.dtype(np.int32))
        executable = lowering.compile_graph(legal(builder.finish([found])))
    assert executable.memory.temporary_bytes < 100_000
    assert "s64[" in executable.hlo()
