"""Indices out of bounds: reads, updates, their gradients and batches, every form of an index."""

from __future__ import annotations

import hypothesis
import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.numpy.beyond import (
    clipped,
    cut,
    filled_in,
    indices,
    operands_of,
    padded,
    sent_beyond,
)
from tests.numpy.oracle import assert_same, interpreted
from tracer.errors import ArgumentError, ArrayIndexError

SHAPE = (4, 5, 3)
X = np.arange(1, 61, dtype=np.float64).reshape(SHAPE)
SCALARS = (-9, -5, -4, -1, 0, 3, 4, 99)
UPDATES = {
    "set": lambda old, new: np.broadcast_to(new, np.shape(old)),
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "mul": np.multiply,
    "divide": np.divide,
    "power": np.power,
    "min": np.minimum,
    "max": np.maximum,
}
random_indices = hypothesis.given(indices(SHAPE))
many = hypothesis.settings(max_examples=80, deadline=None)
few = hypothesis.settings(max_examples=12, deadline=None)


def known(index):
    """Return the index with the values of its operands."""
    return filled_in(index, operands_of(index))


def dropped(x, index, value, update=np.add):
    """Return what an update leaves, the part out of bounds dropped."""
    result = padded(x, 0)
    update.at(result, sent_beyond(index, x.shape), value)
    return cut(result)


def part_of(x, index):
    return x[clipped(known(index), x.shape)]


def number_each(x, index):
    """Return different numbers of the shape of a part."""
    shape = part_of(x, index).shape
    return 0.5 + np.arange(np.prod(shape, dtype=int)).reshape(shape)


@pytest.mark.slow
@random_indices
@many
def test_reads_of_traced_indices_take_the_nearest_element(index):
    found = interpreted(lambda x, *given: x[filled_in(index, given)], X, *operands_of(index))[0]
    assert_same(found, part_of(X, index), index)


@pytest.mark.slow
@random_indices
@many
def test_reads_that_fill(index):
    def read(x, *given):
        return x.at[filled_in(index, given)].get(mode="fill", fill_value=-7)

    found = interpreted(read, X, *operands_of(index))[0]
    assert_same(found, padded(X, -7)[sent_beyond(known(index), SHAPE)], index)


@pytest.mark.slow
@random_indices
@many
def test_updates_out_of_bounds_are_dropped(index):
    def add(x, v, *given):
        return x.at[filled_in(index, given)].add(v)

    def assign(x, *given):
        x[filled_in(index, given)] = -3
        return x

    value = number_each(X, index)
    found = interpreted(add, X, value, *operands_of(index))[0]
    assert_same(found, dropped(X, known(index), value), index)
    expected = padded(X, 0)
    expected[sent_beyond(known(index), SHAPE)] = -3
    assert_same(interpreted(assign, X, *operands_of(index))[0], cut(expected), index)


@pytest.mark.slow
@random_indices
@many
def test_updates_that_clip(index):
    def add(x, v, *given):
        return x.at[filled_in(index, given)].add(v, mode="clip")

    value = number_each(X, index)
    expected = X.copy()
    np.add.at(expected, clipped(known(index), SHAPE), value)
    assert_same(interpreted(add, X, value, *operands_of(index))[0], expected, index)


@pytest.mark.slow
@random_indices
@hypothesis.settings(max_examples=40, deadline=None)
def test_gradients_of_updates_pass_what_is_dropped_through(index):
    weights = np.cos(X)

    def gradients(x, v, *given):
        def loss(x, v):
            return (tnp.asarray(weights) * x.at[filled_in(index, given)].add(v)).sum()

        return tracer.grad(loss, argnums=(0, 1))(x, v)

    of_x, of_v = interpreted(gradients, X, number_each(X, index), *operands_of(index))
    assert_same(of_x, weights, index)
    assert_same(of_v, padded(weights, 0)[sent_beyond(known(index), SHAPE)], index)


@pytest.mark.slow
@random_indices
@hypothesis.settings(max_examples=40, deadline=None)
def test_batches_of_indices(index):
    rows = [np.stack([v, -v - 1, v]) for v in operands_of(index)]

    def batched(x, v, *given):
        def one(*given):
            chosen = filled_in(index, given)
            return x.at[chosen].add(v), x.at[chosen].get(mode="fill"), x[chosen]

        return tracer.vmap(one)(*given)

    value = number_each(X, index)
    found = interpreted(batched, X, value, *rows)
    for i in range(3):
        chosen = filled_in(index, [row[i] for row in rows])
        assert_same(found[0][i], dropped(X, chosen, value), chosen)
        assert_same(found[1][i], padded(X, np.nan)[sent_beyond(chosen, SHAPE)], chosen)
        assert_same(found[2][i], X[clipped(chosen, SHAPE)], chosen)


@pytest.mark.xla
@random_indices
@few
def test_compiled_programs_drop_and_fill(index):
    def both(x, v, *given):
        chosen = filled_in(index, given)
        return x.at[chosen].add(v), x.at[chosen].get(mode="fill"), x[chosen]

    value = number_each(X, index)
    found = tracer.compile(both)(X, value, *operands_of(index))
    assert_same(found[0], dropped(X, known(index), value), index)
    assert_same(found[1], padded(X, np.nan)[sent_beyond(known(index), SHAPE)], index)
    assert_same(found[2], part_of(X, index), index)


@pytest.mark.xla
@pytest.mark.parametrize("method", UPDATES)
@pytest.mark.parametrize("place", SCALARS)
def test_every_update_at_a_scalar(method, place):
    def update(x, i, v):
        return getattr(x.at[i, 1:4], method)(v)

    inside = -4 <= place < 4
    expected = X.copy()
    if inside:
        expected[place, 1:4] = UPDATES[method](expected[place, 1:4], 2.5)
    assert_same(interpreted(update, X, place, 2.5)[0], expected)
    assert_same(update(tnp.asarray(X), tnp.asarray(place), 2.5), expected)


@pytest.mark.parametrize("method", UPDATES)
def test_every_update_at_a_vector(method):
    places = np.array([2, 9, -1, -5])

    def update(x, i, v):
        return getattr(x.at[i], method)(v)

    expected = X.copy()
    expected[[2, -1]] = UPDATES[method](expected[[2, -1]], 2.5)
    assert_same(interpreted(update, X, places, 2.5)[0], expected)


@pytest.mark.xla
@pytest.mark.parametrize("mode", ["drop", "fill"])
def test_modes_hold_for_known_indices_too(mode):
    x = tnp.asarray(X)
    for index in (7, -9, [1, 7], np.array([1, -9]), (0, 99), 10**30):
        with pytest.raises(ArrayIndexError):
            x.at[index].set(0)
        expected = X.copy()
        if isinstance(index, list | np.ndarray):
            expected[1] = 0
        assert_same(x.at[index].set(0, mode=mode), expected)
    assert_same(x.at[7].set(0, mode="clip"), x.at[3].set(0))
    assert_same(x.at[[-9]].set(0, mode="clip"), x.at[0].set(0))
    assert_same(x.at[7].get(mode="fill"), np.full((5, 3), np.nan))
    assert_same(x.at[[1, 7]].get(mode="clip"), X[[1, 3]])
    assert_same(x.at[2].get(mode="promise_in_bounds"), X[2])


@pytest.mark.xla
@pytest.mark.parametrize(
    ("dtype", "fill"),
    [
        ("float32", np.nan),
        ("complex64", np.nan),
        ("int8", -128),
        ("uint16", 65535),
        ("bool", True),
    ],
)
def test_what_is_read_out_of_bounds(dtype, fill):
    x = np.ones(3, dtype)
    expected = np.array([x[0], fill, fill], dtype)
    places = np.array([0, 3, -4])
    assert_same(interpreted(lambda x, i: tnp.take(x, i), x, places)[0], expected)
    along = interpreted(lambda x, i: tnp.take_along_axis(x, i, 0), x, places)[0]
    assert_same(along, expected)
    assert_same(tnp.asarray(x).at[places].get(mode="fill"), expected)
    nothing = interpreted(lambda x, i: x.at[i].get(mode="fill"), x, 3)[0]
    assert_same(nothing, expected[1])


def test_known_values_out_of_bounds_raise_as_in_numpy():
    x = tnp.arange(5.0)
    both = tnp.asarray(np.ones((2, 3)))
    for read in (
        lambda: x[tnp.array([0, 9])],
        lambda: x[tnp.array(-6)],
        lambda: both[tnp.array([0, 1]), tnp.array([2, 3])],
        lambda: both[:, tnp.array(3)],
        lambda: tnp.take(x, tnp.array([0, 9])),
        lambda: tnp.take(x, 9),
        lambda: x.take(np.array([5])),
        lambda: tnp.take_along_axis(x, tnp.array([0, 9]), 0),
        lambda: tnp.take_along_axis(both, np.array([[0], [-4]]), 1),
        lambda: tnp.compress([False] * 5 + [True], x),
        lambda: x.at[tnp.array([9])].get(),
    ):
        with pytest.raises(ArrayIndexError, match="out of bounds"):
            read()


@pytest.mark.xla
def test_take_in_every_mode():
    x, places = X[0], np.array([[-7, -1], [2, 6]])
    nearest = {"clip": np.clip(places, 0, 2), "wrap": places % 3}
    for given in (places, tnp.asarray(places), places.astype("int8"), places.tolist()):
        for mode, same in nearest.items():
            assert_same(tnp.take(x, given, 1, mode=mode), x[:, same])
        filled = np.stack([np.stack([np.full(5, np.nan), x[:, 2]], -1)] * 2, 1)
        filled[:, 1] = filled[:, 1, ::-1]
        assert_same(tnp.take(x, given, 1, mode="fill"), filled)
        assert_same(tnp.take(x, given, 1, fill_value=8), np.nan_to_num(filled, nan=8))
    assert_same(tnp.take(x[0], np.array([250, 3], "uint8"), mode="wrap"), x[0][[1, 0]])
    assert_same(tnp.take(x[0], [True, False]), x[0][[1, 0]])
    huge = np.array([2**64 - 1, 2**63], np.uint64)
    assert_same(tnp.take(x[0], huge, mode="fill"), np.full(2, np.nan))
    assert_same(tnp.take(x[0], huge, mode="wrap"), x[0][(huge % np.uint64(3)).astype(int)])
    assert_same(tnp.asarray(x).at[tnp.asarray(huge)].set(0.0), x)


@pytest.mark.xla
def test_take_along_axis_in_every_mode():
    x, places = X[0], np.array([[0, 7], [-6, -1], [4, 1]]).T
    inside = np.where(places < 0, places + 5, places)
    nearest = np.take_along_axis(x, np.clip(inside, 0, 4), 0)
    filled = np.where((inside < 0) | (inside > 4), np.nan, nearest)
    assert_same(tnp.take_along_axis(x, places, 0, mode="clip"), nearest)
    assert_same(tnp.take_along_axis(x, places, 0, mode="fill"), filled)
    at_nine = np.nan_to_num(filled, nan=9)
    assert_same(tnp.take_along_axis(x, places, 0, fill_value=9), at_nine)
    traced = interpreted(lambda x, i: tnp.take_along_axis(x, i, 0), x, places)[0]
    assert_same(traced, filled)


@pytest.mark.xla
def test_modes_and_fill_values_that_make_no_sense():
    x = tnp.arange(3.0)
    for wrong in (
        lambda: x.at[0].set(1, mode="wrap"),
        lambda: x.at[0].get(mode="nearest"),
        lambda: x.at[0].get(fill_value=1),
        lambda: tnp.take(x, 0, mode="nearest"),
        lambda: tnp.take(x, 0, mode="clip", fill_value=1),
        lambda: tnp.take_along_axis(x, np.array([0]), 0, mode="wrap"),
        lambda: x.at[0].get(mode="fill", fill_value=[1, 2]),
    ):
        with pytest.raises(ArgumentError):
            wrong()


@pytest.mark.xla
@pytest.mark.parametrize("places", [np.array([1, 1, 3, -9, 1]), np.array(2), np.array(7)])
def test_apply_and_power_once_for_each_time_that_an_index_stands(places):
    expected = X.copy()
    raised = X.copy()
    for place in np.atleast_1d(places):
        if -4 <= place < 4:
            expected[place] = 2 * expected[place] + 1
            raised[place] **= 0.5

    def both(x, i):
        return x.at[i].apply(lambda part: 2 * part + 1), x.at[i].power(0.5)

    for found in (interpreted(both, X, places), both(tnp.asarray(X), tnp.asarray(places))):
        assert_same(found[0], expected)
        assert_same(found[1], raised)


@pytest.mark.xla
def test_apply_to_what_a_mask_and_a_slice_choose():
    expected = np.where(X > 20, np.sqrt(X), X)
    expected[:, 1::2] *= -1

    def change(x):
        return x.at[x > 20].apply(tnp.sqrt).at[:, 1::2].apply(tnp.negative)

    assert_same(interpreted(change, X)[0], expected)
    assert_same(change(tnp.asarray(X)), expected)
    powers = interpreted(lambda x: x.at[x > 20].power(2), X)[0]
    assert_same(powers, np.where(X > 20, X**2, X))


def test_unique_indices_give_multiply_and_apply_a_gradient():
    places = np.array([2, 0, 9])

    def loss(x, v, i):
        x = x.at[i].multiply(v, unique_indices=True)
        return x.at[i].apply(tnp.square, unique_indices=True, indices_are_sorted=False).sum()

    x, v = np.arange(1.0, 5.0), np.array([3.0, 5.0, 7.0])
    of_x, of_v = interpreted(tracer.grad(loss, argnums=(0, 1)), x, v, places)
    assert_same(of_x, np.array([2 * 1 * 25, 1, 2 * 3 * 9, 1.0]))
    assert_same(of_v, np.array([2 * 9 * 3, 2 * 1 * 5, 0.0]))


@pytest.mark.xla
def test_division_of_integers_is_not_a_product_with_zero():
    x = tnp.array([4, 6, 9])
    assert_same(x.at[0].divide(2), np.array([2.0, 6, 9]))
    assert_same(x.at[tnp.array([0, 0, 2])].divide(2), np.array([1.0, 6, 4.5]))
    assert_same(x.at[1:].divide(3), np.array([4.0, 2, 3]))


def loops(x):
    """Return updates at the counters of loops that run over the end."""
    counted = tracer.fori_loop(0, 9, lambda i, x: x.at[i].set(i), x)
    stepped = tracer.scan(lambda x, i: (x.at[i - 2].add(i), x[i]), x, tnp.arange(8))
    waited = tracer.while_loop(
        lambda s: s[0] < 7, lambda s: (s[0] + 1, s[1].at[s[0]].multiply(2)), (tnp.asarray(-9), x)
    )[1]
    chosen = tracer.cond(x[0] > 0, lambda x, i: x.at[i].set(0), lambda x, i: x, x, 4 + x.size)
    return counted, stepped, waited, chosen


@pytest.mark.xla
def test_loops_that_run_over_the_end():
    x = np.arange(1.0, 6.0)
    stepped, read = x.copy(), []
    for i in range(8):
        read.append(stepped[min(i, 4)])
        if -5 <= i - 2 < 5:
            stepped[i - 2] += i
    waited = x.copy()
    for i in range(-5, 5):
        waited[i] *= 2
    for found in (interpreted(loops, x), tracer.tree.leaves(tracer.compile(loops)(x))):
        assert_same(found[0], np.arange(5.0))
        assert_same(found[1], stepped)
        assert_same(found[2], np.array(read))
        assert_same(found[3], waited)
        assert_same(found[4], x)


@pytest.mark.xla
def test_gradients_through_a_loop_that_runs_over_the_end():
    def loss(x, v):
        return (tracer.fori_loop(0, 7, lambda i, x: x.at[i].set(v * i), x) ** 2).sum()

    x = np.arange(1.0, 6.0)
    of_x, of_v = tracer.compile(tracer.grad(loss, argnums=(0, 1)))(x, 3.0)
    assert_same(of_x, np.zeros(5))
    assert_same(of_v, np.float64(2 * 3 * sum(i * i for i in range(5))))
    one = tracer.compile(tracer.grad(lambda x, v, i: (x.at[i].set(v) ** 2).sum(), (0, 1)))
    assert [np.asarray(g).tolist() for g in one(x, 3.0, 5)] == [(2 * x).tolist(), 0.0]
    assert [np.asarray(g).tolist() for g in one(x, 3.0, -6)] == [(2 * x).tolist(), 0.0]
    assert [np.asarray(g).tolist() for g in one(x, 3.0, 4)] == [[2.0, 4, 6, 8, 0], 6.0]
