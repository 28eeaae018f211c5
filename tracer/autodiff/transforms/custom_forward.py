"""custom_jvp: a function with its own rule for tangents, as in JAX."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracer import ops, tree
from tracer.array.array import Array
from tracer.array.convert import as_array, broadcast, scalar
from tracer.array.dispatch import apply_many
from tracer.array.recording import Recording, recorded
from tracer.array.weak import Signature, WeakType, argument
from tracer.autodiff.activity import carries_gradient
from tracer.autodiff.transforms.arguments import (
    check_callable,
    describe,
    like_given,
    trace_in,
)
from tracer.autodiff.transforms.custom_rule import CustomRule, apply_plain, with_inputs
from tracer.errors import ArgumentError, DTypeError, ShapeError
from tracer.ir import Graph


class custom_jvp(CustomRule):  # noqa: N801 - a decorator, named as in JAX
    """A function with its own rule for tangents.

    Parameters
    ----------
    fun : callable
        Takes and returns arrays in any nesting.
    nondiff_argnums : int or tuple of int
        Arguments that are passed as they are. The rule gets them first.

    Notes
    -----
    The rule is set by `defjvp(jvp)`: `jvp` takes the `nondiff_argnums` arguments, a tuple of the
    other arguments and a tuple of their tangents, and returns `(result, tangent)`. The tangent is
    linear in the given tangents; reverse mode transposes it. Integer and bool leaves have zeros of
    their dtype as tangents. For one result and simple formulas, `defjvps` takes one function for
    each argument. The rule may call the function itself, for up to four derivatives; applied to
    tangents, the function is linear and is transposed as it is written. An error in the rule is
    raised where a derivative is asked for.

    Examples
    --------
    >>> import tracer
    >>> import tracer.numpy as tnp
    >>> @tracer.custom_jvp
    ... def log1pexp(x):
    ...     return tnp.log1p(tnp.exp(x))
    >>> log1pexp.defjvps(lambda t, ans, x: t * (1 - tnp.exp(-ans)))
    >>> float(tracer.grad(log1pexp)(0.0))
    0.5
    """

    def __init__(self, fun: Callable[..., Any], nondiff_argnums: int | Sequence[int] = ()) -> None:
        super().__init__("custom_jvp", fun, nondiff_argnums)
        self.jvp: Callable[..., Any] | None = None

    def defjvp(self, jvp: Callable[..., Any]) -> Callable[..., Any]:
        """Set the rule; see the class. Returns it, so that this works as a decorator.

        Parameters
        ----------
        jvp : callable
            `(*nondiff, primals, tangents) -> (result, tangent of the result)`.
        """
        check_callable("defjvp", jvp)
        self.jvp = jvp
        return jvp

    def defjvps(self, *jvps: Callable[..., Any] | None) -> None:
        """Set the rule by one function for each argument; their results are added.

        Parameters
        ----------
        *jvps : callable or None
            `(tangent, result, *primals) -> tangent of the result`, of one array; None for zero.

        Raises
        ------
        ArgumentError
            The function has `nondiff_argnums`, which this form does not take.
        """
        if self.nondiff_argnums:
            raise ArgumentError(
                f"defjvps: {self._name} has nondiff_argnums", mend="use defjvp for it"
            )
        for jvp in jvps:
            if jvp is not None:
                check_callable("defjvps", jvp)

        def rule(primals: Any, tangents: Any) -> Any:
            if len(jvps) != len(primals):
                raise ArgumentError(
                    f"defjvps of {self._name} got {len(jvps)} rules for {len(primals)} arguments",
                    mend="give one for each argument, None for zero",
                )
            result = self(*primals)
            pairs = zip(jvps, tangents, strict=True)
            terms = [jvp(t, result, *primals) for jvp, t in pairs if jvp is not None]
            zero = broadcast(scalar(0, result.dtype), result.shape)
            return result, functools.reduce(lambda a, b: a + b, terms, zero) if terms else zero

        self.jvp = rule

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the function; inside of a trace, with its rule."""
        if self.jvp is None:
            raise ArgumentError(
                f"custom_jvp: {self._name} has no rule yet",
                mend=f"call {self._name}.defjvp(jvp) before the function",
            )
        return self._record(_Call, (self.jvp,), args, kwargs)


class _Call:
    """One call inside of a trace: traces the function and its rule and emits one op."""

    def __init__(
        self,
        name: str,
        functions: tuple[Callable[..., Any], Callable[..., Any]],
        args: Sequence[Any],
        fixed: Sequence[int],
    ) -> None:
        self.name = f"custom_jvp {name}"
        fun, self.jvp = functions
        self.static = [args[i] for i in fixed]
        given = [i for i in range(len(args)) if i not in fixed]
        self.body = trace_in(self.name, fun, args, given, {})
        self.types = self.body.graph.input_types[: self.body.leaves]

    def emit(self) -> Any:
        """Add the op to the active trace; returns the function's result."""
        try:
            rule, captured = self._trace_rule()
        except Exception as error:
            # As in JAX, a rule matters to those who differentiate: they get the error.
            return apply_plain(self.body, error)
        count, own = self.body.leaves, len(self.body.arrays)
        operands = [*self.body.arrays, *captured]
        types = [array.type for array in operands]
        moved = [type for type in self.types if carries_gradient(type.dtype)]
        tangents = range(len(operands), len(operands) + len(moved))
        rule_inputs = [*range(count), *tangents, *range(own, len(operands))]
        results = apply_many(
            ops.custom_jvp_call,
            *operands,
            body=with_inputs(self.body.graph, types, range(own)),
            rule=with_inputs(rule, [*types, *moved], rule_inputs),
            differentiable=count,
        )
        return self.body.result(results)

    def _trace_rule(self) -> tuple[Graph, list[Array]]:
        """Trace the rule on the primals and the tangents of the inexact ones."""

        def record(recording: Recording) -> tuple[Graph, list[Array]]:
            primals = [argument(recording, signature) for signature in self.body.signatures]
            tangents: list[Array] = [
                recording.argument(type)
                if carries_gradient(type.dtype)
                else as_array(np.zeros(type.shape, type.dtype))
                for type in self.types
            ]
            structure = self.body.in_tree
            result = self.jvp(
                *self.static,
                tree.unflatten(structure, primals),
                self.body.as_arguments(tangents),
            )
            return recording.finish(self._checked(result))

        return recorded(record)

    def _checked(self, result: Any) -> list[Array]:
        """Check what the rule returned; return the result and its inexact tangents."""
        if not isinstance(result, tuple | list) or len(result) != 2:
            raise DTypeError(
                f"{self.name}: the rule returned {describe(result)}",
                mend="return a pair (result, tangent) from the rule",
            )
        weak = self.body.weak_outputs
        types: list[Signature] = [
            WeakType(type) if i in weak else type
            for i, type in enumerate(self.body.graph.output_types)
        ]
        value = self._leaves("result", result[0])
        tangent = self._leaves("tangent", result[1])
        moved = [(t, leaf) for t, leaf in zip(types, tangent, strict=True) if _is_inexact(t)]
        return [
            *(
                like_given(f"{self.name}: the rule's result", leaf, type)
                for type, leaf in zip(types, value, strict=True)
            ),
            *(like_given(f"{self.name}: the rule's tangent", leaf, type) for type, leaf in moved),
        ]

    def _leaves(self, what: str, value: Any) -> list[Any]:
        leaves, structure = tree.flatten(value)
        if structure != self.body.out_tree:
            raise ShapeError(
                f"{self.name}: the rule's {what} is nested as {structure}, the function's result "
                f"as {self.body.out_tree}",
                mend=f"nest the {what} as the function's result",
            )
        return leaves


def _is_inexact(type: Signature) -> bool:
    return carries_gradient(type.dtype)


__all__ = ["custom_jvp"]
