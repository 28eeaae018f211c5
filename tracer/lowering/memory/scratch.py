"""A model of the memory that XLA:CPU's kernels allocate themselves, which XLA does not count.

It reads the optimised HLO. Every bound below was measured; docs/memory-model.md says how, and
benchmarks/results/memory.md has the rows.
"""

from __future__ import annotations

import heapq
import math
import re
from collections.abc import Callable
from dataclasses import dataclass

from tracer.ir.library_calls import (
    ConvolutionCall,
    ProductCall,
    SpectrumCall,
    TransformCall,
    TriangleCall,
    argsort_bytes,
    merging_bytes,
)
from tracer.lowering.emit.host_calls import TARGET as HOST_CALL
from tracer.lowering.emit.numpy_routines import NUMPY_ROUTINE
from tracer.lowering.emit.spectrum_routines import SPECTRA
from tracer.lowering.emit.transform_routines import TRANSFORMS
from tracer.lowering.memory.hlo_text import Array, Computation, Instruction, axes_of, parse
from tracer.target import host_packing

_CALLED = re.compile(r"calls=%?([\w.\-]+)")
_APPLIED = re.compile(r"to_apply=%?([\w.\-]+)")
_KERNEL_LABELS = re.compile(r"dim_labels=\w+_(\w+)->")
_TARGET = re.compile(r'custom_call_target="([^"]+)"')
_NUMPY = re.compile(rf'frontend_attributes=\{{[^}}]*\b{NUMPY_ROUTINE}="(\w+) ([\d,]+)')
_LIBRARY = re.compile(r'"kind":"__\w+_fusion"')


_SORT_BYTES = 16
"""Bytes for each element and operand of a line in a stable sort's buffer."""
_TOP_K_BYTES = 4
_FROM_THE_RIGHT = re.compile(r"\bside = 82\b")  # "R"
_LAPACK_SQUARES = {"gesdd": 4, "syevd": 2, "heevd": 2, "geev": 3, "gees": 1}
"""Workspace of the iterative routines, in squares of the smaller side of the matrix."""
_VALUES_ONLY = re.compile(r"\bmode = 78\b")  # "N": no vectors
_EIGEN_ITEMSIZE = 4
"""Convolutions of other widths take plain loops."""
_NOT_STORED = {"parameter", "constant", "broadcast", "iota", "bitcast", "get-tuple-element"}


@dataclass(frozen=True)
class Hidden:
    """Bounds on the bytes that the kernels of a program allocate themselves.

    Attributes
    ----------
    scratch : int
        The two largest needs together, since two kernels may run at the same time.
    products : int
        The largest need of a product: a block of new pages in every run of its kernel.
    """

    scratch: int
    products: int


def hidden_memory(hlo: str) -> Hidden:
    """Bound the bytes that kernels of an optimised CPU program allocate themselves.

    Parameters
    ----------
    hlo : str
        Optimised HLO as text.

    Notes
    -----
    Modelled are products (Eigen and YNNPACK pack their operands), convolutions, stable sorts,
    top-k, LAPACK, Fourier transforms, and fusions that XLA hands to a library as a whole, whose
    intermediate arrays it does not see.
    """
    computations = parse(hlo)
    fused = {
        name
        for computation in computations.values()
        for instruction in computation.instructions
        if instruction.opcode == "fusion"
        for name in _CALLED.findall(instruction.attributes)
    }
    needs = [
        (_SCRATCH[found.opcode](computation, found, computations), found.opcode in _PRODUCTS)
        for computation in computations.values()
        if computation.name not in fused
        for found in computation.instructions
        if found.opcode in _SCRATCH
    ]
    return Hidden(
        sum(heapq.nlargest(host_packing().at_once, (need for need, _ in needs))),
        max((need for need, is_product in needs if is_product), default=0),
    )


def hidden_scratch(hlo: str) -> int:
    """Return the two largest needs of the kernels of an optimised CPU program, in bytes."""
    return hidden_memory(hlo).scratch


def product_call(computation: Computation, dot: Instruction) -> ProductCall:
    """Return the sizes of a dot: batch, rows, contracted, columns."""
    lhs, rhs = computation.arrays(dot)
    batch = math.prod(lhs.shape[i] for i in axes_of(dot.attributes, "lhs_batch_dims"))
    k = math.prod(lhs.shape[i] for i in axes_of(dot.attributes, "lhs_contracting_dims"))
    rows, columns = (math.prod(side.shape) // max(1, batch * k) for side in (lhs, rhs))
    return ProductCall(batch, rows, k, columns, max(lhs.itemsize, rhs.itemsize))


def _eigen_dot(computation: Computation, dot: Instruction, _: dict[str, Computation]) -> int:
    call = product_call(computation, dot)
    return host_packing().by_eigen(call) * call.itemsize


def _ynn_dot(computation: Computation, dot: Instruction) -> int:
    call = product_call(computation, dot)
    return host_packing().by_ynnpack(call) * call.itemsize


def _fusion(_: Computation, fusion: Instruction, computations: dict[str, Computation]) -> int:
    """Bound a library's fusion: what it keeps while it walks the body, nothing done in place."""
    if not _LIBRARY.search(fusion.attributes):
        return 0
    body = computations[_CALLED.findall(fusion.attributes)[0]]
    packing = max(
        (_ynn_dot(body, found) for found in body.instructions if found.opcode == "dot"), default=0
    )
    return _live_peak(body) + packing


def _live_peak(body: Computation) -> int:
    """Return the largest sum of intermediates alive in one step of a fused computation."""
    sizes = {
        found.name: 0 if found.is_root or found.opcode in _NOT_STORED else found.nbytes
        for found in body.instructions
    }
    last_use = {
        name: step for step, found in enumerate(body.instructions) for name in found.operands
    }
    live = peak = 0
    for step, found in enumerate(body.instructions):
        live += sizes[found.name]
        peak = max(peak, live)
        live -= sum(sizes[name] for name in set(found.operands) if last_use[name] == step)
    return peak


def _sort(_: Computation, sort: Instruction, computations: dict[str, Computation]) -> int:
    """Bound the buffer of a stable sort; lines are sorted one after the other."""
    if "is_stable=true" not in sort.attributes:
        return 0
    axes = axes_of(sort.attributes, "dimensions")
    line = sort.results[0].shape[axes[0]] if axes else 1
    comparator = computations[_APPLIED.findall(sort.attributes)[0]]
    if len(sort.results) == 1 and _is_plain(comparator):
        # XLA:CPU merges one operand of a plain comparison, half a line of it from a buffer.
        return merging_bytes(line, sort.results[0].itemsize)
    return _SORT_BYTES * len(sort.results) * line


def _is_plain(comparator: Computation) -> bool:
    *parameters, compare = comparator.instructions
    return compare.opcode == "compare" and all(p.opcode == "parameter" for p in parameters)


def _transform(computation: Computation, fft: Instruction, _: dict[str, Computation]) -> int:
    (operand,), result = computation.arrays(fft), fft.results[0]
    lengths = axes_of(fft.attributes, "fft_length")
    call = TransformCall(
        math.prod(operand.shape[: len(operand.shape) - len(lengths)]),
        tuple(lengths),
        max(operand.itemsize, result.itemsize),
        is_real="RFFT" in fft.attributes,
    )
    return host_packing().transform_bytes(call)


def _custom_call(computation: Computation, call: Instruction, _: dict[str, Computation]) -> int:
    target = _TARGET.search(call.attributes)
    operands = computation.arrays(call)
    if target is not None and target[1] == HOST_CALL:
        return _host_call(operands, call)
    if target is None or not operands:
        return 0
    first = operands[0]
    if target[1] == "TopK":
        return _TOP_K_BYTES * (first.shape[-1] if first.shape else 1)
    if target[1].startswith("lapack_"):
        workspace = _lapack_workspace(target[1], first, call.attributes)
        if "trsm" in target[1] and _FROM_THE_RIGHT.search(call.attributes):
            return _packed_triangle(*operands[:2])
        return _lapack_packing(target[1], operands) + workspace
    return 0


def _host_call(operands: list[Array], call: Instruction) -> int:
    """Bound what Python's functions are given as copies, and return to be copied.

    NumPy's routines read and write what the program holds. A sort copies a line whose elements lie
    apart.
    """
    named = _NUMPY.search(call.attributes)
    if named is None:
        return sum(array.nbytes for array in (*operands, *call.results))
    if named[1] in TRANSFORMS:
        return _host_transform(operands[0], call.results[0], named)
    if named[1] in SPECTRA:
        rows, columns = operands[0].shape[-2:]
        return host_packing().spectrum_bytes(SpectrumCall(rows, columns, operands[0].itemsize))
    keys, axis = operands[0], int(named[2])
    if named[1] == "argsort":
        return argsort_bytes(math.prod(keys.shape), keys.shape[axis])
    is_apart = named[1] == "sort" and math.prod(keys.shape[axis + 1 :]) > 1
    return keys.nbytes // math.prod(keys.shape) * keys.shape[axis] if is_apart else 0


def _host_transform(x: Array, result: Array, named: re.Match[str]) -> int:
    """Bound the lines that SciPy gathers for a Fourier transform."""
    axes = [*map(int, named[2].split(","))]
    lengths = tuple(max(x.shape[axis], result.shape[axis]) for axis in axes)
    batch = math.prod(n for axis, n in enumerate(x.shape) if axis not in axes)
    is_real = x.itemsize != result.itemsize
    call = TransformCall(batch, lengths, max(x.itemsize, result.itemsize), is_real)
    return host_packing().transform_bytes(call)


def _lapack_packing(target: str, operands: list[Array]) -> int:
    """Bound the panels that OpenBLAS packs: as wide as the right-hand sides, or the matrix."""
    first = operands[0]
    largest = max(math.prod(array.shape[-2:]) for array in operands)
    if "trsm" in target and len(operands) > 1:
        width = math.prod(operands[1].shape[-2:]) // max(1, first.shape[-1])
        largest = max(first.shape[-1] * width, math.prod(first.shape[-2:]))
    else:
        width = max(max(array.shape[-2:], default=1) for array in operands)
    packing = host_packing()
    panel = min(packing.panel_rows, *first.shape[-2:]) * width + packing.panel_elements
    return first.itemsize * min(panel, packing.lapack_matrices * largest)


def _packed_triangle(matrix: Array, right: Array) -> int:
    """Bound the panels of a triangular matrix that each thread with right-hand sides packs."""
    n = matrix.shape[-1]
    width = math.prod(right.shape[-2:]) // max(1, n)
    return host_packing().triangle_bytes(TriangleCall(n, width, matrix.itemsize))


def _lapack_workspace(target: str, matrix: Array, attributes: str) -> int:
    if _VALUES_ONLY.search(attributes):
        return 0
    routine = target.removesuffix("_ffi")[len("lapack_") + 1 :]
    square = min(matrix.shape[-2:]) ** 2 * matrix.itemsize
    return _LAPACK_SQUARES.get(routine, 0) * square


def _convolution(computation: Computation, found: Instruction, _: dict[str, Computation]) -> int:
    result = found.results[0]
    if result.itemsize != _EIGEN_ITEMSIZE or "rhs_reversal" in found.attributes:
        return 0
    kernel = computation.arrays(found)[1]
    labels = _KERNEL_LABELS.search(found.attributes)
    features = kernel.shape[labels[1].index("o")] if labels else 1
    elements, size = math.prod(kernel.shape), math.prod(result.shape)
    call = ConvolutionCall(
        windows=elements // max(1, features) * (size // max(1, features)),
        kernel=elements,
        result=size,
        axes=len(result.shape),
        features=result.shape[-1],
        is_grouped="feature_group_count" in found.attributes,
    )
    return host_packing().by_convolution(call)


_SCRATCH: dict[str, Callable[[Computation, Instruction, dict[str, Computation]], int]] = {
    "dot": _eigen_dot,
    "convolution": _convolution,
    "fusion": _fusion,
    "sort": _sort,
    "fft": _transform,
    "custom-call": _custom_call,
}
"""HLO's opcodes whose kernels allocate."""
_PRODUCTS = {"dot", "fusion"}
"""Of these, those that the heap keeps blocks for: libraries' fusions have products in them."""
