"""Everything that differs between jaxlib versions, and the little that jaxlib needs without jax.

The other files of the room import jaxlib's modules from here. Works on jaxlib 0.8.0 to 0.12.0.1.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from typing import Any

# XLA's C++ logs lines at start-up, and each failure a second time before it raises. It reads the
# level once, as jaxlib is imported; then the variable goes, which child processes would inherit.
_LOG_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
_IS_LOG_LEVEL_OURS = _LOG_LEVEL not in os.environ
if _IS_LOG_LEVEL_OURS:
    os.environ[_LOG_LEVEL] = "3"

import jaxlib.version
import numpy as np
from jaxlib import _jax, lapack, xla_client

# What lives on a device: jaxlib's own array, used without jax.
from jaxlib._jax import Array as Buffer  # type: ignore[import-not-found] # stubs differ
from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _jax_mlir_ext
from jaxlib.mlir.dialects import chlo, func, sdy
from jaxlib.mlir.dialects import stablehlo as hlo

if _IS_LOG_LEVEL_OURS:
    del os.environ[_LOG_LEVEL]

VERSION: tuple[int, ...] = tuple(jaxlib.version.__version_info__)

PRODUCTS_BY_YNNPACK = VERSION >= (0, 10)
"""Whether XLA:CPU gives products to YNNPACK; before, all go to Eigen."""

EIGEN_MAY_BE_FASTER = (0, 10) <= VERSION < (0, 11)
"""Whether YNNPACK multiplies a batch pair by pair on one core, at half the pace of Eigen.

With jaxlib 0.12 it takes 0.5 to 0.7 of Eigen's time for batches of heads, and more for others.
"""

LONG_VECTORS_ARE_SAFE = VERSION >= (0, 9, 2)
"""Whether LLVM keeps to its masks in loops over vectors of 512 bits.

Before, it read the padding of a depthwise convolution from memory that is not there: that ended the
process (0.8.0 to 0.9.1: `tests/lowering/test_vectors.py`).
"""

TILES_ARE_COUNTED_IN_AN_INT = VERSION >= (0, 11)
"""Whether XLA:CPU's kernels count their tiles in 32 bits (`large_values`)."""

LARGE_LOOPS_BECOME_FUNCTIONS = VERSION >= (0, 12)
"""Whether XLA:CPU makes one function of loops that touch far more than `SMALL_LOOP_BYTES`."""

SMALL_LOOP_BYTES = 1024
"""What XLA:CPU's pass `small-while-loop-hoisting` is configured with (cpu_compiler.cc)."""

# jaxlib before 0.11 checks results in Python code of jax's array unless it is told not to; later
# ones do not, and have no such argument.
_WITHOUT_CHECKS = (True,) if VERSION < (0, 11) else ()


class Aval:
    """Shape and dtype as jaxlib's C++ reads them from Python."""

    __slots__ = ("dtype", "ndim", "shape", "weak_type")

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self.shape = shape
        self.dtype = dtype
        self.ndim = len(shape)
        self.weak_type = False


_aval = functools.lru_cache(maxsize=4096)(Aval)
"""Return the same object for arrays of the same type: each copy to a device needs one."""


class OneDevice(_jax.SingleDeviceSharding):  # type: ignore[misc] # Any
    """The sharding of an array on one device, with the attributes that C++ reads."""

    memory_kind = None
    num_devices = 1

    def _to_xla_hlo_sharding(self, ndim: int) -> Any:
        return xla_client.HloSharding.replicate()


class SeveralDevices(_jax.GSPMDSharding):  # type: ignore[misc] # Any
    """The sharding of an array on several devices, with the further attributes that C++ reads."""

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


def cast(kind: Any, item: Any) -> Any:
    """Return an attribute or type of MLIR as one of a kind; None where it is no such one.

    jaxlib has had `kind.isinstance` up to 0.9.
    """
    try:
        return kind(item)
    except (TypeError, ValueError):
        return None


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


def put(array: np.ndarray[Any, Any], sharding: OneDevice, device: Any) -> Buffer:
    """Copy a native-endian array to a device; it may be changed as soon as this returns."""
    buffer: Buffer = _jax.batched_device_put(
        _aval(array.shape, array.dtype),
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


def collect_garbage() -> None:
    """Drop the Python objects that jaxlib let go of without Python's lock, and keeps."""
    _jax.collect_garbage()


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

    Returns the connection, the coordinator (None but in process 0), and what moves data between
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
    "EIGEN_MAY_BE_FASTER",
    "LARGE_LOOPS_BECOME_FUNCTIONS",
    "LONG_VECTORS_ARE_SAFE",
    "PRODUCTS_BY_YNNPACK",
    "SMALL_LOOP_BYTES",
    "TILES_ARE_COUNTED_IN_AN_INT",
    "VERSION",
    "Aval",
    "Buffer",
    "OneDevice",
    "SeveralDevices",
    "bool_constant",
    "cast",
    "chlo",
    "device_list",
    "distributed_runtime",
    "export_dlpack",
    "func",
    "hlo",
    "import_dlpack",
    "ir",
    "make_context",
    "put",
    "put_parts",
    "require_lapack",
    "result_handler",
    "sdy",
    "several_devices",
    "xla_client",
]
