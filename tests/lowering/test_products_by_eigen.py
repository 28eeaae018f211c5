"""Products by Eigen in place of YNNPACK: the same values, and no kernel of YNNPACK's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tracer import lowering
from tracer.array.trace import trace
from tracer.ir import Graph, interpret
from tracer.lowering import shims
from tracer.lowering.devices import hardware
from tracer.target.products import EigenTimes

pytestmark = [
    pytest.mark.xla,
    pytest.mark.skipif(
        not shims.PRODUCTS_BY_YNNPACK, reason="before jaxlib 0.10 Eigen multiplies anyway"
    ),
]

PRODUCTS = {
    "plain": (lambda x, y: x @ y, (70, 33), (33, 51)),
    "right turned": (lambda x, y: x @ y.T, (70, 33), (51, 33)),
    "left turned": (lambda x, y: x.T @ y, (33, 70), (33, 51)),
    "both turned": (lambda x, y: x.T @ y.T, (33, 70), (51, 33)),
    "with itself": (lambda x, _: x @ x.T, (300, 40), (1,)),
    "square of itself": (lambda x, _: x @ x, (65, 65), (1,)),
    "wide": (lambda x, y: x @ y.T, (20, 300), (700, 300)),
    "long": (lambda x, y: x @ y, (2100, 64), (64, 17)),
    "large": (lambda x, y: x @ y, (300, 260), (260, 310)),
    "one term": (lambda x, y: x @ y, (40, 1), (1, 30)),
    "one row": (lambda x, y: x @ y, (1, 40), (40, 30)),
    "no rows": (lambda x, y: x @ y, (0, 40), (40, 30)),
    "no terms": (lambda x, y: x @ y, (40, 0), (0, 30)),
    "heads": (lambda x, y: x @ y.transpose(0, 2, 1), (9, 64, 16), (9, 50, 16)),
    "heads behind": (
        lambda x, y: tnp.einsum("qhd,khd->hqk", x, y),
        (64, 5, 16),
        (50, 5, 16),
    ),
    "one batch": (lambda x, y: x[None] @ y[None], (70, 33), (33, 51)),
    "in a loop": (
        lambda x, y: tracer.fori_loop(0, 3, lambda i, c: tnp.tanh(c @ y), x),
        (64, 48),
        (48, 48),
    ),
}


def inputs_of(shapes: tuple[tuple[int, ...], ...], dtype: str) -> list[np.ndarray]:
    random = np.random.default_rng(0)
    return [(random.standard_normal(shape) / 4).astype(dtype) for shape in shapes]


def by_eigen(graph: Graph, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
    execute = lowering.compile_graph(graph, options=lowering.eigen_options())
    assert "ynn" not in execute.hlo()
    return [lowering.to_host(x) for x in execute(*map(lowering.to_device, inputs))]


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("name", PRODUCTS)
def test_values_are_those_of_the_interpreter(name: str, dtype: str) -> None:
    function, *shapes = PRODUCTS[name]
    inputs = inputs_of(tuple(shapes), dtype)
    graph = trace(function, inputs).graph
    wide = [x.astype("float64") for x in inputs]
    (expected,) = interpret(trace(function, wide).graph, wide)
    (found,) = by_eigen(graph, inputs)
    assert found.dtype == dtype
    bound = {"float32": 2e-5, "float64": 1e-12, "float16": 1e-2}[dtype]
    np.testing.assert_allclose(found, expected, rtol=bound, atol=bound * 10)


@pytest.mark.parametrize("where", [0, 1])
def test_nan_and_infinity_stay(where: int) -> None:
    inputs = inputs_of(((70, 33), (33, 51)), "float32")
    inputs[where][3, 5], inputs[where][7, 9] = np.nan, np.inf
    (found,) = by_eigen(trace(lambda x, y: x @ y, inputs).graph, inputs)
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(found, inputs[0] @ inputs[1], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(100, 33), (513, 300), (777, 100)])
def test_products_of_an_array_with_itself_are_symmetric(shape: tuple[int, int]) -> None:
    """And rows that are there twice have the same products: distances of them are zero."""
    (x,) = inputs_of((shape,), "float32")
    twice = np.concatenate([x, x])
    (found,) = by_eigen(trace(lambda x: x @ x.T, [twice]).graph, [twice])
    np.testing.assert_array_equal(found, found.T)
    np.testing.assert_array_equal(found[: len(x), : len(x)], found[len(x) :, : len(x)])


def test_a_program_is_compiled_for_the_library_that_the_record_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Heads of 256 words go to Eigen where the record says that it is faster; on one core none."""
    heads = inputs_of(((16, 256, 64),) * 2, "float32")
    record = hardware.host_target()
    by_eigen = shims.EIGEN_MAY_BE_FASTER
    for times, cores, wanted in (
        (EigenTimes(), 2, not by_eigen),
        (EigenTimes(), 1, True),
        (None, 2, True),
    ):
        place = replace(record, kernels=replace(record.kernels, eigen=times), cores=cores)
        monkeypatch.setattr(hardware, "host_target", lambda place=place: place)
        compiled = tracer.compile(lambda q, k: tnp.tanh(q @ k.transpose(0, 2, 1)))
        assert ("ynn" in compiled.hlo(*heads)) == wanted
        expected = np.tanh(heads[0] @ heads[1].transpose(0, 2, 1))
        np.testing.assert_allclose(compiled(*heads), expected, rtol=1e-5, atol=1e-5)
