"""How the client of each platform is made. The only file that makes clients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tracer import target
from tracer.errors import DeviceError
from tracer.lowering.devices import plugins, processes
from tracer.lowering.shims import xla_client
from tracer.units import format_bytes


def _make_cpu_client() -> Any:
    """Make the CPU client in the form that keeps a memory limit over calls in a row.

    An asynchronous client frees a call's temporaries on a thread of its own, after the result is
    there, so the next call allocates a second block (docs/memory-model.md).
    """
    _require_address_space()
    return xla_client.make_cpu_client(asynchronous=False, **processes.cpu_client_options())


def _require_address_space() -> None:
    """Refuse a start in which XLA would end the process, as a thread gets no memory for its stack.

    Raises
    ------
    DeviceError
        `ulimit -v` leaves too little.
    """
    left, threads = target.address_space_left(), target.xla_threads()
    needed = target.xla_address_space(threads)
    if left is not None and left < needed:
        raise DeviceError(
            f"the address space of this process is limited (ulimit -v), to {format_bytes(left)} "
            f"more than it has; XLA's {threads} threads take about {format_bytes(needed)}",
            mend="allow more (ulimit -v unlimited), or fewer cores (taskset); memory_limit= bounds "
            "what programs use without any ulimit",
        )


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
