"""What the rules share: operands of one type, axes, and gradients of ours."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from tracer.array.array import Array
from tracer.array.convert import broadcast, convert, scalar
from tracer.autodiff.transforms import vjp
from tracer.ir import ShapeDtype
from tracer.torch.table import Node
from tracer.torch.types import dtype_of


def filled(value: Any, type: ShapeDtype) -> Array:
    """Return an array of one number; integers wrap, as torch's do."""
    if type.dtype.kind in "iu" and isinstance(value, int):
        value = int(np.array(value & 0xFFFF_FFFF_FFFF_FFFF, np.uint64).astype(type.dtype))
    elif type.dtype.kind in "iu":
        value = int(value)
    elif type.dtype.kind == "b":
        value = bool(value)
    elif type.dtype.kind == "c":
        value = complex(value)
    else:
        value = float(value)
    return broadcast(scalar(value, type.dtype), type.shape)


def operand(x: Any, type: ShapeDtype) -> Array:
    """Return an array or a number as an array of a type."""
    if isinstance(x, Array):
        return broadcast(convert(x, type.dtype), type.shape)
    return filled(x, type)


def promoted(node: Node) -> np.dtype[Any]:
    """Return the dtype in which torch lets the first two operands meet."""
    x, y = node.values[:2]
    return dtype_of(torch.result_type(x, y))


def axes_of(dim: Any, ndim: int) -> tuple[int, ...]:
    """Return axes as distinct sorted ones; None and none are all. A scalar has none."""
    if ndim == 0:
        return ()
    if dim is None or (not isinstance(dim, int) and not dim):
        return tuple(range(ndim))
    dims = (dim,) if isinstance(dim, int) else dim
    return tuple(sorted({axis_of(d, ndim) for d in dims}))


def axis_of(dim: int, ndim: int) -> int:
    """Return an axis that is not negative."""
    return dim % ndim if ndim else 0


def kept(shape: Sequence[int], axes: Sequence[int]) -> tuple[int, ...]:
    """Return a shape with one element along some axes."""
    return tuple(1 if axis in axes else size for axis, size in enumerate(shape))


def integers(values: Any, count: int) -> tuple[int, ...]:
    """Return sizes; one stands for all, and none are all ones."""
    items = (values,) if isinstance(values, int) else tuple(values)
    return items * count if len(items) == 1 else items or (1,) * count


def cotangent(function: Callable[[Array], Array], x: Array, result: Array) -> Array:
    """Return the cotangent of the operand of a function, given that of its result."""
    _, pull_back = vjp(function, x)
    found: Array
    (found,) = pull_back(result)
    return found
