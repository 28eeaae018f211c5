"""What all Fourier transforms share: dtypes, lengths, axes and norms around one op."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tracer import ops
from tracer.array import promotion
from tracer.array.array import Array, ArrayLike
from tracer.array.convert import as_array, convert, normalize_axis, scalar, transpose
from tracer.array.dispatch import apply, compound
from tracer.errors import ArgumentError, DTypeError, ShapeError
from tracer.ir import as_dtype
from tracer.numpy.reductions import refuse_out
from tracer.numpy.ufunc import full_like

_NORMS = ("backward", "ortho", "forward")
_AXES_AT_ONCE = 3
_FLOAT32, _FLOAT64 = as_dtype("float32"), as_dtype("float64")


def _scale_of(norm: Any, count: int, *, inverse: bool) -> float:
    """Return the factor on top of XLA's transforms, whose inverses divide by the count."""
    if norm not in (None, *_NORMS):
        raise ArgumentError(f"fft has no norm {norm!r}", mend=f"use one of {list(_NORMS)}")
    if norm in (None, "backward"):
        return 1.0
    full = float(count) if inverse else 1.0 / count
    return full if norm == "forward" else math.sqrt(full)


def _operand(name: str, a: ArrayLike, *, real: bool) -> Array:
    x = as_array(a)
    if x.dtype.kind == "c":
        if real:
            raise DTypeError(f"{name} takes real arrays, not {x.dtype}", mend="use fft instead")
        return x
    is_narrow = x.dtype.kind in "fV" and x.dtype.itemsize <= 4
    return convert(x, _FLOAT32 if is_narrow else _FLOAT64)


def _plan(
    name: str, x: Array, s: Any, axes: Any, kind: str
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the lengths of the transform and its axes."""
    if axes is None:
        count = x.ndim if s is None else len(s)
        axes = range(-count, 0)
    places = tuple(normalize_axis(axis, x.ndim) for axis in axes)
    if s is not None and len(s) != len(places):
        raise ShapeError(
            f"{name}: {len(s)} lengths for {len(places)} axes", mend="give a length for each axis"
        )
    sizes = [x.shape[axis] for axis in places]
    if kind == "IRFFT" and sizes:
        sizes[-1] = 2 * (sizes[-1] - 1)
    given = [-1] * len(sizes) if s is None else s
    lengths = tuple(
        size if n is None or n == -1 else int(n.__index__())
        for n, size in zip(given, sizes, strict=True)
    )
    if kind in ("RFFT", "IRFFT") and not lengths:
        raise ShapeError(f"{name} over no axes", mend="name at least one axis")
    if any(n < 1 for n in lengths):
        raise ArgumentError(
            f"{name}: there is no transform of {min(lengths)} points",
            mend="give lengths of one or more",
        )
    return lengths, places


def transform(
    name: str, a: ArrayLike, kind: str, s: Any, axes: Any, norm: Any, out: object
) -> Array:
    """Apply the transform of a kind over axes, as the function `name`; see `fft.fftn`."""
    refuse_out(out)
    x = _operand(name, a, real=kind == "RFFT")
    lengths, places = _plan(name, x, s, axes, kind)
    scale = _scale_of(norm, math.prod(lengths), inverse=kind in ("IFFT", "IRFFT"))
    return _run(x, kind=kind, lengths=lengths, axes=places, scale=scale)


@compound
def _run(
    x: Array, *, kind: str, lengths: tuple[int, ...], axes: tuple[int, ...], scale: float
) -> Array:
    if kind != "RFFT" and axes:
        x = convert(x, promotion.complex_dtype(x.dtype))
    complex_kind = "IFFT" if kind in ("IFFT", "IRFFT") else "FFT"
    stages = _stages(axes)
    kinds = [complex_kind] * (len(stages) - 1) + [kind] if stages else []
    order = list(zip(stages, kinds, strict=True))
    by_axis = list(zip(axes, lengths, strict=True))
    # The axis that is halved or undone comes first for RFFT and last for IRFFT.
    for stage, stage_kind in reversed(order) if kind == "RFFT" else order:
        pairs = by_axis[stage]
        x = _stage(x, stage_kind, [axis for axis, _ in pairs], [n for _, n in pairs])
    if scale == 1.0:
        return x
    return apply(ops.multiply, x, full_like(x, scale))


def _stages(axes: Sequence[int]) -> list[slice]:
    """Cut the axes, from the last one, into runs of at most three different ones."""
    stages: list[slice] = []
    stop = len(axes)
    while stop:
        start = stop
        while start and stop - start < _AXES_AT_ONCE and axes[start - 1] not in axes[start:stop]:
            start -= 1
        stages.insert(0, slice(start, stop))
        stop = start
    return stages


def _stage(x: Array, kind: str, axes: list[int], lengths: list[int]) -> Array:
    wanted = list(lengths)
    if kind == "IRFFT":
        wanted[-1] = lengths[-1] // 2 + 1
    x = _fitted(x, axes, wanted)
    rest = [axis for axis in range(x.ndim) if axis not in axes]
    order = (*rest, *axes)
    found = apply(ops.fft, transpose(x, order), kind=kind, lengths=tuple(lengths))
    return transpose(found, tuple(order.index(axis) for axis in range(x.ndim)))


def _fitted(x: Array, axes: list[int], lengths: list[int]) -> Array:
    """Cut off or add zeros at the end of the axes."""
    high = [0] * x.ndim
    for axis, length in zip(axes, lengths, strict=True):
        high[axis] = length - x.shape[axis]
    if not any(high):
        return x
    none = (0,) * x.ndim
    zero = scalar(0, x.dtype)
    return apply(ops.pad, x, zero, low=none, high=tuple(high), interior=none)
