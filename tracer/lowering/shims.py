"""Everything that differs between jaxlib versions, and the little that jaxlib needs to be jax-free.

The other files of the room import jaxlib's modules from here. Works on jaxlib 0.8.0 to 0.12.0.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

# XLA's C++ logs lines at start-up, and each failure a second time before it raises; must be set
# before jaxlib is imported.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import jaxlib.version
import numpy as np
from jaxlib import _jax, lapack, xla_client

# What lives on a device: jaxlib's own array, used without jax.
from jaxlib._jax import Array as Buffer  # type: ignore[import-not-found]
from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _jax_mlir_ext
from jaxlib.mlir.dialects import chlo, func, sdy
from jaxlib.mlir.dialects import stablehlo as hlo

VERSION: tuple[int, ...] = tuple(jaxlib.version.__version_info__)

PRODUCTS_BY_YNNPACK = VERSION >= (0, 10)
"""Whether XLA:CPU gives products to YNNPACK; before, all go to Eigen."""

LONG_VECTORS_ARE_SAFE = VERSION >= (0, 9, 2)
"""Whether LLVM keeps to its masks in loops over vectors of 512 bits.

Before, it read the padding of a depthwise convolution from memory that is not there: that ended the
process (0.8.0 to 0.9.1: `tests/lowering/test_vectors.py`).
"""

TILES_ARE_COUNTED_IN_AN_INT = VERSION >= (0, 11)
"""Whether XLA:CPU's kernels count their tiles in 32 bits (`large_values`)."""

# jaxlib before 0.11 checks results in Python code of jax's array unless it is told not to; later ones
# do not, and have no such argument.
_WITHOUT_CHECKS = (True,) if VERSION < (0, 11) else ()

_PASSES_THAT_DROP_BARRIERS = "cse_barrier_expander"
_PASSES_THAT_UNFUSE_REDUCTIONS = "tree_reduction_rewriter"


class Aval:
    """Shape and dtype as jaxlib's C++ reads them from Python."""

    __slots__ = ("dtype", "ndim", "shape", "weak_type")

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.shape = shape
        self.dtype = dtype
        self.ndim = len(shape)
        self.weak_type = False


class OneDevice(_jax.SingleDeviceSharding):  # type: ignore[misc]
    """The sharding of an array that lies on one device, with the attributes that C++ reads."""

    memory_kind = None
    num_devices = 1

    def _to_xla_hlo_sharding(self, ndim: int) -> Any:
        return xla_client.HloSharding.replicate()


class SeveralDevices(_jax.GSPMDSharding):  # type: ignore[misc]
    """The sharding of an array that lies on several devices, with what C++ reads besides."""

    memory_kind = None

    @property
    def num_devices(self) -> int:
        """How many devices there are."""
        return len(self._internal_device_list)

    def _to_xla_hlo_sharding(self, ndim: int) -> Any:
        return self._hlo_sharding


def several_devices(devices: list[Any], sharding: Any) -> SeveralDevices:
    """Return the sharding over a list of devices that an `OpSharding` says."""
    return SeveralDevices(device_list(*devices), xla_client.HloSharding.from_proto(sharding))


def make_context() -> Any:
    """Return a new MLIR context that knows StableHLO and CHLO.

    One context is made for each module: a context keeps every constant it has ever seen.
    """
    context = ir.Context()
    context.append_dialect_registry(_DIALECTS)
    context.load_all_available_dialects()
    hlo.register_dialect(context)
    chlo.register_dialect(context)
    sdy.register_dialect(context)
    return context


def _dialects() -> Any:
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    return registry


_DIALECTS = _dialects()


def bool_constant(array: np.ndarray[Any, Any], type: Any) -> Any:
    """Return the attribute of a dense boolean constant.

    jaxlib before 0.9.1 reads bits packed little-endian, later ones a byte per element; either may
    silently misread the other form.
    """
    if VERSION < (0, 9, 1):
        array = np.packbits(array, axis=None, bitorder="little")
    return ir.DenseElementsAttr.get(
        np.ascontiguousarray(array), type=type.element_type, shape=type.shape
    )


def memory_optimized_options(platform: str = "cpu") -> dict[str, Any]:
    """Return the compile options that make XLA schedule for memory; none where it does anyway.

    By default XLA:CPU orders instructions for concurrency, breadth first, and ignores both memory
    and the order of the program. This is a heuristic of XLA's and sometimes worse.

    Returns
    -------
    dict
        For `compile_graph(..., options=...)`.
    """
    if platform != "cpu":
        return {}
    if VERSION < (0, 9, 1):
        return {"xla_cpu_enable_concurrency_optimized_scheduler": False}
    return {"xla_cpu_scheduler_type": "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"}


def unmoved_code_options() -> dict[str, Any]:
    """Return the compile options that keep XLA from moving code out of loops.

    It moves whatever does not change from trip to trip, and stores it, however large: also what a
    loop computes again so that it need not be stored.

    Returns
    -------
    dict
        For `compile_graph(..., options=...)`.
    """
    return {"xla_disable_hlo_passes": "while-loop-invariant-code-motion"}


def default_options(platform: str) -> dict[str, Any]:
    """Return the options that every program is compiled with, unless the caller sets them.

    From 0.9 on XLA:CPU gives whole chains of ops to the library YNNPACK as one fusion, whose
    intermediate arrays are in no count of XLA's (an attention of 8 heads of 8192: 4.3 GB, counted
    as 0) and whose reductions can be slow. Products alone keep YNNPACK's speed without the trap.
    The measurements are in docs/memory-model.md.
    """
    if platform != "cpu" or VERSION < (0, 9):
        return {}
    return {"xla_cpu_experimental_ynn_fusion_type": "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT"}


def disabled_passes(platform: str) -> tuple[str, ...]:
    """Return the passes of XLA that are always switched off, whatever the caller disables.

    XLA:CPU deletes optimization barriers early, after which recomputation is merged away again;
    and it rewrites reductions such that they store what they reduce (see `builder_reduce`).
    """
    if platform != "cpu":
        return ()
    return (_PASSES_THAT_DROP_BARRIERS, _PASSES_THAT_UNFUSE_REDUCTIONS)


def compile_options(
    overrides: dict[str, Any], devices: Sequence[Any], *, is_partitioned: bool
) -> Any:
    """Return XLA's options for one program on some devices, with named overrides."""
    options = xla_client.CompileOptions()
    options.env_option_overrides = list(overrides.items())
    if is_partitioned:
        options.num_partitions = len(devices)
        build = options.executable_build_options
        build.num_partitions = len(devices)
        build.use_spmd_partitioning = True
        build.use_shardy_partitioner = True
        build.allow_spmd_sharding_propagation_to_output = [True]
    # Without an assignment a program compiled for another device still runs on device 0.
    options.device_assignment = xla_client.DeviceAssignment.create(
        np.array([[device.id for device in devices]], dtype=np.int32)
    )
    return options


def with_backend_option(options: Any, name: str) -> Any:
    """Return the options of a program with one of the CPU's own switches on.

    These are in a map that neither the overrides nor Python's attributes reach: protocol buffers
    that follow each other are merged as they are read, so it is put behind the options' bytes.
    """
    entry = _field(1, name.encode()) + _field(2, b"")
    debug = _field(_BACKEND_OPTIONS, entry)
    build = _field(_DEBUG_OPTIONS, debug)
    added = _field(_BUILD_OPTIONS, build)
    return xla_client.CompileOptions.ParseFromString(options.SerializeAsString() + added)


# Numbers of fields in XLA's compile_options.proto and xla.proto.
_BUILD_OPTIONS, _DEBUG_OPTIONS, _BACKEND_OPTIONS = 3, 3, 500


def _field(number: int, content: bytes) -> bytes:
    """Return a field of a protocol buffer that holds bytes."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    low, rest = number & 127, number >> 7
    return bytes([low | 128]) + _varint(rest) if rest else bytes([low])


def put(array: np.ndarray[Any, Any], sharding: OneDevice, device: Any) -> Buffer:
    """Copy a native-endian array to a device; it may be changed as soon as this returns."""
    buffer: Buffer = _jax.batched_device_put(
        Aval(array.shape, array.dtype),
        sharding,
        [array],
        [device],
        True,
        # Aligned NumPy memory would be aliased, and unaligned memory read after we return.
        force_copy=True,
        enable_x64=True,
    )
    return buffer


def put_parts(
    shape: tuple[int, ...],
    parts: list[np.ndarray[Any, Any]],
    sharding: SeveralDevices,
    devices: list[Any],
) -> Buffer:
    """Copy the parts of an array to devices."""
    buffer: Buffer = _jax.batched_device_put(
        Aval(shape, parts[0].dtype),
        sharding,
        parts,
        devices,
        True,
        force_copy=True,
        enable_x64=True,
    )
    return buffer


def result_handler(
    shape: tuple[int, ...], dtype: np.dtype[Any], sharding: OneDevice | SeveralDevices
) -> Any:
    """Return what turns one output of an execution into a Buffer."""
    return _jax.array_result_handler(Aval(shape, dtype), sharding, True, *_WITHOUT_CHECKS)


def export_dlpack(buffer: Buffer) -> Any:
    """Return a DLPack capsule that shares a buffer's memory."""
    return _jax.buffer_to_dlpack_managed_tensor(buffer, stream=None)


def import_dlpack(capsule: Any, device: Any) -> Buffer:
    """Return a buffer that shares the memory of a DLPack capsule."""
    buffer: Buffer = _jax.dlpack_managed_tensor_to_buffer(capsule, device, None)
    return buffer


def device_list(*devices: Any) -> Any:
    """Return jaxlib's list of devices."""
    return _jax.DeviceList(devices)


def distributed_runtime(
    address: str,
    count: int,
    index: int,
    timeout: int,
    heartbeat: int,
) -> tuple[Any, Any, Any]:
    """Join the processes that meet at an address.

    Returns the connection, the meeting point (None but in process 0), and what moves data between
    CPUs.
    """
    service = None
    if index == 0:
        port = address.rsplit(":", 1)[1]
        service = _jax.get_distributed_runtime_service(
            f"[::]:{port}", count, heartbeat_timeout=heartbeat, shutdown_timeout=timeout
        )
    client = _jax.get_distributed_runtime_client(
        address,
        index,
        init_timeout=timeout,
        shutdown_timeout=timeout,
        heartbeat_timeout=heartbeat,
        # A process that fails must not wait for the others as it ends.
        shutdown_on_destruction=False,
        use_compression=True,
    )
    client.connect()
    return client, service, _jax.make_gloo_tcp_collectives(distributed_client=client)


_LAPACK_LOCK = threading.Lock()
_LAPACK_READY = threading.Event()


def require_lapack() -> Callable[[str, np.dtype[Any]], str]:
    """Load and register LAPACK once per process; returns `(routine, dtype) -> call target`.

    A LAPACK call in a process that has not done this kills the process, so the lowering of every
    such call begins here.
    """
    if not _LAPACK_READY.is_set():
        with _LAPACK_LOCK:
            if not _LAPACK_READY.is_set():
                lapack._lapack.initialize()
                for name, target, api in lapack.registrations()["cpu"]:
                    xla_client.register_custom_call_target(
                        name, target, platform="cpu", api_version=api
                    )
                _LAPACK_READY.set()
    return lapack.build_lapack_fn_target  # type: ignore[no-any-return]


__all__ = [
    "PRODUCTS_BY_YNNPACK",
    "TILES_ARE_COUNTED_IN_AN_INT",
    "VERSION",
    "Aval",
    "Buffer",
    "OneDevice",
    "SeveralDevices",
    "bool_constant",
    "chlo",
    "compile_options",
    "default_options",
    "device_list",
    "disabled_passes",
    "distributed_runtime",
    "export_dlpack",
    "func",
    "hlo",
    "import_dlpack",
    "ir",
    "make_context",
    "memory_optimized_options",
    "put",
    "put_parts",
    "require_lapack",
    "result_handler",
    "sdy",
    "several_devices",
    "with_backend_option",
    "xla_client",
]
