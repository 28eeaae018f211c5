"""Products of integers of eight bits, summed in 32, are not widened first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tracer import lax, ops
from tracer.lowering.emit import module


@pytest.mark.xla
@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("sizes", [(3, 5, 7), (1, 1, 1), (64, 300, 65), (5, 0, 3)])
def test_they_are_exact_and_multiplied_as_they_are(
    dtype: str, sizes: tuple[int, int, int], rng: np.random.Generator
) -> None:
    bounds, (rows, inner, columns) = np.iinfo(dtype), sizes
    a, b = (
        rng.integers(bounds.min, bounds.max + 1, shape).astype(dtype)
        for shape in ((rows, inner), (inner, columns))
    )

    f = tracer.compile(lambda x, y: lax.dot(x, y, preferred_element_type=np.dtype("int32")))
    np.testing.assert_array_equal(f(a, b), a.astype("int32") @ b.astype("int32"))
    found = [line for line in f.stablehlo(a, b).splitlines() if "dot_general" in line]
    narrow = f"x{'u' * (dtype == 'uint8')}i8>"
    assert [line.count(narrow) for line in found] == [2]


def _product(x: Any, y: Any) -> Any:
    x, y = (ops.convert(z, dtype=np.dtype("int32")) for z in (x, y))
    axes = {"lhs_batch": (), "rhs_batch": (), "lhs_contracting": (1,), "rhs_contracting": (0,)}
    return ops.dot_general(x, y, **axes)


def test_on_gpus_they_are_widened(graph: Any) -> None:
    """XLA:GPU gave twice the values: `tests/devices/test_gpu.py`."""
    made = graph(lambda x: [_product(x, x)], ((3, 3), "int8"))
    narrow = "(tensor<3x3xi8>, tensor<3x3xi8>) -> tensor<3x3xi32>"
    assert narrow in str(module.lower_graph(made, "cpu"))
    assert narrow not in str(module.lower_graph(made, "gpu"))


@pytest.mark.xla
def test_those_of_two_types_and_of_wider_sums_are_widened(rng: np.random.Generator) -> None:
    a = rng.integers(-128, 128, (4, 4)).astype("int8")

    def products(x: Any) -> Any:
        wide, unsigned = x.astype("int32"), x.astype("uint8").astype("int32")
        return wide @ unsigned, x.astype("int64") @ x.astype("int64"), tnp.sin(wide) @ wide

    found = tracer.compile(products)(a)
    wide, unsigned = a.astype("int32"), a.astype("uint8").astype("int32")
    np.testing.assert_array_equal(found[0], wide @ unsigned)
    np.testing.assert_array_equal(found[1], a.astype("int64") @ a.astype("int64"))
    np.testing.assert_allclose(found[2], np.sin(wide) @ wide, rtol=1e-12)
