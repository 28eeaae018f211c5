"""Transfers run beside programs where the client runs programs beside the host.

GPUs' and TPUs' do. None is here, so an asynchronous CPU client stands for them; tracer's own runs a
program inside the call (`lowering.devices.clients`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.lowering.test_settings import PROGRAMS, inputs_of
from tracer import lowering
from tracer.array.trace import trace
from tracer.errors import DonatedArrayError, TracingError
from tracer.lowering.shims import OneDevice, xla_client

pytestmark = pytest.mark.xla
SIZE, TRIPS = 256, 2000


@pytest.fixture(scope="module")
def device() -> lowering.Device:
    raw = xla_client.make_cpu_client(asynchronous=True).devices()[0]
    return lowering.Device("cpu", 0, "runs beside the host", raw, OneDevice(raw))


@pytest.fixture(scope="module")
def slow(device: lowering.Device) -> lowering.Executable:
    def powers(x: Any) -> Any:
        return tracer.fori_loop(0, TRIPS, lambda i, power: power @ x, x)

    traced = trace(powers, (tracer.ShapeDtype((SIZE, SIZE), np.float64),))
    return lowering.compile_graph(traced.graph, device=device)


def rotation() -> Any:
    return np.eye(SIZE)[np.roll(np.arange(SIZE), 1)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_of_a_client_that_waits(device: lowering.Device, name: str) -> None:
    arrays = inputs_of(name, "float32")
    graph = trace(PROGRAMS[name][0], arrays).graph
    found = []
    for where in (device, lowering.default_device()):
        lowering.clear_cache()  # Both are called cpu:0.
        program = lowering.compile_graph(graph, device=where)
        buffers = [lowering.to_device(array, where) for array in arrays]
        found.append([lowering.to_host(result) for result in program(*buffers)])
    lowering.clear_cache()
    for asynchronous, synchronous in zip(*found, strict=True):
        assert np.array_equal(asynchronous, synchronous, equal_nan=True)


def test_arguments_are_uploaded_while_a_program_runs(
    device: lowering.Device, slow: lowering.Executable
) -> None:
    (first,) = slow(lowering.to_device(rotation(), device))
    argument = rotation()
    uploaded = lowering.to_device(argument, device)
    argument[:] = 0  # the copy is private at once
    (second,) = slow(uploaded)
    assert not first.is_ready(), "the upload or the second call waited for the first program"
    expected = np.linalg.matrix_power(rotation(), TRIPS + 1)
    assert np.array_equal(lowering.to_host(first), expected)
    assert np.array_equal(lowering.to_host(second), expected)


def test_a_result_starts_back_before_it_is_there(
    device: lowering.Device, slow: lowering.Executable
) -> None:
    results = slow(lowering.to_device(rotation(), device))
    lowering.start_to_host(results)
    assert not results[0].is_ready(), "starting the copy waited for the program"
    expected = np.linalg.matrix_power(rotation(), TRIPS + 1)
    assert np.array_equal(lowering.to_host(results[0]), expected)


class Observed:
    """A buffer that writes down what is asked of it."""

    def __init__(self, name: str, value: Any, events: list[str]) -> None:
        self.name, self.value, self.events = name, value, events

    def is_deleted(self) -> bool:
        return False

    def _copy_single_device_array_to_host_async(self) -> None:
        self.events.append(f"start {self.name}")

    def _single_device_array_to_np_array_did_copy(self) -> tuple[Any, bool]:
        self.events.append(f"await {self.name}")
        return self.value, True


def _refuse(buffer: Any) -> memoryview:
    raise BufferError(buffer)  # as buffers that are not in the host's memory do


def test_device_get_starts_all_copies_before_it_awaits_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tracer.lowering.run.transfer.memoryview", _refuse, raising=False)
    events: list[str] = []
    device = tracer.default_device()

    def array(name: str) -> Any:
        type = tracer.ShapeDtype((2,), np.float32)
        return tnp.Array(Observed(name, np.ones(2, np.float32), events), type, device)

    found = tracer.device_get({"x": array("a"), "y": [array("b"), 3]})
    assert events == ["start a", "start b", "await a", "await b"]
    assert found["y"][1] == 3
    assert np.array_equal(found["x"], np.ones(2))


def test_parts_start_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tracer.lowering.run.transfer.memoryview", _refuse, raising=False)
    events: list[str] = []

    class Parts:
        _arrays = [Observed(name, np.ones(1), events) for name in "ab"]  # noqa: RUF012

    assert len(lowering.local_buffers(Parts())) == 2
    assert events == ["start a", "start b", "await a", "await b"]


def test_on_cpu_nothing_is_copied_and_memory_can_still_be_donated() -> None:
    x = tnp.ones((100, 100))
    x.copy_to_host_async()
    _, did_copy = x._buffer._single_device_array_to_np_array_did_copy()
    assert not did_copy
    x = tnp.ones((100, 100))
    x.copy_to_host_async()
    memory = x._buffer.unsafe_buffer_pointer()
    result = tracer.compile(lambda x: x + 1, donate_argnums=0)(x)
    assert result._buffer.unsafe_buffer_pointer() == memory


def test_what_has_no_data_is_refused() -> None:
    x = tnp.ones(3)
    x.delete()
    with pytest.raises(DonatedArrayError):
        x.copy_to_host_async()
    with pytest.raises(DonatedArrayError):
        tracer.device_get([x])
    with pytest.raises(TracingError, match=r"copy_to_host_async\(\) needs the value"):
        tracer.compile(lambda x: x.copy_to_host_async())(tnp.ones(3))


def test_a_deleted_buffer_is_refused() -> None:
    buffer = lowering.to_device(np.ones(3))
    buffer.delete()
    with pytest.raises(DonatedArrayError):
        lowering.start_to_host([buffer])
