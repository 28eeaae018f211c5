"""Random programs of the pieces that rules match: rewritten and plain ones compute the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracer.numpy as tnp
from tracer import nn
from tracer.array.trace import trace
from tracer.ir import ShapeDtype, interpret, verify
from tracer.numpy import linalg
from tracer.optimizer.passes import PassLog
from tracer.optimizer.rewrite.match.rules import rules_pass
from tracer.optimizer.rewrite.rules import RULES

APPLY = rules_pass(RULES)
N = 6
MATRICES: list[Callable[..., Any]] = [
    lambda r, m, v: m[0] @ m[1],
    lambda r, m, v: m[0].T @ m[1],
    lambda r, m, v: m[0] @ tnp.diag(v[0]),
    lambda r, m, v: tnp.diag(v[0]) @ m[0],
    lambda r, m, v: m[0] + r.choice([0.5, 2.0]) * tnp.eye(N),
    lambda r, m, v: tnp.eye(N) @ m[0] + m[1],
    lambda r, m, v: linalg.inv(_definite(m[0])) @ m[1],
    lambda r, m, v: m[1] @ linalg.inv(_definite(m[0])),
    lambda r, m, v: linalg.cholesky(_definite(m[0])),
    lambda r, m, v: tnp.log(1 + m[0] * m[0]),
    lambda r, m, v: tnp.exp(m[0] / 9) - 1,
    lambda r, m, v: nn.softmax(m[0], axis=int(r.integers(2))),
    lambda r, m, v: m[0][:, :, None].transpose(1, 0, 2)[:, :, 0] * m[1],
]
VECTORS: list[Callable[..., Any]] = [
    lambda r, m, v: m[0] @ v[0],
    lambda r, m, v: v[0] @ m[0],
    lambda r, m, v: tnp.diag(m[0] @ m[1]),
    lambda r, m, v: tnp.sum(m[0] @ m[1], axis=int(r.integers(2))),
    lambda r, m, v: linalg.inv(_definite(m[0])) @ v[0],
    lambda r, m, v: (m[0] * m[1]) @ tnp.ones(N),
    lambda r, m, v: (m[0] + 0.3 * tnp.eye(N)) @ v[0],
    lambda r, m, v: tnp.log(tnp.sum(tnp.exp(m[0]), axis=int(r.integers(2)))),
    lambda r, m, v: v[0] + tnp.trace(m[0] @ m[1]),
    lambda r, m, v: v[0] * tnp.sum(m[0] @ m[1]),
    lambda r, m, v: v[0] + _log_determinant(m[0]),
    lambda r, m, v: tnp.kron(m[0][:2, :3], m[1][:3, :2]) @ v[0],
]


def _definite(m: Any) -> Any:
    return m @ m.T / 9 + 2.0 * tnp.eye(N)


def _log_determinant(m: Any) -> Any:
    a = _definite(m)
    factor = linalg.cholesky(a)
    return linalg.slogdet(a)[1] + factor[0, 0]


def random_program(seed: int) -> Callable[..., Any]:
    """Return a program of about ten pieces; values stay moderate."""

    def program(a: Any, b: Any, v: Any) -> Any:
        random = np.random.default_rng(seed)
        matrices, vectors = [a, b], [v]
        for _ in range(10):
            makes_matrix = random.random() < 0.55
            chosen = MATRICES if makes_matrix else VECTORS
            piece = chosen[int(random.integers(len(chosen)))]
            m = [matrices[int(random.integers(len(matrices)))] for _ in range(2)]
            result = piece(random, m, [vectors[int(random.integers(len(vectors)))]])
            (matrices if makes_matrix else vectors).append(tnp.tanh(result))
        return matrices[-1], vectors[-1], matrices[-2]

    return program


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_rewritten_programs_compute_the_same(seed: int) -> None:
    types = tuple(ShapeDtype(shape, "float64") for shape in ((N, N), (N, N), (N,)))
    before, log = trace(random_program(seed), types).graph, PassLog()
    after = APPLY.run(before, log)
    verify(after)
    random = np.random.default_rng(seed)
    arrays = [random.standard_normal(t.shape) for t in types]
    for got, wanted in zip(interpret(after, arrays), interpret(before, arrays), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-10)


def test_random_programs_have_something_to_rewrite() -> None:
    types = tuple(ShapeDtype(shape, "float64") for shape in ((N, N), (N, N), (N,)))
    found = set()
    for seed in range(40):
        log = PassLog()
        APPLY.run(trace(random_program(seed), types).graph, log)
        found.update(line.split(":")[0] for line in log.applied)
    assert len(found) >= 12
