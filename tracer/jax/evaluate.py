"""From jaxpr to ops: go through the equations of a jaxpr and apply the rule of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Literal

from tracer import ops
from tracer.array.array import Array
from tracer.array.convert import convert
from tracer.array.dispatch import apply, from_host
from tracer.autodiff.transforms import vmap
from tracer.compilation.importing import at_source
from tracer.errors import Source, UnsupportedError
from tracer.jax.foreign import FOREIGN, is_foreign, traced_implementation
from tracer.jax.handover import from_jax_array
from tracer.jax.lowered import LOWERED, lower
from tracer.jax.platforms import branches_here
from tracer.jax.sources import source_of
from tracer.jax.table import KEY_RULES, REFUSALS, RULES, Equation
from tracer.jax.types import is_key, key_shape, physical_type

SAVED = "saved by the policy of jax.checkpoint"
"""The name of what a policy keeps."""


@dataclass
class Evaluator:
    """Evaluates jaxprs on traced arrays.

    Attributes
    ----------
    is_differentiated : bool
        Keep custom derivatives and checkpoints, for derivatives that are taken of the result.
    policy : callable or None
        A policy of `jax.checkpoint`: what it says to keep is named `SAVED`.
    order : int
        How many custom rules this is within: a rule may use the function that it belongs to.
    device : jax.Device, optional
        Where arrays that functions close over are moved; None leaves them where they are.
    outer : Source, optional
        The line of the equation whose body is evaluated.
    is_ours : bool
        The body was traced for its equation: all of it is of that line.
    """

    is_differentiated: bool
    policy: Any = None
    order: int = 0
    device: Any = None
    outer: Source | None = None
    is_ours: bool = False
    _constants: dict[int, tuple[Any, Array]] = field(default_factory=dict)

    def run(self, closed: Any, arrays: Sequence[Array]) -> list[Array]:
        """Evaluate a closed jaxpr within the active recording."""
        jaxpr = closed.jaxpr
        values: dict[Any, Array] = {}
        values.update(zip(jaxpr.constvars, map(self._constant, closed.consts), strict=True))
        values.update(zip(jaxpr.invars, arrays, strict=True))
        for equation in jaxpr.eqns:
            operands = [self._read(values, atom) for atom in equation.invars]
            results = self._apply(equation, operands)
            values.update(zip(equation.outvars, results, strict=True))
        return [self._read(values, atom) for atom in jaxpr.outvars]

    def _read(self, values: dict[Any, Array], atom: Any) -> Array:
        if not isinstance(atom, Literal):
            return values[atom]
        if isinstance(atom.val, jax.Array):
            return self._constant(atom.val)
        return from_host(np.asarray(atom.val, physical_type(atom.aval, None).dtype))

    def _constant(self, value: Any) -> Array:
        """Return an array that the function closes over: an input of the program."""
        known = self._constants.get(id(value))
        if known is None:
            known = self._constants[id(value)] = (value, from_jax_array(value, self.device))
        return known[1]

    def _apply(self, equation: Any, operands: Sequence[Array]) -> Sequence[Array]:
        source = self.outer if self.is_ours else source_of(equation, self.outer)
        name = equation.primitive.name
        rule = _rule_of(equation)
        avals = [*(atom.aval for atom in equation.invars), *(v.aval for v in equation.outvars)]
        types = tuple(physical_type(aval, source) for aval in avals)
        count = len(equation.invars)
        seen = Equation(
            name,
            equation.params,
            types[:count],
            types[count:],
            equation,
            source,
            replace(self, outer=source),
        )
        function, keys = RULES[rule], [is_key(aval.dtype) for aval in avals]
        if rule not in KEY_RULES and any(keys):
            function = partial(_word_by_word, function, keys, avals)
        with at_source(source):
            made = function(seen, *operands)
            results: Sequence[Array] = [made] if isinstance(made, Array) else made
            _check_types(seen, results)
            if self.policy is not None and _is_kept(self.policy, equation):
                results = [apply(ops.checkpoint_name, x, name=SAVED) for x in results]
        return results


def _rule_of(equation: Any) -> str:
    """Return the name of the rule of an equation."""
    name: str = equation.primitive.name
    if is_foreign(equation.primitive):
        return FOREIGN
    if name in RULES:
        return name
    if name in REFUSALS:
        raise refusal(equation)
    return LOWERED


def _is_kept(policy: Any, equation: Any) -> bool:
    answer = policy(equation.primitive, *(atom.aval for atom in equation.invars), **equation.params)
    if type(answer).__name__ == "Offloadable":
        raise UnsupportedError(
            "a policy of jax.checkpoint that moves values to another memory",
            mend="use a policy that saves or does not save: tracer has one memory",
        )
    return answer is True or type(answer).__name__ == "SaveableType"


def _word_by_word(
    function: Any, keys: list[bool], avals: list[Any], equation: Equation, *operands: Array
) -> list[Array]:
    """Apply a rule to each word of the keys: it moves keys, and does not look into them."""
    count = len(operands)
    (dims,) = {len(key_shape(aval.dtype)) for aval, key in zip(avals, keys, strict=True) if key}
    types = [*equation.operands, *equation.results]
    types = [
        type.with_shape(type.shape[: type.ndim - dims]) if key else type
        for type, key in zip(types, keys, strict=True)
    ]
    logical = replace(equation, operands=tuple(types[:count]), results=tuple(types[count:]))

    if not all(keys[count:]):
        raise UnsupportedError(
            f"JAX's {equation.name} of random keys, with a result that is no key",
            mend="take their words first: jax.random.key_data(keys)",
        )

    def of_words(*arrays: Array) -> Any:
        results = function(logical, *arrays)
        return (results,) if isinstance(results, Array) else tuple(results)

    axes = tuple(-1 if key else None for key in keys)
    for _ in range(dims):
        of_words = vmap(of_words, in_axes=axes[:count], out_axes=axes[count:])
    return list(of_words(*operands))


def _check_types(equation: Equation, results: Sequence[Array]) -> None:
    """Tell at once where a rule made something else than JAX says."""
    found = tuple(array.type for array in results)
    assert found == equation.results, (
        f"the rule of {equation.name} made {found}, not {equation.results}"
    )


def check_supported(closed: Any) -> None:
    """Raise `UnsupportedError` with all primitives that have no rule, and where they are used."""
    found = dict[str, UnsupportedError]()
    _collect(closed.jaxpr, found, None)
    if not found:
        return
    first, *rest = found.values()
    others = "".join(f"; also {e.what}{f' ({e.where})' if e.where else ''}" for e in rest)
    raise UnsupportedError(f"{first.what}{others}", mend=first.mend, where=first.where)


def _collect(
    jaxpr: Any, found: dict[str, UnsupportedError], outer: Source | None, is_ours: bool = False
) -> None:
    for equation in jaxpr.eqns:
        name = equation.primitive.name
        source = outer if is_ours else source_of(equation, outer)
        try:
            for body in _looked_through(equation):
                _collect(body, found, source, is_ours or is_foreign(equation.primitive))
        except UnsupportedError as error:
            error.where = source
            found.setdefault(name, error)


def _looked_through(equation: Any) -> list[Any]:
    """Return the bodies of an equation, or raise where it has no rule."""
    rule = _rule_of(equation)
    if rule == FOREIGN:
        return [traced_implementation(equation).jaxpr]
    if rule == LOWERED:
        lower(equation)
        return []
    params = dict(equation.params)
    if "branches" in params:
        params["branches"] = branches_here(params)
    return list(_bodies(params))


def _bodies(params: Any) -> Iterator[Any]:
    for value in params.values():
        for item in value if isinstance(value, tuple | list) else (value,):
            if isinstance(item, ClosedJaxpr):
                yield item.jaxpr
            elif hasattr(item, "eqns") and hasattr(item, "invars"):
                yield item


def refusal(equation: Any) -> UnsupportedError:
    """Return the error for a primitive that has no meaning under a limit."""
    name = equation.primitive.name
    reason, mend = REFUSALS[name]
    return UnsupportedError(f"JAX's {name} {reason}", mend=mend, where=source_of(equation))


def convert_arguments(arrays: Sequence[Array], avals: Sequence[Any]) -> list[Array]:
    """Give arrays the dtypes that JAX's trace expects (with x64 off, those of half the width)."""
    types = [physical_type(aval, None) for aval in avals]
    return [
        array if array.dtype == type.dtype else convert(array, type.dtype)
        for array, type in zip(arrays, types, strict=True)
    ]
