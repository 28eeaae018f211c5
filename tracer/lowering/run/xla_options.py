"""XLA's compile options: those of every program, and how jaxlib versions differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tracer.lowering import shims
from tracer.lowering.settings import is_on
from tracer.lowering.shims import xla_client

_DISABLED = {
    "kept barriers": "cse_barrier_expander",
    "fused reductions": "tree_reduction_rewriter",
}
_BY_EIGEN = {"xla_cpu_experimental_ynn_fusion_type": ""}


def memory_optimized_options(platform: str = "cpu") -> dict[str, Any]:
    """Return the compile options that make XLA schedule for memory; none if it does anyway.

    By default XLA:CPU orders instructions for concurrency, breadth first, and ignores both memory
    and the order of the program. This is a heuristic of XLA's and sometimes worse.

    Returns
    -------
    dict
        For `compile_graph(..., options=...)`.
    """
    if platform != "cpu" or not is_on("memory scheduler"):
        return {}
    if shims.VERSION < (0, 9, 1):
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
    if not is_on("unmoved loop code"):
        return {}
    return {"xla_disable_hlo_passes": "while-loop-invariant-code-motion"}


def eigen_options() -> dict[str, Any]:
    """Return the compile options with which Eigen multiplies what YNNPACK would.

    Returns
    -------
    dict
        For `compile_graph(..., options=...)`.
    """
    return dict(_BY_EIGEN) if is_on("products by Eigen") else {}


def is_by_eigen(options: Mapping[str, Any]) -> bool:
    """Tell whether compile options name Eigen as the library that multiplies."""
    return _BY_EIGEN.items() <= options.items()


def default_options(platform: str) -> dict[str, Any]:
    """Return the options that every program is compiled with, unless the caller sets them.

    From 0.9 on XLA:CPU gives whole chains of ops to the library YNNPACK as one fusion, whose
    intermediate arrays are in no count of XLA's (an attention of 8 heads of 8192: 4.3 GB, counted
    as 0) and whose reductions can be slow. Products alone keep YNNPACK's speed without the trap.
    The measurements are in docs/memory-model.md.
    """
    if platform != "cpu" or shims.VERSION < (0, 9) or not is_on("library products only"):
        return {}
    return {"xla_cpu_experimental_ynn_fusion_type": "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT"}


def disabled_passes(platform: str) -> tuple[str, ...]:
    """Return the passes of XLA that are always switched off, whatever the caller disables.

    XLA:CPU deletes optimization barriers early, after which recomputation is merged away again;
    and it rewrites reductions such that they store what they reduce (see `emit/reduce.py`).
    """
    if platform != "cpu":
        return ()
    return tuple(name for setting, name in _DISABLED.items() if is_on(setting))


def loop_options(platform: str) -> dict[str, str]:
    """Return the backend's options that keep loops with barriers out of single functions.

    jaxlib 0.12 makes functions of loops up to far more bytes, runs each on one thread, and refuses
    those with a barrier. With the limit of earlier versions `emit/control.py` knows which they are.
    """
    is_here = shims.LARGE_LOOPS_BECOME_FUNCTIONS and is_on("small loops of a kilobyte")
    if platform != "cpu" or not is_here:
        return {}
    return {"xla_cpu_small_while_loop_byte_threshold": str(shims.SMALL_LOOP_BYTES)}


def compile_options(
    overrides: Mapping[str, Any],
    backend: Mapping[str, str],
    devices: Sequence[Any],
    *,
    is_partitioned: bool,
) -> Any:
    """Return XLA's options for one program on some devices.

    Parameters
    ----------
    overrides : mapping
        Options by their full names.
    backend : mapping of str to str
        The backend's own options, which have no names among XLA's.
    devices : sequence
        jaxlib's devices.
    is_partitioned : bool
        Whether XLA's partitioner spreads the program over the devices.

    Returns
    -------
    jaxlib.xla_client.CompileOptions
        What a client compiles with.
    """
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
    return _with_backend(options, backend) if backend else options


# Numbers of fields in XLA's compile_options.proto and xla.proto.
_BUILD_OPTIONS, _DEBUG_OPTIONS, _BACKEND_OPTIONS = 3, 3, 500


def _with_backend(options: Any, backend: Mapping[str, str]) -> Any:
    """Return options with some of the backend's own.

    These are in a map that neither the overrides nor Python's attributes reach: protocol buffers
    that follow each other are merged as they are read, so it is put behind the options' bytes.
    """
    entries = (_field(1, key.encode()) + _field(2, text.encode()) for key, text in backend.items())
    debug = b"".join(_field(_BACKEND_OPTIONS, entry) for entry in entries)
    added = _field(_BUILD_OPTIONS, _field(_DEBUG_OPTIONS, debug))
    return xla_client.CompileOptions.ParseFromString(options.SerializeAsString() + added)


def _field(number: int, content: bytes) -> bytes:
    """Return a field of a protocol buffer that holds bytes."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    low, rest = number & 127, number >> 7
    return bytes([low | 128]) + _varint(rest) if rest else bytes([low])
