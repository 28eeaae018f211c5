"""Indices out of bounds as jax.numpy has them, every mode; skipped where jax is not there."""

from __future__ import annotations

import hypothesis
import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.numpy.beyond import filled_in, indices, operands_of
from tests.numpy.oracle import assert_same, interpreted

MODES = (None, "drop", "clip", "fill")
METHODS = ("set", "add", "multiply", "divide", "power", "min", "max", "subtract")
SHAPE = (4, 5, 3)


@pytest.fixture(scope="module")
def jax():
    found = pytest.importorskip("jax")
    with found.enable_x64(True):
        yield found


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("dtype", ["float32", "complex64", "int16", "uint8", "bool"])
def test_reads(jax, mode, dtype):
    x = np.arange(12).reshape(3, 4).astype(dtype)
    for index in (2, 3, -3, -4, 99, np.array([0, 3, -4, -1]), np.array([[7], [1]], np.uint8)):
        ours = interpreted(lambda x, i: x.at[i].get(mode=mode), x, index)[0]
        theirs = jax.jit(lambda x, i: x.at[i].get(mode=mode))(x, index)
        assert_same(ours, theirs, index)
        assert_same(
            interpreted(lambda x, i: tnp.take(x, i, axis=1), x, index)[0],
            jax.jit(lambda x, i: jax.numpy.take(x, i, axis=1))(x, index),
            index,
        )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("mode", MODES)
def test_updates_and_their_gradients(jax, mode, method):
    x, weights = np.arange(1.0, 13).reshape(3, 4), np.cos(np.arange(12.0)).reshape(3, 4)

    def loss(x, v, i):
        part = x.at[i] if np.ndim(i) else x.at[i, 1:3]
        options = {"mode": mode, "unique_indices": True}
        return (weights * getattr(part, method)(v, **options)).sum()

    # jax 0.10.2 gives max and min with "clip" the gradient of where the index would have been.
    beyond = (3, -4, 99, np.array([0, 3, 1]), np.array([-9, -1]))
    is_right = mode != "clip" or method not in ("max", "min")
    for index in (2, -3, *(beyond if is_right else ())):
        ours = interpreted(tracer.value_and_grad(loss, argnums=(0, 1)), x, 1.5, index)
        theirs = jax.value_and_grad(loss, argnums=(0, 1))(x, 1.5, jax.numpy.asarray(index))
        for found, wanted in zip(ours, jax.tree.leaves(theirs), strict=True):
            assert_same(found, wanted, index)


@pytest.mark.parametrize("method", [*METHODS, "apply"])
def test_repeated_indices(jax, method):
    x, index = np.arange(1.0, 6), np.array([1, 1, 9, -1, 4, -7])
    value = (lambda part: part * 3) if method == "apply" else 2.0
    ours = interpreted(lambda x, i: getattr(x.at[i], method)(value), x, index)[0]
    assert_same(ours, getattr(jax.numpy.asarray(x).at[index], method)(value))


@hypothesis.given(indices(SHAPE))
@hypothesis.settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.function_scoped_fixture],
)
def test_every_form_of_an_index(jax, index):
    x = np.arange(1.0, 61).reshape(SHAPE)
    operands = operands_of(index)

    def both(x, *given):
        chosen = filled_in(index, given)
        return x[chosen], x.at[chosen].add(0.5), x.at[chosen].get(mode="fill")

    for ours, theirs in zip(
        interpreted(both, x, *operands), both_of(jax, both, x, operands), strict=True
    ):
        assert_same(ours, theirs, index)


def both_of(jax, function, x, operands):
    return function(jax.numpy.asarray(x), *[jax.numpy.asarray(v) for v in operands])


@pytest.mark.parametrize("mode", [None, "clip", "fill"])
def test_take_along_axis(jax, mode):
    x, index = np.arange(12.0).reshape(3, 4), np.array([[0, 3, -4, -1], [9, 1, -9, 2]])
    ours = interpreted(lambda x, i: tnp.take_along_axis(x, i, 0, mode=mode), x, index)[0]
    theirs = jax.numpy.take_along_axis(jax.numpy.asarray(x), jax.numpy.asarray(index), 0, mode=mode)
    assert_same(ours, theirs)
