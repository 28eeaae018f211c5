"""Rows of an array in storage that indices pick: only these are read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import settings as run_settings
from hypothesis import strategies as st

import tracer
import tracer.numpy as tnp
from tests.storage.files import Watched, points, stored
from tracer import ops
from tracer.ir import Builder, Graph, ShapeDtype, Value, interpret, verify_same_signature
from tracer.optimizer.passes import PassLog
from tracer.optimizer.rewrite.stored_parts import READ_STORED_PARTS

xla = pytest.mark.xla
ROWS = 40_000
RNG = np.random.default_rng(3)
FIRST, SECOND, THIRD = (RNG.integers(-n, n, (7, 5)) for n in (ROWS, 3, 4))
FORMS: dict[str, Callable[..., Any]] = {
    "rows": lambda x, i, j, k: x[i],
    "one element of each": lambda x, i, j, k: x[i, j, k],
    "a part of each": lambda x, i, j, k: (x[i, 1], x[i, :, k], x[i, j, 1:3]),
    "of a part of all": lambda x, i, j, k: (x[:, :, 1:3][i], x[:, ::2, 3][i[0]], x[:, 0, 0][i]),
    "of others": lambda x, i, j, k: (x.astype("float64")[i], x.reshape(ROWS, 12)[i, 3 * j]),
    "a new axis": lambda x, i, j, k: x[i, None, :, ::2],
    "taken": lambda x, i, j, k: tnp.take(x, i, axis=0),
    "known, repeated": lambda x, i, j, k: x[np.array([3, -1, 3, 4])] + x[np.int32(7)],
    "outside": lambda x, i, j, k: (x[3 * i], x.at[3 * i].get(mode="fill", fill_value=7)),
    "none": lambda x, i, j, k: x[i[:0]],
    "in batches": lambda x, i, j, k: tracer.vmap(lambda i: x[i].sum(0))(i),
    "steps": lambda x, i, j, k: tracer.scan(
        lambda w, i: (w - 0.1 * x[i].mean(0), w.sum()), tnp.zeros((3, 4), "float32"), i
    ),
    "gradient": lambda x, i, j, k: tracer.grad(lambda w: (tnp.tanh(x[i] * w) ** 2).sum())(
        tnp.ones((3, 4), "float32")
    ),
}


@xla
@pytest.mark.parametrize("form", FORMS)
def test_values_are_those_of_memory_within_a_small_limit(tmp_path: Path, form: str) -> None:
    x = points(ROWS, 12).reshape(ROWS, 3, 4)
    program = FORMS[form]
    compiled = tracer.compile(program, memory_limit="40kB")
    watched = Watched(x)
    expected = tracer.tree.leaves(tracer.compile(program)(x, FIRST, SECOND, THIRD))
    for source in (stored(tmp_path, x), tracer.open(watched)):
        found = tracer.tree.leaves(compiled(source, FIRST, SECOND, THIRD))
        for mine, theirs in zip(found, expected, strict=True):
            np.testing.assert_array_equal(mine, theirs)
    plan = compiled.plan(stored(tmp_path, x), FIRST, SECOND, THIRD)
    assert plan.compiled_bytes <= plan.limit_bytes
    assert watched.rows_read < ROWS / 40  # Those between two that are within a page, too.


def _some_of_each_row(draw: st.DrawFn, number: Value, wanted: tuple[int, ...]) -> Value:
    """Read an array in storage, of which this shape is left; axis 0 is never cut."""
    count = len(wanted) - 1
    start = (0, *draw(st.tuples(*[st.integers(0, 2)] * count)))
    strides = (1, *draw(st.tuples(*[st.integers(1, 3)] * count)))
    parts = zip(start, wanted, strides, strict=True)
    limit = tuple(first + (size - 1) * stride + 1 for first, size, stride in parts)
    read = ops.read_stored(number, shape=limit, whole=limit, dtype=np.dtype(np.float64))
    read = ops.slice(read, start=start, limit=limit, strides=strides)
    if draw(st.booleans()):
        flat = ops.reshape(read, shape=(wanted[0], read.type.size // wanted[0]))
        read = ops.reshape(ops.convert(flat, dtype=np.dtype(np.float32)), shape=wanted)
    return read  # type: ignore[no-any-return]


@st.composite
def gathers(draw: st.DrawFn) -> tuple[Graph, np.ndarray[Any, Any]]:
    """Return a gather of an array in storage, and indices, some of them outside."""
    shape = tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
    axes = range(len(shape))
    addressed = tuple(draw(st.permutations(axes)))[: draw(st.integers(1, len(shape)))]
    sizes = tuple(draw(st.integers(1, n)) for n in shape)
    if draw(st.booleans()):
        sizes = (1, *sizes[1:])
    single = tuple(axis for axis in axes if sizes[axis] == 1 and draw(st.booleans()))
    batch = draw(st.lists(st.integers(0, 4), max_size=2))
    vectors = draw(st.integers(0, len(batch)))
    of_indices = (*batch[:vectors], len(addressed), *batch[vectors:])
    if len(addressed) == 1 and draw(st.booleans()):
        of_indices, vectors = tuple(batch), len(batch)
    kept = len(shape) - len(single)
    offsets = sorted(draw(st.permutations(range(len(batch) + kept)))[:kept])
    indices = np.random.default_rng(draw(st.integers(0, 2**32))).integers(-3, 8, of_indices)
    with Builder() as builder:
        number = builder.input(ShapeDtype((), np.int32))
        places = builder.input(ShapeDtype(of_indices, indices.dtype))
        found = ops.gather(
            _some_of_each_row(draw, number, shape),
            places,
            offset_dims=tuple(offsets),
            collapsed_slice_dims=single,
            start_index_map=addressed,
            index_vector_dim=vectors,
            slice_sizes=sizes,
        )
        return builder.finish([found]), indices


@given(gathers())
@run_settings(max_examples=300)
def test_gathers_are_the_same_before_and_after(case: tuple[Graph, np.ndarray[Any, Any]]) -> None:
    graph, indices = case
    read = next(node for node in graph.nodes if node.op is ops.read_stored)
    opened = tracer.open(Watched(np.random.default_rng(0).standard_normal(read.params["whole"])))
    log = PassLog()
    after = READ_STORED_PARTS.run(graph, log)
    verify_same_signature(graph, after)
    arrays = [np.array(opened.number, np.int32), indices]
    np.testing.assert_array_equal(interpret(after, arrays)[0], interpret(graph, arrays)[0])
    if read.params["whole"][0] == 1:
        return  # Of a single row a part is read as one.
    gather = graph.outputs[0].node.params
    is_of_rows = 0 in gather["start_index_map"] and 0 in gather["collapsed_slice_dims"]
    assert is_of_rows == any(node.op is ops.read_stored_rows for node in after.nodes)


ROWS_ALONE = {
    "offset_dims": (1,),
    "collapsed_slice_dims": (0,),
    "start_index_map": (0,),
    "index_vector_dim": 1,
}
NOT_OF_ROWS: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "other rows, longer": ((6, 4), (4,), {**ROWS_ALONE, "slice_sizes": (1, 6)}),
    "other rows, shorter": ((6, 4), (12,), {**ROWS_ALONE, "slice_sizes": (1, 2)}),
    "an element of each column": (
        (6, 4),
        (),
        {
            "offset_dims": (),
            "collapsed_slice_dims": (0,),
            "start_index_map": (0,),
            "index_vector_dim": 2,
            "slice_sizes": (1, 1),
            "operand_batching_dims": (1,),
            "start_indices_batching_dims": (0,),
        },
    ),
}


@pytest.mark.parametrize("name", NOT_OF_ROWS)
def test_what_is_not_of_rows_stays(name: str) -> None:
    """Rows of a reshaped array are not those of the file, and columns have indices of their own."""
    whole, rows, params = NOT_OF_ROWS[name]
    indices = np.random.default_rng(0).integers(0, 4, (4, 3, 1) if not rows else (5, 1))
    with Builder() as builder:
        number = builder.input(ShapeDtype((), np.int32))
        places = builder.input(ShapeDtype(indices.shape, indices.dtype))
        read = ops.read_stored(number, shape=whole, whole=whole, dtype=np.dtype(np.float64))
        if rows:
            read = ops.reshape(read, shape=(*rows, read.type.size // rows[0]))
        graph = builder.finish([ops.gather(read, places, **params)])
    opened = tracer.open(Watched(np.random.default_rng(1).standard_normal(whole)))
    after = READ_STORED_PARTS.run(graph, PassLog())
    arrays = [np.array(opened.number, np.int32), indices]
    np.testing.assert_array_equal(interpret(after, arrays)[0], interpret(graph, arrays)[0])
    assert not any(node.op is ops.read_stored_rows for node in after.nodes)


@pytest.mark.parametrize("shape", [(300,), (300, 3), (300, 2, 2), (3, 50_000), (300, 0)])
@pytest.mark.parametrize("dtype", ["float32", "int8", "complex128", "bool", ">f8"])
def test_rows_of_a_file_are_numpys(tmp_path: Path, shape: tuple[int, ...], dtype: str) -> None:
    array = np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)
    opened = stored(tmp_path, array)
    for places in (
        RNG.integers(-5, shape[0] + 5, (4, 3)),
        np.arange(shape[0]),
        np.zeros((0, 2), int),
    ):
        expected = array[np.clip(places, 0, shape[0] - 1)]
        np.testing.assert_array_equal(opened.rows(places), expected)


def test_a_chunk_is_read_once_for_all_its_rows() -> None:
    class Chunked(Watched):
        chunks = (100, 5)

    watched = Chunked(points(1000))
    opened = tracer.open(watched)
    places = np.array([[950, 3, 999], [3, 99, 100], [950, -5, 5000]])
    found = opened.rows(places)
    np.testing.assert_array_equal(found, watched.array[np.clip(places, 0, 999)])
    assert [(index[0].start, index[0].stop) for index in watched.read] == [
        (0, 100), (100, 101), (950, 1000)
    ]  # fmt: skip


def test_rows_near_each_other_are_read_together_but_no_more_than_a_megabyte() -> None:
    watched = Watched(points(300_000, 16))
    opened = tracer.open(watched)
    places = np.concatenate([np.arange(40_000)[::-1], [299_999, 299_990, 200_000]])
    np.testing.assert_array_equal(opened.rows(places), watched.array[places])
    parts = [index[0] for index in watched.read]
    assert len(parts) == 5
    assert max(part.stop - part.start for part in parts) * 64 <= 1 << 20
    assert watched.rows_read == 40_000 + 1 + 10


@xla
def test_batches_of_an_epoch_read_each_row_once(tmp_path: Path) -> None:
    watched = Watched(points(ROWS, 8))
    order = np.random.default_rng(0).permutation(ROWS).astype(np.int32)

    def epoch(x: Any, w: Any, order: Any) -> Any:
        def step(w: Any, batch: Any) -> Any:
            rows = x[batch]
            loss, slope = tracer.value_and_grad(lambda w: tnp.mean((rows @ w - 1) ** 2))(w)
            return w - 0.1 * slope, loss

        return tracer.scan(step, w, order.reshape(-1, 500))

    w = np.zeros(8, np.float32)
    compiled = tracer.compile(epoch, memory_limit="500kB")
    found = compiled(tracer.open(watched), w, order)
    expected = tracer.compile(epoch)(watched.array, w, order)
    for mine, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)
    notes = compiled.plan(stored(tmp_path, watched.array), w, order).notes
    assert any("1 times: 1.28 MB" in note for note in notes), notes


@xla
def test_rows_in_another_order_go_to_storage(tmp_path: Path) -> None:
    x = points(4000)
    order = np.random.default_rng(0).permutation(4000)
    group = zarr.create_array(tmp_path / "x.zarr", shape=x.shape, chunks=(1024, 5), dtype=x.dtype)
    group[:] = x
    shuffled = tracer.compile(lambda x, i: x[i], memory_limit="150kB")
    out = shuffled.into(tmp_path / "out.npy")(tracer.open(tmp_path / "x.zarr"), order)
    np.testing.assert_array_equal(np.asarray(out), x[order])


@xla
def test_a_file_cut_short_is_an_error_with_its_place(tmp_path: Path) -> None:
    x = stored(tmp_path, points())
    pick = tracer.compile(lambda x, i: x[i].sum(0))
    pick(x, np.arange(10))
    with open(tmp_path / "x.npy", "r+b") as file:
        file.truncate(30_000)
    with pytest.raises(tracer.StorageError, match=r"x\.npy"):
        pick(x, np.array([2999]))
