"""Ops that are lowered to loops in stages: what they store, beside XLA's count."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import pytest

import tracer
import tracer.numpy as tnp
from tests.optimizer.graphs import traced
from tracer import nn
from tracer.ir import ShapeDtype
from tracer.optimizer.backend import Backend, compiled_by
from tracer.optimizer.liveness import peak_bytes

ROWS, COLUMNS = 200, 20_000
X, Y = ((ROWS, 3), "float32"), ((COLUMNS, 3), "float32")
MATRIX_BYTES = 4 * ROWS * COLUMNS


def nearest(k: int, of: Callable[[Any], Any] = lambda distance: distance) -> Callable[..., Any]:
    def program(x: Any, y: Any) -> Any:
        distance = sum(abs(x[:, None, i] - y[None, :, i]) for i in range(3))
        return tnp.top_k(-of(distance), k)

    return program


@pytest.mark.parametrize("k", [1, 10, 50])
def test_cheap_values_are_computed_by_the_stages_that_read_them(k: int) -> None:
    assert peak_bytes(traced(nearest(k), X, Y)) < MATRIX_BYTES / 2
    with compiled_by(Backend(runs_stages=False)):
        assert peak_bytes(traced(nearest(k), X, Y)) > MATRIX_BYTES


def test_expensive_values_are_stored_for_two_stages_and_computed_by_one() -> None:
    assert peak_bytes(traced(nearest(10, tnp.exp), X, Y)) > MATRIX_BYTES
    assert peak_bytes(traced(nearest(1, tnp.exp), X, Y)) < MATRIX_BYTES / 2


def test_short_rows_go_to_the_library_and_are_stored() -> None:
    short = ((64, 3), "float32")
    assert peak_bytes(traced(nearest(10), X, short)) > 4 * ROWS * 64


@pytest.mark.parametrize("of", [lambda distance: distance, tnp.exp], ids=["cheap", "expensive"])
@pytest.mark.parametrize("k", [1, 10, 50])
def test_xla_counts_what_is_predicted(k: int, of: Callable[[Any], Any]) -> None:
    types = [ShapeDtype(*X), ShapeDtype(*Y)]
    plan = tracer.compile(nearest(k, of), split="never").plan(*types)
    assert 0.85 < plan.compiled_bytes / plan.peak_bytes < 1.05


@pytest.mark.parametrize(
    ("shape", "k"),
    [((500, 20_000), 10), ((100, 100_000), 10), ((20, 10**6), 10), ((64, 40_000), 50)],
)
def test_the_stages_of_top_k_beside_the_count(shape: tuple[int, ...], k: int) -> None:
    plan = tracer.compile(lambda x: tnp.top_k(x, k)).plan(ShapeDtype(shape, "float32"))
    inside = plan.argument_bytes + plan.output_bytes
    assert 0.85 < (plan.compiled_bytes - inside) / (plan.peak_bytes - inside) < 1.05


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16"])
@pytest.mark.parametrize(("shape", "axis"), [((100, 50_000), 1), ((50_000, 100), 0), ((10**6,), 0)])
def test_the_partial_results_of_arg_max(shape: tuple[int, ...], axis: int, dtype: str) -> None:
    program = tracer.compile(lambda x: tnp.argmax(x, axis=axis), split="never")
    plan = program.plan(ShapeDtype(shape, dtype))
    inside = plan.argument_bytes + plan.output_bytes
    assert 0.9 < (plan.compiled_bytes - inside) / (plan.peak_bytes - inside) < 1.1


def test_places_in_windows_do_not_stay_through_a_loop() -> None:
    """XLA moved the index of every element out of the loop, where it is alive in every trip."""

    def loss(images: Any) -> Any:
        return (nn.max_pool(tnp.sin(images), 2) ** 2).sum()

    images = ShapeDtype((256, 32, 32, 8), "float32")
    program = tracer.compile(tracer.grad(loss), memory_limit=2 * images.nbytes + images.nbytes // 2)
    assert program.plan(images).loops
    (loop,) = re.findall(r"= \((.*?)\) while\(", program.hlo(images))
    sizes = {
        dtype: max(math.prod(map(int, shape.split(","))) for shape in shapes)
        for dtype in ("f32", "s32")
        if (shapes := re.findall(rf"{dtype}\[([\d,]+)\]", loop))
    }
    assert sizes["f32"] == images.size
    assert sizes.get("s32", 0) <= max(images.shape)
