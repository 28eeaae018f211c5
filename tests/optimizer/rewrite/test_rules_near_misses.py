"""What looks like a rule's pattern and is not must stay as it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.optimizer.rewrite.rule_cases import N, factor, floats, gradient, indices, with_cholesky
from tracer import nn
from tracer.array.trace import trace
from tracer.ir import ShapeDtype, interpret
from tracer.numpy import linalg
from tracer.optimizer.passes import PassLog
from tracer.optimizer.rewrite.match.rules import rules_pass
from tracer.optimizer.rewrite.rules import RULES

APPLY = rules_pass(RULES)
DIFFERS = "a parameter, constant or type is not"


def integers(*shape: int) -> ShapeDtype:
    return ShapeDtype(shape, "int64")


def complexes(*shape: int) -> ShapeDtype:
    return ShapeDtype(shape, "complex64")


def _eye(x: Any) -> Any:
    return tnp.eye(x.shape[0], dtype=x.dtype)


NEAR_MISSES: list[tuple[str, Callable[..., Any], tuple[ShapeDtype, ...], str | None]] = [
    ("power-by-multiplication", lambda x: x**3, (floats(N),), None),
    ("power-by-multiplication", lambda x: x**4.000001, (floats(N),), "exponent 4"),
    ("power-by-multiplication", lambda x: x**9, (floats(N),), "exponent 9"),
    ("power-by-multiplication", lambda x: x**4, (integers(N),), None),
    ("power-by-multiplication", lambda x: x**4, (complexes(N),), None),
    ("power-by-multiplication", lambda x: 4**x, (floats(N),), None),
    ("power-by-multiplication", lambda x, y: x**y, (floats(N), floats(N)), None),
    ("power-by-multiplication", lambda x: x ** tnp.array([4.0, 5.0]), (floats(2),), None),
    ("diagonal-of-sum", lambda a, b: tnp.diagonal(a + b, 1), (floats(N, N), floats(N, N)), DIFFERS),
    ("log1p", lambda x: tnp.log(1.0000001 + x), (floats(N),), DIFFERS),
    ("log1p", lambda x: tnp.log(2 + x), (floats(N),), DIFFERS),
    ("log1p", lambda x: tnp.log(1 + x), (complexes(N),), DIFFERS),
    ("log1p-of-negative", lambda x: tnp.log(x - 1), (floats(N),), None),
    ("expm1", lambda x: tnp.exp(x) - 2, (floats(N),), DIFFERS),
    ("expm1", lambda x: 1 - tnp.exp(x), (floats(N),), None),
    ("expm1", lambda x: tnp.exp(x) - 1, (complexes(N),), None),
    ("softplus", lambda x: tnp.log(1 + tnp.exp2(x)), (floats(N),), None),
    ("log-sigmoid", lambda x: tnp.log(1 / (2 + tnp.exp(-x))), (floats(N),), None),
    ("log-sum-exp", lambda x: tnp.log(tnp.max(tnp.exp(x), axis=1)), (floats(4, N),), None),
    ("log-sum-exp", lambda x: tnp.log(tnp.mean(tnp.exp(x), axis=1)), (floats(4, N),), None),
    ("log-sum-exp", lambda x: nn.log_softmax(x, axis=1), (floats(4, N),), "already"),
    (
        "log-sum-exp",
        lambda x: tnp.log(tnp.sum(tnp.exp(x[:, None] - x[None]), axis=1)),
        (floats(N),),
        "need not be stored",
    ),
    (
        "softmax",
        lambda x: tnp.exp(x) / tnp.sum(tnp.exp(x), axis=1, keepdims=True).T,
        (floats(N, N),),
        None,
    ),
    (
        "softmax",
        lambda x, y: tnp.exp(x) / tnp.sum(tnp.exp(y), axis=1, keepdims=True),
        (floats(4, N), floats(4, N)),
        None,
    ),
    (
        "softmax",  # the sum of each row divides a column
        lambda x: tnp.exp(x) / tnp.sum(tnp.exp(x), axis=1),
        (floats(N, N),),
        DIFFERS,
    ),
    (
        "softmax",
        lambda x: tnp.exp(x) / tnp.sum(tnp.exp(x), axis=1),
        (floats(N, N, N),),
        DIFFERS,
    ),
    ("inverse-times", lambda a, b: linalg.inv(a) * b, (floats(N, N), floats(N, N)), None),
    ("inverse-times", lambda a, b: linalg.pinv(a) @ b, (floats(N, N), floats(N)), None),
    (
        "solve-with-factor",
        lambda a, b: linalg.solve(a @ a.T, b),
        (floats(N, N), floats(N)),
        "lower",
    ),
    (
        "solve-with-factor",
        factor(lambda t, b: linalg.solve(t.T @ t, b)),
        (floats(N, N), floats(N)),
        None,
    ),
    (
        "determinant-of-factors",
        factor(lambda t: linalg.det(t @ (2 * t).T)),
        (floats(N, N),),
        None,
    ),
    (  # a guard looks for x @ x.T, which does not exist for a stack
        "solve-with-cholesky",
        lambda x, b: tnp.linalg.solve(x @ tnp.swapaxes(x, 1, 2) + tnp.eye(N, dtype=x.dtype), b),
        (floats(3, N, N), floats(3, N, 2)),
        None,
    ),
    (
        "solve-with-cholesky",
        lambda a, b: (linalg.cholesky(a), linalg.solve(a, b)),
        (floats(N, N), floats(N)),
        "not known to be symmetric",
    ),
    (
        "solve-with-cholesky",
        lambda x, b: linalg.solve(x @ x.T + _eye(x), b),
        (floats(N, N), floats(N)),
        "not in the program",
    ),
    (
        "solve-with-cholesky",
        with_cholesky(lambda a, b: linalg.solve(a - _eye(a), b)),
        (floats(N, N), floats(N)),
        "not known to be symmetric",
    ),
    (
        "determinant-with-cholesky",
        lambda x: (linalg.cholesky(x @ x.T), linalg.det(x @ x.T)),
        (floats(N, 5),),
        "positive definite",
    ),
    (
        "log-determinant-with-cholesky",
        with_cholesky(lambda a: linalg.slogdet(a * -2.0)[1]),
        (floats(N, N),),
        "not known to be symmetric",
    ),
    *(  # one factor for each matrix of a stack
        (
            "log-determinant-with-cholesky",
            lambda x, c=c: linalg.slogdet(x @ x.T * tnp.array([1, 2, c]).reshape(3, 1, 1))[1],
            (floats(N, N),),
            "not known to be symmetric",
        )
        for c in (3.0, -3.0)
    ),
    ("trace-of-product", lambda a, b: tnp.trace(a @ b, 1), (floats(N, 9), floats(9, N)), None),
    ("trace-of-product", lambda a, b: tnp.trace(a + b), (floats(N, N), floats(N, N)), None),
    (
        "trace-of-product",
        lambda a, b: tnp.sum((a @ b) * (1 - _eye(a))),
        (floats(N, 9), floats(9, N)),
        None,
    ),
    (
        "diagonal-of-product",
        lambda a, b: tnp.diagonal(a @ b, 1),
        (floats(N, 9), floats(9, N)),
        DIFFERS,
    ),
    (
        "diagonal-gradient",
        lambda x, w: gradient(lambda x: tnp.diagonal(x, 1))(x, w),
        (floats(N, N), floats(N - 1)),
        None,
    ),
    (
        "without-diagonal",
        lambda a, b: a - tnp.diag(tnp.diag(b)),
        (floats(N, N), floats(N, N)),
        None,
    ),
    ("without-diagonal", lambda a: a - tnp.diag(tnp.diag(a, 1), 1), (floats(N, N),), None),
    ("without-diagonal", lambda a: tnp.diag(tnp.diag(a)) - a, (floats(N, N),), None),
    ("diagonal-times", lambda w, a: tnp.diag(w, 1) @ a, (floats(N - 1), floats(N, 9)), None),
    (
        "diagonal-times",
        lambda w, a: (w * (1 - _eye(w))) @ a,
        (floats(N), floats(N, 9)),
        None,
    ),
    (
        "identity-times",
        lambda a: tnp.eye(N, k=1, dtype=a.dtype) @ a,
        (floats(N, 9),),
        None,
    ),
    (
        "shifted-times",
        lambda a, b: (a + 0.1 * tnp.eye(N, k=1, dtype=a.dtype)) @ b,
        (floats(N, N), floats(N)),
        None,
    ),
    (
        "shifted-times",
        lambda a, b: (a + 0.1 * _eye(a)) @ b,
        (floats(N, N), floats(N)),
        "may cancel",
    ),
    (
        "shifted-times",
        lambda a, c, b: (tnp.exp(a) + c * _eye(a)) @ b,
        (floats(N, N), floats(), floats(N)),
        "may cancel",
    ),
    ("kronecker-times", lambda a, v: tnp.tile(a, (3, 2)) @ v, (floats(4, 5), floats(10)), None),
    (
        "one-hot-times",
        lambda i, m: (i[:, None] >= tnp.arange(N)).astype(m.dtype) @ m,
        (indices(40), floats(N, 9)),
        None,
    ),
    (
        "one-hot-times",
        lambda i, m: nn.one_hot(i + 1, N, dtype="float32", axis=0) @ m,
        (indices(9), floats(9, 3)),
        None,
    ),
    (
        "one-hot-times",
        lambda x, m: (x[:, None] == tnp.arange(N)).astype(m.dtype) @ m,
        (floats(40), floats(N, 9)),
        None,
    ),
    ("largest-of-sorted", lambda x: tnp.sort(x)[..., -4:-1], (floats(4, 99),), DIFFERS),
    ("largest-of-sorted", lambda x: tnp.sort(x, axis=0)[-3:], (floats(99, 4),), DIFFERS),
    ("largest-of-sorted", lambda x: tnp.sort(x)[..., -30:], (floats(4, 99),), "as fast"),
    ("smallest-of-sorted", lambda x: tnp.sort(x)[..., :6:2], (floats(4, 99),), DIFFERS),
    ("smallest-of-sorted", lambda x: tnp.sort(x)[..., :3], (indices(4, 99),), "as fast"),
    ("smallest-of-sorted", lambda x: tnp.sort(x)[..., :3], (complexes(4, 99),), None),
    (
        "places-of-smallest",
        lambda x: tnp.argsort(x)[..., ::-1][..., :3],
        (floats(4, 99),),
        None,
    ),
    ("log-of-determinant", lambda a: tnp.log(linalg.det(a)), (complexes(N, N),), None),
]


@pytest.mark.parametrize(
    ("name", "function", "types", "reason"),
    NEAR_MISSES,
    ids=[f"{name}-{i}" for i, (name, *_) in enumerate(NEAR_MISSES)],
)
def test_a_near_miss_is_not_rewritten(
    name: str, function: Callable[..., Any], types: tuple[ShapeDtype, ...], reason: str | None
) -> None:
    log = PassLog()
    APPLY.run(trace(function, types).graph, log)
    assert name not in [line.split(":")[0] for line in log.applied]
    reasons = [r.reason for r in log.refusals if r.subject.split(" at ")[0] == name]
    assert reason is None or any(reason in found for found in reasons)


@pytest.mark.parametrize("name", ["trace-of-product", "diagonal-times"])
def test_exact_identities_hold_for_integers_too(name: str) -> None:
    programs: dict[str, tuple[Callable[..., Any], tuple[ShapeDtype, ...]]] = {
        "trace-of-product": (lambda a, b: tnp.trace(a @ b), (integers(N, N), integers(N, N))),
        "diagonal-times": (lambda w, a: tnp.diag(w) @ a, (integers(N), integers(N, N))),
    }
    function, types = programs[name]
    log = PassLog()
    after = APPLY.run(trace(function, types).graph, log)
    assert name in [line.split(":")[0] for line in log.applied]
    random = np.random.default_rng(0)
    arrays = [random.integers(-99, 99, t.shape) for t in types]
    first, second = (interpret(g, arrays) for g in (trace(function, types).graph, after))
    np.testing.assert_array_equal(first[0], second[0])


@pytest.mark.xla
def test_a_shift_that_cancels_the_diagonal_keeps_the_digits() -> None:
    rng = np.random.default_rng(0)
    a = (1e6 * np.eye(N) + rng.normal(size=(N, N))).astype("float32")
    b = rng.normal(size=N).astype("float32")
    found = tracer.compile(lambda a, c, b: (a + c * _eye(a)) @ b)(a, np.float32(-1e6), b)
    expected = (a.astype(float) - 1e6 * np.eye(N)) @ b
    np.testing.assert_allclose(np.asarray(found), expected, rtol=0, atol=1e-5)
