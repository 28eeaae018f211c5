"""linear_transpose, with JAX's name and semantics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracer import tree
from tracer.array.dispatch import apply_graph
from tracer.array.trace import trace
from tracer.array.weak import weak_positions, weakened
from tracer.autodiff import vjp_graph
from tracer.autodiff.activity import carries_gradient
from tracer.autodiff.transforms.arguments import check_callable, checked_leaf
from tracer.errors import DTypeError, NotDifferentiableError
from tracer.ir import Graph


def linear_transpose(fun: Callable[..., Any], *primals: Any) -> Callable[..., tuple[Any, ...]]:
    """Return the transpose of a linear function.

    Parameters
    ----------
    fun : callable
        Linear in all its arguments together; takes and returns floating or complex arrays in any
        nesting. It may close over arrays.
    *primals
        Arrays or `ShapeDtype` in the place of the arguments; only their types matter.

    Returns
    -------
    callable
        Takes a cotangent nested as the result of `fun`; returns a tuple with one cotangent for
        each argument. Complex numbers are not conjugated.

    Raises
    ------
    DTypeError
        An argument or a result is neither floating nor complex; a cotangent does not fit.
    NotDifferentiableError
        `fun` is not linear, or an op has no derivative.

    Notes
    -----
    Linearity is told by the transpose, which must not read the arguments; constant terms are not
    found.

    Examples
    --------
    >>> import tracer
    >>> import tracer.numpy as tnp
    >>> matrix = tnp.array([[1.0, 2.0], [3.0, 4.0]])
    >>> vector = tracer.ShapeDtype((2,), "float64")
    >>> transpose = tracer.linear_transpose(lambda x: matrix @ x, vector)
    >>> transpose(tnp.array([1.0, 0.0]))[0].tolist()
    [1.0, 2.0]
    """
    check_callable("linear_transpose", fun)
    traced = trace(fun, primals)
    arguments = traced.argument_types
    for type in (*arguments, *traced.output_types):
        if not carries_gradient(type.dtype):
            raise DTypeError(
                f"linear_transpose: an argument or a result has type {type}",
                mend="give a function of floating or complex arrays; close over the others",
            )
    transposed = vjp_graph(traced.graph, range(len(arguments)))
    _require_unread(transposed, len(arguments))
    (structure, _) = tree.unflatten(traced.in_tree, arguments)
    weak = weak_positions(tree.leaves(primals))

    def transpose(cotangent: Any) -> tuple[Any, ...]:
        leaves, given = tree.flatten(cotangent)
        if given != traced.out_tree:
            raise DTypeError(
                f"linear_transpose: the cotangent has the structure {given}, the result of the "
                f"function has {traced.out_tree}",
                mend="give a cotangent nested as the result",
            )
        pairs = zip(leaves, traced.output_types, strict=True)
        seeds = [checked_leaf("linear_transpose: the cotangent", *pair) for pair in pairs]
        found = apply_graph(graph, [*traced.captured, *seeds])
        return tuple(tree.unflatten(tree.structure(structure), weakened(found, weak)))

    graph = Graph(transposed.inputs[len(arguments) :], transposed.outputs, transposed.nodes)
    return transpose


def _require_unread(transposed: Graph, count: int) -> None:
    read = {operand for node in transposed.nodes for operand in node.operands}
    for value in transposed.inputs[:count]:
        if value in read:
            raise NotDifferentiableError(
                "linear_transpose: the function is not linear: its transpose depends on the "
                f"argument of type {value.type}",
                mend="for the derivative of a function that is not linear use vjp",
            )


__all__ = ["linear_transpose"]
