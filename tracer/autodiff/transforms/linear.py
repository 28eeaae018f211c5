"""vjp, jvp and linearize, with the names, argument order and semantics of JAX."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tracer import tree
from tracer.array.array import Array
from tracer.array.convert import as_array
from tracer.array.dispatch import apply_graph
from tracer.array.weak import weakened
from tracer.autodiff import PullBack, linearized, pull_back, push_forward
from tracer.autodiff.activity import carries_gradient
from tracer.autodiff.transforms.arguments import (
    check_callable,
    checked_leaf,
    describe,
    trace_in,
    value_leaves,
    with_array_results,
)
from tracer.errors import DTypeError, with_short_traceback
from tracer.ir import ShapeDtype


@with_short_traceback
def vjp(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Return the value of `fun` and its pull-back, the vector-Jacobian product.

    Parameters
    ----------
    fun : callable
        Takes and returns arrays in any nesting; `(result, aux)` with `has_aux`.
    *primals
        The arguments at which it is differentiated.
    has_aux : bool
        `fun` returns a pair, of which only the first is differentiated.

    Returns
    -------
    result
        The value of `fun`.
    pull_back : callable
        Takes a cotangent of the structure, shapes and dtypes of the result; returns a tuple with
        one cotangent for each primal. Integer and bool leaves get zeros of their dtype, and
        cotangents for them are ignored.
    aux
        Only with `has_aux`.

    Raises
    ------
    DTypeError
        A primal or a result is no array; a cotangent has another dtype or structure.
    ShapeError
        A cotangent has another shape.
    NotDifferentiableError
        An op on the way has no derivative.

    Notes
    -----
    The forward half runs once; what the backward half needs of it stays in memory as long as
    `pull_back` does.

    Examples
    --------
    >>> import tracer
    >>> import tracer.numpy as tnp
    >>> value, pull_back = tracer.vjp(tnp.multiply, 2.0, 5.0)
    >>> [float(g) for g in pull_back(1.0)]
    [5.0, 2.0]
    """
    linear = _Linearized("vjp", fun, primals, has_aux, pull_back)

    def pull(cotangent: Any) -> tuple[Any, ...]:
        given = linear.result_tangents("the pull-back of vjp", cotangent)
        results = apply_graph(linear.halves.backward, [*linear.residuals, *given])
        cotangents: tuple[Any, ...] = linear.as_primals(results)
        return cotangents

    return (linear.value, pull, linear.aux) if has_aux else (linear.value, pull)


@with_short_traceback
def linearize(fun: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """Return the value of `fun` and its linear approximation at `primals`.

    Parameters
    ----------
    fun, *primals, has_aux
        See `vjp`.

    Returns
    -------
    result
        The value of `fun`.
    push_forward : callable
        Takes one tangent for each primal, of its structure, shapes and dtypes; returns the
        tangent of the result. It can be called many times and computes only the linear part.
    aux
        Only with `has_aux`.

    Raises
    ------
    ShapeError, DTypeError, NotDifferentiableError
        See `vjp`.

    Examples
    --------
    >>> import tracer
    >>> import tracer.numpy as tnp
    >>> value, push_forward = tracer.linearize(tnp.sin, 0.0)
    >>> float(push_forward(3.0))
    3.0
    """
    linear = _Linearized("linearize", fun, primals, has_aux)
    graph = push_forward(linear.halves)

    def push(*tangents: Any) -> Any:
        given = linear.primal_tangents("the push-forward of linearize", tangents)
        return linear.as_result(apply_graph(graph, [*linear.residuals, *given]))

    return (linear.value, push, linear.aux) if has_aux else (linear.value, push)


@with_short_traceback
def jvp(
    fun: Callable[..., Any],
    primals: Sequence[Any],
    tangents: Sequence[Any],
    has_aux: bool = False,
) -> Any:
    """Return the value of `fun` and its Jacobian-vector product.

    Parameters
    ----------
    fun : callable
        See `vjp`.
    primals : tuple or list
        The arguments at which it is differentiated.
    tangents : tuple or list
        One for each primal, of its structure, shapes and dtypes.
    has_aux : bool
        See `vjp`.

    Returns
    -------
    result, tangent
        The value of `fun` and the directional derivative, of the same structure; with `has_aux`
        also aux.

    Raises
    ------
    DTypeError
        A primal or a result is no array; a tangent has another dtype or structure.
    ShapeError
        A tangent has another shape.
    NotDifferentiableError
        An op on the way has no derivative.

    Examples
    --------
    >>> import tracer
    >>> import tracer.numpy as tnp
    >>> value, tangent = tracer.jvp(lambda x: x**2, (3.0,), (1.0,))
    >>> float(value), float(tangent)
    (9.0, 6.0)
    """
    for what, given in (("primals", primals), ("tangents", tangents)):
        if not isinstance(given, tuple | list):
            raise DTypeError(
                f"jvp: {what} are {describe(given)}",
                mend=f"give a tuple with one entry for each argument, such as {what}=(x,)",
            )
    linear = _Linearized("jvp", fun, primals, has_aux)
    moved = linear.primal_tangents("jvp", tuple(tangents))
    results = apply_graph(push_forward(linear.halves), [*linear.residuals, *moved])
    tangent = linear.as_result(results)
    return (linear.value, tangent, linear.aux) if has_aux else (linear.value, tangent)


class _Linearized:
    """A function, evaluated at a point, with what its derivative there needs."""

    def __init__(
        self,
        name: str,
        fun: Callable[..., Any],
        primals: Sequence[Any],
        has_aux: bool,
        differentiate: Callable[..., PullBack] = linearized,
    ) -> None:
        check_callable(name, fun)
        checked = with_array_results(name, fun, has_aux)
        self.traced = trace_in(name, checked, primals, range(len(primals)), {}, writes="back")
        self._count = value_leaves(self.traced)
        self._wrt = _inexact(self.traced.graph.input_types[: self.traced.leaves])
        self._seeds = _inexact(self.traced.graph.output_types[: self._count])
        self.halves = differentiate(self.traced.graph, self._wrt, self._seeds)
        results = self.traced.run(self.halves.forward)
        own = len(self.traced.graph.outputs)
        self.value, self.aux = self.traced.result(results)
        # Snapshots: the user may write into their arrays between this and the backward pass.
        kept = [self.traced.arrays[i]._snapshot() for i in self.halves.inputs]
        self.residuals: list[Array] = [*kept, *results[own:]]
        self.traced.write_back(results)

    def result_tangents(self, name: str, given: Any) -> list[Array]:
        """Check the cotangents of the result; return those of its inexact leaves."""
        structure = tree.structure(self.value)
        types = self.traced.graph.output_types[: self._count]
        leaves = _checked(name, "cotangent", "the result", given, structure, types)
        return [leaves[i] for i in self._seeds]

    def primal_tangents(self, name: str, given: Any) -> list[Array]:
        """Check the tangents of the primals; return those of their inexact leaves."""
        types = self.traced.graph.input_types[: self.traced.leaves]
        structure = self.traced.in_tree
        leaves = _checked(name, "tangent", "the primals", given, structure, types)
        return [leaves[i] for i in self._wrt]

    def as_primals(self, results: Sequence[Array]) -> Any:
        """Return cotangents in the structure of the primals."""
        types = self.traced.graph.input_types[: self.traced.leaves]
        return self.traced.as_arguments(_filled(types, self._wrt, results))

    def as_result(self, results: Sequence[Array]) -> Any:
        """Return tangents in the structure of the result."""
        types = self.traced.graph.output_types[: self._count]
        tangents = weakened(_filled(types, self._seeds, results), self.traced.weak_outputs)
        return tree.unflatten(tree.structure(self.value), tangents)


def _inexact(types: Sequence[ShapeDtype]) -> tuple[int, ...]:
    return tuple(i for i, type in enumerate(types) if carries_gradient(type.dtype))


def _filled(
    types: Sequence[ShapeDtype], positions: Sequence[int], results: Sequence[Array]
) -> list[Array]:
    """Put the derivatives in their places, and zeros where the dtype has none."""
    found = dict(zip(positions, results, strict=True))
    return [
        found[i] if i in found else as_array(np.zeros(type.shape, type.dtype))
        for i, type in enumerate(types)
    ]


def _checked(
    name: str,
    what: str,
    of: str,
    given: Any,
    structure: tree.Structure,
    types: Sequence[ShapeDtype],
) -> list[Any]:
    """Return the leaves of a (co)tangent as Arrays of the wanted types; see `vjp` for errors."""
    leaves, found = tree.flatten(given)
    if found != structure:
        raise DTypeError(
            f"{name}: the {what} has the structure {found}, {of} has {structure}",
            mend=f"give a {what} nested as {of}",
        )
    return [
        checked_leaf(f"{name}: the {what}", leaf, type) if carries_gradient(type.dtype) else None
        for leaf, type in zip(leaves, types, strict=True)
    ]


__all__ = ["jvp", "linearize", "vjp"]
