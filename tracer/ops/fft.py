"""Discrete Fourier transforms over the last axes. Source: StableHLO specification, fft.

The transforms are linear, so their gradients are transforms too. The gradients of RFFT and IRFFT
weight the frequencies that represent two (all but the first and, for even lengths, the last).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracer import ops
from tracer.errors import ArgumentError, DTypeError, ShapeError
from tracer.ir import AxisRule, Cost, Label, Op, ShapeDtype, Value
from tracer.ir.library_calls import TransformCall
from tracer.ir.op import NotDifferentiable, Types
from tracer.ops.batch import leading
from tracer.ops.helpers import conjugate, full, full_like, scale
from tracer.ops.rules import (
    complex_dtype,
    moved_bytes,
    own_label,
    real_dtype,
    require_axes,
)

Array = np.ndarray[Any, Any]
KINDS = {"FFT": "c", "IFFT": "c", "RFFT": "f", "IRFFT": "c"}
"""Names of the transforms, and the kind of dtype that each takes."""
OF_REAL = ("RFFT", "IRFFT")
"""The transforms of real numbers, and back."""
_MAXIMUM_AXES = 3


def _infer(x: ShapeDtype, *, kind: str, lengths: tuple[int, ...]) -> ShapeDtype:
    _require_transform(x, kind, lengths)
    batch, inside = x.shape[: -len(lengths)], x.shape[-len(lengths) :]
    halved = (*lengths[:-1], lengths[-1] // 2 + 1)
    if inside != (halved if kind == "IRFFT" else lengths):
        raise ShapeError(
            f"fft {kind} of lengths {lengths} does not fit {x}",
            mend="the last axes have the lengths; for IRFFT the last one has length // 2 + 1",
        )
    dtype = {"RFFT": complex_dtype, "IRFFT": real_dtype}.get(kind, lambda same: same)(x.dtype)
    return ShapeDtype((*batch, *(halved if kind == "RFFT" else lengths)), dtype)


def _require_transform(x: ShapeDtype, kind: str, lengths: tuple[int, ...]) -> None:
    if kind not in KINDS:
        raise ArgumentError(f"fft knows no kind {kind!r}", mend=f"use one of {list(KINDS)}")
    if x.dtype.kind != KINDS[kind] or x.dtype.itemsize < 4:
        wanted = "float32 or float64" if KINDS[kind] == "f" else "complex64 or complex128"
        raise DTypeError(f"fft {kind} takes {wanted}, not {x.dtype}", mend="convert first")
    if not 1 <= len(lengths) <= min(_MAXIMUM_AXES, x.ndim) or min(lengths) < 1:
        raise ShapeError(
            f"fft over {len(lengths)} axes of lengths {lengths} does not fit {x}",
            mend=f"transform one to {_MAXIMUM_AXES} axes of at least one element",
        )


def _evaluate(x: Array, *, kind: str, lengths: tuple[int, ...]) -> Array:
    return _evaluate_along(x, kind, lengths, range(-len(lengths), 0))


def _evaluate_along(x: Array, kind: str, lengths: Sequence[int], axes: Sequence[int]) -> Array:
    function = getattr(np.fft, f"{kind.lower()}n")
    return np.asarray(function(x, s=lengths, axes=axes))


def _lower(b: Any, types: Types, x: Any, *, kind: str, lengths: tuple[int, ...]) -> Any:
    if types[0].size == 0:
        return b.splat(0, types[0])
    return b.fft(x, kind, lengths)


def _weights(shape: tuple[int, ...], length: int, dtype: np.dtype[Any], *, twice: float) -> Value:
    """Return, for the half spectra along the last axis, 1 or `twice` for those that represent two.

    The middle frequency of an even length represents itself alone, and so does the first one.
    """
    places = ops.iota(shape=shape, dtype=np.dtype(np.int32), dimension=len(shape) - 1)
    alone = ops.compare(places, full_like(places, 0), direction="EQ")
    if length % 2 == 0:
        middle = ops.compare(places, full_like(places, length // 2), direction="EQ")
        alone = ops.or_(alone, middle)
    ones = full(1, ShapeDtype(shape, dtype))
    return ops.select(alone, ones, full_like(ones, twice))  # type: ignore[no-any-return]


def _vjp(g: Value, out: Value, x: Value, *, kind: str, lengths: tuple[int, ...]) -> tuple[Value]:
    """Apply the transposed transform: FFT and IFFT are symmetric, the real ones each other's."""
    if kind in ("FFT", "IFFT"):
        return (fft(g, kind=kind, lengths=lengths),)
    total, last = math.prod(lengths), lengths[-1]
    if kind == "RFFT":
        weights = _weights(g.shape, last, g.dtype, twice=0.5)
        whole = fft(ops.multiply(conjugate(g), weights), kind="IRFFT", lengths=lengths)
        return (scale(whole, total),)
    half = conjugate(fft(g, kind="RFFT", lengths=lengths))
    weights = _weights(half.shape, last, half.dtype, twice=2.0)
    return (scale(ops.multiply(half, weights), 1 / total),)


def _axes(operands: Types, results: Types, *, lengths: tuple[int, ...], **_: Any) -> AxisRule:
    ndim = operands[0].ndim
    return _whole(operands, results, range(ndim - len(lengths), ndim))


def _whole(operands: Types, results: Types, axes: Sequence[int]) -> AxisRule:
    """Every axis is parallel but those that are transformed."""
    rows: list[tuple[Label, ...]] = [
        tuple(own_label(group, i) if i in axes else i for i in range(type.ndim))
        for group, type in enumerate((*operands, *results))
    ]
    whole = frozenset(row[axis] for row in rows for axis in axes)
    return AxisRule((rows[0],), (rows[1],), whole=whole)


def _cost(operands: Types, results: Types, *, kind: str, lengths: tuple[int, ...]) -> Cost:
    """Count 5 n log2 n operations for each transform; the library gathers lines in buffers."""
    call = TransformCall(
        math.prod(operands[0].shape[: operands[0].ndim - len(lengths)]),
        lengths,
        max(operands[0].dtype.itemsize, results[0].dtype.itemsize),
        is_real=kind in OF_REAL,
    )
    return _cost_of(call, operands, results)


def _cost_of(call: TransformCall, operands: Types, results: Types) -> Cost:
    size = max(operands[0].size, results[0].size)
    flops = math.ceil(5 * size * math.log2(max(2, math.prod(call.lengths))))
    return Cost(flops, moved_bytes(operands, results), calls=(call,))


fft: Op = Op(
    "fft",
    doc="Discrete Fourier transform over the last `len(lengths)` axes (three at most). FFT and "
    "IFFT take complex numbers, RFFT real ones and gives half of the last axis, IRFFT undoes it; "
    "the inverse ones divide by the number of elements.",
    infer=_infer,
    evaluate=_evaluate,
    lower=_lower,
    vjp=_vjp,
    axes=_axes,
    cost=_cost,
    fusion="opaque",
    is_partitioned=False,
)


def _infer_complex(x: ShapeDtype, *, kind: str, axes: tuple[int, ...], length: int) -> ShapeDtype:
    _require_kind("scipy_fft", kind, ("FFT", "IFFT"))
    return _infer_scipy("scipy_fft", x, kind, axes, length)


def _infer_real(x: ShapeDtype, *, kind: str, axes: tuple[int, ...], length: int) -> ShapeDtype:
    name = "scipy_real_fft"
    _require_kind(name, kind, OF_REAL)
    if len(axes) > 1:
        raise ArgumentError(f"{name} over {len(axes)} axes", mend="transform along one axis")
    return _infer_scipy(name, x, kind, axes, length)


def _require_kind(name: str, kind: str, known: Sequence[str]) -> None:
    if kind not in known:
        raise ArgumentError(f"{name} knows no kind {kind!r}", mend=f"use one of {list(known)}")


def _infer_scipy(
    name: str, x: ShapeDtype, kind: str, axes: tuple[int, ...], length: int
) -> ShapeDtype:
    require_axes(name, axes, x.ndim)
    if not axes:
        raise ArgumentError(f"{name} over no axis", mend="name an axis")
    # The transform over the last axes says what is wrong with the lengths.
    rest = tuple(n for axis, n in enumerate(x.shape) if axis not in axes)
    lengths = _lengths(x, axes, length)
    inside = tuple(x.shape[axis] for axis in axes)
    found = _infer(x.with_shape((*rest, *inside)), kind=kind, lengths=lengths)
    shape = list(x.shape)
    shape[axes[-1]] = found.shape[-1]
    return ShapeDtype(tuple(shape), found.dtype)


def _evaluate_scipy(x: Array, *, kind: str, axes: tuple[int, ...], length: int) -> Array:
    return _evaluate_along(x, kind, _lengths(x, axes, length), axes)


def _lengths(x: Any, axes: tuple[int, ...], length: int) -> tuple[int, ...]:
    """Return how many numbers there are along each axis."""
    return (*(x.shape[axis] for axis in axes[:-1]), length)


def _scipy_cost(
    operands: Types, results: Types, *, kind: str, axes: tuple[int, ...], length: int
) -> Cost:
    (x,), (y,) = operands, results
    lengths = _lengths(x, axes, length)
    rest = math.prod(n for axis, n in enumerate(x.shape) if axis not in axes)
    itemsize, is_real = max(x.dtype.itemsize, y.dtype.itemsize), kind in OF_REAL
    return _cost_of(TransformCall(rest, lengths, itemsize, is_real), operands, results)


def _by_scipy(name: str, doc: str, infer: Callable[..., ShapeDtype], *reuses: int) -> Op:
    return Op(
        name,
        doc=doc,
        infer=infer,
        evaluate=_evaluate_scipy,
        lower=lambda b, types, x, *, kind, axes, length: b.numpy_call(
            types, x, kind.lower(), *axes
        ),
        vjp=NotDifferentiable("transforms become it after they are differentiated"),
        axes=lambda operands, results, *, axes, **_: _whole(operands, results, axes),
        cost=_scipy_cost,
        reuses=reuses,
        calls_host=True,
        known_as="fft",
        batch=leading("axes"),
    )


scipy_fft: Op = _by_scipy(
    "scipy_fft",
    "Discrete Fourier transform of complex numbers along any axes by SciPy; `length` is that of "
    "the last of them. IFFT divides by the number of elements.",
    _infer_complex,
    0,
)
scipy_real_fft: Op = _by_scipy(
    "scipy_real_fft",
    "Discrete Fourier transform by SciPy of real numbers along one axis of `length` numbers, to "
    "half of them (RFFT), and back (IRFFT), divided by their number.",
    _infer_real,
)
