"""Running reductions in pairs: what is written, that it computes the same, what stays."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.optimizer.graphs import apply, assert_same_without, evaluated, ops_of
from tracer import ops
from tracer.ir import Builder, Graph, ShapeDtype
from tracer.lowering import compile_graph, to_device, to_host
from tracer.optimizer.legalize.scans import scans_pass
from tracer.target import DEFAULT_TARGET, accelerator
from tracer.target.scans import Scans

PASS = scans_pass(DEFAULT_TARGET)
NAMES = ["cumulative_add", "cumulative_multiply", "cumulative_maximum", "cumulative_minimum"]
SHAPES = [
    ((9,), 0),
    ((37,), 0),
    ((100,), 0),
    ((3, 50), 1),
    ((17, 33), 1),
    ((5, 10, 3), 1),
    ((2, 40, 7), 1),
    ((50, 2), 0),
    ((64, 1), 0),
    # Parts of fewer rows than a piece has elements, or than would divide the line.
    ((10, 70), 0),
    ((60, 11), 0),
    ((2, 65, 3), 1),
    # More elements behind than a piece: fewer parts than pieces.
    ((5, 41), 0),
    ((9, 14), 0),
]


def of_pieces(piece: int, fewest: int = 4) -> Any:
    """Return the pass of a machine with so small a cache that small arrays have many pieces."""
    scans = Scans(paired_elements=0, behind=1, paired_rows=0, piece=piece, fewest=fewest)
    return scans_pass(replace(DEFAULT_TARGET, scans=scans))


def cumulated(
    name: str, shape: tuple[int, ...], dtype: Any, axis: int, reverse: bool = False
) -> Graph:
    with Builder() as builder:
        x = builder.input(ShapeDtype(shape, np.dtype(dtype)))
        return builder.finish([getattr(ops, name)(x, axis=axis, reverse=reverse)])


@pytest.mark.parametrize(
    ("shape", "axis", "dtype", "is_written"),
    [
        ((65_536,), 0, "float32", True),
        ((65_535,), 0, "float32", False),
        ((16_384, 4), 1, "float32", False),
        ((16_384, 5), 1, "complex64", True),
        ((512, 8), 0, "float32", True),
        ((511, 8), 0, "float32", False),
        ((512, 8), 0, "int8", True),
        # NumPy takes integers along lines.
        ((100_000,), 0, "int32", False),
        ((0, 9), 0, "float32", False),
        ((70_000, 0, 8), 0, "float32", False),
        ((1, 70_000), 0, "float32", False),
    ],
    ids=str,
)
def test_what_is_written(shape: tuple[int, ...], axis: int, dtype: str, is_written: bool) -> None:
    graph = cumulated("cumulative_add", shape, dtype, axis)
    after, log = apply(PASS, graph)
    assert bool(log.applied) == is_written
    assert (after is graph) == (not is_written)


@pytest.mark.parametrize("machine", [accelerator("tpu", "v5e")], ids=["tpu"])
def test_accelerators_keep_the_tree(machine: Any) -> None:
    graph = cumulated("cumulative_add", (70_000,), "float32", 0)
    assert apply(scans_pass(machine), graph)[0] is graph


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        *product(NAMES, ["float32", "float16", "bfloat16", "int32", "uint8"]),
        *product(NAMES[:2], ["complex64"]),
    ],
)
def test_it_computes_the_same(name: str, reverse: bool, dtype: str) -> None:
    """Of small integers sums are exact; infinities and NaN stay where they are.

    Pieces of 16 elements are parts of lines, which overlap where they do not divide; those of 100
    are some lines, of which the last ones are taken twice; 1,000 are all.
    """
    rng = np.random.default_rng(0)
    type = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    for piece, (shape, axis) in product((16, 37, 100, 1000), SHAPES):
        x = rng.integers(-2 if type.kind != "u" else 0, 3, shape).astype(type)
        if type.kind in "fV":
            x.reshape(-1)[[3, 5]] = np.inf, np.nan
        before = cumulated(name, shape, type, axis, reverse)
        after, log = apply(of_pieces(piece), before)
        assert log.applied
        (found,), (wanted,) = evaluated(after, x), evaluated(before, x)
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found.astype("c16"), wanted.astype("c16"))


@pytest.mark.xla
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("reverse", [False, True])
def test_compiled_it_computes_the_same(name: str, reverse: bool) -> None:
    rng = np.random.default_rng(0)
    for piece, (shape, axis) in ((16, SHAPES[3]), (37, SHAPES[6]), (100, SHAPES[4])):
        x = rng.integers(-2, 3, shape).astype("float32")
        x.reshape(-1)[[30, 50]] = -np.inf, np.nan
        graph = cumulated(name, shape, "float32", axis, reverse)
        (wanted,) = evaluated(graph, x)
        (found,) = compile_graph(apply(of_pieces(piece), graph)[0])(to_device(x))
        np.testing.assert_array_equal(to_host(found), wanted)


def test_products_do_not_overflow_before_they_are_multiplied() -> None:
    """Seven rows alone would: 1e70."""
    x = np.ones((40, 8), np.float32)
    x[:7], x[7:14] = 1e-5, 1e10
    graph = cumulated(NAMES[1], x.shape, "float32", 0)
    (found,) = evaluated(apply(PASS, graph)[0], x)
    np.testing.assert_allclose(found, np.cumprod(x, 0), rtol=1e-5)


def test_negative_zeros_stay() -> None:
    """Nothing that is added to begin with is 0: -0 + 0 is 0."""
    x = np.full((3, 100), -0.0, np.float32)
    for piece in (16, 100, 1000):
        (found,) = evaluated(
            apply(of_pieces(piece, 1), cumulated(NAMES[0], x.shape, "f4", 1))[0], x
        )
        assert np.signbit(found).all()


def test_errors_of_sums_grow_with_the_logarithm() -> None:
    """One after the other loses ten times as much."""
    after, log = apply(PASS, cumulated("cumulative_add", (100_000,), "float32", 0))
    assert log.applied == ["cumulative_add of float32[100000] along axis 0"]
    assert ops_of(after).count("while") == 1
    x = np.full(100_000, 0.1, np.float32)
    # Of parts of 16 elements, too: 6,250 of them.
    for made in (after, apply(of_pieces(16), cumulated(NAMES[0], (100_000,), "f4", 0))[0]):
        (found,) = evaluated(made, x)
        wanted = np.cumsum(x.astype("float64"))
        one_by_one = np.cumsum(x, dtype=np.float32)
        assert np.abs(found - wanted).max() < 0.1 * np.abs(one_by_one - wanted).max()


PROGRAMS = {
    "alone": lambda x: tnp.cumsum(x, 1),
    "beside": lambda x: (tnp.cumsum(x, 1), x),
    "of a view": lambda x: tnp.cumsum(x.T[:, ::-1], 0),
    "of all": lambda x: tnp.cumsum(x),
    "twice": lambda x: tnp.cumsum(tnp.cumsum(x, 1)[:, ::-1], 1),
    "columns": lambda x: tnp.cumprod(x[:, None] * 0.5, 0),
    "loop": lambda x: tracer.fori_loop(0, 3, lambda i, y: tnp.cumsum(y, 1) / 9 - x, x),
    "batch": tracer.vmap(lambda x: tnp.cumsum(x * x)),
    "extremes": lambda x: tracer.lax.cummax(tnp.sin(x), axis=1),
    "gradient": tracer.grad(lambda x: (tnp.cumsum(x * x, 1) ** 2).sum()),
}


@pytest.mark.xla
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_and_no_argument_is_overwritten(name: str) -> None:
    x = np.random.default_rng(0).standard_normal((310, 333))
    same = partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-9)
    assert_same_without("-cumulate-in-pairs", PROGRAMS[name], x, same)


@pytest.mark.xla
@pytest.mark.parametrize(
    ("shape", "axis"), [((1000, 1000), 1), ((70_000,), 0), ((1000, 1000), 0), ((3, 300_001), 1)]
)
def test_pieces_are_stored_not_the_array(shape: tuple[int, ...], axis: int) -> None:
    x = tracer.ShapeDtype(shape, np.float32)
    program = tracer.compile(lambda x: tnp.cumsum(x, axis))
    plan = program.plan(x)
    beside = plan.compiled_bytes - 2 * x.nbytes
    assert beside <= plan.peak_bytes - 2 * x.nbytes <= 4 * 32_768 * 4
    donated = tracer.compile(lambda x: tnp.cumsum(x, axis), donate_argnums=0)
    assert donated.plan(x).compiled_bytes <= x.nbytes + beside


@pytest.mark.xla
@pytest.mark.parametrize("axis", [0, 1])
def test_the_gradient_of_products_is_stored_as_predicted(axis: int) -> None:
    """By doubling, each of 10 levels read all elements: XLA stored 5 times the prediction."""
    x = tracer.ShapeDtype((700, 800), np.float32)
    plan = tracer.compile(tracer.grad(lambda x: (tnp.cumprod(x, axis) ** 2).sum())).plan(x)
    assert plan.compiled_bytes <= 1.05 * plan.peak_bytes <= 5 * x.nbytes
