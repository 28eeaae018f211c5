"""NaN and infinity in the data: a program that runs in slices gives what it gives in one piece."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tracer import nn

pytestmark = pytest.mark.xla

ROWS, COLUMNS = 600, 1_500
LIMIT = 1_200_000
"""A third of the matrix, of 3.6 MB, that each program makes of its arguments."""


def _matrix(x: Any, y: Any) -> Any:
    # A product is stored. Infinity times zero, or less infinity, makes NaN.
    return x @ y.T


def _log_sum_exp(matrix: Any, axis: int) -> Any:
    return tracer.scipy.special.logsumexp(matrix, axis=axis)


REDUCERS: dict[str, Callable[[Any, int], Any]] = {
    "maximum": lambda matrix, axis: tnp.max(matrix, axis=axis),
    "minimum": lambda matrix, axis: tnp.min(matrix, axis=axis),
    "place of maximum": lambda matrix, axis: tnp.argmax(matrix, axis=axis),
    "place of minimum": lambda matrix, axis: tnp.argmin(matrix, axis=axis),
    "sum": lambda matrix, axis: tnp.sum(tnp.abs(matrix), axis=axis),
    "log-sum-exp": _log_sum_exp,
    "softmax": lambda matrix, axis: tnp.sum(nn.softmax(matrix, axis=axis) * 0.5, axis=axis),
    "softmax's largest": lambda matrix, axis: tnp.max(nn.softmax(matrix, axis=axis), axis=axis),
    "any": lambda matrix, axis: tnp.any(matrix > 2, axis=axis),
    "top k": lambda matrix, axis: tnp.top_k(tnp.swapaxes(matrix, axis, 1), 7),
    "sort": lambda matrix, axis: tnp.take(tnp.sort(matrix, axis=axis), tnp.arange(5), axis=axis),
}
AWKWARD = {
    "nan": [np.nan],
    "negative nan": [-np.nan, np.nan],
    "infinity": [np.inf],
    "both infinities": [np.inf, -np.inf],
    "all": [np.nan, np.inf, -np.inf, -0.0, 0.0],
}


def _arrays(values: list[float]) -> tuple[Any, Any]:
    rng = np.random.default_rng(3)
    # Few distinct numbers: ties, of which the first counts.
    x, y = (rng.integers(-3, 4, (size, 2)).astype(np.float32) for size in (ROWS, COLUMNS))
    for array in (x, y):
        places = rng.choice(len(array), 2 * len(values), replace=False)
        array[places, 0] = np.array(values * 2, np.float32)
    return x, y


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("reducer", REDUCERS)
def test_slices_give_what_the_whole_gives(reducer: str, axis: int) -> None:
    def program(x: Any, y: Any) -> Any:
        return REDUCERS[reducer](_matrix(x, y), axis)

    whole = tracer.compile(program, split="never")
    sliced = tracer.compile(program, memory_limit=LIMIT)
    assert sliced.plan(*_arrays([np.nan])).loops, "nothing was split: the test proves nothing"
    for name, values in AWKWARD.items():
        arrays = _arrays(values)
        pairs = zip(
            tracer.tree.leaves(sliced(*arrays)), tracer.tree.leaves(whole(*arrays)), strict=True
        )
        for found, expected in pairs:
            np.testing.assert_allclose(
                np.asarray(found), np.asarray(expected), rtol=1e-5, err_msg=name
            )


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("name", ["maximum", "minimum", "place of maximum", "place of minimum"])
def test_extremes_are_numpys(name: str, axis: int) -> None:
    numpys: dict[str, Callable[..., Any]] = {
        "maximum": np.max,
        "minimum": np.min,
        "place of maximum": np.argmax,
        "place of minimum": np.argmin,
    }
    sliced = tracer.compile(lambda x, y: REDUCERS[name](_matrix(x, y), axis), memory_limit=LIMIT)
    for values in AWKWARD.values():
        x, y = _arrays(values)
        with np.errstate(invalid="ignore"):
            expected = numpys[name]((x[:, None, :] * y[None, :, :]).sum(-1), axis=axis)
        np.testing.assert_array_equal(np.asarray(sliced(x, y)), expected)
