"""Reductions over masked operands: the same values, and a fill that LLVM does not know."""

from __future__ import annotations

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp

pytestmark = pytest.mark.xla

ROWS, COLUMNS = 7, 600
FILLS = {"max": -np.inf, "min": np.inf, "sum": 0.0, "prod": 1.0}


def values(dtype: str) -> np.ndarray:
    rng = np.random.default_rng(0)
    return (rng.integers(-3, 4, (ROWS, COLUMNS)) / 2).astype(dtype)


def _is_exact(name: str, dtype: str, scale: float) -> bool:
    """Tell whether a dtype holds the fill and the result, without rounding on the way."""
    if dtype in ("int32", "complex64") and np.isinf(FILLS[name]):
        return False
    return dtype not in ("bfloat16", "int32") or (name != "prod" and scale == 1)


CASES = [
    (name, dtype, scale)
    for name in FILLS
    for dtype in ("float32", "float64", "bfloat16", "int32", "complex64")
    for scale in (1, 0.5)
    if _is_exact(name, dtype, scale)
]


@pytest.mark.parametrize("axis", [0, 1, None])
@pytest.mark.parametrize(("name", "dtype", "scale"), CASES)
def test_as_numpy_over_masks_with_an_empty_row(
    name: str, dtype: str, axis: int | None, scale: float
) -> None:
    x = values("float32" if dtype == "bfloat16" else dtype)
    mask = np.arange(ROWS)[:, None] > np.arange(COLUMNS)[None, :] % 8  # none in the first row

    def program(x: tracer.Array) -> tracer.Array:
        chosen = tnp.where(mask, x.astype(dtype), FILLS[name]) * scale
        return getattr(tnp, name)(chosen, axis=axis)

    found = np.asarray(tracer.compile(program)(x)).astype(x.dtype)
    with np.errstate(all="ignore"):
        filled = np.where(mask, x, np.asarray(FILLS[name], x.dtype)) * np.asarray(scale, x.dtype)
        expected = getattr(np, name)(filled, axis=axis)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_nan_and_infinity_below_the_mask_do_not_leak_and_above_it_stay() -> None:
    x = values("float32")
    x[2, 1], x[3, 5], x[4, 2], x[5, 599] = np.nan, np.nan, np.inf, np.inf
    mask = np.arange(ROWS)[:, None] >= np.arange(COLUMNS)[None, :]
    found = tracer.compile(lambda x: tnp.where(mask, x, -np.inf).max(1))(x)
    np.testing.assert_array_equal(found, np.where(mask, x, -np.inf).max(1))
    assert np.isnan(found[2])
    assert not np.isnan(found[3])
    assert np.isposinf(found[4])
    assert np.isfinite(found[5])


def test_the_fill_is_read_where_that_may_stand() -> None:
    def masked(x: tracer.Array) -> tracer.Array:
        return tnp.where(x > 0, x, -tnp.inf).max(-1)

    def text(columns: int) -> str:
        return tracer.compile(masked).hlo(tracer.ShapeDtype((4, columns), "float32"))

    assert "opt-barrier" in text(257)
    # XLA would make one function of a loop with so few bytes, and end the process at a barrier.
    assert "opt-barrier" not in text(256)


def test_a_loop_of_few_bytes_over_a_masked_row_runs() -> None:
    def program(n: tracer.Array) -> tracer.Array:
        def step(i: tracer.Array, best: tracer.Array) -> tracer.Array:
            row = tnp.arange(1000, dtype="float32")
            return tnp.maximum(best, tnp.where(row < i, row, -tnp.inf).max())

        return tracer.fori_loop(0, n, step, tnp.float32(-1))

    assert tracer.compile(program)(5) == 3
