"""Rules of slices at computed places, gather and scatter, with JAX's modes for bad indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tracer import ops
from tracer.array.array import Array
from tracer.array.dispatch import apply, from_host
from tracer.errors import UnsupportedError
from tracer.jax.rules.shapes import numbers
from tracer.jax.table import RULES, Equation, rule
from tracer.numpy.ufunc import compare, full_like
from tracer.stablehlo.indices import alike, wide

_INT64 = np.dtype("int64")


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
    p, numbering = equation.params, equation.params["dimension_numbers"]
    indices = wide(indices)
    sizes = numbers(p["slice_sizes"])
    taken = apply(
        ops.gather,
        x,
        indices,
        offset_dims=numbers(numbering.offset_dims),
        collapsed_slice_dims=numbers(numbering.collapsed_slice_dims),
        start_index_map=numbers(numbering.start_index_map),
        index_vector_dim=indices.ndim - 1,
        slice_sizes=sizes,
        operand_batching_dims=numbers(numbering.operand_batching_dims),
        start_indices_batching_dims=numbers(numbering.start_indices_batching_dims),
    )
    if _mode(equation) != "FILL_OR_DROP" or not indices.shape[-1]:
        return taken
    inside = _is_inside(indices, [x.shape[d] - sizes[d] for d in numbering.start_index_map])
    kept = [d for d in range(taken.ndim) if d not in numbering.offset_dims]
    mask = apply(ops.broadcast_in_dim, inside, shape=taken.shape, dimensions=tuple(kept))
    return apply(ops.select, mask, taken, full_like(taken, _fill_value(p["fill_value"], x.dtype)))


def _mode(equation: Equation) -> str:
    mode = equation.params["mode"]
    name = getattr(mode, "name", str(mode))
    if name not in ("FILL_OR_DROP", "CLIP", "PROMISE_IN_BOUNDS"):
        raise UnsupportedError(
            f"JAX's {equation.name} with mode={name}",
            mend='use mode="fill", "clip", "drop" or "promise_in_bounds"',
        )
    return name


def _is_inside(indices: Array, last_starts: Sequence[int]) -> Array:
    """Tell which rows of indices are places of a whole window."""
    last = from_host(np.array(last_starts, indices.dtype))
    last = apply(ops.broadcast_in_dim, last, shape=indices.shape, dimensions=(indices.ndim - 1,))
    above = compare(indices, full_like(indices, 0), "GE")
    both = apply(ops.and_, above, compare(indices, last, "LE"))
    return apply(ops.reduce_and, both, axes=(indices.ndim - 1,))


def _fill_value(given: Any, dtype: np.dtype[Any]) -> Any:
    """Return JAX's value for what is out of bounds."""
    if given is not None:
        return given
    if dtype.kind == "b":
        return True
    if dtype.kind == "i":
        return int(np.iinfo(dtype).min)
    return int(np.iinfo(dtype).max) if dtype.kind == "u" else np.nan


def _scatter(combiner: str) -> Any:
    def scatter(equation: Equation, x: Array, indices: Array, updates: Array) -> Array:
        numbering = equation.params["dimension_numbers"]
        indices = wide(indices)
        if _mode(equation) == "CLIP":
            indices = _clamped(x, indices, updates, numbering)
        return apply(
            ops.scatter,
            x,
            indices,
            updates,
            combiner=combiner,
            update_window_dims=numbers(numbering.update_window_dims),
            inserted_window_dims=numbers(numbering.inserted_window_dims),
            scatter_dims_to_operand_dims=numbers(numbering.scatter_dims_to_operand_dims),
            index_vector_dim=indices.ndim - 1,
            unique_indices=bool(equation.params["unique_indices"]),
            input_batching_dims=numbers(numbering.operand_batching_dims),
            scatter_indices_batching_dims=numbers(numbering.scatter_indices_batching_dims),
        )

    return scatter


def _clamped(x: Array, indices: Array, updates: Array, numbering: Any) -> Array:
    """Move windows inside that are not."""
    without = {*numbering.inserted_window_dims, *numbering.operand_batching_dims}
    window = iter(updates.shape[d] for d in numbering.update_window_dims)
    sizes = [1 if d in without else next(window) for d in range(x.ndim)]
    last = [x.shape[d] - sizes[d] for d in numbering.scatter_dims_to_operand_dims]
    if not last:
        return indices
    high = apply(
        ops.broadcast_in_dim,
        from_host(np.array(last, indices.dtype)),
        shape=indices.shape,
        dimensions=(indices.ndim - 1,),
    )
    return apply(ops.clamp, full_like(indices, 0), indices, high)


RULES.update(
    {
        "scatter-add": _scatter("add"),
        "scatter_add": _scatter("add"),
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
    """Replace elements; `x.at[i].apply(f)` is a scatter with a function, which is not known."""
    body = equation.params["update_jaxpr"]
    if body is not None and body.eqns:
        raise UnsupportedError(
            "JAX's scatter with a function (x.at[index].apply(f))",
            mend="write x.at[index].set(f(x[index]))",
        )
    return _scatter("replace")(equation, x, indices, updates)  # type: ignore[no-any-return]


@rule("scatter_sub", "scatter-sub")
def scatter_subtract(equation: Equation, x: Array, indices: Array, updates: Array) -> Array:
    """Add what is negative."""
    negative = apply(ops.negate, updates)
    return _scatter("add")(equation, x, indices, negative)  # type: ignore[no-any-return]
