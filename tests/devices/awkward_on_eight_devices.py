"""Values and calls that XLA's own way to run on several devices gets wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.devices.eight import GRID, LINE, P
from tracer.errors import DonatedArrayError
from tracer.sharding import Mesh, NamedSharding

pytestmark = pytest.mark.xla

ROWS = NamedSharding(LINE, P("x"))


def with_nan(position: int, dtype: str) -> Any:
    values = np.arange(16.0).astype(tnp.dtype(dtype))
    values[position] = np.nan
    return values


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("position", [0, 5, 15])
@pytest.mark.parametrize(
    "function",
    [
        tnp.max,
        tnp.min,
        tnp.ptp,
        lambda x: tnp.zeros(1, x.dtype).at[np.zeros(16, int)].max(x),
        lambda x: tnp.full(1, 99, x.dtype).at[np.zeros(16, int)].min(x),
    ],
    ids=["max", "min", "ptp", "at max", "at min"],
)
def test_nan_of_one_part_reaches_extremes(
    function: Callable[[Any], Any], position: int, dtype: str
) -> None:
    """XLA:CPU joins the devices' extremes with `<`: a part with a NaN was dropped."""
    values = with_nan(position, dtype)
    assert tnp.isnan(function(tracer.device_put(values, ROWS))).all()
    assert tnp.isnan(tracer.compile(function, mesh=LINE, in_shardings=P("x"))(values)).all()
    clean = np.arange(16.0).astype(values.dtype)
    np.testing.assert_array_equal(
        np.asarray(function(tracer.device_put(clean, ROWS))), np.asarray(function(clean))
    )


@pytest.mark.parametrize("mesh", [LINE, GRID], ids=["line", "grid"])
@pytest.mark.parametrize("limit", [None, "3MB"])
def test_nan_reaches_maxima_that_the_planner_spreads(mesh: Mesh, limit: str | None) -> None:
    f = tracer.compile(
        lambda a, b: tnp.max(tnp.tanh(a @ b.T), axis=0), mesh=mesh, memory_limit=limit
    )
    clean = np.random.default_rng(0).standard_normal((1021, 16))
    broken = clean.copy()
    broken[10, 0] = np.nan
    assert np.isnan(np.asarray(f(broken, clean))).all()
    np.testing.assert_allclose(f(clean, clean), np.tanh(clean @ clean.T).max(0))


@pytest.mark.parametrize("donated", [0, 1])
@pytest.mark.parametrize(
    "again",
    [
        lambda w: w,
        tnp.asarray,
        lambda w: tracer.device_put(w, ROWS),
        lambda w: w.to_device(NamedSharding(LINE, P("x", None))),
        lambda w: w.reshape(w.shape),
    ],
    ids=["itself", "asarray", "device_put", "to_device", "reshape"],
)
def test_parts_that_are_donated_and_given_twice_are_refused(
    again: Callable[[Any], Any], donated: int
) -> None:
    """XLA ends the process."""
    w = tracer.device_put(np.ones((512, 64)), ROWS)
    f = tracer.compile(lambda a, b: a * 2 + b, mesh=LINE, donate_argnums=donated)
    with pytest.raises(DonatedArrayError, match="is the same array"):
        f(w, again(w))
    np.testing.assert_array_equal(f(w, w.copy()), 3)


def test_parts_that_are_donated_and_captured_are_refused() -> None:
    w = tracer.device_put(np.ones((512, 64)), ROWS)
    f = tracer.compile(lambda a: a * 2 + w, mesh=LINE, donate_argnums=0)
    with pytest.raises(DonatedArrayError, match="an array that it captured is the same array"):
        f(w)
