"""Rules of custom calls: LAPACK's routines, and what frameworks mark.

LAPACK reads matrices by columns. Where a module hands one over by rows, LAPACK sees its transpose:
so do these rules. `info`, which says what failed, is 0 or 1 here; factors are NaN where it is 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

import tracer.numpy as tnp
from tracer import ops
from tracer.array.array import Array
from tracer.array.convert import broadcast, convert, reshape, scalar
from tracer.array.dispatch import apply, apply_many
from tracer.ir import Node, Value
from tracer.numpy.ufunc import compare, full_like
from tracer.scipy.linalg import householder
from tracer.stablehlo.elements import adjoint
from tracer.stablehlo.table import CALLS, Instruction, call, rule, target_of
from tracer.stablehlo.triangles import is_leading_slice, is_zero_outside, value_of

_INT32 = np.dtype(np.int32)


@rule("stablehlo.custom_call")
def custom_call(instruction: Instruction, *operands: Array) -> Any:
    """Apply the rule of the target."""
    return CALLS[target_of(instruction.operation)](instruction, *operands)


def _settings(instruction: Instruction) -> Mapping[str, Any]:
    """Return the numbers that say what LAPACK is to do."""
    found = instruction.attributes.get("mhlo.backend_config")
    if not isinstance(found, Mapping):
        found = instruction.attributes.get("backend_config", {})
    return found


def _flags(instruction: Instruction) -> dict[str, str]:
    """Return the letters that say what LAPACK is to do."""
    return {name: chr(letter) for name, letter in _settings(instruction).items()}


def _is_by_rows(instruction: Instruction) -> bool | None:
    """Tell whether matrices are handed over by rows; None where some are, and others are not."""
    found = set()
    for types, name in (
        (instruction.operands, "operand_layouts"),
        (instruction.results, "result_layouts"),
    ):
        rank = max(type.ndim for type in instruction.operands)
        layouts = instruction.attributes.get(name)
        for k, type in enumerate(types):
            if type.ndim == rank and min(type.shape[-2:]) > 1:
                order = None if layouts is None else [int(axis) for axis in layouts[k]]
                found.add(order is None or order[0] == rank - 1)
    return None if len(found) > 1 else found == {True}


def _mixed(instruction: Instruction) -> str | None:
    return "with matrices in different layouts" if _is_by_rows(instruction) is None else None


def _by_rows(instruction: Instruction) -> str | None:
    if 0 in instruction.operands[0].shape:
        return "of no elements"
    return None if _is_by_rows(instruction) is False else "with matrices by rows"


def _turned(x: Array) -> Array:
    """Return the same memory with the sizes of the last two axes exchanged."""
    return reshape(x, (*x.shape[:-2], x.shape[-1], x.shape[-2]))


def _triangle(x: Array, *, lower: bool) -> Array:
    """Return the mask of a triangle."""
    rows, columns = (
        apply(ops.iota, shape=x.shape, dtype=_INT32, dimension=x.ndim - axis) for axis in (2, 1)
    )
    return compare(rows, columns, "GE" if lower else "LE")


def _failed(x: Array, batch: int) -> Array:
    """Return 1 for the matrices or vectors of which a first element is NaN, else 0."""
    first = apply(
        ops.slice,
        x,
        start=(0,) * x.ndim,
        limit=(*x.shape[:batch], *(1,) * (x.ndim - batch)),
        strides=(1,) * x.ndim,
    )
    first = reshape(first, x.shape[:batch])
    return convert(compare(first, first, "NE"), _INT32)


@call("lapack_?potrf_ffi", unless=_mixed)
def potrf(instruction: Instruction, x: Array) -> Sequence[Array]:
    """Factor positive definite matrices; the other triangle stays as it was."""
    is_turned = bool(_is_by_rows(instruction))
    # By rows LAPACK's upper triangle is the lower one here.
    lower = (_flags(instruction)["uplo"] == "L") != is_turned
    a = _turned(x) if is_turned else x
    factor = apply(ops.cholesky, a) if lower else adjoint(apply(ops.cholesky, adjoint(a)))
    info = _failed(factor, factor.ndim - 2)
    result = factor
    if not is_zero_outside(a, lower=lower):
        result = apply(ops.select, _triangle(a, lower=lower), factor, a)
        instruction.evaluator.triangles.enter(result, factor, is_lower=lower)
    return [_turned(result) if is_turned else result, info]


@call("lapack_?trsm_ffi", unless=_mixed)
def trsm(instruction: Instruction, a: Array, b: Array, *rest: Array) -> Array:
    """Solve with a triangle."""
    flags = _flags(instruction)
    is_turned = bool(_is_by_rows(instruction))
    if is_turned:
        a, b = _turned(a), _turned(b)
    transpose = {"N": "NO_TRANSPOSE", "T": "TRANSPOSE", "C": "ADJOINT"}[flags["trans_x"]]
    if transpose == "ADJOINT" and a.dtype.kind != "c":
        transpose = "TRANSPOSE"
    solved = apply(
        ops.triangular_solve,
        a,
        b,
        left_side=(flags["side"] == "L") != is_turned,
        lower=(flags["uplo"] == "L") != is_turned,
        unit_diagonal=flags["diag"] == "U",
        transpose_a=transpose,
    )
    return _turned(solved) if is_turned else solved


@call("lapack_?getrf_ffi", unless=_by_rows)
def getrf(instruction: Instruction, a: Array) -> Sequence[Array]:
    """Factor with row exchanges; `info` says whether U has a zero on its diagonal."""
    packed, pivots, _ = apply_many(ops.lu, a)
    counted = convert(pivots, _INT32)
    batch = a.shape[:-2]
    diagonal = apply(
        ops.reduce_add,
        apply(ops.select, _diagonal(packed), packed, full_like(packed, 0)),
        axes=(a.ndim - 1,),
    )
    size = min(a.shape[-2:])
    diagonal = apply(
        ops.slice,
        diagonal,
        start=(0,) * diagonal.ndim,
        limit=(*batch, size),
        strides=(1,) * diagonal.ndim,
    )
    is_zero = compare(diagonal, full_like(diagonal, 0), "EQ")
    info = convert(apply(ops.reduce_or, is_zero, axes=(diagonal.ndim - 1,)), _INT32)
    return [packed, apply(ops.add, counted, full_like(counted, 1)), info]


def _diagonal(x: Array) -> Array:
    both = _triangle(x, lower=True), _triangle(x, lower=False)
    return apply(ops.and_, *both)


@call("lapack_?geqrf_ffi", unless=_by_rows)
def geqrf(instruction: Instruction, a: Array) -> Sequence[Array]:
    """Find R and the reflectors whose product is Q."""
    packed, scales = householder.reflectors(a)
    _, r = apply_many(ops.qr, a, full_matrices=a.shape[-2] <= a.shape[-1])
    known = instruction.evaluator.triangles
    known.factored[value_of(packed)] = a, scales
    below = a.shape[-2] - r.shape[-2]
    if below:
        zero, none = scalar(0, r.dtype), (0,) * r.ndim
        r = apply(ops.pad, r, zero, low=none, high=(*none[:-2], below, 0), interior=none)
    return [known.enter(packed, r, is_lower=False), scales]


@call("lapack_?orgqr_ffi", "lapack_?ungqr_ffi", unless=_by_rows)
def orgqr(instruction: Instruction, packed: Array, scales: Array) -> Array:
    """Multiply reflections: those of one matrix give its Q."""
    found = _factored(instruction, value_of(packed))
    if found is not None and value_of(found[1]) is value_of(scales):
        a, columns = found[0], packed.shape[-1]
        rows, inner = a.shape[-2], min(a.shape[-2:])
        if columns in (inner, rows):
            return apply_many(ops.qr, a, full_matrices=columns == rows)[0]
    return householder.product(packed, scales)


def _factored(instruction: Instruction, value: Value) -> tuple[Array, Array] | None:
    """Return the matrix that reflectors are of, and their scales."""
    known = instruction.evaluator.triangles.factored
    while value not in known:
        node = value.node
        adds_columns = node.op is ops.pad and not any(
            (*node.params["low"], *node.params["high"][:-1])
        )
        if not (is_leading_slice(node) or adds_columns):
            return None
        value = node.operands[0]
    return known[value]  # type: ignore[no-any-return]


def _adds_columns(node: Node) -> bool:
    """Tell whether a node pads behind the last column only."""
    if node.op is not ops.pad:
        return False
    return not any((*node.params["low"], *node.params["high"][:-1], *node.params["interior"]))


@call("lapack_?ormqr_ffi", "lapack_?unmqr_ffi", unless=_by_rows)
def ormqr(instruction: Instruction, packed: Array, scales: Array, c: Array) -> Array:
    """Multiply with a product of reflections, from the left or the right."""
    settings = _settings(instruction)
    left, transpose = bool(settings["left"]), bool(settings["transpose"])
    return householder.applied(packed, scales, c, left=left, transpose=transpose)


def _part_of_a_matrix(instruction: Instruction) -> str | None:
    settings, n = _settings(instruction), instruction.operands[0].shape[-1]
    if (settings.get("low"), settings.get("high")) != (1, n):
        return "of a part of the matrix"
    return _by_rows(instruction)


@call("lapack_?gehrd_ffi", unless=_part_of_a_matrix)
def gehrd(instruction: Instruction, a: Array) -> Sequence[Array]:
    """Find the Hessenberg form and its reflectors."""
    packed, scales = householder.hessenberg_reflectors(a)
    return [packed, scales, _unset(instruction.results[2])]


@call("lapack_?sytrd_ffi", "lapack_?hetrd_ffi", unless=_by_rows)
def sytrd(instruction: Instruction, a: Array) -> Sequence[Array]:
    """Find the tridiagonal form of Hermitian matrices, and its reflectors."""
    is_lower = _flags(instruction)["uplo"] == "L"
    found = householder.tridiagonal_reflectors(a, lower=is_lower)
    return [*found, _unset(instruction.results[4])]


@call("lapack_?geqp3_ffi", unless=_by_rows)
def geqp3(instruction: Instruction, a: Array, pinned: Array) -> Sequence[Array]:
    """Find R and the reflectors, of columns in the order of what is left of their norms."""
    packed, order, scales = householder.pivoted_reflectors(a, pinned != 0)
    return [packed, convert(order, pinned.dtype) + 1, scales]


@call("lapack_?gesdd_ffi", "lapack_?gesvd_ffi", unless=_by_rows)
def gesdd(instruction: Instruction, a: Array) -> Sequence[Array]:
    """Find singular values, and vectors where they are asked for."""
    mode = _flags(instruction)["mode"]
    batch = a.ndim - 2
    if mode == "N":
        s = apply(ops.svd, a, full_matrices=False, compute_vectors=False)
        others = [_unset(type) for type in instruction.results[2:4]]
        return [a, s, *others, _failed(s, batch)]
    u, s, vh = apply_many(ops.svd, a, full_matrices=mode == "A", compute_vectors=True)
    return [a, s, u, vh, _failed(s, batch)]


def _unset(type: Any) -> Array:
    """Return zeros for what LAPACK does not touch."""
    return broadcast(scalar(0, type.dtype), type.shape)


@call("lapack_?syevd_ffi", "lapack_?heevd_ffi", unless=_by_rows)
def syevd(instruction: Instruction, a: Array) -> Sequence[Array]:
    """Find eigenvalues and vectors of Hermitian matrices."""
    flags = _flags(instruction)
    lower = a if flags["uplo"] == "L" else adjoint(a)
    if flags["mode"] == "N":
        values = apply(ops.eigh, lower, compute_vectors=False)
        return [a, values, _failed(values, a.ndim - 2)]
    values, vectors = apply_many(ops.eigh, lower, compute_vectors=True)
    return [vectors, values, _failed(values, a.ndim - 2)]


def _left_vectors(instruction: Instruction) -> str | None:
    if _flags(instruction).get("compute_left") == "V":
        return "with left eigenvectors"
    return _by_rows(instruction)


@call("lapack_?geev_ffi", unless=_left_vectors)
def geev(instruction: Instruction, a: Array) -> Sequence[Array]:
    """Find eigenvalues and right eigenvectors of square matrices."""
    wants = _flags(instruction)["compute_right"] == "V"
    if wants:
        values, vectors = apply_many(ops.eig, a, compute_vectors=True)
    else:
        values = apply(ops.eig, a, compute_vectors=False)
        vectors = _unset(instruction.results[-2])
    parts: Sequence[Array] = [values]
    if a.dtype.kind != "c":
        parts = [apply(ops.real, values), apply(ops.imag, values)]
    left = _unset(instruction.results[len(parts)])
    return [*parts, left, vectors, _failed(apply(ops.real, values), a.ndim - 2)]


def _sorted(instruction: Instruction) -> str | None:
    if _flags(instruction).get("sort", "N") != "N":
        return "with sorted eigenvalues"
    return _by_rows(instruction)


@call("lapack_?gees_ffi", unless=_sorted)
def gees(instruction: Instruction, a: Array) -> Sequence[Array]:
    """Find the Schur form, its vectors where they are asked for, and the eigenvalues."""
    if _flags(instruction)["mode"] == "V":
        form, vectors = apply_many(ops.schur, a, compute_vectors=True)
    else:
        form = apply(ops.schur, a, compute_vectors=False)
        vectors = _unset(instruction.results[1])
    values = [tnp.diagonal(form, 0, -2, -1)]
    if a.dtype.kind != "c":
        values.append(_imaginary_parts(form))
    chosen = _unset(instruction.results[-2])
    return [form, vectors, *values, chosen, _failed(form, a.ndim - 2)]


def _imaginary_parts(form: Array) -> Array:
    """Return those of the eigenvalues: blocks have the form (a, b; c, a) with b c < 0."""
    above, below = (tnp.abs(tnp.diagonal(form, k, -2, -1)) for k in (1, -1))
    sizes = tnp.sqrt(above) * tnp.sqrt(below)
    none = tnp.zeros((*form.shape[:-2], 1), form.dtype)
    return tnp.concatenate([sizes, none], -1) - tnp.concatenate([none, sizes], -1)


def _several_devices(instruction: Instruction) -> str | None:
    sharding = str(instruction.attributes.get("mhlo.sharding", ""))
    return f"over {sharding}" if "devices=" in sharding else None


@call("Sharding", "annotate_device_placement", unless=_several_devices)
def marked(instruction: Instruction, x: Array) -> Array:
    """Return the array: the program is for one device."""
    return x


@call("mhlo.topk")
def top_k(instruction: Instruction, x: Array) -> Sequence[Array]:
    """Find the largest elements of the last axis."""
    k = instruction.results[0].shape[-1]
    largest = instruction.attributes.get("mhlo.attributes", {}).get("largest", True)
    given = x if largest else apply(ops.negate, x)
    values, indices = apply_many(ops.top_k, given, k=k)
    values = values if largest else apply(ops.negate, values)
    return [values, convert(indices, instruction.results[1].dtype)]


def _elementwise(apply_to: Callable[..., Array]) -> Any:
    return lambda instruction, *operands: apply_to(*operands)


for _target, _op in (("mhlo.erf", ops.erf), ("mhlo.tan", ops.tan)):
    call(_target)(_elementwise(lambda x, op=_op: apply(op, x)))
