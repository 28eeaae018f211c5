"""Lowering: the only room that speaks to jaxlib. Graph in, executable program out.

It knows StableHLO, XLA's clients and their memory; it knows no op by name (ops lower themselves
through the builder) and nothing of NumPy's manners or of jax.
"""

from tracer.lowering.backend import (
    Device,
    cache_bytes,
    core_count,
    default_device,
    devices,
    find_device,
)
from tracer.lowering.compiler import clear_cache, compile_graph, stablehlo
from tracer.lowering.executable import Executable
from tracer.lowering.free_memory import free_bytes
from tracer.lowering.memory import MemoryStats
from tracer.lowering.shims import Buffer, memory_optimized_options, unmoved_code_options
from tracer.lowering.transfer import (
    block_until_ready,
    from_dlpack,
    to_device,
    to_dlpack,
    to_host,
)
from tracer.lowering.walk import node_path

__all__ = [
    "Buffer",
    "Device",
    "Executable",
    "MemoryStats",
    "block_until_ready",
    "cache_bytes",
    "clear_cache",
    "compile_graph",
    "core_count",
    "default_device",
    "devices",
    "find_device",
    "free_bytes",
    "from_dlpack",
    "memory_optimized_options",
    "node_path",
    "stablehlo",
    "to_device",
    "to_dlpack",
    "to_host",
    "unmoved_code_options",
]
