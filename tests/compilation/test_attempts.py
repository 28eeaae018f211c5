"""How many programs are compiled to find one that keeps a limit."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

import tracer
import tracer.numpy as tnp
from tracer import lowering
from tracer.compilation import candidate_compiler
from tracer.compilation.candidate_compiler import CandidateCompiler
from tracer.lowering import shims
from tracer.lowering.devices import hardware
from tracer.target.products import EigenTimes

WEIGHTS = [tracer.ShapeDtype((64, 64), "float32")] * 12
X = tracer.ShapeDtype((2000, 64), "float32")
LIMIT = "6MB"


def layers(weights: Any, x: Any) -> Any:
    for weight in weights:
        x = tnp.tanh(x @ weight)
    return (x**2).sum()


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Count the programs that are handed to XLA."""
    programs: list[Any] = []
    compile_graph = lowering.compile_graph

    def compiled(graph: Any, **options: Any) -> Any:
        if "options" in options:  # Not what loads a library.
            programs.append(options["options"])
        return compile_graph(graph, **options)

    monkeypatch.setattr(lowering, "compile_graph", compiled)
    return programs


@pytest.mark.xla
def test_our_order_comes_before_xlas_other_orders(counted: list[Any]) -> None:
    plan = tracer.compile(tracer.grad(layers), memory_limit=LIMIT).plan(WEIGHTS, X)
    assert [row.what for row in plan.candidates] == ["1 loop", "1 loop, in our order"]
    first, ordered = plan.candidates
    assert ordered.compiled_bytes <= 6_000_000 < first.compiled_bytes
    assert len(counted) == 2  # Four, when each order of XLA's was compiled before ours.


@pytest.mark.xla
def test_an_order_that_is_slower_comes_last(
    counted: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from_model = CandidateCompiler.__init__

    def slow(self: CandidateCompiler, *args: Any) -> None:
        from_model(self, *args)
        seconds = self.planner.seconds
        monkeypatch.setattr(
            self.planner, "seconds", lambda item: (1 + item.is_ordered) * seconds(item)
        )

    monkeypatch.setattr(CandidateCompiler, "__init__", slow)
    plan = tracer.compile(tracer.grad(layers), memory_limit=LIMIT).plan(WEIGHTS, X)
    assert plan.compiled_bytes <= 6_000_000
    assert [bool(options) for options in counted][:3] == [True, True, False]


@pytest.mark.xla
def test_xlas_own_order_comes_first_where_there_is_room(counted: list[Any]) -> None:
    """A gradient of a Transformer took 1.07 times as long in the memory-optimised order."""
    own = tracer.compile(tracer.grad(layers)).plan(WEIGHTS, X).compiled_bytes
    assert own is not None
    roomy = tracer.compile(tracer.grad(layers), memory_limit=5 * own).plan(WEIGHTS, X)
    assert all(options in ({}, lowering.eigen_options()) for options in counted)
    assert (len(counted), roomy.compiled_bytes) == (2, own)
    counted.clear()
    tight = tracer.compile(tracer.grad(layers), memory_limit=own + 1000).plan(WEIGHTS, X)
    assert counted == [lowering.memory_optimized_options()]
    assert tight.compiled_bytes is not None
    assert tight.compiled_bytes <= own + 1000


@pytest.mark.xla
def test_an_order_that_takes_more_than_was_predicted_is_not_the_last(
    counted: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidate_compiler, "most_bytes_by_default", lambda *_, **__: 0)
    monkeypatch.setattr(candidate_compiler, "is_faster_by_eigen", lambda *_: False)
    plan = tracer.compile(tracer.grad(layers), memory_limit=LIMIT).plan(WEIGHTS, X)
    assert counted[0] == {}
    assert plan.compiled_bytes is not None
    assert plan.compiled_bytes <= 6_000_000


@pytest.fixture
def eigen_is_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    if not shims.EIGEN_MAY_BE_FASTER:
        pytest.skip("YNNPACK multiplies faster, or is not there")
    record = hardware.host_target()
    kernels = replace(record.kernels, eigen=EigenTimes(worth=math.inf))
    always = replace(record, kernels=kernels, cores=2)
    monkeypatch.setattr(hardware, "host_target", lambda: always)


BY_EIGEN = lowering.memory_optimized_options() | lowering.eigen_options()


@pytest.mark.xla
@pytest.mark.usefixtures("eigen_is_faster")
def test_eigen_multiplies_under_a_limit_that_has_room_for_what_it_packs(counted: list[Any]) -> None:
    """A training step of a Transformer took 1.2 times as long by YNNPACK as without a limit."""
    whole = tracer.compile(layers).plan(WEIGHTS, X).peak_bytes
    for limit, is_roomy in ((2 * whole, True), (whole, False)):
        counted.clear()
        plan = tracer.compile(layers, memory_limit=limit).plan(WEIGHTS, X)
        assert (counted == [BY_EIGEN]) if is_roomy else (BY_EIGEN not in counted)
        assert plan.compiled_bytes is not None
        assert plan.compiled_bytes <= limit


@pytest.mark.xla
@pytest.mark.usefixtures("eigen_is_faster")
def test_eigen_is_not_the_last_attempt_when_the_budget_is_spent(
    counted: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it packs more than was predicted, the library that was planned with comes next."""
    monkeypatch.setattr(candidate_compiler, "compiled_peak_bytes", lambda *_, **__: 0)
    monkeypatch.setattr(candidate_compiler, "may_go_on", lambda: False)
    monkeypatch.setattr(CandidateCompiler, "_order_for", lambda *_: None)
    plan = tracer.compile(tracer.grad(layers), memory_limit=LIMIT).plan(WEIGHTS, X)
    assert plan.compiled_bytes is not None
    assert plan.compiled_bytes <= 6_000_000
    assert counted[:3] == [BY_EIGEN, BY_EIGEN, lowering.memory_optimized_options()]
