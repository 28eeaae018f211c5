"""Rules of reductions over sliding windows, and of what gradients make of them."""

from __future__ import annotations

from functools import partial
from typing import Any

from tracer import ops
from tracer.array.array import Array
from tracer.array.dispatch import apply
from tracer.autodiff.transforms import jvp, vjp
from tracer.ir import Op
from tracer.jax.rules.lowered import lowered
from tracer.jax.rules.shapes import numbers
from tracer.jax.table import RULES, Equation, rule


def _windows(equation: Equation) -> dict[str, Any]:
    p = equation.params
    ndim = len(p["window_dimensions"])
    ones = (1,) * ndim
    return {
        "window_dimensions": numbers(p["window_dimensions"]),
        "window_strides": numbers(p["window_strides"]),
        "base_dilation": numbers(p.get("base_dilation") or ones),
        "window_dilation": numbers(p.get("window_dilation") or ones),
        "padding": tuple(numbers(pair) for pair in p["padding"]),
    }


def _reduction(op: Op) -> Any:
    def reduce_windows(equation: Equation, x: Array) -> Array:
        return apply(op, x, **_windows(equation))

    return reduce_windows


RULES.update(
    {
        "reduce_window_sum": _reduction(ops.reduce_window_add),
        "reduce_window_max": _reduction(ops.reduce_window_maximum),
        "reduce_window_min": _reduction(ops.reduce_window_minimum),
    }
)
_BODIES = {
    "add": ops.reduce_window_add,
    "mul": ops.reduce_window_multiply,
    "max": ops.reduce_window_maximum,
    "min": ops.reduce_window_minimum,
}
_IDENTITIES = {"add": 0, "mul": 1}


@rule("reduce_window")
def reduce_window(equation: Equation, x: Array, start: Array, *more: Array) -> Any:
    """Reduce with one op, where padding is its identity; else by what JAX lowers it to."""
    body = equation.params["jaxpr"]
    eqns = getattr(body, "jaxpr", body).eqns
    name = eqns[0].primitive.name if len(eqns) == 1 else ""
    if more or name not in _BODIES:
        return lowered(equation, x, start, *more)
    windowed = apply(_BODIES[name], x, **_windows(equation))
    ends = apply(ops.broadcast_in_dim, start, shape=windowed.shape, dimensions=())
    known = getattr(equation.original.invars[1], "val", None)
    if known is not None and name in _IDENTITIES and known == _IDENTITIES[name]:
        return windowed
    if name in _IDENTITIES and not _is_unpadded(equation):
        return lowered(equation, x, start)
    combiner = {"add": ops.add, "mul": ops.multiply, "max": ops.maximum, "min": ops.minimum}
    return apply(combiner[name], ends, windowed)


def _is_unpadded(equation: Equation) -> bool:
    windows = _windows(equation)
    return not any(any(pair) for pair in windows["padding"]) and set(windows["base_dilation"]) <= {
        1
    }


_SELECTED = {"ge": ops.reduce_window_maximum, "le": ops.reduce_window_minimum}


@rule("select_and_scatter_add")
def select_and_scatter_add(equation: Equation, source: Array, x: Array) -> Array:
    """Give each window's cotangent to the element that it selects: a gradient of ours."""
    select = _SELECTED[equation.params["select_prim"].name]
    _, pull_back = vjp(partial(apply, select, **_windows(equation)), x)
    (result,) = pull_back(source)
    return result  # type: ignore[no-any-return]


@rule("select_and_gather_add")
def select_and_gather_add(equation: Equation, tangent: Array, x: Array) -> Array:
    """Take the tangent of the element that each window selects."""
    select = _SELECTED[equation.params["select_prim"].name]
    return _tangent(partial(apply, select, **_windows(equation)), x, tangent)


def _tangent(function: Any, x: Array, tangent: Array) -> Array:
    _, result = jvp(function, (x,), (tangent,))
    return result  # type: ignore[no-any-return]
