"""What samples of ops are made of: the record of one, and arrays with no ties and no kinks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tracer.ir import Builder, Graph, ShapeDtype

Array = np.ndarray[Any, Any]
_RNG = np.random.default_rng(7)


@dataclass(frozen=True)
class Sample:
    """One application of an op.

    Attributes
    ----------
    operands : tuple of np.ndarray
    params : dict
    smooth : bool
        Whether the op is differentiable at these operands: compare with finite differences.
    symmetric : {"", "T", "H"}
        The first operand counts as a symmetric or a Hermitian matrix, and may change as such only.
    """

    operands: tuple[Array, ...]
    params: dict[str, Any] = field(default_factory=dict)
    smooth: bool = True
    symmetric: str = ""

    def direction(self, position: int, x: Array) -> Array:
        """Return the part of `x`, like the operand at a position, along which that may change."""
        if position or not self.symmetric:
            return x
        turned = np.swapaxes(x, -1, -2)
        return (x + (turned.conj() if self.symmetric == "H" else turned)) / 2


def sample(*operands: Any, smooth: bool = True, symmetric: str = "", **params: Any) -> Sample:
    """Return a sample of arrays or nested lists."""
    return Sample(tuple(np.asarray(x) for x in operands), params, smooth, symmetric)


def real(*shape: int, low: float = -2.0, high: float = 2.0) -> Array:
    """Return distinct reals between bounds, at least 1e-3 of the range apart, shuffled."""
    size = int(np.prod(shape, dtype=int))
    places = (np.arange(size) + _RNG.uniform(0.2, 0.8, size)) / max(size, 1)
    return _RNG.permutation(low + (high - low) * places).reshape(shape)


def unit(*shape: int) -> Array:
    """Return reals between 0.1 and 0.9."""
    return real(*shape, low=0.1, high=0.9)


def positive(*shape: int) -> Array:
    """Return reals between 1.1 and 3."""
    return real(*shape, low=1.1, high=3.0)


def comp(*shape: int) -> Array:
    """Return complex numbers off the axes: no branch cut of a usual function runs there."""
    return unit(*shape) + 1j * unit(*shape)


def whole(*shape: int, low: int = -9, high: int = 10, dtype: Any = np.int32) -> Array:
    """Return random integers."""
    return _RNG.integers(low, high, shape).astype(dtype)


def lower_triangular(*shape: int) -> Array:
    """Return well-conditioned triangular matrices; the other triangle is not zero."""
    return real(*shape) + 3 * np.eye(shape[-1])


def definite(*shape: int) -> Array:
    """Return symmetric positive definite matrices."""
    x = real(*shape)
    return x @ np.swapaxes(x, -1, -2) + np.eye(shape[-1])


def complex_definite(*shape: int) -> Array:
    """Return Hermitian positive definite matrices."""
    x = real(*shape) + 1j * real(*shape)
    return x @ np.swapaxes(x, -1, -2).conj() + np.eye(shape[-1])


def graph(build: Callable[..., Any], *types: tuple[tuple[int, ...], Any]) -> Graph:
    """Build a body from a function on Values."""
    with Builder() as builder:
        inputs = [builder.input(ShapeDtype(shape, dtype)) for shape, dtype in types]
        outputs = build(*inputs)
        return builder.finish(outputs if isinstance(outputs, list | tuple) else [outputs])
