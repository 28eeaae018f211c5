"""Errors that name the argument which is not what the signature says."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tracer import optimizers
from tracer.arguments import in_words, is_a
from tracer.errors import ArgumentError, DTypeError, TracerError

pytestmark = pytest.mark.xla

KINDS: list[tuple[Any, list[Any], list[Any]]] = [
    (int, [3, np.int8(3), True, np.array(3)], [1.5, "3", None, np.array([3]), np.ones(2)]),
    (float, [3, 1.5, np.float32(2), np.array(2.5)], ["3", None, 1j, np.ones(2)]),
    (bool, [True, np.bool_(False), 1], ["no", None, np.array([True, False])]),
    (str, ["a"], [b"a", None, 3]),
    (int | None, [None, 3], ["a"]),
    (Sequence[int], [(1, 2), [3], np.array([1]), ()], [3, "12", {1}, (1.5,), None]),
    (tuple[int, int], [(1, 2)], [(1, 2, 3), (1, "a"), 5]),
    (Callable[..., Any], [len, str], [3, None]),
    (Literal["a", "b"], ["a"], ["c", None]),
    (np.ndarray[Any, Any], [np.ones(2)], [[1, 2]]),
    (Any, [None, 3, "a"], []),
]


@pytest.mark.parametrize(("kind", "right", "wrong"), KINDS, ids=lambda kind: str(kind)[:30])
def test_kinds(kind: Any, right: list[Any], wrong: list[Any]) -> None:
    assert [value for value in right if not is_a(value, kind)] == []
    assert [value for value in wrong if is_a(value, kind)] == []
    assert in_words(kind)


X = np.ones(3)
SGD, ADAMW = optimizers.sgd(0.1, momentum=0.9), optimizers.adamw(0.1)
CALLS: list[tuple[Callable[[], Any], str]] = [
    (lambda: tnp.cov(np.ones((2, 3)), ddof="a"), "cov: ddof is 'a'"),
    (lambda: tnp.sum(np.ones(3), keepdims=np.ones(2)), "keepdims is array"),
    (lambda: np.cov(tnp.ones((2, 3)), ddof="a"), "cov: ddof is 'a'"),
    (lambda: tnp.ones((2, 3)).std(ddof="a"), "std: ddof is 'a'"),
    (lambda: tnp.hanning(10**30), "hanning: M is 1000"),
    (lambda: tnp.partition(np.ones(3), "abc"), "partition: kth is 'abc'"),
    (lambda: tnp.round(np.ones(3), 2.5), "round: decimals is 2.5"),
    (lambda: tracer.tree.all([np.ones(2)]), "all: .*truth value"),
    (lambda: tnp.array([1, 2], ndmin=99), "99|65"),
    (lambda: SGD.update({"a": X}, None), "update: state is None"),
    (lambda: SGD.update({"a": "b"}, SGD.init({"a": X})), "update: grads has 'b'"),
    (lambda: SGD.update({"a": X}, SGD.init({"b": X})), "update: state is .* structure of grads"),
    (lambda: SGD.init({"a": "b"}), "init: params has 'b'"),
    (lambda: ADAMW.update({"a": X}, ADAMW.init({"a": X})), "params, and update was given none"),
    (lambda: ADAMW.update({"a": X}, ADAMW.init({"a": X}), {"b": X}), "update: params is {'b'"),
    (lambda: optimizers.exponential_decay(0.1, 10, 0.9)("a"), "'a'"),
    (lambda: optimizers.cosine_decay_schedule(0.1, 10)(1j), "step is .*not a real number"),
    (lambda: optimizers.exponential_decay(0.1, 10, 0.9)(-(2**63)), "step is -9223.*too large"),
    (lambda: optimizers.value_and_grad_from_state(tnp.sum)(X, state=3), "state is 3"),
    (lambda: tracer.tree.ravel({"a": X})[1](np.ones(2)), "no vector of 3 numbers"),
    (lambda: tracer.nn.initializers.orthogonal()(np.uint32([0, 1]), "ab"), "shape .*'ab'"),
    (lambda: tnp.asarray(X).at[0].apply(3), "apply: func is 3"),
    (
        lambda: tnp.asarray(X).at[np.array([0, 2])].add(1, unique_indices=[]),
        r"add: unique_indices is \[\]",
    ),
    (lambda: tnp.add.reduceat(X, [[1], [1, 2]]), "no array of indices"),
    (lambda: tracer.vmap(tnp.add)(X, np.array([None])), "vmap: argument 1: cannot make"),
    (lambda: tracer.grad(tnp.sum)(np.datetime64("2020-01-01")), "grad: argument 0: cannot make"),
]


@pytest.mark.parametrize(("call", "words"), CALLS, ids=[words for _, words in CALLS])
def test_the_argument_is_named(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(TracerError, match=words) as caught:
        call()
    assert caught.value.where is not None
    assert caught.value.where.file == __file__


def test_errors_of_the_users_functions_stay() -> None:
    def fails(x: Any) -> Any:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine") as caught:
        tracer.map(fails, np.ones(3))
    assert not isinstance(caught.value, TracerError)


def test_functions_are_pickled_by_their_public_names() -> None:
    for function in (tnp.cov, tnp.exp, tracer.scan, tracer.nn.celu, tracer.lax.scan):
        assert pickle.loads(pickle.dumps(function)) is function


@pytest.mark.parametrize("parameter", [-1.0, -0.5, np.nan])
def test_gamma_numbers_of_no_parameter_are_nan_and_end(parameter: float) -> None:
    key = tracer.random.key(3)
    assert np.isnan(float(tracer.random.gamma(key, parameter)))
    assert np.isnan(np.asarray(tracer.random.dirichlet(key, [parameter, 2.0]))).all()
    assert float(tracer.random.gamma(key, np.inf)) == np.inf


def test_what_was_refused_and_is_right() -> None:
    assert tnp.zeros(np.array([2, 3])).shape == (2, 3)
    key = tracer.random.key(0)
    assert tracer.random.randint(key, (3,), np.array([1, 2, 3]), 9).shape == (3,)
    assert tnp.partition(np.array([3, 1, 2]), np.array([0, 1])).tolist() == [1, 2, 3]
    matrix = np.arange(9.0).reshape(3, 3)
    expected = np.vecdot(np.arange(3.0), matrix, axis=0)
    np.testing.assert_allclose(np.asarray(tnp.vecdot(np.arange(3.0), matrix, axis=0)), expected)


def test_modes_that_are_none_are_refused() -> None:
    with pytest.raises(ArgumentError, match="no mode"):
        tnp.choose([0, 1], [[1, 2], [3, 4]], mode="wrop")
    with pytest.raises(DTypeError, match="axis is an integer"):
        tnp.cumsum(np.ones((2, 2)), axis=())


def test_static_arguments_of_any_kind_follow_one_another() -> None:
    times = tracer.compile(lambda x, n: x * 2 if n else x, static_argnums=1)
    for n in ((1, 2), np.uint64(3), np.float64(2.0), (0,), np.datetime64("2020-01-01"), "a"):
        assert times(X, n).tolist() == [2, 2, 2]
