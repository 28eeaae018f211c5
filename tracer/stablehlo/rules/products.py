"""Rules of products, convolutions and Fourier transforms. Precision is kept, or refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tracer import ops
from tracer.array.array import Array
from tracer.array.convert import convert
from tracer.array.dispatch import apply
from tracer.stablehlo.table import Instruction, rule

_PRECISIONS = ("DEFAULT", "HIGH", "HIGHEST")


def _precision(instruction: Instruction) -> str | None:
    """Refuse what names an arithmetic that differs from that of the operands.

    On a CPU all of StableHLO's precisions compute with the operands' own digits.
    """
    for precision in instruction.attributes.get("precision_config", ()):
        if precision not in _PRECISIONS:
            return f"with precision {precision}"
    if "algorithm" in instruction.attributes:
        return f"with {instruction.attributes['algorithm']}"
    return None


def _widened(instruction: Instruction, *operands: Array) -> list[Array]:
    """Give the operands the dtype of the result, in which StableHLO sums."""
    return [convert(x, instruction.result.dtype) for x in operands]


@rule("stablehlo.dot_general", unless=_precision)
def dot_general(instruction: Instruction, lhs: Array, rhs: Array) -> Array:
    """Multiply and sum."""
    numbers = instruction.attributes["dot_dimension_numbers"]
    x, y = _widened(instruction, lhs, rhs)
    return apply(
        ops.dot_general,
        x,
        y,
        lhs_batch=numbers["lhs_batching_dimensions"],
        rhs_batch=numbers["rhs_batching_dimensions"],
        lhs_contracting=numbers["lhs_contracting_dimensions"],
        rhs_contracting=numbers["rhs_contracting_dimensions"],
    )


@rule("stablehlo.dot", unless=_precision)
def dot(instruction: Instruction, lhs: Array, rhs: Array) -> Array:
    """Multiply matrices and vectors."""
    x, y = _widened(instruction, lhs, rhs)
    return apply(
        ops.dot_general,
        x,
        y,
        lhs_batch=(),
        rhs_batch=(),
        lhs_contracting=(x.ndim - 1,),
        rhs_contracting=(0,),
    )


@rule("stablehlo.convolution", unless=_precision)
def convolution(instruction: Instruction, lhs: Array, rhs: Array) -> Array:
    """Convolve; the axes are where StableHLO says."""
    attributes = instruction.attributes
    axes = attributes["dimension_numbers"]
    spatial = axes["kernel_spatial_dimensions"]
    ones = (1,) * len(spatial)
    x, y = _widened(instruction, lhs, rhs)
    reversed_axes = attributes.get("window_reversal") or (False,) * len(spatial)
    if any(reversed_axes):
        chosen = [axis for axis, flag in zip(spatial, reversed_axes, strict=True) if flag]
        y = apply(ops.reverse, y, dimensions=tuple(chosen))
    return apply(
        ops.convolution,
        x,
        y,
        lhs_axes=_axes(axes, "input_batch", "input_feature", "input_spatial"),
        rhs_axes=_axes(axes, "kernel_output_feature", "kernel_input_feature", "kernel_spatial"),
        result_axes=_axes(axes, "output_batch", "output_feature", "output_spatial"),
        window_strides=attributes.get("window_strides", ones),
        padding=pairs(attributes.get("padding"), len(spatial)),
        lhs_dilation=attributes.get("lhs_dilation", ones),
        rhs_dilation=attributes.get("rhs_dilation", ones),
        feature_group_count=attributes["feature_group_count"],
        batch_group_count=attributes["batch_group_count"],
    )


def _axes(numbers: dict[str, Any], first: str, second: str, rest: str) -> tuple[int, ...]:
    spatial = numbers[f"{rest}_dimensions"]
    return (numbers[f"{first}_dimension"], numbers[f"{second}_dimension"], *spatial)


def pairs(padding: Any, count: int) -> tuple[tuple[int, int], ...]:
    """Return padding as pairs of numbers."""
    if padding is None:
        return ((0, 0),) * count
    rows: Sequence[Any] = padding.reshape(-1, 2)
    return tuple((int(low), int(high)) for low, high in rows)


def _no_elements(instruction: Instruction) -> str | None:
    return "of no elements" if 0 in instruction.result.shape else None


@rule("stablehlo.fft", unless=_no_elements)
def fft(instruction: Instruction, x: Array) -> Array:
    """Transform the last axes."""
    attributes = instruction.attributes
    return apply(ops.fft, x, kind=attributes["fft_type"], lengths=attributes["fft_length"])
