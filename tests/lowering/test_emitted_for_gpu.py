"""What is written differently for a GPU, run on the CPU, which knows these ops too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tracer import lowering, ops
from tracer.errors import LoweringError
from tracer.ir import Graph
from tracer.lowering.emit import module
from tracer.lowering.run import compiler

pytestmark = pytest.mark.xla
COMPLEX = {"complex64": 1e-5, "complex128": 1e-12}
WINDOW: dict[str, Any] = {
    "lhs_axes": (0, 1, 2), "rhs_axes": (0, 1, 2), "result_axes": (0, 1, 2),
    "window_strides": (2,), "padding": ((1, 2),), "lhs_dilation": (2,), "rhs_dilation": (1,),
    "feature_group_count": 2, "batch_group_count": 1,
}  # fmt: skip


@pytest.fixture
def as_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Write programs as for a GPU."""

    def lower_graph(graph: Graph, platform: str, *others: Any, **more: Any) -> Any:
        return module.lower_graph(graph, "gpu", *others, **more)

    monkeypatch.setattr(compiler, "lower_graph", lower_graph)
    compiler.clear_cache()
    yield
    compiler.clear_cache()


@pytest.mark.usefixtures("as_gpu")
@pytest.mark.parametrize("dtype", [*COMPLEX, "float32"])
def test_convolutions_are_of_floats(run: Any, rng: np.random.Generator, dtype: str) -> None:
    def random(*shape: int) -> Any:
        a = rng.standard_normal((2, *shape))
        return (a[0] + 1j * a[1] if dtype in COMPLEX else a[0]).astype(dtype)

    x, y = random(2, 4, 7), random(6, 2, 3)
    wanted = ops.convolution.evaluate(x, y, **WINDOW)
    (found,) = run(lambda a, b: [ops.convolution(a, b, **WINDOW)], x, y)
    tolerance = COMPLEX.get(dtype, 1e-5)
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=10 * tolerance)


@pytest.mark.parametrize("dtype", COMPLEX)
def test_no_complex_convolution_is_left(graph: Any, dtype: str) -> None:
    made = graph(
        lambda a, b: [ops.convolution(a, b, **WINDOW)], ((2, 4, 7), dtype), ((6, 2, 3), dtype)
    )
    written = [
        line for line in str(module.lower_graph(made, "gpu")).splitlines() if "convolution" in line
    ]
    assert len(written) == 4
    assert not [line for line in written if "complex" in line]
    assert str(module.lower_graph(made, "cpu")).count("stablehlo.convolution") == 1


def test_integers_are_refused_with_what_to_do(graph: Any) -> None:
    made = graph(
        lambda a, b: [ops.convolution(a, b, **WINDOW)], ((2, 4, 7), "int32"), ((6, 2, 3), "int32")
    )
    with pytest.raises(LoweringError, match="no convolution of int32 on a GPU") as caught:
        module.lower_graph(made, "gpu")
    assert "float64" in caught.value.mend
    assert caught.value.where is not None
    lowering.compile_graph(made)
