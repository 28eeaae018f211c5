"""The rule of primitives that have none by name: the rules of the ops that JAX lowers them to.

Their derivatives are JAX's, as everywhere: a sampler's, say, is not that of its steps.
"""

from __future__ import annotations

from collections.abc import Sequence

from tracer.array.array import Array
from tracer.jax.lowered import LOWERED, lower
from tracer.jax.rules.calls import with_derivative_of_jax
from tracer.jax.table import Equation, rule
from tracer.stablehlo.evaluate import Evaluator


@rule(LOWERED, takes_keys=True)
def lowered(equation: Equation, *operands: Array) -> Sequence[Array]:
    """Evaluate the module of the equation; nodes and errors name the user's line."""
    module = lower(equation.original)

    def compute(*arrays: Array) -> Sequence[Array]:
        return Evaluator(module, has_lines=False, pads_windows=False).call(module.entry, arrays)

    return with_derivative_of_jax(equation, operands, compute)
