"""Predictions for programs whose arguments lie in parts, against XLA's count on eight CPU devices.

`test_eight_devices.py` runs this in a process that has them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from benchmarks.device_programs import PROGRAMS
from tests.devices.eight import GRID, LINE, P
from tracer.sharding import Mesh, NamedSharding, PartitionSpec

pytestmark = pytest.mark.xla


def product(x: Any, y: Any, v: Any) -> Any:
    return tnp.exp(-((x[:, None, :] - y[None, :, :]) ** 2).sum(-1)) @ v


def perceptron_step(w: Any, v: Any, x: Any, y: Any) -> Any:
    def loss(w: Any, v: Any) -> Any:
        return ((tnp.tanh(x @ w) @ v - y) ** 2).mean()

    by_w, by_v = tracer.grad(loss, argnums=(0, 1))(w, v)
    return w - 0.1 * by_w, v - 0.1 * by_v


def covariance(x: Any) -> Any:
    centred = x - x.mean(0)
    return centred.T @ centred


def scanned(w: Any, xs: Any, start: Any) -> Any:
    def body(state: Any, x: Any) -> Any:
        state = tnp.tanh(state @ w + x)
        return state, state

    return tracer.scan(body, start, xs)


STEP = [(128, 512), (512, 16), (4096, 128), (4096, 16)]
PLACED: dict[str, tuple[Callable[..., Any], Mesh, list[Any], list[PartitionSpec]]] = {
    "products, data": (
        lambda x, w, v: tnp.tanh(x @ w) @ v,
        LINE, [(2048, 256), (256, 512), (512, 256)], [P("x"), P(), P()],
    ),
    "products, data and model": (
        lambda x, w, v: tnp.tanh(x @ w) @ v,
        GRID, [(2048, 256), (256, 512), (512, 256)], [P("a"), P(None, "b"), P("b")],
    ),
    "a product on a grid": (
        lambda x, y: x @ y, GRID, [(512, 256), (256, 512)], [P("a"), P(None, "b")]
    ),
    "a contracted axis": (
        lambda x, y: x @ y, LINE, [(512, 256), (256, 512)], [P(None, "x"), P("x")]
    ),
    "step, data": (perceptron_step, LINE, STEP, [P(), P(), P("x"), P("x")]),
    "step, data and model": (
        perceptron_step, GRID, STEP, [P(None, "b"), P("b"), P("a"), P("a")]
    ),
    "step, weights in parts": (perceptron_step, LINE, STEP, [P("x")] * 4),
    "attention, heads": (
        PROGRAMS["attention"].function, GRID, [(16, 512, 32)] * 3, [P("a"), P("a"), P("a")]
    ),
    "attention, heads and queries": (
        PROGRAMS["attention"].function,
        GRID, [(4, 512, 32)] * 3, [P("b", "a"), P("b"), P("b")],
    ),
    "kernel product": (product, LINE, [(2048, 3), (2048, 3), (2048, 2)], [P("x"), P(), P()]),
    "kernel product on a grid": (
        product, GRID, [(2048, 3), (2048, 3), (2048, 2)], [P("a"), P("b"), P("b")]
    ),
    "regression": (
        PROGRAMS["SGPR bound"].function,
        LINE, [(16_384, 3), (16_384,), (64, 3), ()], [P("x"), P("x"), P(), P()],
    ),
    "covariance": (covariance, LINE, [(8192, 256)], [P("x")]),
    "covariance of columns": (covariance, GRID, [(8192, 256)], [P("a", "b")]),
    "a recurrence": (
        scanned, LINE, [(64, 64), (32, 256, 64), (256, 64)], [P(), P(None, "x"), P("x")]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PLACED)
def test_predictions_of_placed_programs(name: str) -> None:
    function, mesh, shapes, placed = PLACED[name]
    types = [tracer.ShapeDtype(shape, np.float32) for shape in shapes]
    plan = tracer.compile(function, mesh=mesh, in_shardings=tuple(placed)).plan(*types)
    given = zip(types, placed, strict=True)
    local = [type.with_shape(NamedSharding(mesh, p).shard_shape(type.shape)) for type, p in given]
    assert plan.argument_bytes == sum(type.nbytes for type in local)
    assert 0.6 * plan.compiled_bytes < plan.peak_bytes < 1.35 * plan.compiled_bytes


def test_donated_parts_are_counted_once() -> None:
    f = tracer.compile(
        lambda x: tnp.sin(x) + 1, mesh=LINE, in_shardings=(P("x"),), donate_argnums=0
    )
    plan = f.plan(tracer.ShapeDtype((4096, 2048), np.float32))
    assert plan.peak_bytes == plan.argument_bytes == plan.compiled_bytes
