"""What each rewrite rule saves: programs as people write them, with the rule and without any.

    python -m benchmarks.rules            all rules
    python -m benchmarks.rules NAME ...   some of them

Both programs run in turn in one process; the table has the best times, their ratio, and the bytes
of both compiled programs. The other passes run in both.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import tracer
import tracer.numpy as tnp
from tracer import nn
from tracer.ir import ShapeDtype
from tracer.numpy import linalg
from tracer.optimizer.rewrite.rules import RULES

Shape = tuple[int, ...]
N = 1000


def _eye(x: Any) -> Any:
    return tnp.eye(x.shape[0], dtype=x.dtype)


def _kernel(x: Any) -> Any:
    return x @ x.T + _eye(x)


def _solved_with_cholesky(x: Any, b: Any) -> Any:
    a = _kernel(x)
    return linalg.cholesky(a), linalg.solve(a, b)


def _with_cholesky(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: (linalg.cholesky(_kernel(x)), function(_kernel(x)))


def _factored(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, *others: function(linalg.cholesky(_kernel(x)), *others)


def _naive_softmax(x: Any) -> Any:
    return tnp.exp(x) / tnp.sum(tnp.exp(x), axis=1, keepdims=True)


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Shape | str, ...]]] = {
    "inverse-times": (lambda a, b: linalg.inv(a) @ b, ((N, N), (N,))),
    "times-inverse": (lambda b, a: b @ linalg.inv(a), ((N,), (N, N))),
    "solve-then-product": (lambda a, b, v: linalg.solve(a, b) @ v, ((N, N), (N, N), (N,))),
    "solve-with-factor": (_factored(lambda t, b: linalg.solve(t @ t.T, b)), ((N, N), (N,))),
    "determinant-of-factors": (_factored(lambda t: linalg.det(t @ t.T)), ((N, N),)),
    "log-determinant-of-factors": (_factored(lambda t: linalg.slogdet(t @ t.T)[1]), ((N, N),)),
    "sign-of-factors": (_factored(lambda t: linalg.slogdet(t @ t.T)[0]), ((N, N),)),
    "solve-with-cholesky": (_solved_with_cholesky, ((N, N), (N,))),
    "determinant-with-cholesky": (_with_cholesky(linalg.det), ((N, N),)),
    "log-determinant-with-cholesky": (_with_cholesky(lambda a: linalg.slogdet(a)[1]), ((N, N),)),
    "sign-with-cholesky": (_with_cholesky(lambda a: linalg.slogdet(a)[0]), ((N, N),)),
    "log-of-determinant": (lambda a: tnp.log(linalg.det(a)), ((N, N),)),
    "trace-of-product": (lambda a, b: tnp.trace(a @ b), ((N, N), (N, N))),
    "diagonal-of-product": (lambda a, b: tnp.diag(a @ b), ((N, N), (N, N))),
    "diagonal-of-sum": (lambda a, b: tnp.trace(a @ b + a), ((N, N), (N, N))),
    "diagonal-of-difference": (lambda a, b: tnp.trace(a @ b - a), ((N, N), (N, N))),
    "diagonal-of-elementwise-product": (lambda a, b: tnp.diag((a @ b) * a), ((N, N), (N, N))),
    "diagonal-of-quotient": (lambda a, b: tnp.diag((a @ b) / a), ((N, N), (N, N))),
    "kronecker-times": (lambda a, b, v: tnp.kron(a, b) @ v, ((60, 60), (60, 60), (3600,))),
    "diagonal-gradient": (
        tracer.grad(lambda a, b: tnp.sin(tnp.diagonal(a)).sum() + (a * b).sum()),
        ((N, N), (N, N)),
    ),
    "without-diagonal": (
        lambda a, b: (c := tnp.exp(a) * b) - tnp.diag(tnp.diag(c)),
        ((N, N), (N, N)),
    ),
    "diagonal-times": (lambda w, a: tnp.diag(w) @ a, ((N,), (N, N))),
    "times-diagonal": (lambda x, w: x.T @ tnp.diag(w) @ x, ((N, 100), (N,))),
    "identity-times": (lambda a: _eye(a) @ a, ((N, N),)),
    "shifted-times": (lambda a, b: (tnp.abs(a) + 0.1 * _eye(a)) @ b, ((N, N), (N,))),
    "one-hot-times": (lambda i, m: nn.one_hot(i, N, dtype=m.dtype) @ m, ("5000", (N, 64))),
    "rows-of-identity-times": (lambda i, m: _eye(m)[i] @ m, ("5000", (N, 64))),
    "one-hot-transposed-times": (
        lambda i, g: nn.one_hot(i, N, dtype=g.dtype).T @ g,
        ("5000", (5000, 64)),
    ),
    "largest-of-sorted": (lambda x: tnp.sort(x)[..., -10:], ((100, 10000),)),
    "largest-of-sorted-descending": (
        lambda x: tnp.sort(x)[..., ::-1][..., :10],
        ((100, 10000),),
    ),
    "smallest-of-sorted": (lambda x: tnp.sort(x)[..., :10], ((100, 10000),)),
    "places-of-smallest": (lambda x: tnp.argsort(x)[..., :10], ((100, 10000),)),
    "log1p": (lambda x: tnp.log(1 + x * x), ((N, N),)),
    "log1p-of-negative": (lambda x: tnp.log(1 - tnp.tanh(x)), ((N, N),)),
    "expm1": (lambda x: tnp.exp(x) - 1, ((N, N),)),
    "softplus": (lambda x: tnp.log(1 + tnp.exp(x)), ((N, N),)),
    "log-sigmoid": (lambda x: tnp.log(nn.sigmoid(x)), ((N, N),)),
    "log-sum-exp": (lambda x: tnp.log(tnp.sum(tnp.exp(x), axis=1)), ((N, N),)),
    "softmax": (_naive_softmax, ((N, N),)),
    "power-by-multiplication": (lambda x: (x * x) ** 1.5, ((N, N),)),
    "log-softmax": (lambda x: tnp.log(nn.softmax(x, axis=1)), ((N, N),)),
}


def _arrays(shapes: tuple[Shape | str, ...]) -> list[Any]:
    random = np.random.default_rng(0)
    arrays = []
    for shape in shapes:
        if isinstance(shape, str):
            arrays.append(tnp.asarray(random.integers(0, N, int(shape)).astype(np.int32)))
        else:
            arrays.append(tnp.asarray(random.standard_normal(shape).astype(np.float32)))
    return arrays


def _best(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    result = run()
    for array in result if isinstance(result, tuple) else (result,):
        np.asarray(array)
    return time.perf_counter() - start


def _compiled(function: Callable[..., Any], off: str) -> Any:
    os.environ["TRACER_DISABLE_RULES"] = off
    try:
        return tracer.compile(function)
    finally:
        del os.environ["TRACER_DISABLE_RULES"]


def row(name: str) -> str:
    """Return one line of the table."""
    function, shapes = PROGRAMS[name]
    arrays = _arrays(shapes)
    types = [ShapeDtype(a.shape, a.dtype) for a in arrays]
    plain = _compiled(function, ",".join(rule.name for rule in RULES))
    ours = _compiled(function, "")
    for compiled in (plain, ours):
        compiled(*arrays)
    times = [(_best(lambda: plain(*arrays)), _best(lambda: ours(*arrays))) for _ in range(9)]
    before, after = (min(column) for column in zip(*times, strict=True))
    bytes_before, bytes_after = (f.plan(*types).compiled_bytes for f in (plain, ours))
    return (
        f"| {name} | {before * 1e3:.2f} | {after * 1e3:.2f} | {before / after:.1f} "
        f"| {bytes_before / 1e6:.1f} | {bytes_after / 1e6:.1f} |"
    )


def main(names: list[str]) -> None:
    """Print the table."""
    print("| rule | plain ms | with ms | ratio | plain MB | with MB |")
    print("|---|---|---|---|---|---|")
    for name in names or PROGRAMS:
        print(row(name), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
