"""Products of bfloat16 that YNNPACK multiplies as they are: the same sums, rounded once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.lowering.test_products_by_eigen import PRODUCTS
from tracer import lax, lowering
from tracer.array.trace import trace
from tracer.ir import Graph
from tracer.lowering import shims
from tracer.lowering.cpu import narrow_products
from tracer.lowering.emit import module
from tracer.lowering.settings import without
from tracer.target import multiplies_bfloat16

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
by_ynnpack = pytest.mark.skipif(
    not shims.PRODUCTS_BY_YNNPACK, reason="before jaxlib 0.10 YNNPACK multiplies nothing"
)


@pytest.fixture
def with_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the processor have tiles of bfloat16: XLA compiles such products on any."""
    monkeypatch.setattr(narrow_products, "multiplies_bfloat16", lambda: True)


def inputs_of(shapes: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    return [(random.standard_normal(shape) / 4).astype(BFLOAT16) for shape in shapes]


def run(graph: Graph, inputs: Sequence[np.ndarray]) -> np.ndarray:
    execute = lowering.compile_graph(graph)
    (found,) = execute(*map(lowering.to_device, inputs))
    return lowering.to_host(found)


@by_ynnpack
@pytest.mark.xla
@pytest.mark.usefixtures("with_tiles")
@pytest.mark.parametrize("name", PRODUCTS)
def test_values_are_the_sums_rounded_once(name: str) -> None:
    function, *shapes = PRODUCTS[name]
    inputs = inputs_of(shapes)
    found = run(trace(function, inputs).graph, inputs)
    assert found.dtype == BFLOAT16
    exact = np.asarray(tracer.compile(function)(*(x.astype("float64") for x in inputs)))
    bound = float(ml_dtypes.finfo(BFLOAT16).eps)
    near = 30 * bound if name == "in a loop" else 1e-6  # of three steps, each rounded twice
    np.testing.assert_allclose(found.astype("float64"), exact, rtol=bound, atol=near)


@by_ynnpack
@pytest.mark.xla
@pytest.mark.usefixtures("with_tiles")
@pytest.mark.parametrize("sizes", [(70, 33, 51), (1, 40, 30), (9, 1, 12), (0, 3, 4), (4, 0, 3)])
def test_sums_in_float32_are_exact_to_its_rounding(sizes: tuple[int, int, int]) -> None:
    rows, inner, columns = sizes
    x, y = inputs_of([(rows, inner), (inner, columns)])
    product = lambda x, y: lax.dot(x, y, preferred_element_type=np.dtype("float32"))
    found = run(trace(product, [x, y]).graph, [x, y])
    assert found.dtype == np.float32
    exact = x.astype("float64") @ y.astype("float64")
    np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-6)


@by_ynnpack
@pytest.mark.xla
@pytest.mark.usefixtures("with_tiles")
def test_what_is_no_number_stays_so() -> None:
    x = np.ones((16, 32), BFLOAT16)
    x[1, 3], x[2, 4], x[3, 5], x[3, 6] = np.nan, np.inf, np.inf, -np.inf
    y = np.ones((32, 24), BFLOAT16)
    found = run(trace(lambda x, y: x @ y, [x, y]).graph, [x, y]).astype("float32")
    assert np.isnan(found[[1, 3]]).all()
    assert np.isposinf(found[2]).all()
    assert (found[[0, *range(4, 16)]] == 32).all()


def graph_of(dtype: Any) -> Graph:
    return trace(lambda x: x @ x, [np.zeros((16, 16), dtype)]).graph


@pytest.mark.usefixtures("with_tiles")
def test_only_on_cpus_and_only_if_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of other devices and dtypes, without tiles, and where it is switched off: as they were."""
    wide = "-> tensor<16x16xf32>"
    monkeypatch.setattr(shims, "PRODUCTS_BY_YNNPACK", True)
    lowered = lambda dtype, place="cpu": str(module.lower_graph(graph_of(dtype), place))
    assert wide in lowered(BFLOAT16)
    assert wide not in lowered(BFLOAT16, "gpu")
    assert wide not in lowered(np.float16)
    with without("products of bfloat16"):
        assert wide not in lowered(BFLOAT16)
    monkeypatch.setattr(shims, "PRODUCTS_BY_YNNPACK", False)
    assert wide not in lowered(BFLOAT16)
    monkeypatch.setattr(shims, "PRODUCTS_BY_YNNPACK", True)
    monkeypatch.setattr(narrow_products, "multiplies_bfloat16", lambda: False)
    assert wide not in lowered(BFLOAT16)


@pytest.mark.xla
@pytest.mark.skipif(not multiplies_bfloat16(), reason="the processor has no tiles of bfloat16")
@pytest.mark.skipif(not shims.PRODUCTS_BY_YNNPACK, reason="before jaxlib 0.10 Eigen multiplies")
@pytest.mark.parametrize(
    "function",
    [lambda x: x @ x, lambda x: x @ x.T, lambda x: x.T @ x, lambda x: (x[None] @ x[None].mT)[0]],
    ids=["plain", "right turned", "left turned", "batch of one"],
)
def test_ynnpack_is_given_them_in_any_form(function: Any) -> None:
    """Nothing is written as float32 but the sums."""
    x = tnp.asarray(inputs_of([(512, 512)])[0])
    compiled = tracer.compile(function)
    text = compiled.hlo(x)
    assert "ynn" in text
    kernels = [line for line in text.splitlines() if re.search(r"= f32\[.* fusion\(", line)]
    assert len(kernels) == 1
    plan = compiled.plan(x)
    assert 0.95 < plan.peak_bytes / plan.compiled_bytes < 1.5


@by_ynnpack
@pytest.mark.xla
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_what_is_widened_is_predicted(dtype: str) -> None:
    """Operands and results of float32 besides: twice what the operands take, and the result."""
    x, y = tnp.zeros((600, 500), dtype), tnp.zeros((500, 400), dtype)
    plan = tracer.compile(lambda x, y: tnp.tanh(x @ y)).plan(x, y)
    assert plan.peak_bytes / plan.compiled_bytes == pytest.approx(1, rel=0.15)
