"""Operands of the StableHLO builder, and types between our IR and MLIR."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from tracer.ir import ShapeDtype
from tracer.lowering.shims import ir


class Operand:
    """A value of the StableHLO module under construction.

    Attributes
    ----------
    raw : jaxlib.mlir.ir.Value
        MLIR's own value.
    """

    __slots__ = ("raw",)

    def __init__(self, raw: Any) -> None:
        self.raw = raw

    @property
    def type(self) -> ShapeDtype:
        """Shape and dtype."""
        tensor = ir.RankedTensorType(self.raw.type)
        return ShapeDtype(tuple(tensor.shape), _DTYPES[str(tensor.element_type)])

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes."""
        return tuple(ir.RankedTensorType(self.raw.type).shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type."""
        return _DTYPES[str(ir.RankedTensorType(self.raw.type).element_type)]

    def __repr__(self) -> str:
        return f"<operand {self.type}>"


_FLOATS: dict[np.dtype[Any], Any] = {
    np.dtype(np.float16): ir.F16Type,
    np.dtype(np.float32): ir.F32Type,
    np.dtype(np.float64): ir.F64Type,
    np.dtype(ml_dtypes.bfloat16): ir.BF16Type,
    np.dtype(ml_dtypes.float8_e4m3fn): ir.Float8E4M3FNType,
    np.dtype(ml_dtypes.float8_e5m2): ir.Float8E5M2Type,
}
_DTYPES: dict[str, np.dtype[Any]] = {
    "i1": np.dtype(np.bool_),
    "f16": np.dtype(np.float16),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f8E4M3FN": np.dtype(ml_dtypes.float8_e4m3fn),
    "f8E5M2": np.dtype(ml_dtypes.float8_e5m2),
    "complex<f32>": np.dtype(np.complex64),
    "complex<f64>": np.dtype(np.complex128),
    **{f"i{bits}": np.dtype(f"int{bits}") for bits in (8, 16, 32, 64)},
    **{f"ui{bits}": np.dtype(f"uint{bits}") for bits in (8, 16, 32, 64)},
}


def dtype_of(element: Any) -> np.dtype[Any] | None:
    """Return the dtype of MLIR's element type, or None where we have none."""
    return _DTYPES.get(str(element))


def element_type(dtype: np.dtype[Any]) -> Any:
    """Return MLIR's element type; signed integers are signless there, unsigned ones are not."""
    match dtype.kind:
        case "b":
            return ir.IntegerType.get_signless(1)
        case "i":
            return ir.IntegerType.get_signless(8 * dtype.itemsize)
        case "u":
            return ir.IntegerType.get_unsigned(8 * dtype.itemsize)
        case "c":
            part = ir.F32Type if dtype.itemsize == 8 else ir.F64Type
            return ir.ComplexType.get(part.get())
        case _:
            return _FLOATS[dtype].get()


def tensor_type(type: ShapeDtype) -> Any:
    """Return MLIR's tensor type."""
    return ir.RankedTensorType.get(type.shape, element_type(type.dtype))


def real_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of the real parts."""
    return np.empty(0, dtype).real.dtype


def wide_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype to sum in: float32 for narrower floats."""
    is_narrow_float = dtype.kind in "fV" and dtype.itemsize < 4
    return np.dtype(np.float32) if is_narrow_float else dtype
