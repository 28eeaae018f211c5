"""Many floats are sorted as integers of the same order; few by comparison: the same results."""

from __future__ import annotations

import numpy as np
import pytest

from tracer import lowering, ops
from tracer.ir import Builder, ShapeDtype, as_dtype
from tracer.ops.sort import _MANY

pytestmark = pytest.mark.xla
SPECIAL = [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0]


def compiled_sort(x: np.ndarray) -> np.ndarray:
    with Builder() as builder:
        value = builder.input(ShapeDtype(x.shape, x.dtype))
        (result,) = ops.sort(value, dimension=1, num_keys=1, is_stable=False)
        graph = builder.finish([result])
    return lowering.to_host(lowering.compile_graph(graph)(lowering.to_device(x))[0])


@pytest.mark.parametrize("columns", [_MANY // 8, _MANY])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_sorts_as_numpy_does(dtype: str, columns: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, columns))
    x[:, : len(SPECIAL)] = SPECIAL
    x = rng.permuted(x, axis=1).astype(as_dtype(dtype))
    found = compiled_sort(x).astype(np.float64)
    np.testing.assert_array_equal(found, np.sort(x.astype(np.float64), axis=1))
