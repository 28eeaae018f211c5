"""Shape rules, axis rules, costs and checks that many op records share."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracer.errors import DTypeError, ShapeError
from tracer.ir import AxisRule, Chunk, Cost, Label, Node, NotDifferentiable, ShapeDtype
from tracer.ir.op import Types


def require_same_shapes(name: str, types: Sequence[ShapeDtype]) -> None:
    """Raise `ShapeError` unless all shapes are equal."""
    if any(t.shape != types[0].shape for t in types):
        shapes = ", ".join(map(str, types))
        raise ShapeError(
            f"{name} needs operands of one shape, got {shapes}",
            mend="broadcast them to one shape first",
        )


def require_same_dtypes(name: str, types: Sequence[ShapeDtype]) -> None:
    """Raise `DTypeError` unless all dtypes are equal."""
    if any(t.dtype != types[0].dtype for t in types):
        shown = ", ".join(map(str, types))
        raise DTypeError(
            f"{name} needs operands of one dtype, got {shown}", mend="convert with astype first"
        )


def require_kind(name: str, type: ShapeDtype, kinds: str) -> None:
    """Raise `DTypeError` unless the dtype's kind is among `kinds`: b, i, u, f (all floats), c."""
    if dtype_kind(type.dtype) not in kinds:
        words = {"b": "bool", "i": "int", "u": "uint", "f": "float", "c": "complex"}
        wanted = ", ".join(words[k] for k in kinds)
        raise DTypeError(
            f"{name} takes {wanted} arrays, not {type.dtype}", mend="convert with astype first"
        )


def require_operand_count(name: str, types: Sequence[ShapeDtype], count: int) -> None:
    """Raise `ShapeError` unless there are `count` operands."""
    if len(types) != count:
        raise ShapeError(
            f"{name} takes {count} operands, got {len(types)}", mend=f"give {count} operands"
        )


def require_axes(name: str, axes: Sequence[int], ndim: int) -> None:
    """Raise `ShapeError` unless `axes` are distinct and within 0..ndim-1."""
    if len(set(axes)) != len(axes) or any(not 0 <= axis < ndim for axis in axes):
        raise ShapeError(
            f"{name}: axes {tuple(axes)} do not fit an array of {ndim} dimensions",
            mend="give distinct axes within the array's dimensions",
        )


def dtype_kind(dtype: np.dtype[Any]) -> str:
    """Return b, i, u, f or c; the extension floats (bfloat16, float8) count as f."""
    return "f" if dtype.kind == "V" else dtype.kind


def is_float(dtype: np.dtype[Any]) -> bool:
    """Tell whether the dtype is a real floating one."""
    return dtype_kind(dtype) == "f"


def is_inexact(dtype: np.dtype[Any]) -> bool:
    """Tell whether the dtype is floating or complex: the dtypes that carry gradients."""
    return dtype_kind(dtype) in "fc"


def stops_gradients(node: Node) -> bool:
    """Tell whether results do not depend differentiably on operands that carry gradients."""
    op = node.op
    return (
        op is not None
        and op.linearize is None
        and isinstance(op.vjp, NotDifferentiable)
        and op.vjp.zero
        and any(is_inexact(value.dtype) for value in node.operands)
    )


def widened(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the array in float32 when NumPy cannot compute with its own float dtype well."""
    narrow = is_float(array.dtype) and array.dtype.itemsize <= 2
    return array.astype(np.float32) if narrow else array


def real_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype of the real part: float32 for complex64; others are returned as is."""
    return np.empty(0, dtype).real.dtype if dtype.kind == "c" else dtype


def complex_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the complex dtype whose parts have `dtype` (float32 or float64)."""
    if dtype.itemsize not in (4, 8):
        raise DTypeError(
            f"there are no complex numbers with parts of {dtype}",
            mend="convert to float32 or float64",
        )
    return np.dtype(np.complex64 if dtype.itemsize == 4 else np.complex128)


def elementwise_axes(operands: Types, results: Types, **_: Any) -> AxisRule:
    """Every axis is parallel and has the same position everywhere."""
    labels = tuple(range(results[0].ndim))
    return AxisRule((labels,) * len(operands), (labels,) * len(results))


def elementwise_cost(flops: int = 1) -> Callable[..., Cost]:
    """Return a cost rule of `flops` per element of the result."""

    def cost(operands: Types, results: Types, **_: Any) -> Cost:
        return Cost(flops * results[0].size, moved_bytes(operands, results))

    return cost


def moved_bytes(operands: Types, results: Types) -> int:
    """Bytes read plus bytes written."""
    return sum(t.nbytes for t in operands) + sum(t.nbytes for t in results)


def data_movement_cost(operands: Types, results: Types, **_: Any) -> Cost:
    """No arithmetic; every byte is read and written once."""
    return Cost(0, moved_bytes(operands, results))


def as_tuple(results: Any) -> tuple[Any, ...]:
    """Return the results as a tuple: rules get a single one bare, even of ops made for several."""
    return results if isinstance(results, tuple) else (results,)


def own_label(group: int, axis: int) -> str:
    """Return a label that no other operand or result (`group`) has."""
    return f"{group}.{axis}"


def whole_axes(operands: Types, results: Types, **_: Any) -> AxisRule:
    """No axis can be cut."""
    rows = tuple(
        tuple(own_label(group, axis) for axis in range(t.ndim))
        for group, t in enumerate((*operands, *results))
    )
    labels: frozenset[Label] = frozenset(label for row in rows for label in row)
    return AxisRule(rows[: len(operands)], rows[len(operands) :], whole=labels)


def kept_axes_rule(operands: Types, results: Types, kept: Sequence[bool]) -> AxisRule:
    """Axes of the first operand that are kept are parallel, the others whole."""
    inside = tuple(i if keep else own_label(0, i) for i, keep in enumerate(kept))
    outside = tuple(i if keep else own_label(1, i) for i, keep in enumerate(kept))
    whole = frozenset(label for label in (*inside, *outside) if isinstance(label, str))
    scalars: tuple[tuple[int, ...], ...] = ((),) * (len(operands) - 1)
    return AxisRule((inside, *scalars), (outside,), whole=whole)


def own_axis_rule(operands: Types, results: Types, axis: int) -> AxisRule:
    """Every axis is parallel but `axis`, which operands and results need whole."""
    rows = tuple(
        tuple(own_label(group, i) if i == axis else i for i in range(t.ndim))
        for group, t in enumerate((*operands, *results))
    )
    whole: frozenset[Label] = frozenset(row[axis] for row in rows)
    return AxisRule(rows[: len(operands)], rows[len(operands) :], whole=whole)


def merged_axis_rule(name: str, operands: Types, results: Types, axis: int) -> AxisRule:
    """Every axis is parallel but `axis`: slices of the operands along it merge as `name` states."""
    rule = own_axis_rule(operands, results, axis)
    reduced = {row[axis]: name for row in rule.operands}
    return AxisRule(rule.operands, rule.results, reduced, rule.whole - reduced.keys())


def resized_param(key: str) -> Callable[..., Any]:
    """Return a slice rule for ops that state the result's shape in parameter `key`."""

    def slice_rule(operands: tuple[Any, ...], chunk: Chunk, **params: Any) -> Any:
        shape = list(params[key])
        shape[chunk.result_axis] = chunk.result_size
        return chunk.op(*operands, **{**params, key: tuple(shape)})

    return slice_rule


def size_of(type: ShapeDtype, axes: Sequence[int]) -> int:
    """Product of the sizes along `axes`."""
    return math.prod(type.shape[axis] for axis in axes)
