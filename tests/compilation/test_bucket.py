"""`tracer.bucket`: one program for many sizes, exact or refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tracer
import tracer.numpy as tnp
from tracer.optimizer.rewrite.padding import masking

pytestmark = pytest.mark.xla
RNG = np.random.default_rng(0)


def assert_close(found: Any, expected: Any) -> None:
    pairs = zip(tracer.tree.leaves(found), tracer.tree.leaves(expected), strict=True)
    for one, other in pairs:
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11)


def attention(q: Any, k: Any, v: Any, w: Any) -> Any:
    scores = q @ k.T / np.sqrt(q.shape[1])
    return tracer.nn.softmax(scores, axis=1) @ v @ w, {"largest": tnp.argmax(scores, axis=1)}


def test_one_program_for_each_bucket() -> None:
    f, exact = tracer.bucket(attention, axes=(0, 0, 0, None)), tracer.compile(attention)
    for n in (3, 4, 5, 6, 7, 8, 13):
        arrays = [RNG.normal(size=(n, 4)) for _ in range(3)]
        w = RNG.normal(size=(4, 4))
        assert_close(f(*arrays, w), exact(*arrays, w))
    assert f.compiled_sizes == (4, 8, 16)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "mean": lambda x: x.mean(),
    "a mean of rows and a constant": lambda x: (x - x.mean(0)) * 8,
    "variance of a sample": lambda x: tnp.var(x, axis=0, ddof=1),
    "largest and smallest": lambda x: (x.max(), x.min(0), tnp.argmin(x, axis=0)),
    "product": lambda x: tnp.prod(x, axis=0),
    "booleans": lambda x: ((x > 0).all(), (x > 5).any(0)),
    "gram": lambda x: (x @ x.T, x.T @ x),
    "running": lambda x: (tnp.cumsum(x, axis=0), tnp.cumprod(x, axis=0)),
    "log-sum": lambda x: tracer.scipy.special.logsumexp(x, axis=0),
    "largest few": lambda x: tnp.top_k(x[:, 0] * 2, 2),
    "division by what is padded": lambda x: (1 / x).sum(),
    "the size itself": lambda x: x * x.shape[0] + np.arange(x.shape[0])[:, None],
    "a table of the size": lambda x: x * np.linspace(0, 1, x.shape[0])[:, None],
    "a gradient": tracer.grad(lambda x: (tnp.tanh(x) ** 2).mean()),
    "random numbers": lambda x: tracer.random.normal(tracer.random.key(0), x.shape) + x,
    "a constant result": lambda x: tnp.ones(x.shape[0]),
    "the first rows": lambda x: (x[0], x[:1] * 2, x[1:2] + x.sum(0)),
    "broken axes": lambda x: x[:, None, :] - x[None],
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_are_those_of_the_exact_size(name: str) -> None:
    function = FUNCTIONS[name]
    f, exact = tracer.bucket(function, sizes=(12, 24)), tracer.compile(function)
    for n in (2, 8, 12, 1, 17):
        x = RNG.normal(size=(n, 3))
        if n == 1 and name in ("variance of a sample", "largest few", "the first rows"):
            continue
        assert_close(f(x), exact(x))
    assert set(f.compiled_sizes) <= {1, 12, 24}


@pytest.mark.parametrize("name", ["mean", "largest and smallest", "gram", "log-sum"])
def test_without_masks_they_would_not_be(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    unmasked = lambda self, node, place, operand, axis: operand
    monkeypatch.setattr(masking._Masking, "_mask", unmasked)
    x = RNG.normal(size=(5, 3)) + 2
    function = lambda x: FUNCTIONS[name](tnp.cos(x))  # Zeros do not stay neutral.
    found, expected = tracer.bucket(function)(x), tracer.compile(function)(x)
    with pytest.raises(AssertionError):
        assert_close(found, expected)


def reads_the_end(x: Any) -> Any:
    return x[-1]


REFUSED: dict[str, tuple[Callable[..., Any], str]] = {
    "the last row": (reads_the_end, "something different for another size"),
    "reversed": (lambda x: x[::-1], "needs the axis whole"),
    "sorted": (lambda x: tnp.sort(x, axis=0), "needs the axis whole"),
    "joined": (lambda x: tnp.concatenate([x, x]), "an axis of 10 elements of one of 5"),
    "flat": (lambda x: x.reshape(-1), "an axis of 15 elements of one of 5"),
    "a loop": (lambda x: tracer.scan(lambda c, r: (c + r, c), x[0], x)[0], "whole|another size"),
    "a branch": (lambda x: x * 2 if x.shape[0] < 6 else x, "something different for another size"),
    "rows by number": (lambda x: x[tnp.argmax(x, axis=0)], "needs the axis whole"),
    "rows that are not always there": (lambda x: x[2:6], "another size|one of 5"),
    "a median": (lambda x: tnp.median(x, axis=0), "another size|whole"),
    "a convolution": (lambda x: tnp.convolve(x[:, 0], tnp.ones(3), "same"), "whole|another size"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_proven_is_refused(name: str) -> None:
    function, reason = REFUSED[name]
    with pytest.raises(tracer.ArgumentError, match=reason) as caught:
        tracer.bucket(function)(RNG.normal(size=(5, 3)))
    assert "test_bucket.py" in str(caught.value.where)
    assert "tracer.compile" in caught.value.mend


def test_a_size_for_which_the_function_changes_is_found_later() -> None:
    f = tracer.bucket(lambda x: x if x.shape[0] != 6 else -x)
    assert_close(f(np.ones((5, 1))), np.ones((5, 1)))
    with pytest.raises(tracer.ArgumentError, match="something different for another size"):
        f(np.ones((6, 1)))


def test_a_constant_that_changes_later_is_handed_in() -> None:
    f = tracer.bucket(lambda x: x * min(x.shape[0], 14), sizes=(16,))
    for n in (15, 16, 14, 3, 15):
        assert_close(f(np.ones(n)), np.full(n, min(n, 14.0)))


STEPS: list[Callable[[Any], Any]] = [
    lambda x: tnp.sin(x),
    lambda x: x - x.mean(0),
    lambda x: x * x.max(0, keepdims=True),
    lambda x: tnp.where(x > 0, x, x.sum()),
    lambda x: tracer.nn.softmax(x, axis=0),
    lambda x: (x @ x.T) @ x / x.shape[0],
    lambda x: tnp.cumsum(x, axis=0),
    lambda x: x[:, ::-1] + x[:, :1],
    lambda x: x / (1 + tnp.abs(x).sum(1, keepdims=True)),
    lambda x: tnp.log1p(tnp.abs(x)) * tnp.arange(x.shape[0])[:, None],
    lambda x: x + x[0],
    lambda x: x[::-1],
]


@settings(max_examples=12)
@given(st.lists(st.integers(0, len(STEPS) - 1), min_size=1, max_size=5), st.integers(2, 8))
def test_random_programs_are_exact_or_refused(steps: list[int], n: int) -> None:
    def program(x: Any) -> Any:
        for step in steps:
            x = STEPS[step](x)
        return x, x.sum(0)

    x = np.random.default_rng(n).normal(size=(n, 3))
    try:
        found = tracer.bucket(program, sizes=(8,))(x)
    except tracer.ArgumentError:
        assert len(STEPS) - 1 in steps
        return
    assert_close(found, tracer.compile(program)(x))


# The ways in


def test_axes_nest_like_the_arguments() -> None:
    def program(p: Any, x: Any) -> Any:
        return {"y": x * p["scale"], "z": (p["rows"] * x.T).sum(1)}

    f = tracer.bucket(program, axes=({"scale": None, "rows": 0}, -2))
    for n in (3, 4):
        p = {"scale": np.float64(2), "rows": RNG.normal(size=n)}
        x = RNG.normal(size=(n, 5))
        assert_close(f(p, x), program(p, x))


def test_arrays_captured_arrays_and_limits() -> None:
    table = tnp.asarray(RNG.normal(size=(20, 3)))
    f = tracer.bucket(lambda x: (x @ table.T).max(1), memory_limit="1MB")
    x = tnp.asarray(RNG.normal(size=(5, 3)))
    assert_close(f(x), (np.asarray(x) @ np.asarray(table).T).max(1))
    assert f.plan(x).limit_bytes == 1_000_000
    assert "bucketed <lambda>" in repr(f)


def test_inside_of_a_trace_the_function_itself_is_recorded() -> None:
    f = tracer.bucket(reads_the_end)
    x = RNG.normal(size=(5, 3))
    assert_close(tracer.compile(lambda x: f(x) * 2)(x), x[-1] * 2)


@pytest.mark.parametrize(
    ("options", "arguments", "error", "words"),
    [
        ({"sizes": ()}, (), tracer.ArgumentError, "positive integers"),
        ({"sizes": (0, 4)}, (), tracer.ArgumentError, "positive integers"),
        ({"sizes": "ab"}, (), tracer.ArgumentError, "positive integers"),
        ({"donate_argnums": 0}, (), tracer.ArgumentError, "no donate_argnums"),
        ({"sizes": (4,)}, (np.ones(5),), tracer.ArgumentError, "largest bucket has 4"),
        ({}, (np.ones(5), np.ones(6)), tracer.ShapeError, r"sizes \[5, 6\]"),
        ({"axes": None}, (np.ones(5),), tracer.ShapeError, r"sizes \[\]"),
        ({"axes": 1}, (np.ones(5),), tracer.ShapeError, "has no such axis"),
        ({"axes": (0, 0)}, (np.ones(5),), tracer.ArgumentError, "does not fit 1 arguments"),
    ],
)
def test_bad_input(options: Any, arguments: Any, error: Any, words: str) -> None:
    with pytest.raises(error, match=words):
        tracer.bucket(lambda *x: x[0] * 2, **options)(*arguments)


def test_no_function() -> None:
    with pytest.raises(tracer.ArgumentError, match="takes a function"):
        tracer.bucket(3)  # type: ignore[arg-type]
