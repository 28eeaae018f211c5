"""What JAX lowers a primitive to: a StableHLO module, whose ops have rules where it has none."""

from __future__ import annotations

import functools
from typing import Any

import jax

from tracer.errors import UnsupportedError
from tracer.jax.handover import key_maker
from tracer.jax.platforms import LOWERED_FOR
from tracer.jax.sources import source_of
from tracer.jax.types import is_key, physical_type
from tracer.stablehlo.supported import supported_module

LOWERED = "a primitive without a rule"
"""The name of the rule for all of them."""
_MEND = "write it with other functions of JAX; docs/jax.md lists what is known"


@functools.lru_cache(maxsize=32)
def lower(equation: Any) -> Any:
    """Return the module of an equation, for CPUs. It takes and gives the words of random keys.

    Kept for a while: a program is looked through for what is not supported before it is evaluated.

    Raises
    ------
    UnsupportedError
        The primitive has an effect, JAX cannot lower it, or the module has ops without a rule.
    """
    name, source = equation.primitive.name, source_of(equation)
    if equation.effects:
        raise UnsupportedError(
            f"JAX's {name} has no rule, and has an effect", mend=_MEND, where=source
        )
    try:
        with jax.enable_x64(True):
            traced = jax.jit(_function(equation), keep_unused=True).trace(*_inputs(equation))
            text = traced.lower(lowering_platforms=LOWERED_FOR).as_text()
    except (NotImplementedError, TypeError, ValueError, KeyError) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise UnsupportedError(
            f"JAX's {name} has no rule, and is not lowered for CPUs: {reason}",
            mend=_MEND,
            where=source,
        ) from error
    try:
        return supported_module(text, name)
    except UnsupportedError as error:
        raise UnsupportedError(
            f"JAX's {name} has no rule, and is lowered to what has none: {error.what}",
            mend=_MEND,
            where=source,
        ) from error


def _inputs(equation: Any) -> list[Any]:
    types = [physical_type(atom.aval, None) for atom in equation.invars]
    return [jax.ShapeDtypeStruct(type.shape, type.dtype) for type in types]


def _function(equation: Any) -> Any:
    """Return an equation as a function of arrays."""
    dtypes = [atom.aval.dtype for atom in equation.invars]
    primitive = equation.primitive

    def function(*arrays: Any) -> list[Any]:
        operands = [
            key_maker(dtype)(x) if is_key(dtype) else x
            for x, dtype in zip(arrays, dtypes, strict=True)
        ]
        results = primitive.bind(*operands, **equation.params)
        results = results if primitive.multiple_results else [results]
        return [jax.random.key_data(x) if is_key(x.dtype) else x for x in results]

    return function
