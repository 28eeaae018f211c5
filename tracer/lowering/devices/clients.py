"""How the client of each platform is made. The only file that makes clients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tracer.lowering.devices import plugins, processes
from tracer.lowering.shims import xla_client


def _make_cpu_client() -> Any:
    """Make the CPU client in the form that keeps a memory limit over calls in a row.

    An asynchronous client frees a call's temporaries on a thread of its own, after the result is
    there, so the next call allocates a second block (docs/memory-model.md).
    """
    return xla_client.make_cpu_client(asynchronous=False, **processes.cpu_client_options())


def _make_gpu_client() -> Any:
    plugin = plugins.plugin_of("gpu")
    plugins.load(plugin)
    # jax and torch may have the same device in this process: memory is taken as it is needed.
    options = {"preallocate": False, **xla_client.generate_pjrt_gpu_plugin_options()}
    return xla_client.make_c_api_client(plugin.api, options, processes.distributed_client())


def _make_tpu_client() -> Any:
    plugin = plugins.plugin_of("tpu")
    plugins.load(plugin)
    return xla_client.make_c_api_client(plugin.api)


@dataclass(frozen=True)
class Platform:
    """How to find the devices of one platform.

    `is_attached` is called before anything large is loaded; `sought` is what it looks for.
    """

    make_client: Callable[[], Any]
    is_attached: Callable[[], bool]
    sought: str


PLATFORMS: dict[str, Platform] = {
    "tpu": Platform(_make_tpu_client, plugins.has_tpu, "a TPU on the PCI bus"),
    "gpu": Platform(
        _make_gpu_client, plugins.has_nvidia_driver, "an NVIDIA driver (/dev/nvidiactl)"
    ),
    "cpu": Platform(_make_cpu_client, lambda: True, ""),
}
"""The platforms, in order of preference for the default device."""
