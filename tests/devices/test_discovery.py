"""Devices are found without jax; what is missing, or does not fit, is said with how to mend it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jaxlib.version
import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tracer import lowering
from tracer.errors import DeviceError, OutOfMemoryError
from tracer.lowering.devices import clients, plugins
from tracer.lowering.devices import registry as backend
from tracer.lowering.run import failures
from tracer.target import ACCELERATORS

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def _no_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "_version", lambda wheel: None)
    monkeypatch.setattr(backend, "_REGISTRY", backend._DeviceRegistry())


@pytest.mark.xla
def test_cpu_is_built_in() -> None:
    first, *_ = tracer.devices("cpu")
    assert str(first) == "cpu:0"
    assert first.is_present
    assert first.is_local
    assert tnp.zeros(3, device="cpu:0").device is first


@pytest.mark.usefixtures("_no_plugins")
@pytest.mark.parametrize(
    ("name", "wheel", "extra"),
    [
        ("gpu:0", "jax-cuda13-plugin or jax-cuda12-plugin", "tracer[cuda13]"),
        ("cuda", "jax-cuda13-plugin or jax-cuda12-plugin", "tracer[cuda12]"),
        ("tpu:1", "libtpu", "tracer[tpu]"),
        ("tpu:v5e", "libtpu", "tracer[tpu]"),
        ("cuda:h100", "jax-cuda13-plugin", "tracer[cuda13]"),
    ],
)
def test_what_was_looked_for_and_what_to_install(name: str, wheel: str, extra: str) -> None:
    with pytest.raises(DeviceError) as caught:
        lowering.find_device(name)
    assert wheel in caught.value.what
    assert extra in caught.value.mend


@pytest.mark.usefixtures("_no_plugins")
@pytest.mark.parametrize("name", ["gpu:0", "tpu"])
def test_what_was_found_is_named(name: str) -> None:
    with pytest.raises(DeviceError, match="found: cpu:0") as caught:
        tracer.compile(tnp.sin, device=name)(np.ones(3))
    assert "use one of cpu:0" in caught.value.mend
    assert all(target in caught.value.mend for target in ACCELERATORS[name.split(":")[0]])


@pytest.mark.parametrize("name", ["cpu:99", "banana", "tpu:v99", "cpu:0:1", ""])
def test_unknown_names_are_refused(name: str) -> None:
    with pytest.raises(DeviceError, match="there is no device"):
        lowering.find_device(name)


def test_objects_that_are_no_device_are_refused() -> None:
    with pytest.raises(DeviceError, match="3 is no device"):
        lowering.find_device(3)  # type: ignore[arg-type]


def test_a_plugin_of_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "_version", lambda wheel: "0.4.2" if "13" in wheel else None)
    with pytest.raises(DeviceError) as caught:
        lowering.find_device("cuda:a100")
    version = jaxlib.version.__version__
    assert f"jax-cuda13-plugin 0.4.2 do not fit jaxlib {version}" in caught.value.what
    assert f"jax-cuda13-plugin=={version}" in caught.value.mend


def test_half_a_plugin_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    version = jaxlib.version.__version__
    found = {"jax-cuda13-plugin": version}
    monkeypatch.setattr(plugins, "_version", found.get)
    with pytest.raises(DeviceError, match="jax-cuda13-pjrt is not installed"):
        lowering.find_device("cuda:a100")


def test_a_broken_plugin_says_its_version(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    library = tmp_path / "libtpu.so"
    library.write_text("no library")
    monkeypatch.setattr(plugins, "_version", lambda wheel: "9.9.9")
    monkeypatch.setattr(plugins.Plugin, "path", library)
    monkeypatch.setattr(plugins, "_LOADED", {})
    with pytest.raises(DeviceError, match=r"cannot load libtpu 9\.9\.9"):
        plugins.load(plugins.plugin_of("tpu"))


def test_a_plugin_s_variables_are_gone_when_it_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed load leaves none either, and what the user has set stays."""
    seen: dict[str, str] = {}

    def load(_: plugins.Plugin) -> None:
        seen.update(os.environ)
        raise DeviceError("it cannot be loaded", mend="")

    monkeypatch.setattr(plugins, "_version", lambda wheel: "9.9.9")
    monkeypatch.setattr(plugins.Plugin, "path", Path("libtpu.so"))
    monkeypatch.setattr(plugins, "_LOADED", {})
    monkeypatch.setattr(plugins, "_load", load)
    monkeypatch.setattr(plugins, "has_tpu", lambda: False)
    monkeypatch.setenv("TPU_WORKER_ID", "7")
    before = dict(os.environ)
    with pytest.raises(DeviceError):
        plugins.load(plugins.plugin_of("tpu"))
    assert seen == {**plugins._NO_CLOUD, **before}
    assert dict(os.environ) == before


def test_an_attached_device_that_fails_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> Any:
        raise RuntimeError("driver is too old")

    broken = clients.Platform(fails, lambda: True, "an NVIDIA driver")
    monkeypatch.setitem(clients.PLATFORMS, "gpu", broken)
    search = backend._DeviceRegistry()
    with pytest.warns(RuntimeWarning, match="a GPU seems to be attached.*driver is too old"):
        assert search.on("gpu") == ()
    assert search.on("gpu") == ()
    assert "nvidia-smi" in search.reasons["gpu"].mend


def test_the_default_device_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    tracer.set_default_device("cpu:0")
    assert str(tracer.default_device()) == "cpu:0"
    tracer.set_default_device(None)
    monkeypatch.setenv("TRACER_DEVICE", "cpu:77")
    monkeypatch.setattr(backend, "_REGISTRY", backend._DeviceRegistry())
    with pytest.raises(DeviceError, match="cpu:77"):
        tracer.default_device()


@pytest.mark.parametrize(
    "text",
    [
        "INTERNAL: CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure",
        "UNAVAILABLE: socket closed",
        "INTERNAL: Gloo all-reduce failed: Connection closed by peer",
    ],
)
def test_lost_devices_and_processes_are_said(text: str) -> None:
    found = failures.execution_failure(RuntimeError(text))
    assert isinstance(found, DeviceError)
    assert "is gone" in found.what


@pytest.mark.xla
def test_out_of_memory_has_the_plan() -> None:
    huge = tracer.compile(lambda x: tnp.broadcast_to(x[:, None], (1 << 23, 1 << 23)) + x[0])
    with pytest.raises(OutOfMemoryError) as caught:
        np.asarray(huge(np.zeros(1 << 23, np.float32)))
    assert caught.value.plan.compiled_bytes > 1 << 47
    assert "plan:" in str(caught.value)
    assert isinstance(caught.value, MemoryError)


def test_compilers_that_run_out_of_memory_are_understood() -> None:
    text = "RESOURCE_EXHAUSTED: E1000: CompileTimeHbmOom: Ran out of memory on HBM"
    found = failures.compile_failure(RuntimeError(text))
    assert isinstance(found, OutOfMemoryError)


@pytest.mark.process
def test_nothing_of_jax_is_imported() -> None:
    code = (
        "import sys, tracer\n"
        "for name in ('gpu:0', 'tpu:v5e', 'cuda:h100'):\n"
        "    try:\n        tracer.lowering.find_device(name)\n"
        "    except tracer.DeviceError:\n        pass\n"
        "assert 'jax' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=120)
