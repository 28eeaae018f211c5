"""Axes without elements: sorting, choosing, taking; and lists of traced scalars in an index."""

from __future__ import annotations

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.numpy.oracle import assert_same, interpreted
from tracer.array.trace import trace
from tracer.errors import ArrayIndexError
from tracer.lax import cummax

NOTHING = np.zeros((3, 0))
CASES = {
    "sort complex": (tnp.sort, np.sort, (NOTHING.astype(complex),)),
    "sort no rows": (lambda x: tnp.sort(x, 0), lambda x: np.sort(x, 0), (NOTHING.T + 0j,)),
    "sort_complex": (tnp.sort_complex, np.sort_complex, (NOTHING[0],)),
    "argsort complex": (tnp.argsort, np.argsort, (NOTHING + 0j,)),
    "quantile": (
        lambda x: tnp.quantile(x, 0.5, axis=0),
        lambda x: np.quantile(x, 0.5, axis=0),
        (NOTHING,),
    ),
    "choose": (
        lambda i, x: tnp.choose(i, [x, x]),
        lambda i, x: np.choose(i, [x, x]),
        (NOTHING[0].astype(int), NOTHING[0]),
    ),
    "take": (
        lambda x, i: tnp.take(x, i, axis=0),
        lambda x, i: np.take(x, i, axis=0),
        (NOTHING, np.array([0, 2])),
    ),
    "take nothing of nothing": (
        lambda x, i: tnp.take(x, i, axis=1),
        lambda x, i: np.take(x, i, axis=1),
        (NOTHING, np.zeros((2, 0), int)),
    ),
    "scalar of no columns": (lambda x, i: x[i], lambda x, i: x[i], (NOTHING, 2)),
    "rows of no columns": (lambda x, i: x[i], lambda x, i: x[i], (NOTHING, np.array([1, 1]))),
    "columns of no rows": (
        lambda x, i: x[:, i],
        lambda x, i: x[:, i],
        (NOTHING.T, np.array([[2], [0]])),
    ),
    "update of no columns": (
        lambda x, i: x.at[i].add(1),
        lambda x, i: x,
        (NOTHING, np.array([0, 9])),
    ),
}
for shape in ((4, 0, 3), (0, 2, 3), (0, 0, 3)):
    CASES[f"take_along_axis {shape}"] = (
        lambda x, i: tnp.take_along_axis(x, i, axis=1),
        lambda x, i: np.take_along_axis(x, i, axis=1),
        (np.zeros(shape), np.zeros(shape, int)),
    )


@pytest.mark.xla
@pytest.mark.parametrize("name", CASES)
def test_nothing_is_computed_of_nothing(name):
    ours, numpys, arguments = CASES[name]
    expected = numpys(*arguments)
    assert_same(interpreted(ours, *arguments)[0], expected)
    assert_same(ours(*[tnp.asarray(x) for x in arguments]), expected)


@pytest.mark.xla
@pytest.mark.parametrize("x", [np.ones(1), np.ones((2, 2)), np.zeros((0, 3))])
def test_no_places_are_asked_for(x):
    def asked(x):
        return (
            tnp.flatnonzero(x, size=0),
            *tnp.nonzero(x, size=0),
            tnp.argwhere(x, size=0),
            *tnp.where(x, size=0),
            tnp.extract(x, x, size=0),
        )

    shapes = [np.shape(part) for part in interpreted(asked, x)]
    assert shapes == [np.shape(part) for part in asked(tnp.asarray(x))]
    assert shapes == [(0,)] * (1 + x.ndim) + [(0, x.ndim)] + [(0,)] * (x.ndim + 1)


@pytest.mark.xla
def test_gradients_along_an_axis_of_no_rows():
    for order in (
        tnp.sort,
        cummax,
        lambda x, axis: tnp.take_along_axis(x, np.zeros((0, 4), int), 1),
    ):

        def total(x, order=order):
            return order(x, 1).sum()

        assert tracer.compile(tracer.grad(total))(np.zeros((0, 4))).shape == (0, 4)
        assert tracer.hessian(total)(np.zeros((0, 4))).shape == (0, 4, 0, 4)


@pytest.mark.xla
def test_places_of_nothing_are_filled():
    assert_same(tnp.compress(np.ones(0, bool), np.ones(0), size=2, fill_value=4), np.full(2, 4.0))
    assert_same(tnp.flatnonzero(np.ones(0), size=2, fill_value=-1), np.array([-1, -1]))


def test_there_is_nothing_to_read_on_an_empty_axis():
    nothing = np.zeros(0)
    for read in (lambda x, i: x[i], lambda x, i: tnp.take(x, i)):
        for index in (0, np.array([0])):
            with pytest.raises(ArrayIndexError, match="has no elements"):
                trace(read, [nothing, index])
            with pytest.raises(ArrayIndexError, match="out of bounds"):
                read(tnp.asarray(nothing), tnp.asarray(index))
    with pytest.raises(ArrayIndexError):
        tnp.take_along_axis(nothing, np.array([0]), 0)
    for index in (0, np.array([0, 1])):
        filled = interpreted(lambda x, i: x.at[i].get(mode="fill"), nothing, index)[0]
        assert_same(filled, np.full(np.shape(index), np.nan))
        dropped = interpreted(lambda x, i: x.at[i].set(1.0), nothing, index)[0]
        assert_same(dropped, nothing)


def test_nested_lists_of_traced_scalars_are_indices():
    x = np.arange(12.0).reshape(3, 4)

    def chosen(x, i, j):
        return x[([[i, j]],)], x[[[i], [j]], [[0, i]]], tnp.take(x, [[i, j], [j, 7]])

    expected = x[([[1, 2]],)], x[[[1], [2]], [[0, 1]]], np.take(x, [[1, 2], [2, 7]])
    found = interpreted(chosen, x, 1, 2)
    for ours, numpys in zip(found, expected, strict=True):
        assert_same(ours, numpys)
    written = interpreted(lambda x, i: x.at[[[i, -1]], 0].set(5), x, 1)[0]
    x[[[1, -1]], 0] = 5
    assert_same(written, x)


@pytest.mark.xla
def test_largest_complex_numbers_of_no_rows():
    for name in ("max", "min", "nanmax"):
        assert getattr(tnp, name)(np.zeros((0, 5), complex), axis=1).shape == (0,)
