"""What a function returns and computes, without computing it; and waiting for what it returned."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracer import tree
from tracer.array.array import Array
from tracer.array.trace import trace
from tracer.errors import DTypeError
from tracer.ir import Graph


def eval_shape(fun: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return the shapes and dtypes of a function's results, without computing them.

    Parameters
    ----------
    fun : callable
        Takes and returns arrays in any nesting.
    *args, **kwargs
        Its arguments, of which only the types matter: arrays, numbers, or `ShapeDtype`.

    Returns
    -------
    result
        A `ShapeDtype` for each array, nested as the results.

    Raises
    ------
    DTypeError
        An argument or a result is no array and no number.

    Examples
    --------
    >>> import tracer
    >>> x = tracer.ShapeDtype((10**6, 3), "float32")
    >>> tracer.eval_shape(lambda x: x @ x.T, x)
    ShapeDtype((1000000, 1000000), 'float32')
    """
    _require_callable("eval_shape", fun)
    traced = trace(fun, args, kwargs)
    return tree.unflatten(traced.out_tree, traced.output_types)


def make_graph(fun: Callable[..., Any]) -> Callable[..., Graph]:
    """Make a function that returns the graph of what another one computes, as JAX's make_jaxpr.

    Parameters
    ----------
    fun : callable
        Takes and returns arrays in any nesting.

    Returns
    -------
    callable
        Takes the arguments of `fun`, of which only the types matter; returns a Graph, before any
        pass. `print` shows it.

    Examples
    --------
    >>> import tracer
    >>> graph = tracer.make_graph(lambda x: x + 1)(tracer.ShapeDtype((3,), "float32"))
    >>> [node.name for node in graph.nodes if node.op is not None][-1]
    'add'
    """
    _require_callable("make_graph", fun)

    def graph_of(*args: Any, **kwargs: Any) -> Graph:
        return trace(fun, args, kwargs).graph

    return graph_of


def block_until_ready(x: Any) -> Any:
    """Wait until all arrays are computed.

    Parameters
    ----------
    x
        Arrays in any nesting; other leaves are passed over.

    Returns
    -------
    x
        The same arrays.

    Examples
    --------
    >>> import tracer
    >>> import tracer.numpy as tnp
    >>> tracer.block_until_ready({"a": tnp.ones(3)})["a"].tolist()
    [1.0, 1.0, 1.0]
    """
    for leaf in tree.leaves(x):
        if isinstance(leaf, Array) and not leaf.is_traced:
            leaf.block_until_ready()
    return x


def _require_callable(name: str, fun: Any) -> None:
    if not callable(fun):
        raise DTypeError(f"{name}: {fun!r} is no function", mend="give a function")
