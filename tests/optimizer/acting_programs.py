"""For each optional pass a program on which it acts, as a user writes and compiles it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import tracer
import tracer.numpy as tnp
from tracer import ShapeDtype
from tracer.scipy.linalg import solve_triangular
from tracer.scipy.special import logsumexp


class Acting(NamedTuple):
    """A program, the types that it is planned for, and options of `tracer.compile`."""

    function: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    dtype: str = "float32"
    options: Mapping[str, Any] = {}
    is_stored: bool = False
    """The arguments are in storage."""

    def applied(self, passes: str | None) -> dict[str, bool]:
        """Return which passes ran, and whether they acted."""
        types: list[Any] = [ShapeDtype(shape, self.dtype) for shape in self.shapes]
        if self.is_stored:
            types = [tracer.open(np.broadcast_to(np.zeros((), t.dtype), t.shape)) for t in types]
        plan = tracer.compile(self.function, passes=passes, **self.options).plan(*types)
        found: dict[str, bool] = {}
        for row in plan.passes:
            option = row.name.replace(" ", "-")
            found[option] = found.get(option, False) or bool(row.applied)
        return found


def _two_scans(rows: Any) -> Any:
    def running(x: Any) -> Any:
        return tracer.scan(lambda c, row: (tnp.sin(c + row), c * row), tnp.zeros(3), x)

    return running(running(rows)[1])[0]


def _solved_product(factor: Any, wide: Any, square: Any) -> Any:
    return tnp.exp(solve_triangular(factor, square @ wide, lower=True, trans=1))


def _inner_products(x: Any, y: Any) -> Any:
    difference = x[:, None] - y[None]
    return tnp.einsum("ijk,ijk->ij", difference, difference)


def _distances(x: Any, y: Any) -> Any:
    return ((x[:, None] - y[None]) ** 2).sum(-1)


def _log_sums(cost: Any, potential: Any) -> Any:
    return logsumexp(potential[None, :] - cost.T, axis=1)


def _stacked_state(state: Any) -> Any:
    def step(_: Any, s: Any) -> Any:
        x, v = s[:, 0], s[:, 1]
        return tnp.stack([x + v, v - tnp.sin(x), s[:, 2] * x, s[:, 3]], axis=1)

    return tracer.fori_loop(0, 50, step, state)


def _forced_state(state: Any, force: Any) -> Any:
    def step(i: Any, s: Any) -> Any:
        x, v = s[:, 0], s[:, 1]
        return tnp.stack([x + v, v - tnp.sin(x) + force[i % 4], s[:, 2] * x], axis=1)

    return tracer.fori_loop(0, 40_000, step, state)


def _noise_twice(x: Any) -> Any:
    noise = tracer.random.normal(tracer.random.key(0), x.shape, dtype="float32")
    return (x + noise).sum(0), (x * noise).sum(1)


def _swings(x: Any) -> Any:
    def step(_: Any, carry: Any) -> Any:
        place, speed = carry
        return place + speed, speed - tnp.sin(place)

    return tracer.fori_loop(0, 50, step, (x, x * 2))


def _training(parameters: Any, first: Any, second: Any) -> Any:
    """Take steps of Adam with parameters of several shapes."""

    def step(_: Any, state: Any) -> Any:
        new: Any = ([], [], [])
        for p, m, v in zip(*state, strict=True):
            m = 0.9 * m + 0.2 * p
            v = 0.99 * v + 0.04 * p * p
            for kind, value in zip(new, (p - 0.1 * m / (tnp.sqrt(v) + 1e-8), m, v), strict=True):
                kind.append(value)
        return new

    return tracer.fori_loop(0, 100, step, (parameters, first, second))


def _kernel(x: Any) -> Any:
    return tnp.log(1 + tnp.exp(x[:, None] - x)) @ x


def _chamfer(x: Any, y: Any) -> Any:
    d = ((x[:, None] - y) ** 2).sum(-1)
    return d.min(1).mean() + d.min(0).mean()


def _checkpointed(w: Any, x: Any) -> Any:
    return (tracer.checkpoint(lambda x, w: tnp.tanh(x @ w))(x, w) ** 2).sum()


def _running(x: Any, y: Any, weights: Any, *, keeps: bool) -> Any:
    """Sum along columns, rows and columns what is wider by an axis."""

    def step(m: Any, axis: int) -> Any:
        return tnp.cumsum((tnp.sin(m)[:, :, None] * weights).max(-1), axis=axis)

    first = step(x @ y, 0)
    second = step(first, 1)
    return (first, second) if keeps else step(second, 0).max(0)


def _both_ways(x: Any) -> Any:
    y = 1 / (1 + x * x)
    return y.sum(1), y.sum(0)


def _layers(x: Any, a: Any) -> Any:
    for _ in range(6):
        x = tnp.tanh(a @ x @ a)
    return (x * x).sum()


def _products_then_sums(a: Any, b: Any) -> Any:
    products = [tnp.sin(a @ b[i]) for i in range(16)]
    return sum(product.sum() for product in products)


def _large_invariant(x: Any) -> Any:
    matrix = tnp.exp(-((x[:, None] - x) ** 2))
    return tracer.fori_loop(0, 5, lambda _, v: matrix @ v / 3000, x)


def _long_scan(start: Any) -> Any:
    def step(x: Any, _: Any) -> Any:
        return x + 0.01 * tnp.sin(x[::-1]), None  # Steps that do not mix elements are cut.

    return (tracer.scan(step, start, None, length=2000)[0] ** 2).sum()


def _depthwise(x: Any, kernel: Any) -> Any:
    return tracer.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", feature_group_count=4)


def _limit(megabytes: float, **options: Any) -> dict[str, Any]:
    return {"memory_limit": int(megabytes * 1e6), **options}


ACTING: dict[str, Acting] = {
    "recompute-in-loops": Acting(_large_invariant, ((3000,),), options=_limit(1)),
    "segment-scans": Acting(tracer.grad(_long_scan), ((10_000,),), "float64", _limit(16)),
    "fuse-scans": Acting(_two_scans, ((4, 3),), "float64"),
    "loop-unrolling": Acting(
        lambda x: tracer.fori_loop(0, 1, lambda i, c: tnp.sin(c), x), ((100,),)
    ),
    "common-subexpressions": Acting(lambda x: tnp.exp(x).sum() + tnp.exp(x).max(), ((100,),)),
    "constant-folding": Acting(lambda x: x * tnp.sin(tnp.float32(2)), ((3,),)),
    "reassociate-solves": Acting(_solved_product, ((12, 12), (12, 400), (12, 12)), "float64"),
    "select-for-scatter": Acting(
        tracer.grad(lambda x: tnp.take_along_axis(x, tnp.arange(9)[:, None], 1).sum()), ((9, 30),)
    ),
    "apply-rules": Acting(lambda x: tnp.log(1 + tnp.exp(x)), ((100,),)),
    "write-out-inner-products": Acting(_inner_products, ((100, 30), (100, 30))),
    "unroll-short-reductions": Acting(_distances, ((200, 3), (200, 3))),
    "match-contractions": Acting(_distances, ((100, 50), (100, 50))),
    "reorder-chains": Acting(lambda a, b, v: a @ b @ v, ((100, 100), (100, 100), (100,))),
    "sink-transposes": Acting(_log_sums, ((90, 60), (90,))),
    "scalar-replacement": Acting(_stacked_state, ((512, 4),)),
    "reduce-through-concatenate": Acting(
        lambda x, y: tnp.concatenate([x, y]).max(axis=0), ((300, 200), (400, 200))
    ),
    "horizontal-fusion": Acting(
        lambda *arrays: _training(*(list(arrays[i : i + 6]) for i in (0, 6, 12))),
        ((2, 3), (4,), (1, 5), (6,), (2, 2), (3,)) * 3,
        "float64",
    ),
    "separate-barriers": Acting(
        tracer.grad(_checkpointed, argnums=(0, 1)), ((4, 1000), (1000, 4)), options=_limit(1)
    ),
    "separate-extremes": Acting(tracer.grad(_chamfer), ((700, 3), (900, 3)), options=_limit(1)),
    "split": Acting(_kernel, ((3000,),), options=_limit(1)),
    "reuse-operands": Acting(
        partial(_running, keeps=False), ((300, 4), (4, 300), (64,)), options=_limit(0.9)
    ),
    "separate-fills": Acting(
        partial(_running, keeps=True), ((300, 4), (4, 300), (64,)), options=_limit(1.2)
    ),
    "fusion-merger": Acting(_both_ways, ((600, 600),), "float64", {"split": "never"}),
    "rematerialise": Acting(
        tracer.grad(_layers), ((192, 192), (192, 192)), options=_limit(1.7, split="never")
    ),
    "schedule": Acting(
        _products_then_sums, ((64, 64), (16, 64, 64)), options=_limit(0.4, split="never")
    ),
    "loop-interchange": Acting(_forced_state, ((128, 3), (4, 128))),
    "small-calls": Acting(_swings, ((256,),)),
    "gather-for-diagonal": Acting(lambda x: tnp.diagonal(tnp.exp(x)), ((300, 300),)),
    "read-stored-parts": Acting(lambda x: x[:9].sum(), ((300, 20),), is_stored=True),
    "count-for-sort": Acting(
        lambda x: tnp.median(x, axis=0),
        ((20_000, 4),),
        options={"memory_limit": "100kB"},
        is_stored=True,
    ),
    "count-in-memory": Acting(tnp.median, ((140_001,),)),
    "store-shared-values": Acting(_noise_twice, ((300, 200),)),
    "keep-in-place": Acting(
        lambda x: (x.sum(), x + x), ((1000, 100),), options={"donate_argnums": 0}
    ),
    "sum-inner-products": Acting(tnp.vdot, ((300, 400), (300, 400)), options={"split": "never"}),
    "lay-out-products": Acting(lambda x, w: tnp.tanh(x @ w).T @ x, ((2000, 64), (64, 32))),
    "sum-depthwise-windows": Acting(_depthwise, ((2, 4, 16, 16), (4, 1, 3, 3))),
    "solve-by-blocks": Acting(
        lambda a, b: solve_triangular(a, b, lower=True), ((600, 600), (600,))
    ),
    "store-fills": Acting(
        lambda x: tnp.where(x > 0, x, -tnp.inf).max(1), ((100, 600),), options={"split": "never"}
    ),
    "store-broadcast-operands": Acting(
        lambda a, b: (tnp.sin(a)[None] + b).sum(1), ((2000,), (3000, 2000))
    ),
    "transpose-columns": Acting(
        lambda x, v: tnp.exp(-((x[:, None] - x[None]) ** 2).sum(-1)) @ v,
        ((1500, 3), (1500,)),
        options={"memory_limit": "2MB"},
    ),
    "pack-extremes": Acting(lambda x: tnp.argmax(x, axis=0), ((4096, 70),)),
    "stage-reductions": Acting(lambda x: x.sum(0), ((4096, 70),)),
    "stage-selections": Acting(lambda x: tnp.top_k(x, 10)[0], ((1000, 160),)),
    "cumulate-in-pairs": Acting(lambda x: tnp.cumsum(x, 0), ((600, 8),)),
    "sort-as-integers": Acting(lambda x: tnp.argsort(x, axis=0), ((5000, 3),)),
    "cumulate-by-numpy": Acting(lambda x: tnp.cumsum((x > 0).astype("int32"), 1), ((50, 100),)),
    "tile-pairwise-reductions": Acting(
        lambda x, y: tnp.abs(x[:, None] - y[None]).sum(-1), ((20, 1000), (5000, 1000))
    ),
    "decompose-by-numpy": Acting(tnp.linalg.svdvals, ((2000, 8, 9),)),
    "transform-by-scipy": Acting(
        lambda x: tnp.fft.fft(x, axis=0).real, ((1024, 512),), "complex64"
    ),
    "interleave-small-matrices": Acting(tnp.linalg.det, ((300, 3, 3),)),
    "sort-by-numpy": Acting(lambda x: tnp.sort(x, axis=0), ((5000, 3),)),
    "expand-exponentials": Acting(lambda x: tnp.exp(x), ((1000,),), "float64"),
}
