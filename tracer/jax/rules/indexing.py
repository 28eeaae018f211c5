"""Rules of slices at computed places, gather and scatter, with JAX's modes for bad indices."""

from __future__ import annotations

from typing import Any

from jax.extend.core import ClosedJaxpr

from tracer import ops
from tracer.array.array import Array
from tracer.array.convert import reshape, scalar
from tracer.array.dispatch import apply
from tracer.autodiff.transforms import vmap
from tracer.errors import UnsupportedError
from tracer.jax.rules.shapes import numbers
from tracer.jax.table import RULES, Equation, rule
from tracer.lax.gathering import (
    GatherDimensionNumbers,
    ScatterDimensionNumbers,
    applied,
    gathered,
    scattered,
)
from tracer.lax.slicing import alike


@rule("dynamic_slice")
def dynamic_slice(equation: Equation, x: Array, *starts: Array) -> Array:
    """Take a window at a computed place, clamped."""
    starts = starts[: x.ndim]
    return apply(ops.dynamic_slice, x, *alike(starts), sizes=equation.result.shape)


@rule("dynamic_update_slice")
def dynamic_update_slice(equation: Equation, x: Array, update: Array, *starts: Array) -> Array:
    """Replace a window at a computed place, clamped."""
    return apply(ops.dynamic_update_slice, x, update, *alike(starts))


@rule("gather")
def gather(equation: Equation, x: Array, indices: Array) -> Array:
    """Take windows; what is out of bounds is clamped or, by mode, filled."""
    p = equation.params
    return gathered(
        x,
        indices,
        numbering=_plain(GatherDimensionNumbers, equation),
        sizes=numbers(p["slice_sizes"]),
        mode=_mode(equation),
        fill_value=p["fill_value"],
    )


def _plain(kind: Any, equation: Equation) -> Any:
    """Return JAX's numbering of axes as ours, which has the same names."""
    given = equation.params["dimension_numbers"]
    return kind(*(numbers(getattr(given, name)) for name in kind._fields))


def _mode(equation: Equation) -> str:
    mode = equation.params["mode"]
    name = getattr(mode, "name", str(mode))
    if name not in ("FILL_OR_DROP", "CLIP", "PROMISE_IN_BOUNDS"):
        raise UnsupportedError(
            f"JAX's {equation.name} with mode={name}",
            mend='use mode="fill", "clip", "drop" or "promise_in_bounds"',
        )
    return name


def _scatter(combiner: str) -> Any:
    def scatter(equation: Equation, x: Array, indices: Array, updates: Array) -> Array:
        return scattered(
            x,
            indices,
            updates,
            combiner=combiner,
            numbering=_plain(ScatterDimensionNumbers, equation),
            is_unique=bool(equation.params["unique_indices"]),
            mode=_mode(equation),
        )

    return scatter


RULES.update(
    {
        "scatter-add": _scatter("add"),
        "scatter_add": _scatter("add"),
        "scatter-sub": _scatter("subtract"),
        "scatter_sub": _scatter("subtract"),
        "scatter_mul": _scatter("multiply"),
        "scatter-mul": _scatter("multiply"),
        "scatter_max": _scatter("maximum"),
        "scatter-max": _scatter("maximum"),
        "scatter_min": _scatter("minimum"),
        "scatter-min": _scatter("minimum"),
    }
)


@rule("scatter")
def scatter_or_apply(equation: Equation, x: Array, indices: Array, updates: Array) -> Array:
    """Replace elements; `x.at[i].apply(f)` is a scatter with a function of the element."""
    p = equation.params
    if p["update_jaxpr"] is None or not p["update_jaxpr"].eqns:
        return _scatter("replace")(equation, x, indices, updates)  # type: ignore[no-any-return]
    body = ClosedJaxpr(p["update_jaxpr"], p["update_consts"])
    update = scalar(0, x.dtype)  # what the function is given besides, and does not read
    each = vmap(lambda element: equation.run(body, [element, update])[0])
    return applied(
        x,
        indices,
        lambda array: reshape(each(reshape(array, (array.size,))), array.shape),
        update_shape=updates.shape,
        numbering=_plain(ScatterDimensionNumbers, equation),
        is_unique=bool(p["unique_indices"]),
        mode=_mode(equation),
    )
