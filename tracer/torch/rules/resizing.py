"""Rules of gradients of resized images: each axis by itself is a product with a matrix."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracer.array.array import Array
from tracer.array.dispatch import from_host
from tracer.torch.rules.products import applied_along
from tracer.torch.table import RULES, Node, rule

Host = np.ndarray[Any, Any]


def _nearest(size: int, count: int, scale: float | None, shift: float = 0.0) -> Host:
    """Return the matrix that takes the nearest element."""
    step = np.float32(1 / scale if scale else size / count)
    places = np.floor((np.arange(count, dtype=np.float32) + np.float32(shift)) * step)
    matrix = np.zeros((count, size))
    matrix[np.arange(count), np.minimum(places.astype(int), size - 1)] = 1
    return matrix


def _linear(size: int, count: int, scale: float | None, align_corners: bool) -> Host:
    """Return the matrix that interpolates between two neighbours."""
    places = np.arange(count)
    if align_corners:
        at = places * ((size - 1) / (count - 1) if count > 1 else 0.0)
    else:
        step = 1 / scale if scale else size / count
        at = np.maximum((places + 0.5) * step - 0.5, 0)
    below = np.minimum(np.floor(at).astype(int), size - 1)
    above, part = np.minimum(below + 1, size - 1), at - below
    matrix = np.zeros((count, size))
    np.add.at(matrix, (places, below), 1 - part)
    np.add.at(matrix, (places, above), part)
    return matrix


def _cubic(size: int, count: int, scale: float | None, align_corners: bool) -> Host:
    """Return the matrix that interpolates among four neighbours, the outermost ones repeated."""
    places = np.arange(count)
    if align_corners:
        at = places * ((size - 1) / (count - 1) if count > 1 else 0.0)
    else:
        at = (places + 0.5) * (1 / scale if scale else size / count) - 0.5
    first, sharpness = np.floor(at).astype(int) - 1, -0.75
    matrix = np.zeros((count, size))
    for neighbour in range(4):
        apart = np.abs(at - first - neighbour)
        near = (sharpness + 2) * apart**3 - (sharpness + 3) * apart**2 + 1
        far = sharpness * (apart**3 - 5 * apart**2 + 8 * apart - 4)
        share = np.where(apart <= 1, near, far)
        np.add.at(matrix, (places, np.clip(first + neighbour, 0, size - 1)), share)
    return matrix


def _smoothed(reach: float, share: Callable[[Host], Host]) -> Callable[..., Host]:
    """Return how a matrix averages with a kernel that is as wide as the elements are apart."""

    def matrix(size: int, count: int, scale: float | None, align_corners: bool) -> Host:
        if align_corners:
            step = (size - 1) / (count - 1) if count > 1 else 0.0
        else:
            step = 1 / scale if scale else size / count
        wide = max(step, 1.0)
        found = np.zeros((count, size))
        for row, center in enumerate(step * (np.arange(count) + 0.5)):
            start = max(int(center - reach * wide + 0.5), 0)
            end = min(int(center + reach * wide + 0.5), size)
            weights = share(np.abs(np.arange(start, end) - center + 0.5) / wide)
            found[row, start:end] = weights / weights.sum()
        return found

    return matrix


def _triangle(apart: Host) -> Host:
    found: Host = np.maximum(1 - apart, 0)
    return found


def _keys(apart: Host) -> Host:
    """Return Keys' cubic kernel, of a sharpness of one half where it is smoothed."""
    near = 1.5 * apart**3 - 2.5 * apart**2 + 1
    far = -0.5 * (apart**3 - 5 * apart**2 + 8 * apart - 4)
    return np.where(apart < 1, near, np.where(apart < 2, far, 0))


def _applied_back(grad: Array, matrices: Sequence[Host]) -> Array:
    first = grad.ndim - len(matrices)
    for axis, matrix in enumerate(matrices, first):
        grad = applied_along(from_host(matrix.T.astype(grad.dtype)), grad, axis)
    return grad


def _sizes(
    node: Node, output_size: Sequence[int], scales: Sequence[Any]
) -> list[tuple[int, int, float | None]]:
    """Return for each axis how many elements it had, how many it has, and by what it grew."""
    count = len(output_size)
    sizes = node.result.shape[-count:]
    return list(zip(sizes, output_size, (*scales, *(None,) * count)[:count], strict=True))


@rule("upsample_nearest1d_backward", "upsample_nearest2d_backward", "upsample_nearest3d_backward")
def nearest_backward(
    node: Node, grad: Array, output_size: Sequence[int], input_size: Sequence[int], *scales: Any
) -> Array:
    """Add up the cotangents of each element's copies."""
    rows = _sizes(node, output_size, scales)
    return _applied_back(grad, [_nearest(size, count, scale) for size, count, scale in rows])


@rule(
    "_upsample_nearest_exact1d_backward",
    "_upsample_nearest_exact2d_backward",
    "_upsample_nearest_exact3d_backward",
)
def nearest_exact_backward(
    node: Node, grad: Array, output_size: Sequence[int], input_size: Sequence[int], *scales: Any
) -> Array:
    """Add up the cotangents of each element's copies."""
    rows = _sizes(node, output_size, scales)
    return _applied_back(grad, [_nearest(size, count, scale, 0.5) for size, count, scale in rows])


def _shares_back(weights: Callable[..., Any]) -> Any:
    """Return a rule that gives the neighbours their shares of each cotangent."""

    def backward(
        node: Node,
        grad: Array,
        output_size: Sequence[int],
        input_size: Sequence[int],
        align_corners: bool,
        *scales: Any,
    ) -> Array:
        rows = _sizes(node, output_size, scales)
        return _applied_back(grad, [weights(*row, align_corners) for row in rows])

    return backward


for _name in ("linear1d", "bilinear2d", "trilinear3d"):
    RULES[f"aten.upsample_{_name}_backward"] = _shares_back(_linear)
RULES["aten.upsample_bicubic2d_backward"] = _shares_back(_cubic)


def _shares(weights: Callable[..., Any]) -> Any:
    """Return a rule that makes each element of its neighbours' shares."""

    def forward(
        node: Node, x: Array, output_size: Sequence[int], align_corners: bool, *scales: Any
    ) -> Array:
        count = len(output_size)
        given = (*scales, *(None,) * count)[:count]
        for axis, new, scale in zip(range(-count, 0), output_size, given, strict=True):
            number = x.ndim + axis
            matrix = weights(x.shape[number], new, scale, align_corners)
            x = applied_along(from_host(matrix.astype(x.dtype)), x, number)
        return x

    return forward


for _name, _weights in (
    ("bilinear2d", _smoothed(1, _triangle)),
    ("bicubic2d", _smoothed(2, _keys)),
):
    RULES[f"aten._upsample_{_name}_aa"] = _shares(_weights)
    RULES[f"aten._upsample_{_name}_aa_backward"] = _shares_back(_weights)
