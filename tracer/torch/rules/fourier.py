"""Rules of Fourier transforms: any axes, divided as torch says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tracer import ops
from tracer.array.array import Array
from tracer.array.convert import convert, transpose
from tracer.array.dispatch import apply
from tracer.numpy.ufunc import full_like
from tracer.torch.rules.operands import axis_of
from tracer.torch.table import Node, rule

_AT_ONCE = 3
"""So many axes one op transforms."""


def _scale(count: int, normalization: int) -> float:
    """Return the factor: none, one by the root of the elements, or one by their number."""
    return (1.0, 1 / math.sqrt(count), 1 / count)[normalization]


def _times(x: Array, factor: float) -> Array:
    return x if factor == 1 else apply(ops.multiply, x, full_like(x, factor))


def _along(x: Array, axes: Sequence[int], kind: str, lengths: Sequence[int]) -> Array:
    """Transform some axes, the last of which may change its size."""
    rest = [i for i in range(x.ndim) if i not in axes]
    order = (*rest, *axes)
    back = tuple(order.index(i) for i in range(x.ndim))
    moved = apply(ops.fft, transpose(x, order), kind=kind, lengths=tuple(lengths))
    return transpose(moved, back)


def _complex(x: Array, axes: Sequence[int], kind: str) -> Array:
    """Transform all axes, not divided."""
    for i in range(0, len(axes), _AT_ONCE):
        part = axes[i : i + _AT_ONCE]
        sizes = [x.shape[axis] for axis in part]
        x = _along(x, part, kind, sizes)
        x = _times(x, math.prod(sizes)) if kind == "IFFT" else x
    return x


def _axes(x: Array, dim: Any) -> list[int]:
    dims = (dim,) if isinstance(dim, int) else dim
    return [axis_of(d, x.ndim) for d in dims]


@rule("_fft_c2c")
def complex_transform(node: Node, x: Array, dim: Any, normalization: int, forward: bool) -> Array:
    """Transform complex numbers."""
    axes = _axes(x, dim)
    count = math.prod(x.shape[axis] for axis in axes)
    found = _complex(x, axes, "FFT" if forward else "IFFT")
    return _times(found, _scale(count, normalization))


@rule("_fft_r2c")
def real_transform(node: Node, x: Array, dim: Any, normalization: int, onesided: bool) -> Array:
    """Transform real numbers; of the last axis half is enough."""
    axes = _axes(x, dim)
    count = math.prod(x.shape[axis] for axis in axes)
    if onesided:
        last = axes[-1]
        found = _complex(_along(x, [last], "RFFT", [x.shape[last]]), axes[:-1], "FFT")
    else:
        found = _complex(convert(x, node.result.dtype), axes, "FFT")
    return _times(found, _scale(count, normalization))


@rule("_fft_c2r")
def transform_to_real(
    node: Node, x: Array, dim: Any, normalization: int, last_dim_size: int
) -> Array:
    """Transform half of an axis back to real numbers."""
    axes = _axes(x, dim)
    *others, last = axes
    whole = _along(_complex(x, others, "IFFT"), [last], "IRFFT", [last_dim_size])
    count = math.prod(x.shape[axis] for axis in others) * last_dim_size
    return _times(_times(whole, last_dim_size), _scale(count, normalization))
