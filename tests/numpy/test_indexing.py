"""Reading and writing parts of arrays against NumPy: random basic and advanced indices."""

from __future__ import annotations

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.numpy.oracle import assert_same, interpreted
from tracer.array import array as arrays
from tracer.array.trace import trace
from tracer.errors import ArrayIndexError, DTypeError, ShapeError, TracingError

SHAPE = (4, 5, 3)


def _basic(size: int) -> st.SearchStrategy:
    number = st.integers(-size, size - 1)
    bound = st.none() | st.integers(-size - 2, size + 2)
    step = st.none() | st.integers(-3, 3).filter(bool)
    return number | st.builds(slice, bound, bound, step) | st.just(slice(None))


def _advanced(size: int) -> st.SearchStrategy:
    one = st.integers(-size, size - 1)
    return (
        st.lists(one, min_size=2, max_size=2).map(np.array)
        | st.lists(st.lists(one, min_size=2, max_size=2), min_size=1, max_size=3).map(np.array)
        | one.map(np.array)
        | _basic(size)
    )


@st.composite
def _indices(draw: st.DrawFn, item, shape=SHAPE):
    count = draw(st.integers(0, len(shape)))
    items = [draw(item(size)) for size in shape[:count]]
    if draw(st.booleans()):
        place = draw(st.integers(0, len(items)))
        later = len(items) - place
        items = (
            items[:place] + [Ellipsis] + [draw(item(size)) for size in shape[len(shape) - later :]]
        )
    for _ in range(draw(st.integers(0, 2))):
        items.insert(draw(st.integers(0, len(items))), None)
    return tuple(items)


X = np.arange(np.prod(SHAPE), dtype=np.float32).reshape(SHAPE)


@pytest.mark.slow
@hypothesis.given(_indices(_basic))
@hypothesis.settings(max_examples=200)
def test_basic_indices(index):
    assert_same(interpreted(lambda x: x[index], X)[0], X[index], index)


@pytest.mark.slow
@hypothesis.given(_indices(_advanced))
@hypothesis.settings(max_examples=200)
def test_advanced_indices(index):
    assert_same(interpreted(lambda x: x[index], X)[0], X[index], index)


@pytest.mark.xla
@hypothesis.given(_indices(_advanced))
@hypothesis.settings(max_examples=25)
def test_eager_indices(index):
    assert_same(tnp.asarray(X)[index], X[index], index)


@pytest.mark.slow
@hypothesis.given(_indices(_basic))
@hypothesis.settings(max_examples=200)
def test_basic_assignment(index):
    expected = X.copy()
    value = -1 - np.arange(expected[index].size, dtype=np.float32).reshape(expected[index].shape)
    expected[index] = value

    def assign(x, v):
        x[index] = v
        return x

    assert_same(interpreted(assign, X, value)[0], expected, index)


@pytest.mark.slow
@hypothesis.given(_indices(_advanced))
@hypothesis.settings(max_examples=200)
def test_advanced_assignment_and_addition(index):
    expected = X.copy()
    expected[index] = -7
    assert_same(interpreted(lambda x: x.at[index].set(-7), X)[0], expected, index)
    added = X.copy()
    value = np.arange(1, added[index].size + 1, dtype=np.float32).reshape(added[index].shape)
    np.add.at(added, index, value)
    assert_same(interpreted(lambda x, v: x.at[index].add(v), X, value)[0], added, index)


@pytest.mark.xla
@pytest.mark.parametrize(
    ("method", "ufunc"),
    [
        ("add", np.add),
        ("subtract", np.subtract),
        ("multiply", np.multiply),
        ("divide", np.divide),
        ("min", np.minimum),
        ("max", np.maximum),
    ],
)
@pytest.mark.parametrize("index", [(1, slice(None, None, 2)), (np.array([0, 2, 0]),), (X > 20,)])
def test_updates_accumulate(method, ufunc, index):
    expected = X.copy()
    ufunc.at(expected, index, np.float32(4))
    assert_same(getattr(tnp.asarray(X).at[index], method)(4), expected)
    assert_same(tnp.asarray(X).at[index].get(), X[index])


@pytest.mark.xla
@pytest.mark.parametrize("method", ["divide", "power", "multiply"])
def test_a_known_mask_with_a_value_for_each_chosen_element(method):
    x, mask, values = np.arange(1.0, 7.0), np.arange(6) % 2 == 0, np.array([2.0, 3.0, 4.0])
    expected = x.copy()
    expected[mask] = getattr(np, method)(x[mask], values)
    assert_same(getattr(tnp.asarray(x).at[mask], method)(values), expected)
    found = interpreted(lambda x, v: getattr(x.at[mask], method)(v), x, values)[0]
    assert_same(found, expected)


@pytest.mark.xla
def test_masks_eagerly():
    x = tnp.asarray(X)
    assert_same(x[X > 30], X[X > 30])
    assert_same(x[x > 30], X[X > 30])
    rows = np.array([True, False, True, True])
    assert_same(x[rows], X[rows])
    assert_same(x[rows, 1:3], X[rows, 1:3])
    assert_same(x[..., np.array([True, False, True])], X[..., [True, False, True]])
    y, expected = tnp.asarray(X), X.copy()
    y[y > 30] = np.arange((X > 30).sum(), dtype=np.float32)
    expected[expected > 30] = np.arange((X > 30).sum(), dtype=np.float32)
    assert_same(y, expected)


def test_masked_assignment_of_a_number_can_be_traced():
    def clean(x):
        x[x > 30] = 0
        return x.at[x[:, 0, 0] > 15].add(tnp.ones(3))

    expected = X.copy()
    expected[expected > 30] = 0
    expected[expected[:, 0, 0] > 15] += np.ones(3, np.float32)
    assert_same(interpreted(clean, X)[0], expected)


def test_traced_masks_that_change_shapes_are_refused():
    with pytest.raises(TracingError, match="the shape of the result would depend on values") as e:
        trace(lambda x: x[x > 0], [X])
    assert "where" in e.value.mend
    with pytest.raises(TracingError):
        trace(lambda x: x.at[x > 0].set(tnp.ones(2)), [np.ones(4)])


@pytest.mark.xla
def test_device_arrays_as_indices():
    x = tnp.asarray(X)
    one = tnp.asarray(-1)
    assert_same(x[one], X[-1])
    assert_same(x[1, one], X[1, -1])
    assert_same(x[tnp.asarray(2), 1:3], X[2, 1:3])
    rows = tnp.asarray([0, -1], "int32")
    assert_same(x[rows], X[[0, -1]])
    assert_same(x[[one, tnp.asarray(0)]], X[[-1, 0]])
    assert_same(x[rows, :, tnp.asarray([1, 2], "uint8")], X[[0, -1], :, [1, 2]])
    # Reading looks at the values, writing does not: it drops what is out of bounds.
    for index in (tnp.asarray([9]), tnp.asarray(-5), [tnp.asarray(0), tnp.asarray(4)]):
        with pytest.raises(ArrayIndexError, match="out of bounds for axis 0 with size 4"):
            x[index]
    assert_same(x.at[tnp.asarray([9])].set(0), X)


def test_traced_starts_become_one_dynamic_slice():
    graph = trace(lambda x, i: x[i, 1:3], [X, 2]).graph
    assert [n.name for n in graph.nodes].count("dynamic_slice") == 1
    assert "gather" not in [n.name for n in graph.nodes]


def test_expanding_axes_is_one_reshape_and_broadcasting_one_op():
    x, y = tracer.ShapeDtype((4, 3), "float32"), tracer.ShapeDtype((5, 3), "float32")
    graph = trace(lambda x, y: x[:, None, :] - y[None, :, :], [x, y]).graph
    names = [node.name for node in graph.nodes]
    assert sorted(names) == sorted(["reshape"] * 2 + ["broadcast_in_dim"] * 2 + ["subtract"])


def test_static_indices_out_of_bounds():
    x = tnp.asarray(X)
    for index in (4, -5, (0, 5), (slice(None), 0, 3), np.array([0, 4]), [[-5]], (0, 0, 0, 0)):
        with pytest.raises(ArrayIndexError) as caught:
            x[index]
        assert isinstance(caught.value, IndexError)
        with pytest.raises(ArrayIndexError):
            trace(lambda v, index=index: v[index], [X])
        with pytest.raises(ArrayIndexError):
            x[index] = 0


@pytest.mark.xla
def test_what_is_no_index():
    x = tnp.asarray(X)
    for index in (1.5, "a", np.array([0.5]), tnp.ones(2), (..., ...), np.ones((4, 4), bool)):
        with pytest.raises(ArrayIndexError):
            x[index]
    with pytest.raises(ArrayIndexError, match="no slice of concrete integers"):
        x[1.5:]


@pytest.mark.xla
def test_values_that_do_not_fit():
    x = tnp.asarray(X)
    with pytest.raises(ShapeError, match=r"value of shape \(2,\) in a part of shape \(5, 3\)"):
        x[0] = np.ones(2)
    x[0] = np.ones((1, 1, 3))
    assert_same(x[0], np.ones((5, 3), np.float32))


@pytest.mark.xla
def test_assignment_converts_to_the_arrays_dtype():
    x = tnp.zeros(3, "int32")
    x[1] = 2.9
    x[2] = tnp.asarray(7.5)
    assert_same(x, np.array([0, 2, 7], np.int32))


@pytest.mark.xla
def test_assignment_is_functional_underneath():
    x = tnp.asarray(X)
    alias = x
    view = x[1]
    x[1] = 0
    assert alias is x
    assert_same(view, X[1])  # NumPy's view would have changed
    assert float(x[1].sum()) == 0


@pytest.mark.xla
def test_loops_over_positions_compile_once(monkeypatch):
    import tracer.compilation.eager

    compiled = []

    class Counting(tracer.compilation.eager.LoweringEvaluator):
        def program(self, graph):
            compiled.append(graph)
            return super().program(graph)

    x = tnp.asarray(np.arange(53.0))
    monkeypatch.setattr(arrays, "_EVALUATORS", [Counting()])
    assert [float(v) for v in x] == list(range(53))
    assert len(compiled) == 1
    for start in range(3, 20):
        assert_same(x[start : start + 7], np.arange(53.0)[start : start + 7])
    assert len(compiled) == 2


@pytest.mark.xla
def test_take(rng):
    x = rng.normal(size=(4, 5)).astype("float32")
    a = tnp.asarray(x)
    assert_same(a.take([0, -1], 1), x.take([0, -1], 1))
    assert_same(tnp.take(a, np.array([[3, 19]])), np.take(x, [[3, 19]]))
    assert_same(tnp.take(a, [7, -9], 0, mode="clip"), np.take(x, [7, -9], 0, mode="clip"))
    assert_same(tnp.take(a, [7, -9], 0, mode="wrap"), np.take(x, [7, -9], 0, mode="wrap"))
    with pytest.raises(ArrayIndexError):
        tnp.take(a, [20])
    order = np.argsort(x, 1)
    assert_same(tnp.take_along_axis(a, order, 1), np.take_along_axis(x, order, 1))
    assert_same(tnp.take_along_axis(a, order[:1, :2], 1), np.take_along_axis(x, order[:1, :2], 1))
    first = x.argmin(0)[None]
    assert_same(tnp.take_along_axis(a, first, 0), np.take_along_axis(x, first, 0))
    assert_same(
        tnp.take_along_axis(a, np.array([3, 1]), None),
        np.take_along_axis(x, np.array([3, 1]), None),
    )


@pytest.mark.xla
def test_empty_parts():
    x = tnp.asarray(X)
    assert_same(x[2:2], X[2:2])
    assert_same(x[[]], X[[]])
    assert_same(x[:, 3:1:1, 0], X[:, 3:1:1, 0])
    x[2:2] = 5
    assert_same(x, X)
    assert tnp.zeros((0, 3))[:, 1].shape == (0,)


@pytest.mark.xla
def test_zero_dimensional_arrays():
    x = tnp.asarray(3.0)
    assert_same(x[()], np.float64(3.0))
    assert_same(x[...], np.asarray(3.0))
    assert_same(x[None], np.array([3.0]))
    with pytest.raises(DTypeError, match="0-d"):
        len(x)
    with pytest.raises(DTypeError, match="0-d"):
        iter(x)


PLACES = np.random.default_rng(8).integers(-5, 5, 7)
COLUMNS = np.random.default_rng(9).integers(0, 3, (7, 4))
COUNTED = {
    "rows": lambda xp, x: x[xp.arange(7), PLACES],
    "several of each row": lambda xp, x: x[xp.arange(7)[:, None], 1, COLUMNS],
    "apart": lambda xp, x: x[xp.arange(7), :, COLUMNS[:, 0]],
    "two axes": lambda xp, x: x[xp.arange(7), xp.arange(5)[:, None], COLUMNS[:5, :1]],
    "nothing else": lambda xp, x: x[xp.arange(7)[None], xp.arange(5)[:, None]],
    "diagonal": lambda xp, x: x[:5][xp.arange(5), xp.arange(5)],
    "not to the end": lambda xp, x: x[xp.arange(6), PLACES[:6]],
    "backwards": lambda xp, x: x[xp.arange(7)[::-1], PLACES],
    "from the end": lambda xp, x: x[xp.arange(7) - 7, PLACES],
    "narrow integers": lambda xp, x: x.reshape(105)[:, None][
        xp.arange(105).astype("int8"), xp.zeros(105, "int8")
    ],
    "transposed": lambda xp, x: x.transpose(2, 0, 1)[
        COLUMNS.T[:, :, None], xp.arange(7)[:, None, None].swapaxes(0, 1).reshape(7, 1), 2
    ],
}


@pytest.mark.xla
@pytest.mark.parametrize("numbers", [tnp, np], ids=["traced", "known"])
@pytest.mark.parametrize("name", COUNTED)
def test_an_index_that_counts(name, numbers):
    x = np.random.default_rng(7).normal(size=(7, 5, 3))
    want = COUNTED[name](np, x)
    read = lambda x: COUNTED[name](numbers, x)
    np.testing.assert_array_equal(np.asarray(tracer.compile(read)(x)), want)
    both = tracer.compile(tracer.vmap(read))(np.stack([x, -x]))
    np.testing.assert_array_equal(np.asarray(both), np.stack([want, -want]))
    gradient = tracer.compile(tracer.grad(lambda x: (read(x) ** 2).sum()))(x)
    total, places = np.zeros(x.size), np.arange(x.size).reshape(x.shape)
    np.add.at(total, COUNTED[name](np, places).ravel(), 2 * want.ravel())
    np.testing.assert_allclose(np.asarray(gradient), total.reshape(x.shape), rtol=1e-12)


def test_rows_that_count_are_a_batch_and_others_are_not():
    def batched(index):
        graph = trace(lambda x: x[index(), PLACES], [tracer.ShapeDtype((7, 5), "float32")]).graph
        (node,) = [node for node in graph.nodes if node.name == "gather"]
        return node.params["operand_batching_dims"]

    assert batched(lambda: tnp.arange(7)) == batched(lambda: np.arange(7)) == (0,)
    assert batched(lambda: tnp.arange(7)[::-1]) == batched(lambda: np.arange(7)[::-1]) == ()
    assert batched(lambda: tnp.arange(1, 8) - 1) == ()


@pytest.mark.xla
def test_the_gradient_at_the_places_of_the_smallest_takes_slices():
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(800, 3)), rng.normal(size=(900, 3))

    def loss(x, y):
        d = ((x[:, None] - y[None]) ** 2).sum(-1)
        return d[tnp.arange(800), tnp.argmin(d, axis=1)].sum()

    limited = tracer.compile(tracer.grad(loss), memory_limit="1.5MB")
    assert limited.plan(x, y).compiled_bytes < 1_500_000 < 800 * 900 * 8 // 3
    near = y[((x[:, None] - y[None]) ** 2).sum(-1).argmin(1)]
    np.testing.assert_allclose(np.asarray(limited(x, y)), 2 * (x - near), rtol=1e-9, atol=1e-12)


@pytest.mark.xla
@pytest.mark.parametrize("truth", [True, np.True_, np.array(True)])
def test_truth_values_of_numpy_take_no_axis(truth):
    x = np.arange(24.0).reshape(2, 3, 4)
    for index in ((Ellipsis, truth), (0, Ellipsis, truth), (truth, Ellipsis, 1)):
        found = np.asarray(tnp.asarray(x)[index])
        np.testing.assert_array_equal(found, x[index])


@pytest.mark.xla
def test_integers_that_are_too_wide_are_out_of_bounds():
    x = tnp.asarray(np.arange(24.0).reshape(2, 3, 4))
    with pytest.raises(IndexError, match="out of bounds"):
        x[10**30, [0, 1]]
