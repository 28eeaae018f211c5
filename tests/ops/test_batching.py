"""Every op of the registry under a batch, against a Python loop over the elements."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from tests.ops.samples import SAMPLES, Sample
from tests.ops.test_every_op import as_tuple, graph_of
from tracer import lowering, ops
from tracer.autodiff.batching import batch_graph
from tracer.errors import ShapeError, TracerError, VerifyError
from tracer.ir import Builder, Graph, ShapeDtype, interpret, registry, verify
from tracer.ops.named_axis import COLLECTIVES
from tracer.ops.rules import dtype_kind

Array = np.ndarray[Any, Any]
SIZE = 3
# Elements that read each other are no loop: tests/lax/test_collectives.py.
NAMES = sorted(set(registry()) - {op.name for op in COLLECTIVES})
CASES = [
    pytest.param(name, sample, id=f"{name}-{i}")
    for name in NAMES
    for i, sample in enumerate(SAMPLES[name])
]


def combinations(count: int) -> Iterator[tuple[bool, ...]]:
    """Yield every choice of batched operands; of many operands none, each alone and all."""
    if count <= 3:
        yield from itertools.product((False, True), repeat=count)
        return
    yield (False,) * count
    yield (True,) * count
    for i in range(count):
        yield tuple(i == j for j in range(count))


def elements(x: Array, rng: np.random.Generator, size: int) -> list[Array]:
    """Return arrays of the type of `x`, the first of them `x`, that an op of `x` accepts too."""
    found = [x]
    for _ in range(size - 1):
        if x.dtype.kind == "b":
            found.append(rng.integers(0, 2, x.shape).astype(bool))
        elif x.dtype.kind in "iu" and x.ndim:
            # Integers may be places in another operand: the same ones in another order.
            found.append(rng.permuted(x, axis=int(np.argmax(x.shape))))
        elif x.dtype.kind in "iu":
            found.append(np.asarray(x + rng.integers(0, 2), x.dtype))
        else:
            found.append(np.asarray(x * x.dtype.type(rng.uniform(0.9, 1.0)), x.dtype))
    return found


def check(
    graph: Graph, samples: Sequence[Sequence[Array]], flags: Sequence[bool], size: int
) -> tuple[Graph, tuple[bool, ...]]:
    """Compare the batched graph with the graph on each element; `samples` by operand."""
    batched, found = batch_graph(graph, flags, size)
    verify(batched)
    given = [np.stack(xs) if flag else xs[0] for xs, flag in zip(samples, flags, strict=True)]
    results = interpret(batched, given)
    for n in range(size):
        element = [xs[n] if flag else xs[0] for xs, flag in zip(samples, flags, strict=True)]
        for got, wanted, flag in zip(results, interpret(graph, element), found, strict=True):
            assert_close(got[n] if flag else got, wanted)
    return batched, found


def assert_close(got: Array, wanted: Array) -> None:
    assert got.dtype == wanted.dtype
    assert got.shape == wanted.shape
    if dtype_kind(wanted.dtype) in "biu":
        np.testing.assert_array_equal(got, wanted)
    else:
        np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("name", "sample"), CASES)
def test_batched_is_a_loop(name: str, sample: Sample, rng: np.random.Generator) -> None:
    graph = graph_of(registry()[name], sample)
    samples = [elements(x, rng, SIZE) for x in sample.operands]
    for flags in combinations(len(samples)):
        _, found = check(graph, samples, flags, SIZE)
        assert any(found) == any(flags)


@pytest.mark.parametrize(("name", "sample"), CASES)
def test_batches_nest(name: str, sample: Sample, rng: np.random.Generator) -> None:
    graph = graph_of(registry()[name], sample)
    samples = [elements(x, rng, SIZE) for x in sample.operands]
    for flags in combinations(len(samples)):
        inner, _ = batch_graph(graph, flags, SIZE)
        given = [np.stack(xs) if flag else xs[0] for xs, flag in zip(samples, flags, strict=True)]
        outer = [elements(x, rng, 2) for x in given]
        for others in {flags, tuple(not flag for flag in flags), (True,) * len(flags)}:
            check(inner, outer, others, 2)


@pytest.mark.parametrize("size", [0, 1])
@pytest.mark.parametrize("name", NAMES)
def test_small_batches(name: str, size: int, rng: np.random.Generator) -> None:
    sample = SAMPLES[name][0]
    graph = graph_of(registry()[name], sample)
    flags = (True,) * len(sample.operands)
    batched, found = batch_graph(graph, flags, size)
    given = [
        np.stack([x] * size) if size else np.zeros((0, *x.shape), x.dtype) for x in sample.operands
    ]
    results = interpret(batched, given)
    if not flags:
        assert found == (False,) * len(results)
        return
    for got, wanted in zip(results, interpret(graph, list(sample.operands)), strict=True):
        assert got.shape == (size, *wanted.shape)
        for element in got:
            assert_close(element, wanted)


OWN_RULE = [name for name in NAMES if registry()[name].batch is not None]


@pytest.mark.xla
@pytest.mark.parametrize("name", OWN_RULE)
def test_lowered_batches(name: str, rng: np.random.Generator) -> None:
    """What the rules emit means the same to XLA: batching axes of gather and scatter, say."""
    given: list[Array] = []
    wanted: list[Array] = []
    with Builder() as builder:
        outputs = []
        for sample in SAMPLES[name][:2]:
            graph = graph_of(registry()[name], sample)
            samples = [elements(x, rng, SIZE) for x in sample.operands]
            for flags in combinations(len(samples)):
                batched, _ = batch_graph(graph, flags, SIZE)
                pairs = zip(samples, flags, strict=True)
                arrays = [np.stack(xs) if flag else xs[0] for xs, flag in pairs]
                inputs = [builder.input(type) for type in batched.input_types]
                outputs += builder.inline(batched, inputs)
                given += arrays
                wanted += interpret(batched, arrays)
        whole = builder.finish(outputs)
    device = lowering.default_device()
    results = lowering.compile_graph(whole)(*[lowering.to_device(x, device) for x in given])
    for result, expected in zip(results, wanted, strict=True):
        got = lowering.to_host(result)
        assert got.dtype == expected.dtype
        np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-10)


# What is derived from the axis rule is checked by it.


def square_graph(name: str, count: int, **params: Any) -> Graph:
    """Apply an op to arrays of shape (3, 3): no shape tells its axes apart."""
    with Builder() as builder:
        inputs = [builder.input(ShapeDtype((3, 3), np.float64)) for _ in range(count)]
        return builder.finish(as_tuple(registry()[name](*inputs, **params)))


@pytest.mark.parametrize(
    ("name", "count", "params"),
    [
        ("reduce_add", 1, {"axes": (1,)}),
        ("cumulative_add", 1, {"axis": 0, "reverse": False}),
        ("cumulative_add", 1, {"axis": 1, "reverse": False}),
        ("transpose", 1, {"permutation": (1, 0)}),
        ("reverse", 1, {"dimensions": (0,)}),
        ("concatenate", 2, {"dimension": 1}),
        ("sort", 1, {"dimension": 0, "num_keys": 1, "is_stable": True}),
    ],
)
def test_a_forgotten_rule_is_found(name: str, count: int, params: dict[str, Any]) -> None:
    op = registry()[name]
    graph = square_graph(name, count, **params)
    rule = op.batch
    object.__setattr__(op, "batch", None)  # records are frozen
    try:
        with pytest.raises(TracerError) as caught:
            batch_graph(graph, (True,) * count, 3)
    finally:
        object.__setattr__(op, "batch", rule)
    assert isinstance(caught.value, VerifyError | ShapeError)


def test_a_wrong_rule_is_found() -> None:
    op = registry()["reverse"]
    graph = square_graph("reverse", 1, dimensions=(0,))
    rule = op.batch
    object.__setattr__(
        op, "batch", lambda operands, batching, **_: ops.reduce_add(*operands, axes=(1, 2))
    )
    try:
        with pytest.raises(
            VerifyError, match=r"gives \['float64\[3\]'\] where \['float64\[3,3,3\]'\]"
        ):
            batch_graph(graph, (True,), 3)
    finally:
        object.__setattr__(op, "batch", rule)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in OWN_RULE])
def test_derived_batches_are_one_node(name: str) -> None:
    sample = SAMPLES[name][0]
    if not sample.operands:
        return
    batched, found = batch_graph(
        graph_of(registry()[name], sample), (True,) * len(sample.operands), 5
    )
    (node,) = batched.nodes
    assert node.op is registry()[name]
    assert found == (True,) * len(node.types)


# What is shared stays as it is.


def test_nodes_without_batched_operands_are_copied() -> None:
    with Builder() as builder:
        x, y = (builder.input(ShapeDtype((3,), np.float64)) for _ in range(2))
        graph = builder.finish([ops.add(x, ops.sine(y)), ops.cosine(y)])
    batched, found = batch_graph(graph, (True, False), 4)
    assert found == (True, False)
    assert [node.types[0].shape for node in batched.nodes if node.name == "sine"] == [(3,)]
    wanted, _ = batch_graph(graph, (True, False), 4, (True, True))
    assert wanted.output_types == (ShapeDtype((4, 3), np.float64),) * 2


def test_shared_matrix_of_a_triangular_solve_is_not_repeated() -> None:
    for sample in SAMPLES["triangular_solve"]:
        batched, _ = batch_graph(graph_of(registry()["triangular_solve"], sample), (False, True), 4)
        (solve,) = [node for node in batched.nodes if node.name == "triangular_solve"]
        assert solve.operand_types[0].shape == sample.operands[0].shape


@pytest.mark.xla
@pytest.mark.parametrize("name", ["gather", "scatter"])
def test_indices_too_narrow_to_count_the_batch(name: str) -> None:
    """XLA writes the element's number beside the indices: uint8 holds no 299."""
    size = 300
    x = np.arange(size * 5.0).reshape(size, 5)
    indices = (np.arange(size) % 5).astype(np.uint8).reshape(size, 1)
    params: dict[str, Any]
    with Builder() as builder:
        inputs = [builder.input(ShapeDtype((5,), np.float64))]
        inputs.append(builder.input(ShapeDtype((1,), np.uint8)))
        if name == "gather":
            params = {"offset_dims": (), "collapsed_slice_dims": (0,), "start_index_map": (0,)}
            params |= {"index_vector_dim": 0, "slice_sizes": (1,)}
        else:
            inputs.append(builder.input(ShapeDtype((), np.float64)))
            params = {"update_window_dims": (), "inserted_window_dims": (0,)}
            params |= {"scatter_dims_to_operand_dims": (0,), "index_vector_dim": 0}
            params |= {"combiner": "add", "unique_indices": True}
        graph = builder.finish([registry()[name](*inputs, **params)])
    batched, _ = batch_graph(graph, (True,) * len(inputs), size)
    arrays = [x, indices, np.ones(size)][: len(inputs)]
    device = lowering.default_device()
    (result,) = lowering.compile_graph(batched)(*[lowering.to_device(a, device) for a in arrays])
    rows = np.arange(size)
    if name == "gather":
        wanted = x[rows, rows % 5]
    else:
        wanted = x.copy()
        wanted[rows, rows % 5] += 1
    np.testing.assert_array_equal(lowering.to_host(result), wanted)
