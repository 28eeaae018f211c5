"""Ops that slide a window: convolution and windowed reductions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracer.errors import LoweringError
from tracer.ir import ShapeDtype
from tracer.lowering.emit.context import ModuleContext
from tracer.lowering.emit.dialect import (
    add,
    compare,
    complex_,
    convert,
    imaginary_part,
    pad,
    real_part,
    reshape,
    slice,
    subtract,
)
from tracer.lowering.emit.regions import Combiner, fill
from tracer.lowering.emit.values import Operand, real_dtype, wide_dtype
from tracer.lowering.shims import hlo, ir

Padding = Sequence[tuple[int, int]]


def reduce_window(
    b: ModuleContext,
    types: Sequence[ShapeDtype],
    operands: Sequence[Operand],
    initial_values: Sequence[Operand],
    combiner: Combiner,
    *,
    window_dimensions: Sequence[int],
    padding: Padding,
    window_strides: Sequence[int] | None = None,
    base_dilation: Sequence[int] | None = None,
    window_dilation: Sequence[int] | None = None,
) -> tuple[Operand, ...]:
    """Emit `reduce_window`; `combiner(b, *lhs, *rhs)` gives one scalar for each operand."""
    op = hlo.ReduceWindowOp(
        [b.tensor_type(type) for type in types],
        [x.raw for x in operands],
        [x.raw for x in initial_values],
        list(window_dimensions),
        window_strides=None if window_strides is None else list(window_strides),
        base_dilations=None if base_dilation is None else list(base_dilation),
        window_dilations=None if window_dilation is None else list(window_dilation),
        padding=_padding(padding),
    )
    fill(b, op.body, [*types, *types], combiner)
    return tuple(Operand(raw) for raw in op.results)


def convolution(
    b: ModuleContext, type: ShapeDtype, x: Operand, y: Operand, **parameters: Any
) -> Operand:
    """Emit `convolution` with the full precision of the dtype; parameters as in the op record.

    Narrow floats are summed in float32. GPUs have those of floats only: there complex ones are four
    of their parts.

    Raises
    ------
    LoweringError
        A convolution of integers on a GPU.
    """
    wide = type.with_dtype(wide_dtype(type.dtype))
    x, y = (convert(b, operand.type.with_dtype(wide.dtype), operand) for operand in (x, y))
    if b.platform == "gpu" and wide.dtype.kind in "iu":
        raise LoweringError(
            f"there is no convolution of {type.dtype} on a GPU",
            mend="convert to float64 and back, which is exact up to 2**53, or compile for a CPU",
        )
    if b.platform == "gpu" and wide.dtype.kind == "c":
        return convert(b, type, _by_parts(b, wide, x, y, parameters))
    if b.platform == "cpu" and not _is_of_library(wide.dtype, **parameters):
        x, parameters = _padded(b, x, parameters)
    return convert(b, type, _convolution(b, wide, x, y, **parameters))


def _is_of_library(
    dtype: np.dtype[Any],
    *,
    lhs_axes: Sequence[int],
    rhs_axes: Sequence[int],
    result_axes: Sequence[int],
    batch_group_count: int,
    window_reversal: bool = False,
    **_: Any,
) -> bool:
    """Tell whether XLA:CPU gives a convolution to Eigen, wherever it is.

    So its `PotentiallyImplementedAsEigenConvolution` has it (cpu/ir_emission_utils.cc). In loops
    the layout, features last, has to be there already.
    """
    last = len(lhs_axes) - 1
    is_features_last = tuple(lhs_axes) == tuple(result_axes) == (0, last, *range(1, last))
    is_kernel = tuple(rhs_axes) == (last, last - 1, *range(last - 1))
    is_plain = not window_reversal and batch_group_count == 1 and 2 <= last <= 4
    return dtype == np.float32 and is_features_last and is_kernel and is_plain


def _padded(
    b: ModuleContext, x: Operand, parameters: dict[str, Any]
) -> tuple[Operand, dict[str, Any]]:
    """Write padding out as elements; what is too much for a dilated array is cut off.

    XLA's plain loops read in front of the array and leave out what they read. Where nothing is
    mapped there the process ends: float64, 128 x 128, two elements of padding, jaxlib 0.10.2. The
    zero is hidden, as XLA would make padding of the loops of zeros that it sees.
    """
    rank, left = len(x.type.shape), []
    low, high = [0] * rank, [0] * rank
    for axis, ends, step in zip(
        parameters["lhs_axes"][2:], parameters["padding"], parameters["lhs_dilation"], strict=True
    ):
        elements = [max(0, -(-end // step)) for end in ends]
        low[axis], high[axis] = elements
        left.append(tuple(end - step * count for end, count in zip(ends, elements, strict=True)))
    if not (any(low) or any(high)) or 0 in x.type.shape:
        return x, parameters
    padded = pad(b, x, _hidden_zero(b, x), low, high, [0] * rank)
    return padded, parameters | {"padding": left}


def _hidden_zero(b: ModuleContext, x: Operand) -> Operand:
    """Write a zero that XLA does not know: no number is equal to itself and not."""
    rank, scalar = len(x.type.shape), ShapeDtype((), x.type.dtype)
    first = reshape(b, scalar, slice(b, x, [0] * rank, [1] * rank, [1] * rank))
    number = convert(b, ShapeDtype((), np.dtype(np.float32)), first)
    never = [compare(b, direction, number, number).raw for direction in ("NE", "EQ")]
    return convert(b, scalar, Operand(hlo.and_(*never)))


def _by_parts(
    b: ModuleContext, type: ShapeDtype, x: Operand, y: Operand, parameters: dict[str, Any]
) -> Operand:
    part = type.with_dtype(real_dtype(type.dtype))

    def emit(lhs: Operand, rhs: Operand) -> Operand:
        return _convolution(b, part, lhs, rhs, **parameters)

    x_real, x_imag, y_real, y_imag = (f(z) for z in (x, y) for f in (real_part, imaginary_part))
    return complex_(
        subtract(emit(x_real, y_real), emit(x_imag, y_imag)),
        add(emit(x_real, y_imag), emit(x_imag, y_real)),
    )


def _convolution(
    b: ModuleContext,
    type: ShapeDtype,
    x: Operand,
    y: Operand,
    *,
    lhs_axes: Sequence[int],
    rhs_axes: Sequence[int],
    result_axes: Sequence[int],
    window_strides: Sequence[int],
    padding: Padding,
    lhs_dilation: Sequence[int],
    rhs_dilation: Sequence[int],
    feature_group_count: int,
    batch_group_count: int,
    window_reversal: bool = False,
) -> Operand:
    outputs, inputs, *spatial = rhs_axes
    numbers = hlo.ConvDimensionNumbers.get(
        *(*lhs_axes[:2], list(lhs_axes[2:])),
        *(inputs, outputs, spatial),
        *(*result_axes[:2], list(result_axes[2:])),
    )
    highest = hlo.PrecisionAttr.get("HIGHEST")
    result = hlo.convolution(
        b.tensor_type(type),
        x.raw,
        y.raw,
        numbers,
        feature_group_count,
        batch_group_count,
        window_strides=list(window_strides),
        padding=_padding(padding),
        lhs_dilation=list(lhs_dilation),
        rhs_dilation=list(rhs_dilation),
        window_reversal=[window_reversal] * len(spatial),
        precision_config=ir.ArrayAttr.get([highest, highest]),
    )
    return Operand(result)


def _padding(padding: Padding) -> Any:
    pads = np.asarray(padding, dtype=np.int64).reshape(len(padding), 2)
    signless = ir.IntegerType.get_signless(64)
    return ir.DenseIntElementsAttr.get(pads, type=signless, shape=pads.shape)
