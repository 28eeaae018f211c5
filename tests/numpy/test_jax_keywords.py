"""Keywords of JAX's that NumPy has not, NumPy's indexed objects and files, and segments."""

from __future__ import annotations

import io

import ml_dtypes
import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.compare_with_jax import check
from tests.numpy.oracle import assert_same
from tracer.errors import ArgumentError, DTypeError, ShapeError, TracingError

pytestmark = pytest.mark.xla

X = np.arange(6.0).reshape(2, 3)
JOINED = {
    "numbers": lambda n: n.r_[1, 2.5, 3],
    "range": lambda n: n.r_[1:9:3, 0],
    "points": lambda n: n.r_[0:1:5j, 7],
    "vectors": lambda n: n.r_[X[0], 0, X[1]],
    "rows": lambda n: n.r_[X, X],
    "columns": lambda n: n.c_[X[0], X[1], 1:4],
    "matrices": lambda n: n.c_[X, X],
    "axis": lambda n: n.r_["1", X, X],
    "axis and ndim": lambda n: n.r_["0,2", X[0], X[1]],
    "place": lambda n: n.r_["1,2,0", X[0], X[1]],
    "middle": lambda n: n.r_["0,3,1", X[0], X[1]],
    "narrow": lambda n: n.r_[X[0].astype("float32"), 0.5],
    "end only": lambda n: n.r_[:3],
}


@pytest.mark.parametrize("name", JOINED)
def test_joining_by_index(name):
    assert_same(JOINED[name](tnp), JOINED[name](np))


def test_joining_is_traced():
    found = tracer.compile(lambda x: tnp.c_[x, 2 * x])(X[0])
    assert_same(found, np.c_[X[0], 2 * X[0]])
    with pytest.raises(ArgumentError):
        tnp.r_["r", X]
    with pytest.raises(ArgumentError):
        tnp.r_[X, "0"]
    with pytest.raises(ShapeError):
        tnp.r_["0"]
    assert tnp.s_[1:3, ...] == np.s_[1:3, ...]
    assert tnp.index_exp[2] == (2,)


def test_classes_of_dtypes():
    for name in ("floating", "integer", "inexact", "number", "generic", "complexfloating"):
        assert getattr(tnp, name) is getattr(np, name)
    assert tnp.issubdtype(tnp.bfloat16, tnp.floating)
    with tnp.errstate(divide="raise"):
        assert np.geterr()["divide"] == "raise"


def test_elements_and_memory():
    assert list(tnp.ndenumerate(tnp.asarray(X))) == list(np.ndenumerate(X))
    with pytest.raises(TracingError, match="ndenumerate"):
        tracer.compile(lambda x: list(tnp.ndenumerate(x)))(X)
    assert_same(tnp.frombuffer(X.tobytes(), offset=8), X.ravel()[1:])
    assert_same(tnp.fromiter((i * i for i in range(4)), int), np.array([0, 1, 4, 9]))
    assert tnp.ascontiguousarray(3.0).shape == (1,)
    assert tnp.asanyarray([1, 2], "float32").dtype == np.float32


def test_files(tmp_path):
    path = tmp_path / "x.npy"
    tnp.save(path, tnp.asarray(X))
    found = tnp.load(path)
    assert isinstance(found, tnp.Array)
    assert_same(found, X)
    assert_same(np.load(path), X)
    buffer = io.BytesIO()
    tnp.savez(buffer, tnp.arange(3), y=tnp.asarray(X))
    buffer.seek(0)
    archive = tnp.load(buffer)
    assert sorted(archive) == ["arr_0", "y"]
    with pytest.raises(DTypeError, match="bfloat16"):
        tnp.save(path, tnp.ones(2, ml_dtypes.bfloat16))


IDS = np.array([2, 0, 2, -1, 5, 0])
ROWS = np.array([[1.0, -2.0], [3.0, np.nan], [0.5, 4.0], [9.0, 9.0], [9.0, 9.0], [-1.0, 2.0]])
SEGMENTS = {
    "segment_sum": (np.add, 0.0),
    "segment_prod": (np.multiply, 1.0),
    "segment_max": (np.maximum, -np.inf),
    "segment_min": (np.minimum, np.inf),
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8"])
@pytest.mark.parametrize("name", SEGMENTS)
def test_segments(name, dtype):
    function, start = SEGMENTS[name]
    rows = ROWS if dtype.startswith("float") else np.abs(np.nan_to_num(ROWS))
    rows = rows.astype(dtype)
    if not np.isfinite(start):
        least = start if dtype.startswith("float") else None
        limits = None if least is not None else np.iinfo(dtype)
        start = least if limits is None else (limits.min if start < 0 else limits.max)
    wanted = np.full((4, 2), start, dtype)
    for place, row in zip(IDS, rows, strict=True):
        if 0 <= place < 4:
            wanted[place] = function(wanted[place], row)
    found = getattr(tracer, name)(rows, IDS, 4)
    assert_same(found, wanted)
    compiled = tracer.compile(lambda x, i: getattr(tracer, name)(x, i, num_segments=4))
    assert_same(compiled(rows, IDS), wanted)


@pytest.mark.parametrize("name", SEGMENTS)
@pytest.mark.parametrize("bucket_size", [None, 1, 4, 6, 99])
@pytest.mark.parametrize("mode", [None, "clip", "drop", "promise_in_bounds"])
def test_segments_in_buckets_and_out_of_bounds(name, bucket_size, mode):
    function, start = SEGMENTS[name]
    wanted = np.full((4, 2), start)
    for place, row in zip(np.clip(IDS, 0, 3) if mode == "clip" else IDS, ROWS, strict=True):
        if 0 <= place < 4:
            wanted[place] = function(wanted[place], row)
    reduce = lambda x, i: getattr(tracer, name)(x, i, 4, bucket_size=bucket_size, mode=mode)
    assert_same(reduce(ROWS, IDS), wanted)
    assert_same(tracer.compile(reduce)(ROWS, IDS), wanted)
    assert reduce(np.ones((0, 2)), np.zeros(0, int)).shape == (4, 2)
    if name == "segment_sum":
        tracer.check_grads(lambda x: reduce(x, IDS), (np.nan_to_num(ROWS),), order=2)


def test_segments_refuse_other_modes_and_buckets():
    with pytest.raises(ArgumentError, match="mode"):
        tracer.segment_sum(np.ones(2), np.array([0, 1]), mode="wrap")
    with pytest.raises(ArgumentError, match="bucket_size=0"):
        tracer.segment_sum(np.ones(2), np.array([0, 1]), bucket_size=0)


def test_segments_of_many_rows_are_rounded_less_in_buckets():
    x, zeros = np.full(100_000, 0.1, "float32"), np.zeros(100_000, int)
    exact = float(x.astype("float64").sum())
    errors = [
        abs(float(tracer.segment_sum(x, zeros, 1, bucket_size=size)[0]) - exact)
        for size in (None, 300)
    ]
    assert errors[1] < errors[0] / 10


def test_segments_as_jax():
    jax = pytest.importorskip("jax")
    for mode in ("clip", "drop"):
        ours, theirs = (
            f(ROWS.astype("float32"), IDS, 4, bucket_size=2, mode=mode)
            for f in (tracer.segment_sum, jax.ops.segment_sum)
        )
        assert_same(ours, np.asarray(theirs))


def test_segments_without_a_count():
    assert_same(tracer.segment_sum(np.ones(3), [0, 4, 4]), np.array([1.0, 0, 0, 0, 2]))
    assert tracer.segment_sum(np.ones((0, 2)), np.zeros(0, int)).shape == (0, 2)
    assert_same(
        tracer.segment_sum(np.ones(2), np.array([2**63, 1], "uint64"), 2), np.array([0.0, 1])
    )
    gradient = tracer.grad(lambda x: (tracer.segment_sum(x, [1, 1, -1], 2) ** 2).sum())
    assert_same(gradient(np.array([1.0, 2.0, 3.0])), np.array([6.0, 6.0, 0.0]))
    with pytest.raises(TracingError, match="num_segments"):
        tracer.compile(tracer.segment_sum)(np.ones(2), np.array([0, 1]))
    with pytest.raises(DTypeError):
        tracer.segment_sum(np.ones(2), np.ones(2))
    with pytest.raises(ShapeError):
        tracer.segment_sum(np.ones(2), np.array([0]))
    with pytest.raises(ArgumentError):
        tracer.segment_sum(np.ones(2), np.array([0, 1]), -1)


def test_bincount_of_a_length():
    x = np.array([1, -3, 2, 9, 1])
    assert_same(tnp.bincount(x, length=4), np.array([1, 2, 1, 0]))
    compiled = tracer.compile(lambda x, w: tnp.bincount(x, w, length=4))
    assert_same(compiled(x, np.arange(5.0)), np.array([1.0, 4, 2, 0]))
    assert tnp.bincount(x, length=0).shape == (0,)


def test_bincount_stores_ones_of_32_bits():
    """Beside them the numbers from 0 on, of 64."""
    x = np.arange(100_000) % 7
    plan = tracer.compile(lambda x: tnp.bincount(x, length=7)).plan(x)
    assert plan.compiled_bytes - plan.argument_bytes < 13 * x.size


def test_repeat_to_a_length():
    x, counts = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), np.array([2, 0, 1])
    compiled = tracer.compile(lambda x, n: tnp.repeat(x, n, 0, total_repeat_length=3))
    assert_same(compiled(x, counts), np.repeat(x, counts, 0))
    assert_same(tnp.repeat(x, counts, 0, total_repeat_length=5), x[[0, 0, 2, 2, 2]])
    assert_same(tnp.repeat(x, counts, 0, total_repeat_length=1), x[:1])
    assert_same(tnp.repeat(x[0], 2, total_repeat_length=4), np.array([1.0, 1, 2, 2]))
    assert tnp.repeat(x, counts, 0, total_repeat_length=0).shape == (0, 2)
    with pytest.raises(ShapeError):
        tnp.repeat(x, counts[:2], 0, total_repeat_length=3)
    with pytest.raises(DTypeError):
        tnp.repeat(x, [0.5, 1, 1], 0, total_repeat_length=3)


def test_shapes_and_graphs_without_computing():
    huge = tracer.ShapeDtype((10**6, 3), "float32")
    found = tracer.eval_shape(lambda x, *, k: {"a": x @ x.T, "b": k * x.sum()}, huge, k=2)
    assert found["a"].shape == (10**6, 10**6)
    assert found["b"] == tracer.ShapeDtype((), "float32")
    graph = tracer.make_graph(lambda x: tnp.sin(x))(huge)
    assert "sine" in [node.name for node in graph.nodes]
    with pytest.raises(DTypeError):
        tracer.eval_shape(3)
    assert tracer.remat is tracer.checkpoint
    tree = {"x": tnp.ones(3), "n": 4}
    assert tracer.block_until_ready(tree) is tree


@pytest.fixture
def jax():
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        yield jax


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", SEGMENTS)
def test_segments_are_jaxs(name, dtype, jax):
    rows = np.nan_to_num(ROWS).astype(dtype)

    def program(module, x):
        return getattr(module, name)(x, IDS, num_segments=4)

    # JAX has no gradient of products by segment.
    check(program, tracer, jax.ops, [rows], differentiates=name != "segment_prod")


def test_keywords_are_jaxs(jax):
    x, n = np.array([1, -3, 2, 9, 1]), np.array([2, 0, 1, 3, 0])
    check(lambda np_, x: np_.bincount(x, length=4), tnp, jax.numpy, [x])
    for total in (2, 6, 9):
        program = lambda np_, x, n, total=total: np_.repeat(x, n, total_repeat_length=total)
        check(program, tnp, jax.numpy, [x * 1.0, n])
