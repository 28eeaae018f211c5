"""Functions of each element that StableHLO has and tracer composes; `tracer.lax` has the others."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from tracer import ops
from tracer.array.array import Array
from tracer.array.dispatch import apply
from tracer.autodiff.transforms import custom_vjp
from tracer.lax.bits import in_fewer_bits


def conjugate(x: Array) -> Array:
    """Change the sign of the imaginary part; real arrays stay."""
    if x.dtype.kind != "c":
        return x
    return apply(ops.complex, apply(ops.real, x), apply(ops.negate, apply(ops.imag, x)))


def adjoint(x: Array) -> Array:
    """Transpose the last two axes, and conjugate."""
    order = (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2)
    return conjugate(apply(ops.transpose, x, permutation=order))


def has_bits(dtype: np.dtype[Any]) -> bool:
    """Tell whether the bits of a dtype can be cut or joined."""
    return dtype.kind not in "bc"


def reduce_precision(x: Array, exponent: int, mantissa: int) -> Any:
    """Round to fewer bits; what comes back through it too, as in JAX."""
    rounded = functools.partial(in_fewer_bits, exponent=exponent, mantissa=mantissa)
    function = custom_vjp(rounded)
    function.defvjp(lambda x: (rounded(x), None), lambda _, g: (rounded(g),))
    return function(x)
