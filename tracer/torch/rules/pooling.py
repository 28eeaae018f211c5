"""Rules of pooling over windows, and over parts of equal size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tracer import ops
from tracer.array.array import Array
from tracer.array.convert import convert, reshape
from tracer.array.dispatch import apply, from_host
from tracer.numpy.ufunc import full_like
from tracer.torch.rules.indexing import scatter_add
from tracer.torch.rules.operands import cotangent, filled, integers
from tracer.torch.rules.products import applied_along
from tracer.torch.table import Node, rule

_INT64 = np.dtype("int64")


class _Windows:
    """Windows over the last axes of an array, so many along each as torch says."""

    def __init__(
        self,
        shape: Sequence[int],
        results: Sequence[int],
        kernel: Any,
        stride: Any,
        padding: Any,
        dilation: Any = 1,
    ) -> None:
        self.count = len(kernel)
        self.sizes, self.results = shape[-self.count :], results[-self.count :]
        self.kernel = integers(kernel, self.count)
        self.stride = integers(stride, self.count) if stride else self.kernel
        self.padding = integers(padding, self.count)
        self.dilation = integers(dilation, self.count)
        self.first = len(shape) - self.count

    @property
    def parameters(self) -> dict[str, Any]:
        """Those of a reduction over windows; the last window may reach further than the padding."""
        front, ones = (1,) * self.first, (1,) * (self.first + self.count)
        behind = [
            max(0, (n - 1) * s + d * (k - 1) + 1 - size - p)
            for n, s, d, k, size, p in zip(
                self.results,
                self.stride,
                self.dilation,
                self.kernel,
                self.sizes,
                self.padding,
                strict=True,
            )
        ]
        return {
            "window_dimensions": (*front, *self.kernel),
            "window_strides": (*front, *self.stride),
            "base_dilation": ones,
            "window_dilation": (*front, *self.dilation),
            "padding": ((0, 0),) * self.first + tuple(zip(self.padding, behind, strict=True)),
        }

    def divisors(self, counts_padding: bool) -> list[np.ndarray[Any, Any]]:
        """Return how many elements each window counts along each axis, as torch does."""
        found = []
        for n, s, k, size, p in zip(
            self.results, self.stride, self.kernel, self.sizes, self.padding, strict=True
        ):
            start = np.arange(n) * s - p
            end = np.minimum(start + k, size + p)
            if not counts_padding:
                start, end = np.maximum(start, 0), np.minimum(end, size)
            found.append(end - start)
        return found


@rule("max_pool2d_with_indices", "max_pool3d_with_indices")
def max_pool(
    node: Node,
    x: Array,
    kernel: Any,
    stride: Any = (),
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
) -> list[Array]:
    """Find the largest element of each window, and where it is in the whole plane."""
    windows = _Windows(x.shape, node.result.shape, kernel, stride, padding, dilation)
    values = apply(ops.reduce_window_maximum, x, **windows.parameters)
    found = apply(ops.reduce_window_argmax, x, **windows.parameters)
    return [values, _place_in_plane(convert(found, _INT64), windows)]


def _place_in_plane(found: Array, windows: _Windows) -> Array:
    """Count row by row over all axes of the plane: windows of one element do not slide."""
    p = windows.parameters
    axes = range(windows.first, windows.first + windows.count)
    sliding = [i for i in axes if not _is_still(p, i)]
    sizes = dict(zip(axes, windows.sizes, strict=True))
    total = full_like(found, 0)
    for axis in axes:
        if axis in sliding:
            behind = math.prod(sizes[i] for i in sliding if i > axis)
            place = apply(ops.divide, found, full_like(found, behind))
            place = apply(ops.remainder, place, full_like(found, sizes[axis]))
        else:
            place = apply(ops.iota, shape=found.shape, dtype=_INT64, dimension=axis)
        total = apply(ops.add, apply(ops.multiply, total, full_like(total, sizes[axis])), place)
    return total


def _is_still(p: dict[str, Any], axis: int) -> bool:
    row = tuple(p[name][axis] for name in ("window_dimensions", "window_strides", "padding"))
    return row == (1, 1, (0, 0))


@rule("max_pool2d_with_indices_backward", "max_pool3d_with_indices_backward")
def max_pool_backward(
    node: Node,
    grad: Array,
    x: Array,
    kernel: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    indices: Array,
) -> Array:
    """Add each cotangent where the largest element was."""
    count = len(kernel)
    kept = x.shape[: x.ndim - count]
    plane, places = math.prod(x.shape[-count:]), math.prod(grad.shape[-count:])
    flat = filled(0, x.type.with_shape((*kept, plane)))
    at, updates = reshape(indices, (*kept, places)), reshape(grad, (*kept, places))
    return reshape(scatter_add(node, flat, -1, at, updates), x.shape)


@rule("avg_pool1d", "avg_pool2d", "avg_pool3d")
def avg_pool(
    node: Node,
    x: Array,
    kernel: Any,
    stride: Any = (),
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Array:
    """Take the mean of each window."""
    windows = _Windows(x.shape, node.result.shape, kernel, stride, padding)
    return _means(x, windows, count_include_pad, divisor_override)


def _means(x: Array, windows: _Windows, counts_padding: bool, divisor: int | None) -> Array:
    total = apply(ops.reduce_window_add, x, **windows.parameters)
    if divisor is not None:
        return apply(ops.divide, total, full_like(total, divisor))
    for i, counts in enumerate(windows.divisors(counts_padding)):
        if np.all(counts == counts[0]):
            total = apply(ops.divide, total, full_like(total, float(counts[0])))
        else:
            line = from_host(counts.astype(x.dtype))
            axis = windows.first + i
            whole = apply(ops.broadcast_in_dim, line, shape=total.shape, dimensions=(axis,))
            total = apply(ops.divide, total, whole)
    return total


@rule("avg_pool2d_backward", "avg_pool3d_backward")
def avg_pool_backward(
    node: Node,
    grad: Array,
    x: Array,
    kernel: Any,
    stride: Any,
    padding: Any,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Array:
    """Give each element its share of the cotangents of its windows."""
    windows = _Windows(x.shape, grad.shape, kernel, stride, padding)
    return cotangent(lambda y: _means(y, windows, count_include_pad, divisor_override), x, grad)


def _adaptive_matrix(size: int, count: int, dtype: np.dtype[Any]) -> Array:
    """Return the matrix that takes the means of so many parts of a line."""
    rows = np.zeros((count, size))
    for i in range(count):
        start, end = i * size // count, -(-(i + 1) * size // count)
        rows[i, start:end] = 1 / (end - start)
    return from_host(rows.astype(dtype))


@rule("_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "adaptive_avg_pool1d")
def adaptive_avg_pool(node: Node, x: Array, output_size: Any) -> Array:
    """Take means of parts: so many along each axis as torch is asked for."""
    return _adaptive(x, node.result.shape[-len(output_size) :])


def _adaptive(x: Array, counts: Sequence[int]) -> Array:
    first = x.ndim - len(counts)
    for axis, count in enumerate(counts, first):
        if count == 1:
            total = apply(ops.reduce_add, x, axes=(axis,))
            size = x.shape[axis]
            mean = apply(ops.divide, total, full_like(total, size))
            x = reshape(mean, (*x.shape[:axis], 1, *x.shape[axis + 1 :]))
        elif count != x.shape[axis]:
            x = applied_along(_adaptive_matrix(x.shape[axis], count, x.dtype), x, axis)
    return x


@rule("_adaptive_avg_pool2d_backward", "_adaptive_avg_pool3d_backward")
def adaptive_avg_pool_backward(node: Node, grad: Array, x: Array) -> Array:
    """Give each element its share of the cotangents of its parts."""
    count = 2 if "2d" in node.name else 3
    return cotangent(lambda y: _adaptive(y, grad.shape[-count:]), x, grad)
