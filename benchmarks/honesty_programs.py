"""Two hundred programs from templates, which no other benchmark has, and their calls under limits.

A name is "family: what, of what": `PROGRAMS` has them all, in an order in which each n-th of them
is a fair sample.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

import tracer
import tracer.numpy as tnp
from tracer import nn
from tracer.array.trace import trace
from tracer.optimizer.model.liveness import Liveness
from tracer.scipy import linalg
from tracer.scipy.special import logsumexp

Function = Callable[..., Any]
SMALLEST = "smallest"
LIMITS = (SMALLEST, "1/4", "1/2", "13/10")
"""The smallest limit that a refusal names, and shares of the peak of the program as written."""


@dataclass(frozen=True)
class Program:
    """A function, and the shapes and dtype of its arguments."""

    function: Function
    shapes: Sequence[tuple[int, ...]]
    dtype: str = "float32"

    def arrays(self) -> list[Any]:
        """Return its arguments: normal numbers."""
        rng = np.random.default_rng(0)
        return [tnp.asarray(rng.standard_normal(s).astype(self.dtype)) for s in self.shapes]


def gradient(function: Function) -> Function:
    """Return the gradient, for the first argument, of the mean of squares of the results."""

    def loss(*arguments: Any) -> Any:
        leaves = tracer.tree.leaves(function(*arguments))
        return sum((leaf * leaf).mean() for leaf in leaves)

    return tracer.grad(loss)


Named = Iterator[tuple[str, Program]]


def _both(family: str, functions: dict[str, Function], *shapes: tuple[int, ...]) -> Named:
    """Yield functions of the same arguments, and their gradients."""
    for name, function in functions.items():
        yield f"{family}: {name}", Program(function, shapes)
        yield f"{family}: {name}, gradient", Program(gradient(function), shapes)


def _differences(x: Any, y: Any) -> Any:
    return x[:, None] - y[None]


def _squares(x: Any, y: Any) -> Any:
    return (_differences(x, y) ** 2).sum(-1)


def _haversine(x: Any, y: Any) -> Any:
    half = tnp.sin(_differences(x, y)[..., :2] / 2) ** 2
    return half[..., 0] + tnp.cos(x[:, None, 0]) * tnp.cos(y[None, :, 0]) * half[..., 1]


def _matern(x: Any, y: Any) -> Any:
    scaled = tnp.sqrt(3 * _squares(x, y) + 1e-6)
    return (1 + scaled) * tnp.exp(-scaled)


PAIRS: dict[str, Function] = {
    "matern": _matern,
    "exponential of L1": lambda x, y: tnp.exp(-tnp.abs(_differences(x, y)).sum(-1)),
    "rational": lambda x, y: (1 + _squares(x, y) / 3) ** -1.5,
    "multiquadric": lambda x, y: 1 / tnp.sqrt(1 + _squares(x, y)),
    "largest difference": lambda x, y: tnp.abs(_differences(x, y)).max(-1),
    "haversine": _haversine,
    "polynomial": lambda x, y: (1 + x @ y.T / 3) ** 3,
    "sigmoid": lambda x, y: tnp.tanh(x @ y.T + 0.5),
    "canberra": lambda x, y: (
        tnp.abs(_differences(x, y)) / (tnp.abs(x)[:, None] + tnp.abs(y)[None] + 0.1)
    ).sum(-1),
    "Student": lambda x, y: 1 / (1 + _squares(x, y)),
}
READ: dict[str, Function] = {
    "product": lambda matrix, v: matrix @ v,
    "log-sum-exp": lambda matrix, v: logsumexp(matrix + v, axis=1),
    "row extremes": lambda matrix, v: (matrix * v).max(1) - (matrix + v).min(1),
    "normalised product": lambda matrix, v: matrix @ v / (tnp.abs(matrix).sum(1) + 1),
}


def _read_pairs(pair: Function, read: Function) -> Function:
    return lambda x, y, v: read(pair(x, y), v)


def _pairwise() -> Named:
    """Yield ten kernels, read in four ways: forward or as gradients, in two dtypes."""
    for (kernel, pair), (how, read) in itertools.product(PAIRS.items(), READ.items()):
        for is_gradient, dtype in ((False, "float64"), (True, "float32")):

            def function(
                x: Any, y: Any, v: Any, pair: Function = pair, read: Function = read
            ) -> Any:
                return read(pair(x, y), v)

            name = f"pairwise: {how} of {kernel}{', gradient' * is_gradient}"
            chosen = gradient(function) if is_gradient else function
            yield name, Program(chosen, ((1_500, 3), (1_200, 3), (1_200,)), dtype)


def _attend(bias: Function) -> Function:
    def attention(q: Any, k: Any, v: Any) -> Any:
        scores = tnp.einsum("hqd,hkd->hqk", q, k) / math.sqrt(q.shape[-1])
        return tnp.einsum("hqk,hkd->hqd", nn.softmax(bias(scores), axis=-1), v)

    return attention


def _apart(scores: Any) -> Any:
    return tnp.arange(scores.shape[-2])[:, None] - tnp.arange(scores.shape[-1])[None]


def _attention() -> Named:
    functions = {
        "plain": _attend(lambda s: s),
        "causal": _attend(lambda s: tnp.where(_apart(s) >= 0, s, -1e9)),
        "window": _attend(lambda s: tnp.where(tnp.abs(_apart(s)) < 50, s, -1e9)),
        "distances": _attend(lambda s: s - 0.1 * tnp.abs(_apart(s)).astype("float32")),
        "capped": _attend(lambda s: 5 * tnp.tanh(s / 5)),
        "squared relu": lambda q, k, v: tnp.maximum(q @ tnp.swapaxes(k, 1, 2), 0) ** 2 @ v,
    }
    yield from _both("attention", functions, *[(4, 600, 16)] * 3)


def _normalised(x: Any, axis: int = -1) -> Any:
    x = x - x.mean(axis, keepdims=True)
    return x / tnp.sqrt((x * x).mean(axis, keepdims=True) + 1e-5)


def _layers() -> Named:
    functions: dict[str, Function] = {
        "tanh": lambda a, b, x: tnp.tanh(tnp.tanh(x @ a) @ b),
        "relu": lambda a, b, x: tnp.maximum(tnp.maximum(x @ a, 0) @ b, 0),
        "gelu": lambda a, b, x: nn.gelu(x @ a) @ b,
        "normalised rows": lambda a, b, x: _normalised(tnp.tanh(_normalised(x) @ a)) @ b,
        "normalised batch": lambda a, b, x: _normalised(tnp.tanh(_normalised(x, 0) @ a), 0) @ b,
        "residual": lambda a, b, x: x + tnp.tanh(x @ a) @ b,
        "gated": lambda a, b, x: (nn.sigmoid(x @ a) * tnp.tanh(x @ a)) @ b,
        "log-softmax": lambda a, b, x: nn.log_softmax(tnp.tanh(x @ a) @ b, axis=-1),
    }
    yield from _both("layers", functions, (32, 128), (128, 32), (8_000, 32))


def _reductions() -> Named:
    functions: dict[str, Function] = {
        "variance": lambda x: x.var(1),
        "moments": lambda x: (x**3).mean(0) / (x * x).mean(0) ** 1.5,
        "entropy": lambda x: -(nn.softmax(x) * nn.log_softmax(x)).sum(-1),
        "running sums": lambda x: tnp.cumsum(tnp.exp(x - x.max()), axis=1).max(0),
        "norms": lambda x: tnp.sqrt((x * x).sum(1)) + tnp.abs(x).max(1),
        "counts": lambda x: (tnp.floor(x[:, :64, None] * 4) == tnp.arange(-8.0, 8)).sum(0),
        "outer": lambda x: (tnp.exp(x[:, :40, None] * x[:, None, :40])).sum(0),
        "mean and spread": lambda x: tnp.abs(x - x.mean(0)).mean(0),
        "soft minimum": lambda x: -logsumexp(-5 * tnp.abs(x), axis=0) / 5,
        "products": lambda x: (1 + 0.001 * x).prod(1),
        "places": lambda x: tnp.argmax(tnp.sin(3 * x), axis=1),
        "covariance": lambda x: tnp.tanh((x - x.mean(0)).T) @ tnp.tanh(x - x.mean(0)),
    }
    for (name, function), dtype in itertools.product(functions.items(), ("float32", "float64")):
        yield f"reductions: {name}, {dtype}", Program(function, ((4_000, 500),), dtype)


PAIRWISE_LOOPS = ("mean shift", "forces", "optimal transport")


def _looped(trips: int) -> dict[str, Function]:
    def times(step: Function) -> Function:
        return lambda x: tracer.fori_loop(0, trips, lambda _, a: step(a), x)

    def scaling(x: Any) -> Any:
        def step(_: Any, u: Any) -> Any:
            return -logsumexp(-_squares(x, x) - logsumexp(u - _squares(x, x), axis=1), axis=1)

        return tracer.fori_loop(0, trips, step, tnp.zeros_like(x[:, 0]))

    def recurrent(x: Any) -> Any:
        def step(h: Any, row: Any) -> Any:
            h = tnp.tanh(h * 0.9 + row)
            return h, h.sum()

        return tracer.scan(step, x[0], x[: 30 * trips])[1]

    return {
        "diffusion": times(lambda a: a + 0.1 * (tnp.roll(a, 1, 0) + tnp.roll(a, -1, 0) - 2 * a)),
        "mean shift": times(lambda a: nn.softmax(-_squares(a, a), axis=1) @ a),
        "power iteration": times(lambda a: _normalised(a @ (a.T @ a) * 1e-3)),
        "forces": times(
            lambda a: (
                a + 1e-4 * (_differences(a, a) / (1 + _squares(a, a))[..., None] ** 1.5).sum(1)
            )
        ),
        "optimal transport": scaling,
        "recurrent": recurrent,
        "diffusion, gradient": gradient(times(lambda a: a + 0.1 * tnp.sin(tnp.roll(a, 1, 0)))),
        "recurrent, gradient": gradient(recurrent),
    }


def _loops() -> Named:
    for trips in (3, 30):
        for name, function in _looped(trips).items():
            features = 4 if name in PAIRWISE_LOOPS else 400
            yield f"loops: {name}, {trips} trips", Program(function, ((900, features),))


def _three_way() -> Named:
    def scores(a: Any, b: Any, c: Any) -> Any:
        return tnp.einsum("id,jd,kd->ijk", a, b, c)

    functions: dict[str, Function] = {
        "log-sum-exp": lambda a, b, c: logsumexp(scores(a, b, c), axis=-1).mean(),
        "largest": lambda a, b, c: scores(a, b, c).max(-1).mean(1),
        "softmax": lambda a, b, c: nn.softmax(scores(a, b, c), axis=-1) @ c,
        "tanh": lambda a, b, c: tnp.tanh(scores(a, b, c)).sum((1, 2)),
    }
    for n in (100, 160):
        yield from _both(f"three-way, n = {n}", functions, *[(n, 4)] * 3)


def _sorts() -> Named:
    functions: dict[str, Function] = {
        "rows": lambda x: tnp.sort(tnp.sin(x), axis=1)[:, ::7],
        "columns": lambda x: tnp.sort(tnp.sin(x), axis=0)[::7],
        "ordered by another": lambda x: tnp.take_along_axis(x, tnp.argsort(-x * x, axis=1), axis=1),
        "nearest": lambda x: tnp.top_k(-_squares(x[:, :3], x[:, :3]), 5)[0],
        "medians": lambda x: tnp.median(x * x, axis=1),
        "quantiles": lambda x: tnp.quantile(tnp.abs(x), tnp.asarray([0.1, 0.9]), axis=1),
    }
    for (name, function), rows in itertools.product(functions.items(), (800, 2_000)):
        yield f"sorts: {name}, {rows} rows", Program(function, ((rows, 400),))


def _convolutions() -> Named:
    functions: dict[str, Function] = {
        "one": lambda w, x: nn.conv(x, w),
        "relu": lambda w, x: tnp.maximum(nn.conv(x, w), 0).mean((1, 2)),
        "two": lambda w, x: nn.conv(tnp.tanh(nn.conv(x, w)), w),
        "residual": lambda w, x: x + nn.gelu(nn.conv(_normalised(x), w)),
        "coarse": lambda w, x: nn.conv(x, w, strides=2),
        "pooled": lambda w, x: nn.max_pool(tnp.sin(nn.conv(x, w)), 2),
    }
    yield from _both("convolutions", functions, (3, 3, 8, 8), (12, 48, 48, 8))


def _matrices() -> Named:
    def gram(x: Any) -> Any:
        return tnp.exp(-_squares(x, x)) + 0.1 * tnp.eye(x.shape[0], dtype=x.dtype)

    functions: dict[str, Function] = {
        "process": lambda x: linalg.solve_triangular(tnp.linalg.cholesky(gram(x)), x, lower=True),
        "log-determinant": lambda x: 2 * tnp.log(tnp.diag(tnp.linalg.cholesky(gram(x)))).sum(),
        "solve": lambda x: tnp.linalg.solve(gram(x), x),
        "whitened": lambda x: (
            x @ tnp.linalg.inv(x.T @ x / x.shape[0] + tnp.eye(4, dtype="float32"))
        ),
    }
    yield from _both("matrices", functions, (500, 4))


def _transforms() -> Named:
    functions: dict[str, Function] = {
        "filtered": lambda x: tnp.fft.irfft(tnp.fft.rfft(x) * 0.5, n=x.shape[-1]),
        "spectrum": lambda x: tnp.log1p(tnp.abs(tnp.fft.rfft(x * x)) ** 2).mean(0),
    }
    yield from _both("transforms", functions, (1_500, 512))


def _named() -> dict[str, Program]:
    families = (
        _pairwise, _attention, _layers, _reductions, _loops, _three_way, _sorts, _convolutions,
        _matrices, _transforms,
    )  # fmt: skip
    return dict(itertools.chain.from_iterable(family() for family in families))


PROGRAMS = _named()


def prepared(name: str, limit: str) -> Function:
    """Return a call of a program that is compiled under a limit, with no warm-up.

    A refusal is a call that does nothing; its report says what the smallest limit is.
    """
    program = PROGRAMS[name]
    arrays = program.arrays()
    peak = Liveness(trace(program.function, tuple(a.type for a in arrays)).graph).peak_bytes
    start = time.monotonic()
    try:
        limit_bytes = limit_of(limit, program.function, arrays, peak)
        compiled = tracer.compile(program.function, memory_limit=limit_bytes)
        plan = compiled.plan(*arrays)
    except tracer.MemoryLimitError as error:
        about = {"as_written_bytes": peak, "limit_bytes": error.limit_bytes}
        return _Call(lambda: None, {**about, "minimum_bytes": error.minimum_bytes})
    about = {
        "as_written_bytes": peak,
        "limit_bytes": limit_bytes,
        "planned_bytes": plan.peak_bytes,
        "counted_bytes": plan.compiled_bytes,
        "argument_bytes": plan.argument_bytes,
        "trips": max((loop.trips for loop in plan.loops), default=1),
        "plan_seconds": time.monotonic() - start,
    }
    return _Call(lambda: _wait(compiled(*arrays)), about)


def limit_of(limit: str, function: Function, arrays: Sequence[Any], peak: int) -> int:
    """Return a limit in bytes: a share of the peak, or the smallest that can be met."""
    if limit != SMALLEST:
        return int(Fraction(limit) * peak)
    try:
        tracer.compile(function, memory_limit=1).plan(*arrays)
    except tracer.MemoryLimitError as error:
        return error.minimum_bytes
    return 1


def _wait(results: Any) -> Any:
    for leaf in tracer.tree.leaves(results):
        leaf.block_until_ready()
    return results


class _Call:
    """A call with a report."""

    def __init__(self, call: Callable[[], Any], about: dict[str, Any]) -> None:
        self._call, self._about = call, about

    def __call__(self) -> Any:
        return self._call()

    def report(self) -> dict[str, Any]:
        return self._about
