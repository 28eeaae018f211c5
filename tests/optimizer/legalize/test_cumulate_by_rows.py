"""Running reductions of rows: what is written, that it computes the same, what stays."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.optimizer.graphs import apply, evaluated, ops_of
from tracer import ops
from tracer.ir import Builder, Graph, ShapeDtype
from tracer.optimizer.legalize.cumulatives import cumulatives_pass
from tracer.target import DEFAULT_TARGET
from tracer.target.record import ACCELERATOR_KERNELS

PASS = cumulatives_pass(DEFAULT_TARGET)
NAMES = ["cumulative_add", "cumulative_multiply", "cumulative_maximum", "cumulative_minimum"]


def cumulated(
    name: str, shape: tuple[int, ...], dtype: Any, axis: int, reverse: bool = False
) -> Graph:
    with Builder() as builder:
        x = builder.input(ShapeDtype(shape, dtype))
        return builder.finish([getattr(ops, name)(x, axis=axis, reverse=reverse)])


@pytest.mark.parametrize(
    ("shape", "axis"),
    [((7, 7), 0), ((50, 100), 1), ((1, 9), 0), ((0, 9), 0), ((5, 0, 8), 0), ((9,), 0)],
)
def test_few_elements_behind_the_axis_and_one_row_stay(shape: tuple[int, ...], axis: int) -> None:
    graph = cumulated("cumulative_add", shape, "float32", axis)
    assert apply(PASS, graph)[0] is graph


def test_accelerators_keep_the_tree() -> None:
    assert ACCELERATOR_KERNELS.cumulated_elements == float("inf")


def test_sums_of_floats_start_anew_after_the_root_of_the_rows() -> None:
    """One after the other loses ten times as much."""
    graph = cumulated("cumulative_add", (10_000, 8), "float32", 0)
    after, log = apply(PASS, graph)
    assert log.applied == ["cumulative_add of float32[10000,8] along axis 0"]
    assert ops_of(after).count("while") == 1
    x = np.full((10_000, 8), 0.1, np.float32)
    (found,) = evaluated(after, x)
    wanted = np.cumsum(x.astype("float64"), 0)
    one_by_one = np.cumsum(x, 0, dtype=np.float32)
    assert np.abs(found - wanted).max() < 0.1 * np.abs(one_by_one - wanted).max()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int32", "uint8"])
def test_it_computes_the_same(name: str, reverse: bool, dtype: str) -> None:
    """Of small integers sums are exact; infinities, NaN and both zeros are kept."""
    rng = np.random.default_rng(0)
    type = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    for shape, axis in (((7, 8), 0), ((3, 10, 9), 1), ((2, 2, 3, 4), 1), ((17, 2, 4), 0)):
        x = rng.integers(-2, 3, shape).astype(type)
        if type.kind in "fV":
            x.reshape(-1)[[3, 5, 11]] = np.inf, -0.0, np.nan
        before = cumulated(name, shape, type, axis, reverse)
        after, log = apply(PASS, before)
        assert log.applied
        (found,), (wanted,) = evaluated(after, x), evaluated(before, x)
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found.astype("f8"), wanted.astype("f8"))


def test_products_do_not_overflow_before_they_are_multiplied() -> None:
    """Seven rows alone would: 1e70."""
    x = np.ones((40, 8), np.float32)
    x[:7], x[7:14] = 1e-5, 1e10
    (found,) = evaluated(apply(PASS, cumulated(NAMES[1], x.shape, "float32", 0))[0], x)
    np.testing.assert_allclose(found, np.cumprod(x, 0), rtol=1e-5)
