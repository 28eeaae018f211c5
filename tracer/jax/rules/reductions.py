"""Rules of reductions and of cumulative functions."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from tracer import ops
from tracer.array.array import Array
from tracer.array.dispatch import apply
from tracer.control import associative_scan
from tracer.ir import Op
from tracer.jax.evaluate import refusal
from tracer.jax.rules.shapes import numbers
from tracer.jax.table import RULES, Equation, rule
from tracer.lax.reductions import combined_bits, reduced


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


def _collective(op: Op) -> Any:
    def reduce_axes(equation: Equation, *operands: Array) -> Sequence[Array]:
        """Reduce over the axes of batches, which have numbers: `vmap` has made them of names."""
        axes = equation.params["axes"]
        if any(isinstance(axis, str) for axis in axes):
            raise refusal(equation.original)
        return [apply(op, x, axes=numbers(axes)) if axes else x for x in operands]

    return reduce_axes


RULES.update(
    {
        "psum": _collective(ops.reduce_add),
        "pmax": _collective(ops.reduce_maximum),
        "pmin": _collective(ops.reduce_minimum),
    }
)


def _bits(op: Op | None, combiner: Op, identity: int) -> Any:
    def reduce_axes(equation: Equation, x: Array) -> Array:
        return combined_bits(x, numbers(equation.params["axes"]), op, combiner, identity)

    return reduce_axes


RULES.update(
    {
        "reduce_and": _bits(ops.reduce_and, ops.and_, -1),
        "reduce_or": _bits(ops.reduce_or, ops.or_, 0),
        "reduce_xor": _bits(None, ops.xor, 0),
    }
)


@rule("reduce")
def reduce_with_function(equation: Equation, *operands: Array) -> Sequence[Array]:
    """Reduce with a function of two elements, half by half: JAX asks that it be associative."""
    count = len(operands) // 2
    arrays, starts = operands[:count], operands[count:]
    axes = numbers(equation.params["dimensions"])

    def combine(*pairs: Array) -> tuple[Array, ...]:
        return tuple(equation.run(equation.params["jaxpr"], pairs))

    return reduced(arrays, starts, axes, combine)


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
