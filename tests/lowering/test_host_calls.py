"""Programs that call Python: where they are refused, what they keep, their bytes."""

from __future__ import annotations

import threading
import time
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.interrupted.moments import DROPPED, at_every_call
from tracer import lowering, ops
from tracer.errors import UnsupportedError
from tracer.ir import Builder, Graph, HostFunction, ShapeDtype, Stop
from tracer.lowering.run import host_calls

TYPE = ShapeDtype((1000,), "float64")
UNBATCHED: dict[str, Any] = {"batch": (), "batched": ()}


def graph_of(function: Any) -> Graph:
    call = HostFunction(function, "the callback f", ())
    with Builder() as builder:
        x = builder.input(TYPE)
        ops.debug_callback(x, function=call, ordered=False, **UNBATCHED)
        return builder.finish([ops.negate(x)])


@pytest.mark.xla
@pytest.mark.parametrize("platform", ["gpu", "tpu"])
def test_what_the_target_cannot_do_is_refused(
    platform: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels = lowering.target_of().kernels
    assert kernels.host_calls
    from tracer.target import accelerator

    target = accelerator(platform, "")
    assert not target.kernels.host_calls
    monkeypatch.setattr(host_calls, "target_of", lambda _: target)
    graph = graph_of(lambda x: ())
    for make in (lowering.compile_graph, lowering.stablehlo):
        with pytest.raises(UnsupportedError, match="the callback f calls Python while"):
            make(graph)


@pytest.mark.xla
def test_a_mesh_is_refused() -> None:
    mesh = lowering.make_mesh((1,), ("rows",))
    whole = lowering.NamedSharding(mesh, lowering.PartitionSpec())
    placement = lowering.Placement(mesh, (whole,), (None,))
    with pytest.raises(UnsupportedError, match=r"programs for Mesh\("):
        lowering.compile_graph(graph_of(lambda x: ()), placement=placement)


@pytest.mark.xla
def test_the_copies_are_counted() -> None:
    with Builder() as builder:
        plain = builder.finish([ops.negate(builder.input(TYPE))])
    calls = lowering.compile_graph(graph_of(lambda x: ())).memory
    without = lowering.compile_graph(plain).memory
    assert calls.scratch_bytes - without.scratch_bytes == pytest.approx(TYPE.nbytes, abs=8)
    assert calls.peak_bytes - without.peak_bytes >= TYPE.nbytes


@pytest.mark.xla
def test_a_call_returns_when_all_has_run() -> None:
    seen: list[float] = []
    execute = lowering.compile_graph(graph_of(lambda x: seen.append(float(x.sum())) or ()))
    buffer = lowering.to_device(np.ones(1000), lowering.default_device())
    for number in range(50):
        execute(buffer)
        assert seen == [1000.0] * (number + 1)


def test_errors_that_nobody_asks_for_are_dropped() -> None:
    for number in range(host_calls._MOST_KEPT + 10):
        host_calls._keep(ValueError(number))
    assert len(host_calls._kept) == host_calls._MOST_KEPT
    last = next(reversed(host_calls._kept))
    found = host_calls.raised_by_host(RuntimeError(f"INTERNAL: {host_calls._ERROR} {last}."))
    assert isinstance(found, ValueError)
    assert host_calls.raised_by_host(RuntimeError("INTERNAL: something else")) is None


def test_an_interrupt_before_a_callback_begins_is_one() -> None:
    text = (
        "INTERNAL: CpuCallback error calling callback: Traceback:\n  File ...\nKeyboardInterrupt: "
    )
    found = host_calls.raised_by_host(RuntimeError(text))
    assert isinstance(found, KeyboardInterrupt)


class _Lock:
    """A lock of Python's code: an interrupt may come after it was taken, too."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        found = self._lock.acquire(blocking, timeout)
        _moment()
        return found

    def release(self) -> None:
        self._lock.release()


def _moment() -> None:
    """Is called."""


@DROPPED
def test_an_interrupt_waits_for_nothing_that_has_ended_or_never_begins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake = SimpleNamespace(**vars(threading) | {"Lock": _Lock})
    monkeypatch.setattr(host_calls, "threading", fake)
    monkeypatch.setattr(host_calls.Finished, "_run", lambda self, handlers: handlers)
    run = host_calls.Finished(None, [Stop()], nullcontext(), [])
    start = time.monotonic()
    assert at_every_call(lambda: run.consume_with_handlers([])) > 10
    assert time.monotonic() - start < host_calls._ENDING_SECONDS
