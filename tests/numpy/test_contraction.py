"""Products against NumPy, and the ops they become."""

from __future__ import annotations

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.numpy.oracle import NUMPY_DTYPES, assert_same, interpreted, sample
from tracer.array.trace import trace
from tracer.errors import ArgumentError, ShapeError

MATMUL_SHAPES = [
    ((3,), (3,)),
    ((2, 3), (3,)),
    ((3,), (3, 4)),
    ((2, 3), (3, 4)),
    ((5, 2, 3), (3, 4)),
    ((2, 3), (5, 3, 4)),
    ((5, 2, 3), (5, 3, 4)),
    ((5, 1, 2, 3), (6, 3, 4)),
    ((1, 2, 3), (5, 3, 4)),
    ((5, 2, 3), (3,)),
    ((3,), (5, 3, 4)),
    ((2, 0), (0, 3)),
    ((5, 1, 2, 3), (1, 6, 3, 4)),
]


@pytest.mark.parametrize(("left", "right"), MATMUL_SHAPES)
def test_matmul_shapes(left, right, rng):
    x, y = rng.normal(size=left), rng.normal(size=right)
    assert_same(interpreted(lambda a, b: a @ b, x, y)[0], x @ y)


@pytest.mark.xla
@pytest.mark.parametrize("dtype", NUMPY_DTYPES)
def test_matmul_dtypes(dtype, rng):
    x, y = sample(rng, (2, 3), dtype), sample(rng, (3, 4), dtype)
    assert_same(interpreted(tnp.matmul, x, y)[0], x @ y)
    single = sample(rng, (3, 4), "float32")
    assert_same(tnp.matmul(x, single), x @ single)


def test_a_stack_times_one_matrix_is_one_product():
    x, y = tracer.ShapeDtype((5, 2, 3), "float32"), tracer.ShapeDtype((3, 4), "float32")
    assert [n.name for n in trace(tnp.matmul, [x, y]).graph.nodes] == ["dot_general"]
    names = [n.name for n in trace(lambda a, b: b.T @ a.mT, [x, y]).graph.nodes]
    assert "broadcast_in_dim" not in names


@pytest.mark.parametrize(
    ("left", "right", "axes"),
    [((2, 3, 4), (3, 4, 5), 2), ((2, 3), (4, 5), 0), ((2, 3, 4), (4, 3), ((1, 2), (1, 0)))],
)
def test_tensordot(left, right, axes, rng):
    x, y = rng.normal(size=left), rng.normal(size=right)
    assert_same(
        interpreted(lambda a, b: tnp.tensordot(a, b, axes), x, y)[0], np.tensordot(x, y, axes)
    )


@pytest.mark.xla
@pytest.mark.parametrize("name", ["dot", "inner", "vdot", "outer"])
def test_named_products(name, rng):
    x = rng.normal(size=3) + 1j * rng.normal(size=3)
    y = rng.normal(size=3)
    function = getattr(tnp, name)
    assert_same(function(x, y), getattr(np, name)(x, y))
    if name != "vdot":
        a, b = rng.normal(size=(2, 3)), rng.normal(size=(4, 3))
        b = b.T if name == "dot" else b
        assert_same(function(a, b), getattr(np, name)(a, b))
        assert_same(function(2.0, b), getattr(np, name)(2.0, b))


@pytest.mark.xla
def test_vecdot(rng):
    x, y = rng.normal(size=(4, 1, 3)) + 1j, rng.normal(size=(5, 3))
    assert_same(tnp.vecdot(x, y), np.vecdot(x, y))
    assert_same(tnp.vecdot(x.T, x.T, axis=0), np.vecdot(x.T, x.T, axis=0))


EINSUMS = [
    ("ij,jk->ik", (2, 3), (3, 4)),
    ("ij,jk", (2, 3), (3, 4)),
    ("ij,ij->", (2, 3), (2, 3)),
    ("ij,ij->i", (2, 3), (2, 3)),
    ("i,j->ij", (2,), (3,)),
    ("i,j->ji", (2,), (3,)),
    ("ij->ji", (2, 3)),
    ("ij->", (2, 3)),
    ("ii->i", (3, 3)),
    ("ii", (3, 3)),
    ("iij->j", (3, 3, 2)),
    ("...ij,...jk->...ik", (5, 2, 3), (3, 4)),
    ("b...d,b...d->b...", (2, 3, 4), (2, 3, 4)),
    ("bhqd,bhkd->bhqk", (2, 3, 4, 5), (2, 3, 6, 5)),
    ("ij,jk,kl->il", (2, 3), (3, 4), (4, 5)),
    ("ij,jk,kl", (2, 3), (3, 4), (4, 5)),
    ("i,i,i->", (3,), (3,), (3,)),
    ("ij,kj,lj->ikl", (2, 3), (4, 3), (5, 3)),
    ("ab,cd,ef->", (2, 3), (4, 5), (2, 2)),
    ("i->", (4,)),
    ("ij,j->i", (2, 3), (1,)),
]


@pytest.mark.parametrize("case", EINSUMS, ids=[case[0] for case in EINSUMS])
def test_einsum(case, rng):
    subscripts, *shapes = case
    arrays = [rng.normal(size=shape) for shape in shapes]
    found = interpreted(lambda *a: tnp.einsum(subscripts, *a), *arrays)[0]
    assert_same(found, np.einsum(subscripts, *arrays), subscripts)


SQUARE = np.ones((2, 2))
LISTS = [([0, 1], [1, 2], [0, 2]), ([0, 1], [1, 2], [2]), ([0, 1], [1, 2]), ([..., 1], [1, 2])]


@pytest.mark.xla
@pytest.mark.parametrize("labels", LISTS)
def test_einsum_of_operands_with_lists_of_labels(labels, rng):
    x, y = rng.normal(size=(2, 3)), rng.normal(size=(3, 4))
    arguments = [x, labels[0], y, *labels[1:]]
    assert_same(tnp.einsum(*arguments), np.einsum(*arguments), labels)
    found = interpreted(lambda x, y: tnp.einsum(x, labels[0], y, *labels[1:]), x, y)[0]
    assert_same(found, np.einsum(*arguments), labels)


@pytest.mark.parametrize("arguments", [[SQUARE, SQUARE], [SQUARE], [SQUARE, [0, 1], SQUARE]])
def test_einsum_without_labels_is_refused(arguments):
    with pytest.raises(tracer.TracerError, match="einsum"):
        tnp.einsum(*arguments)


def test_einsum_takes_the_cheap_order():
    sizes = [(1000, 10), (10, 1000), (1000, 10)]
    types = [tracer.ShapeDtype(size, "float32") for size in sizes]
    graph = trace(lambda *a: tnp.einsum("ij,jk,kl->il", *a), types).graph
    assert max(node.types[0].size for node in graph.nodes) <= 10_000
    eager = trace(lambda *a: tnp.einsum("ij,jk,kl->il", *a, optimize=False), types).graph
    assert max(node.types[0].size for node in eager.nodes) == 1_000_000


@pytest.mark.xla
def test_products_eagerly(rng):
    x, y = rng.normal(size=(3, 4)).astype("float32"), rng.normal(size=(4, 2)).astype("float32")
    a = tnp.asarray(x)
    assert_same(a @ y, x @ y)
    assert_same(y.T @ a.T, y.T @ x.T)
    assert_same(a.dot(y), x.dot(y))
    assert_same(tnp.einsum("ij,jk->ki", a, y), (x @ y).T)


@pytest.mark.xla
@pytest.mark.parametrize(
    "call",
    [
        lambda x: x @ x,
        lambda x: x @ 2.0,
        lambda x: tnp.dot(x, x),
        lambda x: tnp.inner(x, x.T),
        lambda x: tnp.tensordot(x, x, 1),
        lambda x: tnp.tensordot(x, x, ((0, 1), (0,))),
        lambda x: tnp.vecdot(x, x.T),
        lambda x: tnp.einsum("ij,jk", x, x),
        lambda x: tnp.einsum("ijk->i", x),
        lambda x: tnp.einsum(",...", x),
    ],
)
def test_shapes_that_do_not_fit(call):
    with pytest.raises((ShapeError, ArgumentError)) as caught:
        call(tnp.ones((2, 3)))
    told = ("(2, 3)", "sizes 3 and 2", "2 axes on the left, 1 on the right")
    assert any(part in str(caught.value) for part in told)


@pytest.mark.xla
def test_einsum_in_a_preferred_dtype():
    x = np.full((2, 300), 1.01, np.float16)
    found = tnp.einsum("ij,kj->ik", x, x, preferred_element_type="float32")
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, x.astype(float) @ x.T.astype(float), rtol=1e-6)
    small = np.full((3, 200), 100, np.int8)
    found = tnp.einsum("ij->i", small, preferred_element_type="int32")
    np.testing.assert_array_equal(found, [20000] * 3)
    assert tnp.einsum("i,i", x[0], x[0], preferred_element_type="bfloat16").dtype == "bfloat16"
    # Operands are not rounded where the result is.
    wide = np.array([1.0, 2.0**-20]), np.array([2.0**20, 2.0**20])
    assert float(tnp.einsum("i,i", *wide, preferred_element_type="float32")) == 2.0**20 + 1
    with pytest.raises(ArgumentError, match="complex"):
        tnp.einsum("i,i", [1j], [1j], preferred_element_type="float32")
