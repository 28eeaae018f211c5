"""Lowering: the only room that imports jaxlib. Graph in, executable program out.

It knows StableHLO, XLA's clients and their memory. It knows no op by name (ops lower themselves
through the builder), none of NumPy's conventions, and nothing of jax.
"""

from tracer.lowering.cpu.host_allocator import (
    TunedHostAllocator,
    is_tuned,
    tune_host_allocator,
    tune_if_asked,
)
from tracer.lowering.devices.device import Device
from tracer.lowering.devices.free_memory import free_bytes, least_free_bytes
from tracer.lowering.devices.hardware import target_of
from tracer.lowering.devices.mesh import Mesh, make_mesh
from tracer.lowering.devices.named_sharding import NamedSharding, PartitionSpec
from tracer.lowering.devices.placement import Placement
from tracer.lowering.devices.registry import (
    default_device,
    devices,
    find_device,
    is_uncommitted,
    set_default_device,
)
from tracer.lowering.emit.numpy_routines import NUMPY_ROUTINE
from tracer.lowering.emit.walk import node_path
from tracer.lowering.memory.copies import ArrayCopy, Place
from tracer.lowering.memory.sampling import sample_memory
from tracer.lowering.memory.stats import MemoryStats
from tracer.lowering.read.module import read_module
from tracer.lowering.read.records import Module, Operation, Region
from tracer.lowering.run.budget import memory_budget
from tracer.lowering.run.compiler import (
    bound_cache,
    clear_cache,
    compile_graph,
    remembered,
    stablehlo,
)
from tracer.lowering.run.executable import Executable
from tracer.lowering.run.failures import absent
from tracer.lowering.run.first_use import use_libraries
from tracer.lowering.run.lanes import compile_lanes
from tracer.lowering.run.resharding import resharding
from tracer.lowering.run.serialized import (
    can_be_serialized,
    compiler_identity,
    deserialize,
    serialize,
)
from tracer.lowering.run.sharded import get_sharded, is_whole_here, local_buffers, put_sharded
from tracer.lowering.run.transfer import (
    block_until_ready,
    dlpack_device,
    from_dlpack,
    share_dlpack,
    start_to_host,
    to_device,
    to_dlpack,
    to_host,
)
from tracer.lowering.run.xla_options import (
    eigen_options,
    is_by_eigen,
    memory_optimized_options,
    unmoved_code_options,
)
from tracer.lowering.settings import SETTINGS, without, xla_defaults
from tracer.lowering.shims import Buffer

__all__ = [
    "NUMPY_ROUTINE",
    "SETTINGS",
    "ArrayCopy",
    "Buffer",
    "Device",
    "Executable",
    "MemoryStats",
    "Mesh",
    "Module",
    "NamedSharding",
    "Operation",
    "PartitionSpec",
    "Place",
    "Placement",
    "Region",
    "TunedHostAllocator",
    "absent",
    "block_until_ready",
    "bound_cache",
    "can_be_serialized",
    "clear_cache",
    "compile_graph",
    "compile_lanes",
    "compiler_identity",
    "default_device",
    "deserialize",
    "devices",
    "dlpack_device",
    "eigen_options",
    "find_device",
    "free_bytes",
    "from_dlpack",
    "get_sharded",
    "is_by_eigen",
    "is_tuned",
    "is_uncommitted",
    "is_whole_here",
    "least_free_bytes",
    "local_buffers",
    "make_mesh",
    "memory_budget",
    "memory_optimized_options",
    "node_path",
    "put_sharded",
    "read_module",
    "remembered",
    "resharding",
    "sample_memory",
    "serialize",
    "set_default_device",
    "share_dlpack",
    "stablehlo",
    "start_to_host",
    "target_of",
    "to_device",
    "to_dlpack",
    "to_host",
    "tune_host_allocator",
    "tune_if_asked",
    "unmoved_code_options",
    "use_libraries",
    "without",
    "xla_defaults",
]
