"""Rules of reductions and of cumulative functions."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from tracer import ops
from tracer.array.array import Array
from tracer.array.convert import broadcast, convert, reshape
from tracer.array.dispatch import apply
from tracer.autodiff.transforms import vmap
from tracer.control import associative_scan
from tracer.errors import UnsupportedError
from tracer.ir import Op
from tracer.jax.rules.shapes import numbers
from tracer.jax.table import RULES, Equation, rule
from tracer.numpy.ufunc import full_like


def _reduction(op: Op) -> Any:
    def reduce_axes(equation: Equation, x: Array) -> Array:
        axes = numbers(equation.params["axes"])
        return apply(op, x, axes=axes) if axes else x

    return reduce_axes


RULES.update(
    {
        "reduce_sum": _reduction(ops.reduce_add),
        "reduce_max": _reduction(ops.reduce_maximum),
        "reduce_min": _reduction(ops.reduce_minimum),
        "reduce_prod": _reduction(ops.reduce_multiply),
    }
)


def _logical(op: Op, combiner: Op) -> Any:
    def reduce_axes(equation: Equation, x: Array) -> Array:
        axes = numbers(equation.params["axes"])
        if x.dtype.kind == "b":
            return apply(op, x, axes=axes) if axes else x
        return _halved(x, axes, functools.partial(apply, combiner), op)

    return reduce_axes


def _halved(x: Array, axes: Sequence[int], combine: Any, op: Op) -> Array:
    """Combine the halves of each axis until one element is left."""
    for axis in axes:
        if x.shape[axis] == 0:
            raise UnsupportedError(f"{op.name} of no integers", mend="reduce one element or more")
        while (size := x.shape[axis]) > 1:
            half = size // 2
            combined = combine(_cut(x, axis, 0, half), _cut(x, axis, half, 2 * half))
            rest = [_cut(x, axis, 2 * half, size)] if size % 2 else []
            x = apply(ops.concatenate, combined, *rest, dimension=axis) if rest else combined
    return reshape(x, tuple(n for axis, n in enumerate(x.shape) if axis not in axes))


def _cut(x: Array, axis: int, first: int, end: int) -> Array:
    start, limit = [0] * x.ndim, list(x.shape)
    start[axis], limit[axis] = first, end
    return apply(ops.slice, x, start=tuple(start), limit=tuple(limit), strides=(1,) * x.ndim)


RULES["reduce_and"] = _logical(ops.reduce_and, ops.and_)
RULES["reduce_or"] = _logical(ops.reduce_or, ops.or_)


@rule("reduce_xor")
def reduce_xor(equation: Equation, x: Array) -> Array:
    """Count the true ones, or combine the halves of each axis."""
    axes = numbers(equation.params["axes"])
    if not axes:
        return x
    if x.dtype.kind != "b":
        return _halved(x, axes, functools.partial(apply, ops.xor), ops.xor)
    count = apply(ops.reduce_add, convert(x, np.dtype("uint32")), axes=axes)
    return convert(apply(ops.and_, count, full_like(count, 1)), np.dtype(bool))


@rule("reduce")
def reduce_with_function(equation: Equation, *operands: Array) -> Sequence[Array]:
    """Reduce with a function of two elements, half by half: JAX asks that it be associative."""
    count = len(operands) // 2
    arrays, starts = operands[:count], operands[count:]
    axes = numbers(equation.params["dimensions"])
    shape = equation.result.shape
    initial = [broadcast(start, shape) for start in starts]
    if 0 in arrays[0].shape:
        return initial

    def combine(*pairs: Array) -> tuple[Array, ...]:
        return tuple(equation.run(equation.params["jaxpr"], pairs))

    reduced = list(arrays)
    for axis in axes:
        reduced = _reduced_axis(reduced, axis, _of_elements(combine, arrays[0].ndim))
    results = [reshape(x, shape) for x in reduced]
    joined: Sequence[Array] = _of_elements(combine, len(shape))(*initial, *results)
    return joined


def _of_elements(combine: Any, ndim: int) -> Any:
    """Map a function of scalars over all axes."""
    for _ in range(ndim):
        combine = vmap(combine)
    return combine


def _reduced_axis(arrays: list[Array], axis: int, combine: Any) -> list[Array]:
    while (size := arrays[0].shape[axis]) > 1:
        half = size // 2
        lower = [_cut(x, axis, 0, half) for x in arrays]
        upper = [_cut(x, axis, half, 2 * half) for x in arrays]
        combined = combine(*lower, *upper)
        if size % 2:
            arrays = [
                apply(ops.concatenate, part, _cut(x, axis, 2 * half, size), dimension=axis)
                for part, x in zip(combined, arrays, strict=True)
            ]
        else:
            arrays = list(combined)
    return arrays


def _extreme(op: Op) -> Any:
    def find(equation: Equation, x: Array) -> Array:
        (axis,) = numbers(equation.params["axes"])
        dtype = np.dtype(equation.params["index_dtype"])
        return apply(op, x, axis=axis, index_dtype=dtype)

    return find


RULES["argmax"] = _extreme(ops.argmax)
RULES["argmin"] = _extreme(ops.argmin)


def _cumulative(op: Op) -> Any:
    def accumulate(equation: Equation, x: Array) -> Array:
        axis, reverse = int(equation.params["axis"]), bool(equation.params["reverse"])
        return apply(op, x, axis=axis, reverse=reverse)

    return accumulate


RULES.update(
    {
        "cumsum": _cumulative(ops.cumulative_add),
        "cumprod": _cumulative(ops.cumulative_multiply),
        "cummax": _cumulative(ops.cumulative_maximum),
        "cummin": _cumulative(ops.cumulative_minimum),
    }
)


@rule("cumlogsumexp")
def cumulative_log_sum_exp(equation: Equation, x: Array) -> Any:
    """Scan with log(exp(x) + exp(y))."""
    return associative_scan(
        functools.partial(apply, ops.log_add_exp),
        x,
        axis=int(equation.params["axis"]),
        reverse=bool(equation.params["reverse"]),
    )
