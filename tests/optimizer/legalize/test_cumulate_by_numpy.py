"""NumPy finds running sums of integers and running extremes: what is written, and values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.optimizer.graphs import apply, assert_same_without, evaluated, text
from tracer import ops
from tracer.errors import ArgumentError, DTypeError
from tracer.ir import Builder, Graph, ShapeDtype, as_dtype
from tracer.lowering import compile_graph, to_device, to_host
from tracer.optimizer.legalize.cumulatives import numpy_cumulatives_pass
from tracer.target import DEFAULT_TARGET, accelerator

PASS = numpy_cumulatives_pass(DEFAULT_TARGET)
OFF = "-cumulate-by-numpy"
OPS = {
    "add": ops.cumulative_add,
    "multiply": ops.cumulative_multiply,
    "maximum": ops.cumulative_maximum,
    "minimum": ops.cumulative_minimum,
}
CASES = [
    (name, dtype)
    for name in OPS
    for dtype in ("int8", "uint8", "int16", "int32", "uint32", "int64", "uint64")
] + [(name, dtype) for name in ("maximum", "minimum") for dtype in ("float32", "float64")]


def running(name: str, shape: tuple[int, ...], dtype: str, axis: int, reverse: bool) -> Graph:
    with Builder() as builder:
        x = builder.input(ShapeDtype(shape, as_dtype(dtype)))
        return builder.finish([OPS[name](x, axis=axis, reverse=reverse)])


def numbers(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Return integers of all bits, of floats also NaN, infinities and zeros of both signs."""
    rng = np.random.default_rng(0)
    if np.dtype(dtype).kind == "f":
        x = rng.standard_normal(shape)
        x.flat[:: x.size // 7] = [np.inf, 0.0, -0.0, -np.inf, 1, 0.0, np.nan, 0.0][
            : len(x.flat[:: x.size // 7])
        ]
        return x.astype(dtype)
    return rng.integers(0, 2**64, shape, dtype=np.uint64).astype(dtype)


@pytest.mark.xla
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_values_are_as_without(name: str, dtype: str, reverse: bool) -> None:
    for shape, axis in (((1500,), 0), ((20, 70), 1), ((70, 20), 0), ((3, 90, 5), 1)):
        x = numbers(shape, dtype)
        before = running(name, shape, dtype, axis, reverse)
        after, log = apply(PASS, before)
        assert len(log.applied) == text(after).count("numpy_cumulative") == 1
        (wanted,) = evaluated(before, x)
        (found,) = evaluated(after, x)
        np.testing.assert_array_equal(found, wanted)
        (made,) = compile_graph(after)(to_device(x))
        np.testing.assert_array_equal(to_host(made), wanted)


@pytest.mark.parametrize(
    ("graph", "is_written"),
    [
        (running("add", (1024,), "int32", 0, False), True),
        (running("add", (1023,), "int32", 0, False), False),
        (running("add", (100, 64), "int32", 1, False), True),
        (running("add", (100, 63), "int32", 1, False), False),
        # Other orders of sums are other sums.
        (running("add", (5000,), "float32", 0, False), False),
        (running("multiply", (5000,), "float64", 0, False), False),
        (running("maximum", (5000,), "float64", 0, False), True),
        (running("maximum", (5000,), "float16", 0, False), False),
        (running("add", (5000,), "complex64", 0, False), False),
        (running("add", (64, 0), "int32", 0, False), False),
    ],
    ids=str,
)
def test_what_is_written(graph: Graph, is_written: bool) -> None:
    assert bool(apply(PASS, graph)[1].applied) == is_written


def test_other_platforms_have_trees() -> None:
    graph = running("add", (5000,), "int32", 0, False)
    assert apply(numpy_cumulatives_pass(accelerator("tpu", "v5e")), graph)[0] is graph


PROGRAMS = {
    "alone": lambda x: tnp.cumsum(x, 1),
    "beside": lambda x: (tnp.cumsum(x, 1), x),
    "of a view": lambda x: tnp.cumsum(x.T[:, ::-1], 0),
    "of all": lambda x: tnp.cumsum(x),
    "twice": lambda x: tnp.cumsum(tnp.cumsum(x, 1)[:, ::-1], 1),
    "loop": lambda x: tracer.fori_loop(0, 3, lambda i, y: tnp.cumsum(y, 1) - x, x),
    "batch": tracer.vmap(tnp.cumsum),
    "places": lambda x: tnp.nonzero(x > 5, size=100)[1],
    "distinct": lambda x: tnp.unique(x, size=30, return_counts=True),
    "bytes": lambda x: tnp.cumsum(x.astype("int8"), 1, dtype="int8"),
    "extremes": lambda x: tracer.lax.cummax(tnp.sin(x), axis=1),
    "gradient": tracer.grad(lambda x: (tracer.lax.cummax(x * 1.5, axis=1) ** 2).sum()),
}


@pytest.mark.xla
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_and_no_argument_is_overwritten(name: str) -> None:
    x = np.random.default_rng(0).integers(0, 20, (40, 120))
    x = x + 0.25 if name == "gradient" else x
    assert_same_without(OFF, PROGRAMS[name], x, np.testing.assert_array_equal)


@pytest.mark.xla
def test_a_donated_array_is_written_over() -> None:
    x = np.ones(100_000, np.int64)
    for reverse in (False, True):
        program = tracer.compile(
            lambda x, reverse=reverse: tracer.lax.cumsum(x, reverse=reverse), donate_argnums=0
        )
        assert program.plan(x).compiled_bytes == x.nbytes
        wanted = np.arange(1, x.size + 1)[:: -1 if reverse else 1]
        np.testing.assert_array_equal(program(tnp.asarray(x)), wanted)


def test_what_it_cannot_do_is_refused() -> None:
    with Builder() as builder:
        x, y = (builder.input(ShapeDtype((9,), dtype)) for dtype in (np.float16, np.int32))
        with pytest.raises(DTypeError, match="float32"):
            ops.numpy_cumulative(x, combiner="maximum", axis=0, reverse=False)
        with pytest.raises(ArgumentError, match="multiply"):
            ops.numpy_cumulative(y, combiner="divide", axis=0, reverse=False)


def ordered(x: Any) -> Any:
    return tracer.lax.cummin(x, axis=0)


@pytest.mark.xla
def test_slopes_are_those_of_the_program() -> None:
    x = np.random.default_rng(0).standard_normal(2000)
    direction = np.random.default_rng(1).standard_normal(2000)
    program = tracer.compile(lambda x: (ordered(x) ** 2).sum())
    slope = tracer.compile(tracer.grad(lambda x: (ordered(x) ** 2).sum()))(x)
    ahead, behind = (program(x + sign * 1e-7 * direction) for sign in (1, -1))
    np.testing.assert_allclose((ahead - behind) / 2e-7, (slope * direction).sum(), rtol=1e-5)
