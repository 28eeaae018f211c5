"""Rules of calls: inlined. Where derivatives of ours may follow, custom rules and checkpoints stay.

The derivative of a custom rule is JAX's own: the one equation is made a function again
(`jax.extend.core.jaxpr_as_fun`), differentiated with `jax.jvp` or `jax.vjp`, and traced.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr, Literal, jaxpr_as_fun

from tracer import ops
from tracer.array.array import Array
from tracer.array.convert import broadcast, scalar
from tracer.array.dispatch import apply, apply_many
from tracer.array.recording import recorded
from tracer.autodiff.transforms import checkpoint, checkpoint_policies, custom_jvp, custom_vjp
from tracer.errors import NotDifferentiableError
from tracer.jax.evaluate import SAVED
from tracer.jax.foreign import FOREIGN, traced_implementation
from tracer.jax.table import Equation, rule


def _closed(body: Any) -> Any:
    return ClosedJaxpr(body, ()) if isinstance(body, Jaxpr) else body


@rule("jit", "pjit", takes_keys=True)
def jit(equation: Equation, *operands: Array) -> Sequence[Array]:
    """Inline the function."""
    return equation.run(_closed(equation.params["jaxpr"]), operands)


@rule("closed_call", "core_call", "call", "custom_lin_call", "composite", takes_keys=True)
def closed_call(equation: Equation, *operands: Array) -> Sequence[Array]:
    """Inline the function."""
    p = equation.params
    return equation.run(_closed(p.get("call_jaxpr", p.get("jaxpr"))), operands)


@rule("custom_vmap_call", takes_keys=True)
def custom_vmap_call(equation: Equation, *operands: Array) -> Sequence[Array]:
    """Inline the function: batches were made before."""
    return equation.run(_closed(equation.params["call"]), operands)


@rule("name")
def name(equation: Equation, x: Array) -> Array:
    """Name a value for a policy of checkpoint."""
    return apply(ops.checkpoint_name, x, name=str(equation.params["name"]))


@rule("checkpoint", "remat", "remat2", takes_keys=True)
def remat(equation: Equation, *operands: Array) -> Sequence[Array]:
    """Keep what the policy says for gradients of ours.

    Where JAX has taken the gradient the second computation is written out already; under a limit
    the planner decides what is computed again.
    """
    p = equation.params
    body = _closed(p["jaxpr"])
    if not equation.evaluator.is_differentiated:
        return equation.run(body, operands)
    saving = replace(equation.evaluator, policy=p["policy"])
    policy = checkpoint_policies.save_only_these_names(SAVED)
    if p["policy"] is None:
        policy = checkpoint_policies.nothing_saveable
    elif p["policy"] is jax.checkpoint_policies.everything_saveable:
        policy = checkpoint_policies.everything_saveable
    function = checkpoint(
        lambda *arrays: tuple(saving.run(body, arrays)),
        prevent_cse=bool(p["prevent_cse"]),
        policy=policy,
    )
    return list(function(*operands))


class _OneEquation:
    """An equation as a function of JAX: of its variables, to the results that are read."""

    def __init__(self, equation: Equation, body: Any) -> None:
        original = equation.original
        self.equation = equation
        self.body = body
        self.variables = list(
            dict.fromkeys(atom for atom in original.invars if not isinstance(atom, Literal))
        )
        self.is_read = [type(v).__name__ != "DropVar" for v in original.outvars]
        outvars = self.read(original.outvars)
        jaxpr = _some_jaxpr().replace(
            invars=self.variables,
            outvars=outvars,
            eqns=[original],
            effects=original.effects,
        )
        self.function = jaxpr_as_fun(ClosedJaxpr(jaxpr, ()))
        self.inputs = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in self.variables]
        self.outputs = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in outvars]

    def arrays(self, operands: Sequence[Array]) -> list[Array]:
        """Return the operands that are variables."""
        pairs = zip(self.equation.original.invars, operands, strict=True)
        given = {atom: x for atom, x in pairs if not isinstance(atom, Literal)}
        return [given[variable] for variable in self.variables]

    def plain(self, literals: Sequence[Array], *arrays: Array) -> tuple[Array, ...]:
        """Compute the function without its rule."""
        given = dict(zip(self.variables, arrays, strict=True))
        atoms = self.equation.original.invars
        operands = [
            x if isinstance(atom, Literal) else given[atom]
            for atom, x in zip(atoms, literals, strict=True)
        ]
        if callable(self.body):
            return tuple(self.read(self.body(*operands)))
        return tuple(self.read(self.equation.run(self.body, operands)))

    def read(self, results: Sequence[Any]) -> list[Any]:
        """Leave out what nobody reads."""
        return [x for x, is_read in zip(results, self.is_read, strict=True) if is_read]

    def all_results(self, results: Sequence[Array]) -> list[Array]:
        """Put zeros where nobody reads."""
        rest = iter(results)
        return [
            next(rest) if is_read else broadcast(scalar(0, type.dtype), type.shape)
            for is_read, type in zip(self.is_read, self.equation.results, strict=True)
        ]


@functools.cache
def _some_jaxpr() -> Any:
    """Return a jaxpr without constants, of which others are made: its debug info serves them."""
    return jax.make_jaxpr(lambda: ())().jaxpr


def _body(equation: Equation) -> Any:
    p = equation.params
    return _closed(p["call_jaxpr"] if "call_jaxpr" in p else p["fun_jaxpr"])


def _is_inexact(struct: Any) -> bool:
    return bool(jax.numpy.issubdtype(struct.dtype, np.inexact))


def _tangents(structs: Sequence[Any], inexact: Sequence[Any]) -> list[Any]:
    """Put JAX's tangents of integers between those of inexact numbers."""
    rest = iter(inexact)
    return [next(rest) if _is_inexact(s) else np.zeros(s.shape, jax.dtypes.float0) for s in structs]


def _only_inexact(structs: Sequence[Any], values: Sequence[Any]) -> list[Any]:
    return [x for s, x in zip(structs, values, strict=True) if _is_inexact(s)]


_HIGHEST_ORDER = 3
"""Custom rules within custom rules: as many derivatives can be taken."""


def _within_rule(equation: Equation) -> Any:
    return replace(equation.evaluator, order=equation.evaluator.order + 1)


def _without_derivative(one: _OneEquation, operands: Sequence[Array]) -> list[Array]:
    """Compute the function, and refuse its derivative."""
    graph, captured = recorded(
        lambda recording: recording.finish(one.plain(operands, *one.arrays(operands)))
    )
    reason = f"derivatives of an order above {_HIGHEST_ORDER} of JAX's custom rules are not known"
    return one.all_results(apply_many(ops.plain_call, *captured, body=graph, reason=reason))


def evaluate_function(
    equation: Equation, function: Callable[..., Any], *arrays: Array
) -> list[Array]:
    """Trace a function of JAX for arrays of these types, and evaluate it."""
    closed = _traced(function, *(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in arrays))
    return equation.run(closed, arrays)


def _traced(function: Callable[..., Any], *structs: Any) -> Any:
    with jax.enable_x64(True):
        return jax.make_jaxpr(function)(*structs)


@rule("custom_jvp_call", takes_keys=True)
def custom_jvp_call(equation: Equation, *operands: Array) -> Sequence[Array]:
    """Keep the rule for tangents where derivatives of ours may follow."""
    if not equation.evaluator.is_differentiated:
        return equation.run(_body(equation), operands)
    one = _OneEquation(equation, _body(equation))
    if equation.evaluator.order >= _HIGHEST_ORDER:
        return _without_derivative(one, operands)
    return _with_tangents_of_jax(one, operands)


def with_derivative_of_jax(
    equation: Equation, operands: Sequence[Array], compute: Callable[..., Sequence[Array]]
) -> Sequence[Array]:
    """Compute a primitive with an op whose derivative JAX defines otherwise, and keep JAX's."""
    if not equation.evaluator.is_differentiated or equation.evaluator.order >= _HIGHEST_ORDER:
        return compute(*operands)
    return _with_tangents_of_jax(_OneEquation(equation, compute), operands)


@rule(FOREIGN, takes_keys=True)
def foreign(equation: Equation, *operands: Array) -> Sequence[Array]:
    """Compute what the package says; the derivative is the package's too."""
    body = traced_implementation(equation.original)
    inner = replace(equation.evaluator, is_ours=True)
    return with_derivative_of_jax(equation, operands, lambda *arrays: inner.run(body, arrays))


def _with_tangents_of_jax(one: _OneEquation, operands: Sequence[Array]) -> list[Array]:
    def jvp_of_jax(primals: Any, tangents: Any) -> Any:
        results = jax.jvp(one.function, tuple(primals), tuple(_tangents(one.inputs, tangents)))
        return results[0], _only_inexact(one.outputs, results[1])

    def tangent_rule(primals: Any, tangents: Any) -> Any:
        try:
            closed = _traced(jvp_of_jax, one.inputs, _only_inexact(one.inputs, one.inputs))
        except NotImplementedError as error:
            raise NotDifferentiableError(
                f"JAX's {one.equation.name} has no derivative: {str(error).splitlines()[0]}",
                mend="write it with functions that have one, or give jax.custom_jvp",
            ) from error
        given = [*primals, *_only_inexact(one.inputs, tangents)]
        results = _within_rule(one.equation).run(closed, given)
        count = len(one.outputs)
        rest = iter(results[count:])
        return tuple(results[:count]), tuple(
            next(rest) if _is_inexact(s) else broadcast(scalar(0, x.dtype), x.shape)
            for s, x in zip(one.outputs, results[:count], strict=True)
        )

    function = custom_jvp(lambda *arrays: one.plain(operands, *arrays))
    function.defjvp(tangent_rule)
    return one.all_results(function(*one.arrays(operands)))


@rule("custom_vjp_call", "custom_vjp_call_jaxpr", takes_keys=True)
def custom_vjp_call(equation: Equation, *operands: Array) -> Sequence[Array]:
    """Keep the rule for gradients where derivatives of ours may follow."""
    if not equation.evaluator.is_differentiated:
        return equation.run(_body(equation), operands)
    one = _OneEquation(equation, _body(equation))
    if equation.evaluator.order >= _HIGHEST_ORDER:
        return _without_derivative(one, operands)
    structures: list[Any] = []

    def vjp_of_jax(*primals: Any) -> Any:
        results, pull_back = jax.vjp(one.function, *primals)
        leaves, structure = jax.tree.flatten(pull_back)
        structures[:] = [structure]
        return results, leaves

    def forward(*arrays: Array) -> Any:
        results = _within_rule(equation).run(_traced(vjp_of_jax, *one.inputs), arrays)
        count = len(one.outputs)
        return tuple(results[:count]), tuple(results[count:])

    def pull_back_of_jax(residuals: Any, cotangents: Any) -> Any:
        pull_back = jax.tree.unflatten(structures[0], residuals)
        found = pull_back(_tangents(one.outputs, cotangents))
        return _only_inexact(one.inputs, found)

    def backward(residuals: Any, cotangents: Any) -> Any:
        kept = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in residuals]
        inexact = _only_inexact(one.outputs, one.outputs)
        closed = _traced(pull_back_of_jax, kept, inexact)
        given = [*residuals, *_only_inexact(one.outputs, cotangents)]
        found = _within_rule(equation).run(closed, given)
        rest = iter(found)
        return tuple(next(rest) if _is_inexact(s) else None for s in one.inputs)

    function = custom_vjp(lambda *arrays: one.plain(operands, *arrays))
    function.defvjp(forward, backward)
    return one.all_results(function(*one.arrays(operands)))
