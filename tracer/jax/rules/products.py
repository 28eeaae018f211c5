"""Rules of products and convolutions. Their precision is kept, or refused."""

from __future__ import annotations

from typing import Any

from tracer import ops
from tracer.array.array import Array
from tracer.array.convert import convert
from tracer.array.dispatch import apply
from tracer.errors import UnsupportedError
from tracer.jax.rules.shapes import numbers
from tracer.jax.table import Equation, rule

_EXACT_ALGORITHMS = {
    "DEFAULT": None,
    "ANY_F8_ANY_F8_F32": None,
    "F16_F16_F32": ("float16", "float32"),
    "BF16_BF16_F32": ("bfloat16", "float32"),
    "F32_F32_F32": ("float32", "float32"),
    "F64_F64_F64": ("float64", "float64"),
}
"""Algorithms for which the operands' own dtype, summed in the second, is what is asked for."""


def _check_precision(equation: Equation) -> None:
    """Refuse what names an arithmetic that differs from that of the operands.

    On a CPU all of `Precision` compute with the operands' own digits.
    """
    precision = equation.params.get("precision")
    rows = precision if isinstance(precision, tuple | list) else (precision,)
    for row in rows:
        name = getattr(row, "name", None if row is None else str(row))
        if name in (None, "DEFAULT", "HIGH", "HIGHEST"):
            continue
        wanted = _EXACT_ALGORITHMS.get(name)
        dtypes = {type.dtype.name for type in equation.operands}
        if wanted is None or dtypes != {wanted[0]} or equation.result.dtype.name != wanted[1]:
            raise UnsupportedError(
                f"JAX's {equation.name} with precision={name} of {', '.join(sorted(dtypes))}",
                mend="leave precision out, or use jax.lax.Precision.HIGHEST: products of tracer "
                "have the operands' own digits",
            )


def _widened(equation: Equation, *operands: Array) -> list[Array]:
    """Give the operands the dtype of the result, in which JAX sums."""
    _check_precision(equation)
    return [convert(x, equation.result.dtype) for x in operands]


@rule("dot_general")
def dot_general(equation: Equation, lhs: Array, rhs: Array) -> Array:
    """Multiply and sum."""
    contracting, batch = equation.params["dimension_numbers"]
    x, y = _widened(equation, lhs, rhs)
    return apply(
        ops.dot_general,
        x,
        y,
        lhs_batch=numbers(batch[0]),
        rhs_batch=numbers(batch[1]),
        lhs_contracting=numbers(contracting[0]),
        rhs_contracting=numbers(contracting[1]),
    )


@rule("conv_general_dilated")
def conv_general_dilated(equation: Equation, lhs: Array, rhs: Array) -> Array:
    """Convolve; the axes are where JAX says."""
    p = equation.params
    axes = p["dimension_numbers"]
    x, y = _widened(equation, lhs, rhs)
    return apply(
        ops.convolution,
        x,
        y,
        lhs_axes=numbers(axes.lhs_spec),
        rhs_axes=numbers(axes.rhs_spec),
        result_axes=numbers(axes.out_spec),
        window_strides=numbers(p["window_strides"]),
        padding=tuple(numbers(pair) for pair in p["padding"]),
        lhs_dilation=numbers(p["lhs_dilation"]),
        rhs_dilation=numbers(p["rhs_dilation"]),
        feature_group_count=int(p["feature_group_count"]),
        batch_group_count=int(p["batch_group_count"]),
    )


@rule("fft")
def fft(equation: Equation, x: Array) -> Array:
    """Transform the last axes."""
    kind: Any = equation.params["fft_type"]
    name = getattr(kind, "name", str(kind)).upper()
    lengths = numbers(equation.params["fft_lengths"])
    if 0 in equation.result.shape:
        raise UnsupportedError("JAX's fft of no elements", mend="transform one element or more")
    if not lengths:
        return x
    return apply(ops.fft, x, kind=name, lengths=lengths)
