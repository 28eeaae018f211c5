"""Builder methods of ops that slide a window: convolution and windowed reductions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracer.ir import ShapeDtype
from tracer.lowering.builder_control import ControlBuilder
from tracer.lowering.builder_regions import Combiner, RegionBuilder
from tracer.lowering.shims import hlo, ir
from tracer.lowering.values import Operand, wide_dtype

Padding = Sequence[tuple[int, int]]

_DIRECT_FEATURES = 4
"""Features of a group up to which XLA:CPU's plain loops beat Eigen, which takes group by group."""


class WindowBuilder(RegionBuilder, ControlBuilder):
    """Emits convolutions and windowed reductions."""

    def reduce_window(
        self,
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
            [self.tensor_type(type) for type in types],
            [x.raw for x in operands],
            [x.raw for x in initial_values],
            list(window_dimensions),
            window_strides=None if window_strides is None else list(window_strides),
            base_dilations=None if base_dilation is None else list(base_dilation),
            window_dilations=None if window_dilation is None else list(window_dilation),
            padding=_padding(padding),
        )
        self._fill(op.body, [*types, *types], combiner)
        return tuple(Operand(raw) for raw in op.results)

    def convolution(
        self,
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
    ) -> Operand:
        """Emit `convolution` with the full precision of the dtype; axes as in the op record.

        Narrow floats are summed in float32.
        """
        wide = type.with_dtype(wide_dtype(type.dtype))
        x, y = (self.convert(operand.type.with_dtype(wide.dtype), operand) for operand in (x, y))
        rhs_output, rhs_input, *rhs_spatial = rhs_axes
        is_direct = False
        if self.platform == "cpu" and wide.dtype == np.float32:
            is_direct = feature_group_count > 1 and y.shape[rhs_input] <= _DIRECT_FEATURES
            if is_direct:
                y = self._mirrored(y, rhs_spatial)
            elif max(lhs_dilation, default=1) > 1:
                x = self._spread(x, lhs_axes[2:], lhs_dilation)
                lhs_dilation = [1] * len(lhs_dilation)
        numbers = hlo.ConvDimensionNumbers.get(
            lhs_axes[0],
            lhs_axes[1],
            list(lhs_axes[2:]),
            rhs_input,
            rhs_output,
            rhs_spatial,
            result_axes[0],
            result_axes[1],
            list(result_axes[2:]),
        )
        highest = hlo.PrecisionAttr.get("HIGHEST")
        result = hlo.convolution(
            self.tensor_type(wide),
            x.raw,
            y.raw,
            numbers,
            feature_group_count,
            batch_group_count,
            window_strides=list(window_strides),
            padding=_padding(padding),
            lhs_dilation=list(lhs_dilation),
            rhs_dilation=list(rhs_dilation),
            window_reversal=[is_direct] * len(rhs_spatial),
            precision_config=ir.ArrayAttr.get([highest, highest]),
        )
        return self.convert(type, Operand(result))

    def _mirrored(self, y: Operand, axes: Sequence[int]) -> Operand:
        """Mirror a kernel that the convolution mirrors back: Eigen leaves such to plain loops.

        Without the barrier XLA would take both mirrors away.
        """
        (mirrored,) = self.optimization_barrier((self.reverse(y, sorted(axes)),))
        return mirrored

    def _spread(self, x: Operand, axes: Sequence[int], dilation: Sequence[int]) -> Operand:
        """Write the zeros between the elements out: Eigen would write every window out instead.

        Without the barrier XLA would put the dilation back into the convolution.
        """
        none = [0] * x.type.ndim
        interior = list(none)
        for axis, step in zip(axes, dilation, strict=True):
            interior[axis] = step - 1
        zero = self.splat(0, x.type.with_shape(()))
        (spread,) = self.optimization_barrier((self.pad(x, zero, none, none, interior),))
        return spread


def _padding(padding: Padding) -> Any:
    pads = np.asarray(padding, dtype=np.int64).reshape(len(padding), 2)
    signless = ir.IntegerType.get_signless(64)
    return ir.DenseIntElementsAttr.get(pads, type=signless, shape=pads.shape)
