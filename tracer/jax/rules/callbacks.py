"""Rules of what calls Python while the program runs.

The functions are given NumPy arrays, where JAX gives them arrays of its own: what calls them may be
a program that JAX itself has called, in which JAX must not be used.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from tracer import control
from tracer.array.array import Array
from tracer.control.callbacks import debug_callback as call
from tracer.errors import UnsupportedError
from tracer.jax.table import Equation, rule

_METHODS = {
    "sequential": "sequential",
    "sequential_unrolled": "sequential",
    "expand_dims": "expand_dims",
    "broadcast_all": "broadcast_all",
}


@rule("debug_callback")
def debug_callback(equation: Equation, *operands: Array) -> Sequence[Array]:
    """Call a function for what it does."""
    _require_unordered(equation, type(equation.params["effect"]).__name__.startswith("Ordered"))
    call(_named(equation.params["callback"], "of jax.debug.callback"), *operands)
    return []


@rule("debug_print")
def debug_print(equation: Equation, *operands: Array) -> Sequence[Array]:
    """Print values."""
    params = equation.params
    _require_unordered(equation, params["ordered"] or params["logging_record"] is not None)
    static = dict(params["static_args"])

    def print_values(*arrays: Any) -> None:
        given = iter(arrays)
        count = len(static) + len(arrays)
        leaves = [static[i] if i in static else next(given) for i in range(count)]
        args, kwargs = jax.tree.unflatten(params["in_tree"], leaves)
        with np.printoptions(**dict(params["np_printoptions"])):
            _write(params["fmt"], params["has_placeholders"], args, kwargs)

    call(print_values, *operands)
    return []


def _write(fmt: str, has_placeholders: bool, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    text = fmt.format(*args, **kwargs) if has_placeholders else " ".join((fmt, *map(str, args)))
    sys.stdout.write(f"{text}\n")


@rule("pure_callback")
def pure_callback(equation: Equation, *operands: Array) -> Any:
    """Compute with a function of arrays."""
    return control.pure_callback(
        _named(equation.params["callback"], "of jax.pure_callback"),
        list(equation.results),
        *operands,
        vmap_method=_METHODS.get(equation.params["vmap_method"]),
    )


def _require_unordered(equation: Equation, is_ordered: bool) -> None:
    if is_ordered:
        raise UnsupportedError(
            f"JAX's {equation.name} in order, or into a log",
            mend="leave ordered=True out: calls come in the order in which they are written as "
            "long as no pass moves what they read; print instead of jax.debug.log",
            where=equation.source,
        )


def _named(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    def called(*arrays: Any) -> Any:
        return function(*arrays)

    called.__name__ = name
    return called
