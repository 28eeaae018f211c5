"""What a broadcast repeats is computed once: what is written, and that it computes the same."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.optimizer.graphs import rewritten
from tracer.optimizer.legalize.broadcasts import stored_broadcasts_pass
from tracer.target import DEFAULT_TARGET

pytestmark = pytest.mark.xla

ROWS, COLUMNS = 1500, 1024


def spread(a: tracer.Array, b: tracer.Array) -> tracer.Array:
    return (-0.5 * (a + b - 7.3))[:, None] * tnp.arange(COLUMNS, dtype="float32")


def barriers(function: Callable[..., tracer.Array], *shapes: tuple[int, ...]) -> int:
    types = [tracer.ShapeDtype(shape, "float32") for shape in shapes]
    return tracer.compile(function).hlo(*types).count(" opt-barrier(")


def test_what_is_written() -> None:
    before = """
        graph(%0: float32[1500]) {
          %1: float32[1500] = sine(%0) {}
          %2: float32[1500,1024] = broadcast_in_dim(%1) {shape=(1500, 1024), dimensions=(0,)}
          return %2, %1
        }"""
    assert rewritten(stored_broadcasts_pass(DEFAULT_TARGET), before) == (
        """
graph(%0: float32[1500]) {
  %1: float32[1500] = sine(%0)
  %2: float32[1500] = optimization_barrier(%1)
  %3: float32[1500,1024] = broadcast_in_dim(%2) {shape=(1500, 1024), dimensions=(0,)}
  return %3, %1
}""".strip()
    )


def test_the_plan_names_the_pass_and_its_name_switches_it_off() -> None:
    x = np.ones(ROWS, np.float32)
    on, off = tracer.compile(spread), tracer.compile(spread, passes="-store-broadcast-operands")
    rows = [{row.name for row in function.plan(x, x).passes} for function in (on, off)]
    assert rows[0] - rows[1] == {"store broadcast operands"}
    assert "optimization_barrier" not in off.stablehlo(x, x)
    np.testing.assert_array_equal(np.asarray(on(x, x)), np.asarray(off(x, x)))


def test_a_computed_vector_is_stored() -> None:
    assert barriers(spread, (ROWS,), (ROWS,)) == 1


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (lambda a: a[:, None] * tnp.ones(COLUMNS, "float32"), (ROWS,)),
        (lambda a: tnp.broadcast_to(a * 2, (8, ROWS)), (ROWS,)),
        (lambda a: tnp.broadcast_to(a * 2, (COLUMNS, 256)), (256,)),
        (lambda a: tnp.broadcast_to(a * 2, (20, 1 << 17)), (1 << 17,)),
        (lambda a: tnp.broadcast_to(a * 2, (16, 300)), (300,)),
    ],
    ids=["stored anyway", "repeated a few times", "of few bytes", "large", "cheap in all"],
)
def test_left_alone(function: Callable[..., tracer.Array], shape: tuple[int, ...]) -> None:
    assert barriers(function, shape) == 0


def test_the_same_bits() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, ROWS)).astype(np.float32)
    found = np.asarray(tracer.compile(spread)(a, b))
    vector = np.float32(-0.5) * (a + b - np.float32(7.3))
    np.testing.assert_array_equal(found, vector[:, None] * np.arange(COLUMNS, dtype=np.float32))


def test_in_a_loop() -> None:
    rng = np.random.default_rng(0)
    a = rng.standard_normal(ROWS).astype(np.float32)

    def program(a: tracer.Array) -> tracer.Array:
        return tracer.fori_loop(0, 3, lambda _, a: spread(a, a).max(1) / 1e3, a)

    plain = a
    for _ in range(3):
        vector = np.float32(-0.5) * (plain + plain - np.float32(7.3))
        plain = (vector[:, None] * np.arange(COLUMNS, dtype=np.float32)).max(1) / np.float32(1e3)
    np.testing.assert_allclose(tracer.compile(program)(a), plain, rtol=1e-5)
