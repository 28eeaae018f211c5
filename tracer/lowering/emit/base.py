"""The part of the StableHLO builder that every family stands on: constants, shapes, element-wise.

Methods are named after StableHLO's ops; the meaning of each is in the StableHLO specification.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracer.errors import LoweringError
from tracer.ir import ShapeDtype
from tracer.lowering import shims
from tracer.lowering.emit.values import Operand, element_type, tensor_type
from tracer.lowering.shims import chlo, hlo, ir
from tracer.target import lowered_for

_DIRECTIONS = ("EQ", "NE", "LT", "LE", "GT", "GE")


class BaseBuilder:
    """Emits StableHLO ops at MLIR's current insertion point.

    Parameters
    ----------
    platform : str
        The platform that the module is meant for: some ops call its libraries.
    """

    def __init__(self, platform: str) -> None:
        self.platform = platform
        self.target = lowered_for(platform)
        self._tensor_types: dict[ShapeDtype, Any] = {}

    def tensor_type(self, type: ShapeDtype) -> Any:
        """Return MLIR's tensor type, remembered."""
        found = self._tensor_types.get(type)
        if found is None:
            found = self._tensor_types[type] = tensor_type(type)
        return found

    def __getattr__(self, name: str) -> Callable[..., Operand]:
        """Return the emitter of the StableHLO or CHLO op `name`, whose result type is inferred."""
        if name.startswith("__"):
            raise AttributeError(name)
        emit = getattr(hlo, name, None) or getattr(chlo, name, None)
        if emit is None:
            near = difflib.get_close_matches(name, [*dir(hlo), *dir(chlo)])
            raise LoweringError(
                f"StableHLO and CHLO have no op {name!r}",
                mend=f"use one of their names{', such as ' + ', '.join(near) if near else ''}",
            )

        def emit_operands(*operands: Operand) -> Operand:
            return Operand(emit(*[operand.raw for operand in operands]))

        # Found on the instance next time, without coming here.
        self.__dict__[name] = emit_operands
        return emit_operands

    def compare(
        self, direction: str, x: Operand, y: Operand, *, total_order: bool = False
    ) -> Operand:
        """Emit `compare`; `total_order` orders floats -NaN < -inf < -0 < +0 < inf < NaN."""
        # XLA ends the process on an unknown direction.
        if direction not in _DIRECTIONS:
            raise LoweringError(
                f"{direction!r} is no direction of compare",
                mend=f"use one of {', '.join(_DIRECTIONS)}",
            )
        kind = {"b": "UNSIGNED", "u": "UNSIGNED", "i": "SIGNED"}.get(x.dtype.kind, "FLOAT")
        if total_order and kind == "FLOAT":
            kind = "TOTALORDER"
        return Operand(
            hlo.compare(
                x.raw,
                y.raw,
                hlo.ComparisonDirectionAttr.get(direction),
                compare_type=hlo.ComparisonTypeAttr.get(kind),
            )
        )

    def convert(self, type: ShapeDtype, x: Operand) -> Operand:
        """Emit `convert`; to bool it is `x != 0`."""
        source = x.type
        if source is type:
            return x
        if type.dtype.kind == "b":
            return self.compare("NE", x, self.splat(0, source))
        if source.dtype.kind == "c" and type.dtype.kind != "c":
            return self.convert(type, self.real(x))
        return Operand(hlo.convert(self.tensor_type(type), x.raw))

    def bitcast_convert(self, type: ShapeDtype, x: Operand) -> Operand:
        """Emit `bitcast_convert`."""
        return Operand(hlo.bitcast_convert(self.tensor_type(type), x.raw))

    def constant(self, value: np.ndarray[Any, Any]) -> Operand:
        """Emit a constant; one whose elements all have the same bits is stored as one element."""
        value = np.ascontiguousarray(value).reshape(np.shape(value))
        type = ShapeDtype(value.shape, value.dtype)
        if value.size > 1 and _is_uniform(value):
            return self._splat(value.reshape(-1)[0], type)
        if value.dtype.kind == "b":
            return Operand(hlo.constant(shims.bool_constant(value, self.tensor_type(type))))
        return Operand(
            hlo.constant(
                ir.DenseElementsAttr.get(value, type=element_type(value.dtype), shape=value.shape)
            )
        )

    def splat(self, value: complex, type: ShapeDtype) -> Operand:
        """Emit a constant of `type` with every element equal to `value`."""
        return self._splat(np.full((), value, type.dtype)[()], type)

    def _splat(self, value: Any, type: ShapeDtype) -> Operand:
        if type.dtype.kind == "b":
            attribute = ir.DenseElementsAttr.get_splat(
                self.tensor_type(type), ir.BoolAttr.get(bool(value))
            )
        else:
            attribute = ir.DenseElementsAttr.get(
                np.full((), value, type.dtype), type=element_type(type.dtype), shape=type.shape
            )
        return Operand(hlo.constant(attribute))

    def iota(self, type: ShapeDtype, dimension: int) -> Operand:
        """Emit `iota`."""
        return Operand(hlo.iota(self.tensor_type(type), dimension))

    def broadcast_in_dim(self, type: ShapeDtype, x: Operand, dimensions: Sequence[int]) -> Operand:
        """Emit `broadcast_in_dim`."""
        return Operand(hlo.broadcast_in_dim(self.tensor_type(type), x.raw, list(dimensions)))

    def reshape(self, type: ShapeDtype, x: Operand) -> Operand:
        """Emit `reshape`."""
        return Operand(hlo.reshape(self.tensor_type(type), x.raw))

    def transpose(self, x: Operand, permutation: Sequence[int]) -> Operand:
        """Emit `transpose`."""
        return Operand(hlo.transpose(x.raw, list(permutation)))

    def concatenate(self, operands: Sequence[Operand], dimension: int) -> Operand:
        """Emit `concatenate`."""
        return Operand(hlo.concatenate([x.raw for x in operands], dimension))

    def pad(
        self,
        x: Operand,
        value: Operand,
        low: Sequence[int],
        high: Sequence[int],
        interior: Sequence[int],
    ) -> Operand:
        """Emit `pad`."""
        return Operand(hlo.pad(x.raw, value.raw, list(low), list(high), list(interior)))

    def slice(
        self, x: Operand, start: Sequence[int], limit: Sequence[int], strides: Sequence[int]
    ) -> Operand:
        """Emit `slice`."""
        return Operand(hlo.slice(x.raw, list(start), list(limit), list(strides)))

    def reverse(self, x: Operand, dimensions: Sequence[int]) -> Operand:
        """Emit `reverse`."""
        return Operand(hlo.reverse(x.raw, list(dimensions)))

    def dynamic_slice(self, x: Operand, starts: Sequence[Operand], sizes: Sequence[int]) -> Operand:
        """Emit `dynamic_slice`."""
        return Operand(hlo.dynamic_slice(x.raw, [start.raw for start in starts], list(sizes)))

    def dynamic_update_slice(
        self, x: Operand, update: Operand, starts: Sequence[Operand]
    ) -> Operand:
        """Emit `dynamic_update_slice`."""
        return Operand(hlo.dynamic_update_slice(x.raw, update.raw, [start.raw for start in starts]))

    def dot_general(
        self,
        type: ShapeDtype,
        x: Operand,
        y: Operand,
        lhs_batch: Sequence[int],
        rhs_batch: Sequence[int],
        lhs_contracting: Sequence[int],
        rhs_contracting: Sequence[int],
    ) -> Operand:
        """Emit `dot_general` with the full precision of the dtype on every device."""
        numbers = hlo.DotDimensionNumbers.get(
            list(lhs_batch), list(rhs_batch), list(lhs_contracting), list(rhs_contracting)
        )
        highest = hlo.PrecisionAttr.get("HIGHEST")
        return Operand(
            hlo.dot_general(
                self.tensor_type(type),
                x.raw,
                y.raw,
                numbers,
                precision_config=ir.ArrayAttr.get([highest, highest]),
            )
        )


def _is_uniform(value: np.ndarray[Any, Any]) -> bool:
    """Tell whether all elements have the same bits, so that NaN and -0.0 are told apart."""
    rows = value.reshape(-1).view(np.uint8).reshape(value.size, value.itemsize)
    return bool((rows[0] == rows[-1]).all()) and bool((rows == rows[0]).all())
