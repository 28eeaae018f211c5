"""The one list of what differs from XLA's defaults: options, disabled passes, attributes, barriers.

XLA's own tests run with XLA's defaults. So each row here says what it buys, and names the test that
certifies it: programs in which the setting acts, run with it and without it, and compared with the
interpreter. `python -m benchmarks.settings` measures what each gains; docs/settings.md, written
from this list, has versions and machines. A setting that gains nothing has no row.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True)
class Setting:
    """One difference from XLA's defaults.

    Attributes
    ----------
    name : str
        What it is called here.
    kind : str
        "option", "disabled pass", "client", "attribute", "precision", "type", "custom call",
        "barrier".
    what : str
        XLA's name of it; for a barrier, what is stored.
    why : str
        What it buys.
    acts : str
        Where: versions of jaxlib, limits, sizes.
    certified : str
        The test that compares values with and without it.
    """

    name: str
    kind: str
    what: str
    why: str
    acts: str
    certified: str = "tests/lowering/test_settings.py::test_values_with_and_without"


SETTINGS: dict[str, Setting] = {
    setting.name: setting
    for setting in (
        Setting(
            "library products only",
            "option",
            "xla_cpu_experimental_ynn_fusion_type=LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT",
            "otherwise XLA's count of bytes leaves out what YNNPACK stores for chains of ops, and "
            "extremes of rows lose NaN",
            "CPU, jaxlib >= 0.9",
        ),
        Setting(
            "products by Eigen",
            "option",
            "xla_cpu_experimental_ynn_fusion_type= (none)",
            "products of float32, batches of heads above all, take 0.6 to 0.9 of YNNPACK's time",
            "Intel's CPUs with amx_tile, two cores or more, jaxlib 0.10; programs whose products "
            "take less time so by the record, without a limit or under one with room",
            certified="tests/lowering/test_products_by_eigen.py",
        ),
        Setting(
            "wide vectors",
            "option",
            "xla_cpu_prefer_vector_width=512",
            "kernels of exponentials take up to half the time",
            "CPU with avx512_vbmi2, jaxlib >= 0.9.2",
        ),
        Setting(
            "memory scheduler",
            "option",
            "xla_cpu_scheduler_type=CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED",
            "XLA's default runs producers early and keeps them all alive",
            "CPU under a limit without much room; before jaxlib 0.9.1 as "
            "xla_cpu_enable_concurrency_optimized_scheduler=False",
        ),
        Setting(
            "small loops of a kilobyte",
            "option",
            "xla_cpu_small_while_loop_byte_threshold=1024",
            "larger loops would be functions of one thread, which refuse barriers",
            "CPU, jaxlib >= 0.12",
        ),
        Setting(
            "untiled kernels",
            "option",
            "xla_cpu_disable_tiled_emitter",
            "the compiler ends the process if a value has 2^36 elements or more",
            "CPU, jaxlib >= 0.11, values of 2^36 elements",
            certified="tests/lowering/test_large_values.py",
        ),
        Setting(
            "kept barriers",
            "disabled pass",
            "cse_barrier_expander",
            "barriers stay: without them XLA merges what is recomputed, and stores it",
            "CPU",
        ),
        Setting(
            "fused reductions",
            "disabled pass",
            "tree_reduction_rewriter",
            "reductions fuse with their operand, which is then not stored",
            "CPU",
        ),
        Setting(
            "unmoved loop code",
            "disabled pass",
            "while-loop-invariant-code-motion",
            "XLA does not move what a loop recomputes on purpose out of it, and store it",
            "under a limit that other programs do not keep",
        ),
        Setting(
            "synchronous client",
            "client",
            "asynchronous=False of the CPU client",
            "a call's temporaries are freed before the next call allocates its own",
            "CPU",
            certified="tests/lowering/test_overlap.py::test_values_of_a_client_that_waits",
        ),
        Setting(
            "memory as needed",
            "client",
            "preallocate=False of the GPU client",
            "jax and torch can use the GPU in the same process; XLA would take three quarters",
            "GPU, without XLA_PYTHON_CLIENT_PREALLOCATE",
            certified="tests/devices/test_gpu.py::test_jax_uses_the_same_gpu",
        ),
        Setting(
            "large pages",
            "input",
            "for each result above 32 MiB an input that it is written over: memory after "
            "madvise(MADV_HUGEPAGE), as what NumPy's arrays are copied into",
            "the system clears large pages four times as fast as small ones",
            "CPU, where the system gives large pages to those who ask",
            certified="tests/lowering/test_large_arrays.py",
        ),
        Setting(
            "small calls",
            "attribute",
            "xla_cpu_small_call=true, inlineable=false; scalars, and arrays that are made of "
            "constants, are given behind a barrier",
            "many small ops are one kernel; otherwise each costs a start",
            "CPU, graphs of small values",
        ),
        Setting(
            "full precision",
            "precision",
            "precision_config=HIGHEST of products and convolutions",
            "GPUs and TPUs would multiply in fewer bits; on CPUs it changes nothing",
            "everywhere",
            certified="tests/devices/test_gpu.py",
        ),
        Setting(
            "products of bfloat16",
            "type",
            "products of bfloat16 are summed in float32, and rounded afterwards",
            "XLA:CPU would write both operands as float32; YNNPACK multiplies them as they are, in "
            "a quarter of the time",
            "Intel's CPUs with amx_bf16, jaxlib >= 0.10",
            certified="tests/lowering/test_products_of_bfloat16.py",
        ),
        Setting(
            "LAPACK",
            "custom call",
            "jaxlib's lapack_* kernels",
            "XLA:CPU has no such decompositions, or slow ones",
            "CPU",
            certified="tests/lowering/test_linalg.py",
        ),
        Setting(
            "Python functions",
            "custom call",
            "xla_buffer_python_cpu_callback",
            "debug.print, debug.callback and pure_callback call Python out of a running program",
            "CPU",
            certified="tests/control/test_callbacks.py",
        ),
        Setting(
            "NumPy's routines",
            "custom call",
            "xla_buffer_python_cpu_callback",
            "numpy.sort and numpy.argsort have vectors: a tenth of the time of XLA's; running sums "
            "of integers and running extremes take a fifth; eigenvalues and singular values of "
            "many matrices are found on all cores",
            "CPU but on meshes; 128 floats, 2,048 integers, or 1,024 keys with others beside are "
            "sorted, 1,024 elements cumulated, 131,072 elements in matrices of up to 16 rows "
            "decomposed",
            certified="tests/optimizer/legalize/test_sort_by_numpy.py",
        ),
        Setting(
            "SciPy's Fourier transforms",
            "custom call",
            "xla_buffer_python_cpu_callback",
            "scipy.fft takes several lines at once, along any axis and in place: along columns 0.6 "
            "of the time of XLA's, and one array less",
            "CPU but on meshes; 32,768 elements along other axes than the last ones; along these "
            "524,288 complex64 in lines of 64 to 16,384, but on Intel's servers",
            certified="tests/optimizer/legalize/test_transform_values.py",
        ),
        Setting(
            "initial values in loops",
            "barrier",
            "the start of a windowed reduction in a loop",
            "XLA would move what is computed from it out of the loop, and store it",
            "loops with cumulative ops",
        ),
        Setting(
            "barriers of passes",
            "barrier",
            "what passes order, recompute or store (docs/passes.md), and checkpoint",
            "XLA would merge what is recomputed, and run in another order",
            "under a limit; checkpoint; large programs; long reductions, masks, top-k and "
            "depthwise convolutions on CPUs",
        ),
    )
}

_OFF: ContextVar[frozenset[str]] = ContextVar("settings that are off", default=frozenset())


def is_on(name: str) -> bool:
    """Whether a setting of the list is in force."""
    assert name in SETTINGS, f"{name!r} is in no row of the list"
    return name not in _OFF.get()


def switched_off() -> frozenset[str]:
    """Return the settings that are off."""
    return _OFF.get()


@contextmanager
def without(*names: str) -> Iterator[None]:
    """Compile without some settings of the list, in this thread and context.

    Parameters
    ----------
    *names : str
        Keys of `SETTINGS`.
    """
    assert set(names) <= set(SETTINGS), f"{set(names) - set(SETTINGS)} are in no row of the list"
    token = _OFF.set(_OFF.get() | set(names))
    try:
        yield
    finally:
        _OFF.reset(token)


def xla_defaults() -> AbstractContextManager[None]:
    """Compile with XLA's own options, as its tests do, in this thread and context."""
    return without(*SETTINGS)


__all__ = ["SETTINGS", "Setting", "is_on", "switched_off", "without", "xla_defaults"]
