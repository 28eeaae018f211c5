"""Primitives of other packages (equinox, for one), which define them by functions of JAX."""

from __future__ import annotations

import functools
from typing import Any

import jax

from tracer.errors import UnsupportedError
from tracer.jax.sources import source_of

FOREIGN = "a primitive of another package"
"""The name of the rule for all of them: they may have the names of JAX's own."""


def is_foreign(primitive: Any) -> bool:
    """Tell whether a primitive is not JAX's own, and says how it is computed."""
    implementation = primitive.impl
    while isinstance(implementation, functools.partial):
        implementation = implementation.func
    module = getattr(implementation, "__module__", None) or "jax"
    return module.split(".")[0] not in ("jax", "jaxlib")


def traced_implementation(equation: Any) -> Any:
    """Return the jaxpr of what a primitive of another package computes.

    Raises
    ------
    UnsupportedError
        It cannot be traced.
    """
    structs = [jax.ShapeDtypeStruct(atom.aval.shape, atom.aval.dtype) for atom in equation.invars]
    implementation = functools.partial(equation.primitive.impl, **equation.params)
    try:
        wanted = [atom.aval.dtype for atom in equation.outvars]
        traced = jax.make_jaxpr(implementation)(*structs)
        if [aval.dtype for aval in traced.out_avals] == wanted:
            return traced
        with jax.enable_x64(True):  # The equation may have been traced so.
            return jax.make_jaxpr(implementation)(*structs)
    except (TypeError, ValueError, RuntimeError, NotImplementedError) as error:
        raise UnsupportedError(
            f"{equation.primitive.name}, a primitive that is not JAX's own: {error}",
            mend="write it with functions of JAX",
            where=source_of(equation),
        ) from error
