"""Use the libraries of a CPU program once before its first call, which has a limit to keep.

What a library loads at its first use stays resident and is in no program's count: pages of its
code, tables, kernels that it generates. Of a first call that is up to 8.5 MB (oneDNN, which Eigen
calls for float32). Under a limit it is loaded while the program is compiled instead, by a tiny
program for each library, once per process.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tracer.ir import Builder, Graph, ShapeDtype, Value, registry
from tracer.lowering.devices.device import Device
from tracer.lowering.memory.hlo_text import Computation, Instruction, parse
from tracer.lowering.memory.scratch import product_call
from tracer.lowering.run.compiler import compile_graph
from tracer.lowering.run.executable import Executable
from tracer.lowering.run.transfer import block_until_ready, to_device

Library = tuple[str, str]
"""What the HLO names it by, and the dtype that it computes in."""
_SIZE = 48
_CALLED = re.compile(r"calls=%?([\w.\-]+)")
_FUSION = re.compile(r'"kind":"(__\w+_fusion)"')
_LAPACK = re.compile(r'custom_call_target="lapack_([sdcz])(\w+)_ffi"')
_LAPACK_DTYPES = {"s": "float32", "d": "float64", "c": "complex64", "z": "complex128"}
_DTYPES = {"f32": "float32", "f64": "float64", "c64": "complex64", "c128": "complex128"}
_ANY_DTYPE = "float32"
"""For kernels of other dtypes, and where the dtype makes no difference."""
_EVERY: Library = ("", _ANY_DTYPE)
"""What running any program loads."""
_LOCK = threading.Lock()
_used: set[Library] = set()


def _compiled(graph: Graph, device: Device) -> Executable:
    return compile_graph(graph, device=device)


def use_libraries(
    program: Executable, compile: Callable[[Graph, Device], Executable] = _compiled
) -> None:
    """Run a tiny program of each library that a program calls and this process has not used.

    Parameters
    ----------
    program : Executable
        It need not be for a CPU: on other devices nothing is resident in the host's memory.
    compile : callable, optional
        Compiles a tiny program, or has it from somewhere.
    """
    device = program.device
    if device.platform != "cpu" or not device.is_local:
        return
    wanted = {_EVERY, *libraries_of(program.hlo())}  # Not under the lock: threads compile at once.
    with _LOCK:
        for library in sorted(wanted - _used):
            _run(_CALLS[library[0]], library[1], device, compile)
            _used.add(library)


def libraries_of(hlo: str) -> set[Library]:
    """Return the libraries that the kernels of an optimised CPU program call.

    Parameters
    ----------
    hlo : str
        Optimised HLO as text.
    """
    computations = parse(hlo)
    # Only the fusion as a whole says who computes what is in it.
    fused = {
        name
        for computation in computations.values()
        for found in computation.instructions
        if found.opcode == "fusion"
        for name in _CALLED.findall(found.attributes)
    }
    return {
        (library, dtype)
        for computation in computations.values()
        if computation.name not in fused
        for library, dtype in _libraries_in(computation)
        if library in _CALLS
    }


def _libraries_in(computation: Computation) -> Iterator[Library]:
    for found in computation.instructions:
        if found.opcode == "custom-call":
            for letter, routine in _LAPACK.findall(found.attributes):
                yield routine, _LAPACK_DTYPES[letter]
        elif found.opcode == "fusion":
            for kind in _FUSION.findall(found.attributes):
                yield kind, _ANY_DTYPE
        elif found.opcode != "dot" or _is_of_matrices(computation, found):
            yield found.opcode, _DTYPES.get(found.dtype, _ANY_DTYPE)


def _is_of_matrices(computation: Computation, dot: Instruction) -> bool:
    """Tell whether a product is a library's: XLA itself writes those with vectors."""
    call = product_call(computation, dot)
    return call.rows > 1 and call.columns > 1


def _run(
    call: Callable[[Value], Any],
    dtype: str,
    device: Device,
    compile: Callable[[Graph, Device], Executable] = _compiled,
) -> None:
    """Compile and run a call with a symmetric matrix that is well conditioned."""
    steps = np.arange(_SIZE, dtype=np.float64)
    matrix = (np.cos(np.outer(steps, steps)) + _SIZE * np.eye(_SIZE)).astype(dtype)
    program = compile(_graph(call, matrix), device)
    for result in program(to_device(matrix, device)):
        block_until_ready(result)


def _graph(call: Callable[[Value], Any], matrix: np.ndarray[Any, Any]) -> Graph:
    with Builder() as builder:
        results = call(builder.input(ShapeDtype(matrix.shape, matrix.dtype)))
        return builder.finish(results if isinstance(results, tuple) else (results,))


def _product(contracted: int) -> Callable[[Value], Any]:
    """Return a product; YNNPACK takes those that contract the last axis of the left operand."""

    def call(x: Value) -> Any:
        return registry()["dot_general"](
            x, x, lhs_batch=(), rhs_batch=(), lhs_contracting=(contracted,), rhs_contracting=(0,)
        )

    return call


def _convolution(x: Value) -> Any:
    image = registry()["reshape"](x, shape=(1, _SIZE, _SIZE, 1))
    weights = registry()["slice"](x, start=(0, 0), limit=(9, 8), strides=(1, 1))
    return registry()["convolution"](
        image,
        registry()["reshape"](weights, shape=(3, 3, 1, 8)),
        lhs_axes=(0, 3, 1, 2),
        rhs_axes=(3, 2, 0, 1),
        result_axes=(0, 3, 1, 2),
        window_strides=(1, 1),
        padding=((1, 1), (1, 1)),
        lhs_dilation=(1, 1),
        rhs_dilation=(1, 1),
        feature_group_count=1,
        batch_group_count=1,
    )


def _transform(x: Value) -> Any:
    if x.type.dtype.kind == "c":
        return registry()["fft"](x, kind="FFT", lengths=(_SIZE,))
    half = registry()["fft"](x, kind="RFFT", lengths=(_SIZE,))
    return registry()["fft"](half, kind="IRFFT", lengths=(_SIZE,))


def _op(name: str, *, operands: int = 1, **params: Any) -> Callable[[Value], Any]:
    """Return a call of an op with the matrix as all its operands."""
    return lambda x: registry()[name](*[x] * operands, **params)


_eigenvectors = _op("eigh", compute_vectors=True)
_CALLS: dict[str, Callable[[Value], Any]] = {
    "": _op("add", operands=2),
    "dot": _product(0),
    "__ynn_fusion": _product(1),
    "convolution": _convolution,
    "sort": _op("sort", dimension=1, num_keys=1, is_stable=True),
    "fft": _transform,
    "potrf": _op("cholesky"),
    "trsm": _op(
        "triangular_solve", operands=2, left_side=True, lower=True, unit_diagonal=False,
        transpose_a="NO_TRANSPOSE",
    ),
    "getrf": _op("lu"),
    "geqrf": _op("qr", full_matrices=False),
    "syevd": _eigenvectors,
    "heevd": _eigenvectors,
    "gesdd": _op("svd", full_matrices=False, compute_vectors=True),
    "geev": _op("eig", compute_vectors=True),
    "gees": _op("schur", compute_vectors=True),
}  # fmt: skip
"""HLO's names of libraries' kernels, and a program that calls each."""
