"""Devices that are not present: what the compilers of TPUs and GPUs must be told about them.

Both compile on a machine without the device and count the bytes that the program will take there.
"""

from __future__ import annotations

from typing import Any

from tracer.errors import DeviceError
from tracer.lowering.devices.plugins import Plugin, load
from tracer.lowering.shims import xla_client
from tracer.target import Target


def absent_devices(plugin: Plugin, target: Target, topology: str | None) -> list[Any]:
    """Return XLA's devices of a machine that is described only; programs compile for them.

    Parameters
    ----------
    plugin : Plugin
        The compiler.
    target : Target
        The kind of device.
    topology : str, optional
        How many there are: "8" GPUs of one host; "4x4" TPUs.

    Raises
    ------
    DeviceError
        The plugin cannot be loaded, or does not know the topology.
    """
    handle = load(plugin)
    try:
        if plugin.platform == "tpu":
            name = f"{target.name}:{topology or target.description[0]}"
            made = xla_client.make_c_api_device_topology(handle, name)
        else:
            made = xla_client.make_c_api_device_topology(
                handle,
                "",
                target_config=_target_config(target),
                topology=f"1x1x{topology or 1}",  # slices, hosts, GPUs of each host
            )
    except RuntimeError as error:
        raise DeviceError(
            f"there is no machine of {target.name} with topology {topology!r}: {error}",
            mend="leave the topology out, or give an existing one, such as "
            + ("'tpu:v5e:4x4'" if plugin.platform == "tpu" else "'cuda:h100:8'"),
        ) from error
    return list(made._make_compile_only_devices())


_LARGEST_GRID = 2**31 - 1, 65535, 65535
_KIB = 1 << 10


def _target_config(target: Target) -> str:
    """Return XLA's `GpuTargetConfigProto` as text. Products fail without the shared memory."""
    cores, units, shared, threads, clock, (major, minor) = target.description
    grid = zip("xyz", _LARGEST_GRID, strict=True)
    fields = {
        "threads_per_block_limit": 1024,
        "threads_per_warp": 32,
        "shared_memory_per_block": 48 * _KIB,
        "shared_memory_per_core": shared * _KIB,
        "shared_memory_per_block_optin": (shared - 1) * _KIB,
        "threads_per_core_limit": threads,
        "core_count": cores,
        "fpus_per_core": units,
        **{f"block_dim_limit_{axis}": limit for axis, limit in grid},
        "memory_bandwidth": int(target.prices.memory_rate),
        "l2_cache_size": target.cache_bytes,
        "clock_rate_ghz": clock,
        "device_memory_size": int(target.memory_bytes),
        "registers_per_core_limit": 65536,
        "registers_per_block_limit": 65536,
    }
    lines = " ".join(f"{name}: {value}" for name, value in fields.items())
    return (
        f"gpu_device_info {{ {lines} cuda_compute_capability {{ major: {major} minor: {minor} }} }}"
        f' platform_name: "CUDA" dnn_version_info {{ major: 9 minor: 12 }}'
        f' device_description_str: "{target.name.upper()}"'
    )
