"""Rules of sorting."""

from __future__ import annotations

from collections.abc import Sequence

from tracer import ops
from tracer.array.array import Array
from tracer.array.convert import convert, transpose
from tracer.array.dispatch import apply, apply_many
from tracer.errors import UnsupportedError
from tracer.jax.table import Equation, rule
from tracer.lax.sorting import sorted_together


@rule("sort")
def sort(equation: Equation, *arrays: Array) -> Sequence[Array]:
    """Sort arrays together by the first of them: NaN last, -0 like +0, as JAX does."""
    p = equation.params
    count, dimension, is_stable = int(p["num_keys"]), int(p["dimension"]), bool(p["is_stable"])
    return sorted_together(arrays, dimension, count, is_stable)


@rule("top_k", "approx_top_k")
def top_k(equation: Equation, x: Array) -> Sequence[Array]:
    """Find the largest elements along an axis; what JAX may approximate is exact here."""
    p = equation.params
    if equation.name == "approx_top_k":
        axis, k = int(p["reduction_dimension"]), int(p["k"])
    else:
        axis, k = int(p.get("axis", x.ndim - 1)), int(p["k"])
    axis %= x.ndim
    is_max = bool(p.get("is_max_k", True))
    if not is_max and x.dtype.kind not in "f":
        raise UnsupportedError(
            f"JAX's {equation.name} of the smallest {x.dtype}", mend="use jax.lax.top_k of -x"
        )
    order = (*(i for i in range(x.ndim) if i != axis), axis)
    back = tuple(order.index(i) for i in range(x.ndim))
    moved = transpose(x, order)
    values, indices = apply_many(ops.top_k, moved if is_max else apply(ops.negate, moved), k=k)
    values = values if is_max else apply(ops.negate, values)
    indices = convert(indices, equation.results[1].dtype)
    return [transpose(values, back), transpose(indices, back)]
