"""Types: what shape and dtype a tensor has among the arrays of tracer."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from tracer.errors import Source, UnsupportedError
from tracer.ir import SUPPORTED_DTYPES, ShapeDtype, as_dtype

_NAMES = set(SUPPORTED_DTYPES.values())


def dtype_of(dtype: torch.dtype, source: Source | None = None) -> np.dtype[Any]:
    """Return a dtype of torch as NumPy's.

    Raises
    ------
    UnsupportedError
        tracer has no such dtype.
    """
    name = str(dtype).removeprefix("torch.")
    if name not in _NAMES:
        raise UnsupportedError(
            f"a tensor of dtype {dtype}",
            mend="convert it: tracer has " + ", ".join(sorted(_NAMES)),
            where=source,
        )
    return as_dtype(name)


def type_of(tensor: Any, source: Source | None = None) -> ShapeDtype:
    """Return the type of the array that stands for a tensor.

    Raises
    ------
    UnsupportedError
        It is sparse or quantised, its sizes are not known, or tracer has no such dtype.
    """
    if tensor.layout is not torch.strided or tensor.is_quantized:
        raise UnsupportedError(
            f"a tensor of layout {tensor.layout}",
            mend="convert it with to_dense() or dequantize() first",
            where=source,
        )
    if not all(isinstance(size, int) for size in tensor.shape):
        raise UnsupportedError(
            f"a tensor of the shape {tuple(tensor.shape)}, whose sizes are not known",
            mend="use shapes with fixed sizes (torch.compile(..., dynamic=False))",
            where=source,
        )
    return ShapeDtype(tuple(tensor.shape), dtype_of(tensor.dtype, source))
