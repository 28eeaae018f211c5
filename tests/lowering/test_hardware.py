"""What is read from the machine for the time model."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace

import pytest

from tracer.lowering.devices import hardware, host_memory
from tracer.optimizer.model.speed import Machine


@pytest.mark.parametrize(
    ("sizes", "cores", "wanted"),
    [
        (("48K", "2048K", "491520K"), 2, 32 << 20),  # a virtual machine tells of a whole socket's
        (("48K", "2048K", "491520K"), 1, 16 << 20),
        (("32K", "512K", "32768K"), 8, 32 << 20),
        (("32K", "8M"), 4, 8 << 20),
        ((), 4, 32 << 20),
    ],
)
def test_the_cache_is_the_share_of_the_cores_that_are_used(
    sizes: tuple[str, ...],
    cores: int,
    wanted: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for index, size in enumerate(sizes):
        folder = tmp_path / f"index{index}"
        folder.mkdir()
        (folder / "size").write_text(size + "\n", encoding="ascii")
    monkeypatch.setattr(hardware, "_CACHES", tmp_path)
    monkeypatch.setattr(hardware, "core_count", lambda: cores)
    assert hardware.cache_bytes() == wanted


@pytest.mark.parametrize("platform", ["gpu", "tpu"])
def test_nothing_is_packed_on_devices(platform: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place = SimpleNamespace(platform=platform, target=None, kind="unknown")
    monkeypatch.setattr(hardware, "find_device", lambda device: place)
    machine = Machine(**hardware.machine_facts())
    assert machine.packing_rate == math.inf
    assert machine.memory_rate > Machine().memory_rate
    assert machine.memory_bytes > 1 << 30


def test_a_container_has_less_memory_than_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = host_memory.host_bytes()
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(host_memory, "_CONTROL_GROUPS", ((str(limit), "", "", ""),))
    for said, wanted in (("max", None), (str(1 << 30), 1 << 30), (str(1 << 60), None)):
        limit.write_text(said + "\n", encoding="ascii")
        found = hardware.machine_facts("cpu")["memory_bytes"]
        assert found == host_memory.host_bytes()
        assert found == wanted or (wanted is None and found >= whole)
