"""Which library multiplies a program's matrices, by the record and the time model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tracer import lax
from tracer.array.trace import trace
from tracer.ir import Graph, ShapeDtype
from tracer.ir.library_calls import ProductCall
from tracer.optimizer.final_passes import legalized
from tracer.optimizer.model.product_library import is_faster_by_eigen, packing_by_eigen
from tracer.optimizer.model.xla_order import bytes_in_any_order
from tracer.optimizer.pipeline import Context, PlannerOptions
from tracer.target import Kernels, Target
from tracer.target.products import EigenTimes

MACHINE = Target(kernels=Kernels(eigen=EigenTimes()))


def graph_of(function: Callable[..., Any], *shapes: tuple[int, ...], dtype: str) -> Graph:
    """Return a program in the forms that are compiled."""
    graph = trace(function, [ShapeDtype(shape, dtype) for shape in shapes]).graph
    return legalized(graph, Context(PlannerOptions(machine=MACHINE)))[0]


def heads(q: Any, k: Any) -> Any:
    return tnp.tanh(q @ k.transpose(0, 2, 1))


def plain(x: Any, y: Any) -> Any:
    return tnp.tanh(x @ y)


def turned(x: Any, y: Any) -> Any:
    return tnp.tanh(x @ y.T)


@pytest.mark.parametrize(
    ("function", "shapes", "dtype", "wanted"),
    [
        (heads, [(16, 256, 64)] * 2, "float32", True),
        (heads, [(16, 256, 64)] * 2, "float16", True),
        (heads, [(16, 256, 64)] * 2, "float64", False),
        (heads, [(16, 256, 64)] * 2, "bfloat16", False),  # multiplied as it is
        (heads, [(16, 1024, 64)] * 2, "float32", False),
        (turned, [(8192, 512), (512, 512)], "float32", True),
        (plain, [(2048, 512), (512, 512)], "float32", True),
        (plain, [(200, 512), (512, 2000)], "float32", False),  # few rows
        (plain, [(2048, 1024), (1024, 64)], "float32", False),  # narrow
        (plain, [(8, 1024, 1024), (8, 1024, 64)], "float32", False),
        (plain, [(16, 64, 256), (16, 256, 256)], "float32", True),
        (plain, [(16, 64, 16), (16, 16, 1024)], "float32", False),  # few terms
        (turned, [(200, 512), (5000, 512)], "float32", False),  # five times the time
        (turned, [(5000, 8), (5000, 8)], "float32", False),
        (turned, [(500, 512), (1, 512)], "float32", False),  # a vector
        (turned, [(0, 512), (512, 512)], "float32", False),  # nothing to multiply
        (heads, [(16, 0, 64), (16, 256, 64)], "float32", False),
        (heads, [(0, 256, 64)] * 2, "float32", False),
        (turned, [(512, 0), (512, 0)], "float32", False),
        (lambda x, y: tnp.tanh(x) + y, [(50, 512)] * 2, "float32", False),
    ],
)
def test_the_record_decides(
    function: Callable[..., Any], shapes: list[tuple[int, ...]], dtype: str, wanted: bool
) -> None:
    graph = graph_of(function, *shapes, dtype=dtype)
    assert is_faster_by_eigen(graph, MACHINE) == wanted
    assert not is_faster_by_eigen(graph, Target())


def test_what_ynnpack_multiplies_as_it_is_goes_there() -> None:
    """Beside a product that Eigen is faster for. It takes 60 times as long for int8."""

    def program(q: Any, k: Any, x: Any, *, dtype: str) -> Any:
        dtype = np.dtype(dtype)
        return heads(q, k), lax.dot(x, x, preferred_element_type=dtype)

    for narrow, wide, n, wanted in (
        ("int8", "int32", 300, False),
        ("bfloat16", "float32", 1000, False),
        ("bfloat16", "float32", 300, True),  # it weighs little
        ("int8", "float32", 300, True),  # a product of float32
        ("int8", "int64", 300, True),
        ("int32", "int32", 300, True),  # neither library's
        ("complex64", "complex64", 300, True),
    ):
        types = [ShapeDtype((16, 256, 64), "float32")] * 2 + [ShapeDtype((n, n), narrow)]
        graph = trace(lambda *args, wide=wide: program(*args, dtype=wide), types).graph
        formed = legalized(graph, Context(PlannerOptions(machine=MACHINE)))[0]
        assert is_faster_by_eigen(formed, MACHINE) == wanted


def test_what_is_rounded_to_bfloat16_first_is_multiplied_as_that() -> None:
    for dtype, wanted in (("bfloat16", False), ("float16", True)):
        rounded = lambda x, dtype=dtype: x.astype(dtype) @ x.astype(dtype)
        graph = graph_of(rounded, (2000, 2000), dtype="float32")
        assert is_faster_by_eigen(graph, MACHINE) == wanted


def test_products_in_loops_weigh_as_often_as_they_run() -> None:
    """One product that Eigen takes five times as long for, and many that it is faster for."""

    def program(x: Any, y: Any, *, trips: int) -> Any:
        weights = x.T @ x
        loop = tracer.fori_loop(0, trips, lambda _, c: tnp.tanh(c @ weights), y)
        return tnp.tanh(x @ y.T).sum(), loop

    shapes = [(200, 512), (5000, 512)]
    for trips, wanted in ((1, False), (1000, True)):
        graph = graph_of(
            lambda *args, trips=trips: program(*args, trips=trips), *shapes, dtype="float32"
        )
        assert is_faster_by_eigen(graph, MACHINE) == wanted


def test_what_eigen_packs_is_counted() -> None:
    graph = graph_of(turned, (2048, 512), (512, 512), dtype="float32")
    call = ProductCall(1, 2048, 512, 512, 4, right_inner_last=True)
    more = MACHINE.packing.by_eigen(call) - MACHINE.packing.by_ynnpack(call)
    assert more > 0
    by_ynnpack = bytes_in_any_order(graph)
    with packing_by_eigen(MACHINE):
        assert bytes_in_any_order(graph) - by_ynnpack == 4 * more


def test_products_that_ynnpack_leaves_take_as_long() -> None:
    times = EigenTimes()
    left_turned = ProductCall(1, 512, 512, 512, 4, left_inner_last=False)
    assert times.share(left_turned) == times.share(replace(left_turned, itemsize=8)) == 1
