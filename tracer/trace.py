"""From a Python function and the types of its arguments to a Graph."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracer import tree
from tracer.errors import DTypeError, TracingError
from tracer.ir import SUPPORTED_DTYPES, Graph, ShapeDtype, as_dtype
from tracer.numpy import promotion
from tracer.numpy.array import Array
from tracer.numpy.base import ArrayBase
from tracer.numpy.convert import as_array
from tracer.numpy.recording import Recording
from tracer.source import Source


@dataclass(frozen=True)
class Traced:
    """What tracing found out about a function.

    Attributes
    ----------
    graph : Graph
        Its inputs are the leaves of the arguments, then the captured arrays.
    captured : tuple of Array
        Arrays that the function used without taking them as arguments.
    in_tree : Structure
        Of `(args, kwargs)`.
    out_tree : Structure
        Of what the function returns.
    """

    graph: Graph
    captured: tuple[Array, ...]
    in_tree: tree.Structure
    out_tree: tree.Structure

    @property
    def argument_types(self) -> tuple[ShapeDtype, ...]:
        """Types of the leaves of the arguments."""
        return self.graph.input_types[: len(self.graph.inputs) - len(self.captured)]

    @property
    def output_types(self) -> tuple[ShapeDtype, ...]:
        """Types of the leaves of the result."""
        return self.graph.output_types


def trace(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any] | None = None
) -> Traced:
    """Record what a function computes.

    Parameters
    ----------
    function : callable
        Takes and returns (nested containers of) arrays; called once, with traced arrays.
    args : sequence
        Arguments, nested; their leaves are arrays, numbers or `ShapeDtype`, of which only the type
        matters. Python numbers stand for arrays of NumPy's default dtype for them.
    kwargs : mapping, optional
        Keyword arguments, likewise.

    Returns
    -------
    Traced
        The graph, and what is needed to call it.

    Raises
    ------
    DTypeError
        A leaf of the arguments or the result is no array and no number.
    TracingError
        The function needs the value of a traced array.

    Examples
    --------
    >>> import tracer
    >>> from tracer.trace import trace
    >>> traced = trace(lambda x: 2 * x, [tracer.ShapeDtype((3,), "float32")])
    >>> traced.output_types
    (ShapeDtype((3,), 'float32'),)
    """
    leaves, in_tree = tree.flatten((tuple(args), dict(kwargs or {})))
    types = [leaf_type(leaf) for leaf in leaves]
    if None in types:
        raise _argument_error((tuple(args), dict(kwargs or {})))
    source = source_of(function)
    with Recording() as recording:
        arrays = [recording.argument(type, source) for type in types if type is not None]
        call_args, call_kwargs = tree.unflatten(in_tree, arrays)
        result = function(*call_args, **call_kwargs)
        outputs, out_tree = _outputs(result)
        graph, captured = recording.finish(outputs)
    return Traced(graph, tuple(captured), in_tree, out_tree)


def leaf_type(leaf: Any) -> ShapeDtype | None:
    """Return the type of an argument's leaf; None for what is no array and no number."""
    if isinstance(leaf, ArrayBase):
        return leaf._type
    if isinstance(leaf, ShapeDtype):
        return leaf
    if isinstance(leaf, np.ndarray | np.generic):
        is_known = leaf.dtype in SUPPORTED_DTYPES or leaf.dtype.kind in "biufc"
        return ShapeDtype(leaf.shape, as_dtype(leaf.dtype)) if is_known else None
    scalar_class = promotion.weak_class(leaf)
    return None if scalar_class is None else ShapeDtype((), promotion.default_dtype(scalar_class))


def _argument_error(arguments: tuple[tuple[Any, ...], dict[str, Any]]) -> DTypeError:
    paths, leaves, _ = tree.flatten_with_paths(arguments)
    path, leaf = next(
        (path, leaf) for path, leaf in zip(paths, leaves, strict=True) if leaf_type(leaf) is None
    )
    name = "args" + path[3:] if path.startswith("[0]") else "kwargs" + path[3:]
    return DTypeError(
        f"{name} is {_described(leaf)}: no array and no number",
        mend="pass an array, make the argument static (static_argnums), or register the class with "
        "tracer.register_pytree_node",
    )


def _described(leaf: Any) -> str:
    if isinstance(leaf, np.ndarray):
        return f"a NumPy array of dtype {leaf.dtype}"
    return f"of type {type(leaf).__module__}.{type(leaf).__qualname__}"


def source_of(function: Callable[..., Any]) -> Source | None:
    """Return where a function, or what it wraps, is defined, when that is a Python function."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return None
    return Source(code.co_filename, code.co_firstlineno, code.co_name)


def _outputs(result: Any) -> tuple[list[Array], tree.Structure]:
    leaves, structure = tree.flatten(result)
    for position, leaf in enumerate(leaves):
        if isinstance(leaf, ShapeDtype) or leaf_type(leaf) is None:
            path = tree.flatten_with_paths(result)[0][position]
            raise TracingError(
                f"the function returned result{path} {_described(leaf)}: no array and no number",
                mend="return arrays and numbers, nested in tuples, lists, dicts or registered "
                "classes; None where there is nothing",
            )
    return [as_array(leaf) for leaf in leaves], structure
