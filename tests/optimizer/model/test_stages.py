"""Ops that are lowered to loops in stages: what they store, beside XLA's count."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest

import tracer
import tracer.numpy as tnp
from tracer import nn
from tracer.ir import ShapeDtype

pytestmark = pytest.mark.xla


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


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_extremes_that_are_written_beside_their_places(dtype: str) -> None:
    """Of float64 XLA stores them, too: it took a tenth more than was predicted."""
    x = ShapeDtype((200_000, 10), dtype)
    plan = tracer.compile(lambda x: tnp.argmax(x, axis=1)).plan(x)
    assert plan.compiled_bytes == pytest.approx(plan.peak_bytes, rel=0.01)


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
