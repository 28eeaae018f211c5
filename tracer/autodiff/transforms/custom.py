"""custom_vjp: a function with its own gradient rule, as in JAX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracer import ops, tree
from tracer.array.array import Array
from tracer.array.convert import as_array
from tracer.array.dispatch import apply_many
from tracer.array.recording import Recording, recorded
from tracer.array.weak import strong_type, weakened
from tracer.autodiff.activity import carries_gradient
from tracer.autodiff.transforms.arguments import (
    check_callable,
    describe,
    like_given,
    trace_in,
)
from tracer.autodiff.transforms.custom_rule import (
    CustomRule,
    apply_plain,
    traced_once,
    with_inputs,
)
from tracer.errors import ArgumentError, DTypeError, ShapeError
from tracer.ir import Graph, ShapeDtype


class custom_vjp(CustomRule):  # noqa: N801 - a decorator, named as in JAX
    """A function with its own gradient rule.

    Parameters
    ----------
    fun : callable
        Takes and returns arrays in any nesting.
    nondiff_argnums : int or tuple of int
        Arguments that are passed as they are. The rule's `bwd` gets them first.

    Notes
    -----
    The rule is set by `defvjp(fwd, bwd)`. `fwd` takes the arguments of `fun` and returns
    `(result, residuals)`; `bwd` takes the `nondiff_argnums` arguments, the residuals and the
    cotangent of the result, and returns a tuple with one cotangent for each other argument, None
    for zeros, also in place of a part of a nested one. Both may call the function itself, for up
    to four derivatives. An error in them is raised where a gradient is asked for.

    Examples
    --------
    >>> import tracer
    >>> import tracer.numpy as tnp
    >>> @tracer.custom_vjp
    ... def clip_gradient(x):
    ...     return x
    >>> clip_gradient.defvjp(lambda x: (x, None), lambda _, g: (tnp.clip(g, -1, 1),))
    >>> float(tracer.grad(lambda x: 5 * clip_gradient(x))(2.0))
    1.0
    """

    def __init__(self, fun: Callable[..., Any], nondiff_argnums: int | Sequence[int] = ()) -> None:
        super().__init__("custom_vjp", fun, nondiff_argnums)
        self.fwd: Callable[..., Any] | None = None
        self.bwd: Callable[..., Any] | None = None

    def defvjp(self, fwd: Callable[..., Any], bwd: Callable[..., Any]) -> None:
        """Set the rule; see the class.

        Parameters
        ----------
        fwd, bwd : callable
            The forward and the backward half.
        """
        check_callable("defvjp", fwd)
        check_callable("defvjp", bwd)
        self.fwd, self.bwd = fwd, bwd

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the function; inside of a trace, with its gradient rule."""
        if self.fwd is None or self.bwd is None:
            raise ArgumentError(
                f"custom_vjp: {self._name} has no gradient rule yet",
                mend=f"call {self._name}.defvjp(fwd, bwd) before the function",
            )
        return self._record(_Call, (self.fwd, self.bwd), args, kwargs)


@dataclass(frozen=True)
class _Rule:
    """The graphs of a call; its key has the functions' ids, so it keeps them alive."""

    functions: tuple[Callable[..., Any], ...]
    body: Graph
    forward: Graph
    backward: Graph
    closed: list[Array]


class _Call:
    """One call inside of a trace: traces the three functions and emits one op."""

    def __init__(
        self,
        name: str,
        functions: tuple[Callable[..., Any], Callable[..., Any], Callable[..., Any]],
        args: Sequence[Any],
        fixed: Sequence[int],
    ) -> None:
        self.name = f"custom_vjp {name}"
        self.functions = functions
        fun, self.fwd, self.bwd = functions
        self.static = [args[i] for i in fixed]
        self.given = [i for i in range(len(args)) if i not in fixed]
        self.args = args
        self.body = trace_in(self.name, fun, args, self.given, {})

    def _trace_rule(self) -> tuple[Graph, list[Array]]:
        """Trace fwd and bwd; return the graph of the latter, and what it closes over."""
        fwd = self._checked_forward(self.fwd)
        self.forward = trace_in(self.name, fwd, self.args, self.given, {})
        self._check_same_result()
        return self._trace_backward()

    def _checked_forward(self, fwd: Callable[..., Any]) -> Callable[..., Any]:
        def checked(*args: Any) -> Any:
            result = fwd(*args)
            if not isinstance(result, tuple) or len(result) != 2:
                raise DTypeError(
                    f"{self.name}: fwd returned {describe(result)}",
                    mend="return a pair (result, residuals) from fwd",
                )
            return result

        return checked

    def _check_same_result(self) -> None:
        count = len(self.body.graph.outputs)
        leaves = range(len(self.forward.graph.outputs))
        result, self.residuals = tree.unflatten(self.forward.out_tree, leaves)
        types = self.forward.graph.output_types[:count]
        same_tree = tree.structure(result) == self.body.out_tree
        if not same_tree or types != self.body.graph.output_types:
            raise ShapeError(
                f"{self.name}: fwd gives the result {_shown(types)}, nested as "
                f"{tree.structure(result)}; the function gives "
                f"{_shown(self.body.graph.output_types)}, nested as {self.body.out_tree}",
                mend="return (result, residuals) from fwd with the function's own result",
            )

    def emit(self) -> Any:
        """Add the op to the active trace; returns the function's result."""
        try:
            rule = self._rule_once()
        except Exception as error:
            # As in JAX, a rule matters to those who differentiate: they get the error.
            return apply_plain(self.body, error)
        count = self.body.leaves
        results = apply_many(
            ops.custom_vjp_call,
            *self.body.arrays[:count],
            *rule.closed,
            body=rule.body,
            forward=rule.forward,
            backward=rule.backward,
            differentiable=count,
        )
        return self.body.result(results)

    def _rule_once(self) -> _Rule:
        """Trace the rule, if it was not for the same types in the rule that this is in."""
        if self.static or len(self.body.arrays) > self.body.leaves:
            return self._rule()
        key = (*map(id, self.functions), self.body.in_tree, *self.body.signatures)

        def trace() -> tuple[_Rule, bool]:
            rule = self._rule()
            return rule, not rule.closed

        return traced_once(key, trace)  # type: ignore[no-any-return]

    def _rule(self) -> _Rule:
        backward, captured = self._trace_rule()
        count = self.body.leaves
        closed = [*self.body.arrays[count:], *self.forward.arrays[count:], *captured]
        operands = [*self.body.arrays[:count], *closed]
        types = [array.type for array in operands]
        ends = [count, len(self.body.arrays), len(operands) - len(captured), len(operands)]
        arguments = list(range(count))
        body = with_inputs(self.body.graph, types, [*arguments, *range(ends[0], ends[1])])
        forward = with_inputs(self.forward.graph, types, [*arguments, *range(ends[1], ends[2])])
        backward = with_inputs(
            backward,
            [*types[count:], *backward.input_types[: len(backward.inputs) - len(captured)]],
            [
                *range(len(closed), len(closed) + len(backward.inputs) - len(captured)),
                *range(ends[2] - count, ends[3] - count),
            ],
        )
        return _Rule(self.functions, body, forward, backward, closed)

    def _trace_backward(self) -> tuple[Graph, list[Array]]:
        """Trace bwd on the residuals and the cotangents of the inexact results."""
        own = len(self.body.graph.outputs)
        types = self.forward.graph.output_types

        def record(recording: Recording) -> tuple[Graph, list[Array]]:
            residuals = [recording.argument(type) for type in types[own:]]
            cotangents: list[Array] = [
                recording.argument(type)
                if carries_gradient(type.dtype)
                else as_array(np.zeros(type.shape, type.dtype))
                for type in types[:own]
            ]
            weak = [i - own for i in self.forward.weak_outputs if i >= own]
            result = self.bwd(
                *self.static,
                tree.unflatten(tree.structure(self.residuals), weakened(residuals, weak)),
                self.body.result(cotangents),
            )
            return recording.finish(self._cotangents(result))

        return recorded(record)

    def _cotangents(self, result: Any) -> list[Array]:
        """Check what bwd returned; return the cotangents of the inexact arguments."""
        arguments = tree.unflatten(self.body.in_tree, self.body.signatures)
        if not isinstance(result, tuple | list) or len(result) != len(arguments):
            raise DTypeError(
                f"{self.name}: bwd returned {describe(result)}",
                mend=f"return a tuple with {len(arguments)} entries, one cotangent for each "
                "argument that is not in nondiff_argnums, None for zero",
            )
        found: list[Array] = []
        for position, (argument, cotangent) in enumerate(zip(arguments, result, strict=True)):
            what = f"{self.name}: bwd's cotangent of argument {self.given[position]}"
            found += _leaves_like(what, argument, cotangent)
        return found


def _leaves_like(what: str, argument: Any, cotangent: Any) -> list[Array]:
    signatures, structure = tree.flatten(argument)
    types: list[ShapeDtype] = [strong_type(signature) for signature in signatures]
    if not any(carries_gradient(type.dtype) for type in types):
        return []
    try:
        leaves, given = tree.flatten(tree.fill_none(cotangent, argument))
    except ValueError:
        given = tree.structure(cotangent)
    if given != structure:
        raise DTypeError(
            f"{what} has the structure {given}, the argument has {structure}",
            mend="nest the cotangent as the argument; None means zeros",
        )
    return [
        _zeros(type) if leaf is signature else like_given(what, leaf, signature)
        for signature, type, leaf in zip(signatures, types, leaves, strict=True)
        if carries_gradient(type.dtype)
    ]


def _zeros(type: ShapeDtype) -> Array:
    return as_array(np.zeros(type.shape, type.dtype))


def _shown(types: Sequence[ShapeDtype]) -> str:
    return f"({', '.join(map(str, types))})"
