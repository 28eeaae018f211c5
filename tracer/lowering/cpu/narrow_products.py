"""Products of narrow numbers that XLA:CPU's library multiplies as they are, summed in 32 bits.

XLA:CPU gives a product of bfloat16 to YNNPACK if its result is float32 (openxla/xla:
`IsDotSupportedByYnn` in xla/backends/cpu/ynn_support.cc). One with a result of bfloat16 it computes
in float32: it writes both operands as such, and rounds the sums. They are the same sums, as the
product of two bfloat16 is a float32. With AMX's tiles YNNPACK takes a quarter of the time
(docs/memory-model.md, *Narrow products*); the tiles take subnormal numbers as zero.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from tracer.ir import ShapeDtype
from tracer.lowering import shims
from tracer.lowering.settings import is_on
from tracer.target import multiplies_bfloat16
from tracer.target.products import SUMMED_IN

_BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
_SINGLE = np.dtype(np.float32)


def may_be_summed_in(wide: np.dtype[Any], narrow: np.dtype[Any]) -> bool:
    """Tell whether the library multiplies a narrow dtype as it is, and adds up in a wide one."""
    is_there = narrow != _BFLOAT16 or _multiplies_bfloat16()
    return is_there and SUMMED_IN.get(narrow.name) == wide.name


def sum_type(platform: str, operands: np.dtype[Any], result: ShapeDtype) -> ShapeDtype:
    """Return the type that a product's sums are asked for in, before they are rounded."""
    is_narrow = platform == "cpu" and operands == result.dtype == _BFLOAT16
    return ShapeDtype(result.shape, _SINGLE) if is_narrow and _multiplies_bfloat16() else result


def _multiplies_bfloat16() -> bool:
    is_here = shims.PRODUCTS_BY_YNNPACK and multiplies_bfloat16()
    return is_here and is_on("products of bfloat16")


__all__ = ["may_be_summed_in", "sum_type"]
