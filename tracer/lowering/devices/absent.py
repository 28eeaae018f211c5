"""Devices that are not here: what the compilers of TPUs and GPUs have to be told about them.

Both compile on a machine without the device and count the bytes that the program will take there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tracer.errors import DeviceError
from tracer.lowering.devices.plugins import Plugin, load
from tracer.lowering.shims import xla_client


@dataclass(frozen=True)
class Target:
    """A kind of device, in numbers.

    Attributes
    ----------
    name : str
        As it is written after the platform: "h100", "v5e".
    memory_bytes, cache_bytes : int
        The device's memory, and what is close to its arithmetic: a GPU's second-level cache, a
        TPU core's vector memory.
    memory_rate : float
        Bytes a second to memory.
    product_rate : float
        Operations a second in matrix products, in the precision that the lowering asks for
        (float32 in full: a TPU passes six times through its bfloat16 units).
    vector_rate : float
        Operations a second in element-wise arithmetic, float32.
    description : tuple
        A GPU: what XLA's `GpuTargetConfigProto` names; a TPU: its smallest topology.
    """

    name: str
    memory_bytes: int
    cache_bytes: int
    memory_rate: float
    product_rate: float
    vector_rate: float
    description: tuple[Any, ...]


def _gpu(
    name: str, memory: float, cache: int, bandwidth: float, flops: float, *description: Any
) -> Target:
    return Target(name, int(memory * 1e9), cache << 20, bandwidth, flops, flops / 2, description)


def _tpu(
    name: str, memory: float, cache: int, bandwidth: float, bfloat16: float, topology: str
) -> Target:
    passes = 6  # XLA's HIGHEST precision: products of three bfloat16 parts each
    return Target(
        name, int(memory * 1e9), cache << 20, bandwidth, bfloat16 / passes, bfloat16 / 50,
        (topology,),
    )  # fmt: skip


# From NVIDIA's data sheets and CUDA programming guide: GB, MiB of cache, bytes/s, float32/s; cores,
# float32 units of one, KiB of shared memory of a core, threads of a core, GHz, compute capability.
_GPUS = (
    _gpu("a100", 80, 40, 2.04e12, 1.95e13, 108, 64, 164, 2048, 1.41, (8, 0)),
    _gpu("h100", 80, 50, 3.35e12, 6.7e13, 132, 128, 228, 2048, 1.98, (9, 0)),
    _gpu("h200", 141, 50, 4.8e12, 6.7e13, 132, 128, 228, 2048, 1.98, (9, 0)),
    _gpu("b200", 180, 126, 8e12, 7.5e13, 148, 128, 228, 2048, 1.96, (10, 0)),
    _gpu("l4", 24, 48, 3e11, 3.03e13, 58, 128, 100, 1536, 2.04, (8, 9)),
    _gpu("rtx4090", 24, 72, 1.01e12, 8.26e13, 128, 128, 100, 1536, 2.52, (8, 9)),
)
# From Google's documentation of each TPU, for what XLA sees as one device (on v3 and 7x half of a
# chip): GB, MiB of vector memory, bytes/s, bfloat16/s.
_TPUS = (
    _tpu("v3", 17.2, 16, 4.1e11, 6.1e13, "2x2"),
    _tpu("v4", 34.4, 32, 1.23e12, 2.75e14, "2x2x1"),
    _tpu("v5e", 17.2, 128, 8.2e11, 1.97e14, "2x2"),
    _tpu("v5p", 103, 128, 2.46e12, 4.59e14, "2x2x1"),
    _tpu("v6e", 34.4, 128, 1.64e12, 9.2e14, "2x2"),
    _tpu("tpu7x", 103, 64, 3.7e12, 1.15e15, "2x2x1"),
)
TARGETS: dict[str, dict[str, Target]] = {
    "gpu": {target.name: target for target in _GPUS},
    "tpu": {target.name: target for target in _TPUS},
}


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
            mend="leave the topology out, or give one that is built, such as "
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
        "memory_bandwidth": int(target.memory_rate),
        "l2_cache_size": target.cache_bytes,
        "clock_rate_ghz": clock,
        "device_memory_size": target.memory_bytes,
        "registers_per_core_limit": 65536,
        "registers_per_block_limit": 65536,
    }
    lines = " ".join(f"{name}: {value}" for name, value in fields.items())
    return (
        f"gpu_device_info {{ {lines} cuda_compute_capability {{ major: {major} minor: {minor} }} }}"
        f' platform_name: "CUDA" dnn_version_info {{ major: 9 minor: 12 }}'
        f' device_description_str: "{target.name.upper()}"'
    )
