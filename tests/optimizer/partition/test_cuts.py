"""What one device does of a program whose inputs lie in parts, as XLA's partitioner would have it.

Where the parts of all devices are alike, what they send each other is known: the view of one device
then computes its part of the program's results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from benchmarks.peak_programs import recurrent_loss
from tests.optimizer.graphs import of, traced
from tracer import nn
from tracer.ir import Graph, interpret, verify
from tracer.optimizer.model.liveness import Liveness
from tracer.optimizer.partition import ANYHOW, device_view
from tracer.optimizer.passes import PassManager
from tracer.optimizer.rewrite.expand import EXPAND

COUNT = 4
Array = np.ndarray[Any, Any]


def alike(part: Array, axis: int | None) -> Array:
    return part if axis is None else np.concatenate([part] * COUNT, axis)


def parts(shapes: Sequence[tuple[int, ...]]) -> list[Array]:
    rng = np.random.default_rng(1)
    return [rng.standard_normal(shape) / 4 for shape in shapes]


def viewed(
    function: Callable[..., Any],
    given: Sequence[Array],
    inputs: tuple[int | None, ...],
    outputs: tuple[int | None, ...] = (),
) -> tuple[Graph, Graph]:
    """Return the graph of a function of whole arrays and its view, checked for its values."""
    wholes = [alike(part, axis) for part, axis in zip(given, inputs, strict=True)]
    graph = PassManager().run(traced(function, *of(*wholes)), (EXPAND,))
    outputs = outputs or (ANYHOW,) * len(graph.outputs)
    view = device_view(graph, inputs, outputs, COUNT)
    verify(view)
    assert view.input_types == tuple(_types(given))
    results = zip(interpret(view, given), interpret(graph, wholes), strict=True)
    for got, want in results:
        first = want[tuple(slice(size) for size in got.shape)]
        np.testing.assert_allclose(got, first, rtol=1e-9, atol=1e-9)
    return graph, view


def _types(arrays: Sequence[Array]) -> list[tracer.ShapeDtype]:
    return [tracer.ShapeDtype(array.shape, array.dtype) for array in arrays]


def shapes(graph: Graph) -> list[tuple[int, ...]]:
    return [type.shape for type in graph.output_types]


def loss(w: Any, x: Any) -> Any:
    return (tnp.tanh(x @ w) ** 2).mean()


def scanned(w: Any, xs: Any) -> Any:
    def body(state: Any, x: Any) -> Any:
        state = tnp.tanh(state @ w + x)
        return state, state

    return tracer.scan(body, tnp.zeros(xs.shape[1:], dtype=xs.dtype), xs)


CASES: dict[str, tuple[Callable[..., Any], list[Any], tuple[Any, ...], list[Any]]] = {
    "element-wise": (lambda x, y: tnp.sin(x) * y, [(2, 3), (2, 3)], (0, 0), [(2, 3)]),
    "one operand is whole": (lambda x, y: x + y, [(2, 3), (8, 3)], (0, None), [(2, 3)]),
    "rows of a product": (lambda x, y: x @ y, [(2, 3), (3, 5)], (0, None), [(2, 5)]),
    "columns of a product": (lambda x, y: x @ y, [(6, 3), (3, 5)], (None, 1), [(6, 5)]),
    "contracted": (lambda x, y: x @ y, [(6, 3), (3, 5)], (1, 0), [(6, 5)]),
    "one operand is gathered": (lambda x: x @ x.T, [(2, 3)], (0,), [(2, 8)]),
    "sums": (lambda x: (x.sum(0), x.max(), x.sum(1)), [(2, 3)], (0,), [(3,), (), (2,)]),
    "the place of a maximum": (lambda x: x.argmax(0), [(2, 3)], (0,), [(3,)]),
    "softmax along the cut": (lambda x: nn.softmax(x, axis=0), [(2, 3)], (0,), [(2, 3)]),
    "sums in order": (lambda x: tnp.cumsum(x, axis=0)[:2], [(2, 3)], (0,), [(2, 3)]),
    "sort on another axis": (lambda x: tnp.sort(x, axis=1), [(2, 3)], (0,), [(2, 3)]),
    "merged axes": (lambda x: x.reshape(-1) * 2, [(2, 3)], (0,), [(6,)]),
    "transposed": (lambda x: x.T, [(2, 3)], (0,), [(3, 2)]),
    "libraries compute all": (
        lambda x: tnp.linalg.cholesky(x @ x.swapaxes(1, 2) + tnp.eye(3)),
        [(2, 3, 3)], (0,), [(8, 3, 3)],
    ),
    "perceptron": (
        lambda w, x: tracer.grad(loss)(w, x), [(3, 5), (2, 3)], (None, 0), [(3, 5)]
    ),
    "loops": (scanned, [(3, 3), (5, 2, 3)], (None, 1), [(2, 3), (5, 2, 3)]),
    "gradients of loops": (
        tracer.grad(recurrent_loss), [(3, 3), (5, 2, 3)], (None, 1), [(3, 3)]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_view_computes_its_part(name: str) -> None:
    function, given, inputs, results = CASES[name]
    _, view = viewed(function, parts(given), inputs)
    assert shapes(view) == results


def test_outputs_lie_as_they_are_wanted() -> None:
    (x,) = parts([(2, 12)])
    _, view = viewed(lambda x: (x * 2, x * 3, x * 4), [x], (0,), (None, 0, ANYHOW))
    assert shapes(view) == [(8, 12), (2, 12), (2, 12)]


def test_what_is_computed_for_parts_is_computed_in_parts() -> None:
    """The cut goes back from the readers: only a part of the whole input is sorted."""
    x, y = parts([(6, 2), (2, 512)])
    graph, view = viewed(lambda x, y: x @ tnp.exp(tnp.sort(y, axis=1)), [x, alike(y, 0)], (1, None))
    sorts = [node.types[0].shape for node in view.nodes if node.name == "sort"]
    assert sorts == [(2, 512)]
    assert Liveness(view).peak_bytes < Liveness(graph).peak_bytes


def test_the_cut_that_saves_more_wins() -> None:
    """Rows and the contracted axis are cut along one mesh axis: the small weights are gathered."""
    _, view = viewed(lambda x, w: x @ w, parts([(64, 8), (2, 4)]), (0, 0))
    assert shapes(view) == [(64, 4)]
    gathered = [node.types[0].shape for node in view.nodes if node.name == "concatenate"]
    assert gathered == [(8, 4)]


def test_an_axis_that_does_not_divide_stays_whole() -> None:
    (x,) = parts([(2, 3)])
    _, view = viewed(lambda x: x[:7] * 2, [x], (0,))
    assert shapes(view) == [(7, 3)]


def test_meshes_of_two_axes_cut_one_after_the_other() -> None:
    x, y = parts([(16, 32), (32, 24)])
    graph = traced(lambda x, y: tnp.tanh(x @ y), *of(x, y))
    first = device_view(graph, (0, None), (ANYHOW,), COUNT)
    both = device_view(first, (None, 1), (ANYHOW,), COUNT)
    verify(both)
    assert [type.shape for type in both.input_types] == [(4, 32), (32, 6)]
    assert shapes(both) == [(4, 6)]
