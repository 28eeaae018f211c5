"""Rules of reductions and of cumulative functions."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from tracer import ops
from tracer.array.array import Array
from tracer.array.convert import broadcast, convert
from tracer.array.dispatch import apply
from tracer.control import associative_scan
from tracer.errors import UnsupportedError
from tracer.ir import Op
from tracer.jax.rules.shapes import numbers
from tracer.jax.table import RULES, Equation, rule
from tracer.numpy.ufunc import full_like
from tracer.stablehlo.halves import of_elements, reduce_by_halves


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
    if any(x.shape[axis] == 0 for axis in axes):
        raise UnsupportedError(f"{op.name} of no integers", mend="reduce one element or more")
    return reduce_by_halves([x], axes, lambda lower, upper: [combine(lower, upper)])[0]


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

    results = reduce_by_halves(arrays, axes, of_elements(combine, arrays[0].ndim))
    joined: Sequence[Array] = of_elements(combine, len(shape))(*initial, *results)
    return joined


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
