"""Arguments of a differentiated function: which are meant, are they arrays, tracing in them."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracer import tree
from tracer.errors import ArgumentError, DTypeError, ShapeError
from tracer.ir import Graph, ShapeDtype
from tracer.numpy.array import Array
from tracer.numpy.base import ArrayBase
from tracer.numpy.convert import as_array
from tracer.numpy.dispatch import apply_graph
from tracer.trace import trace


@dataclass(frozen=True)
class Traced:
    """A function of some of its arguments, traced.

    Attributes
    ----------
    graph : Graph
        Inputs are the leaves of those arguments, then the arrays that the function closes over.
    arrays : list of Array
        The inputs of the graph.
    leaves : int
        How many inputs are leaves of arguments.
    in_tree, out_tree : Structure
        Structures of the tuple of those arguments and of the result.
    paths : list of str
        Where in the arguments each leaf is.
    """

    graph: Graph
    arrays: list[Array]
    leaves: int
    in_tree: tree.Structure
    out_tree: tree.Structure
    paths: list[str]

    def run(self, graph: Graph, *more: Array) -> list[Array]:
        """Apply a graph that takes the inputs of this one and `more`."""
        return apply_graph(graph, [*self.arrays, *more])


def trace_in(
    name: str,
    function: Callable[..., Any],
    args: Sequence[Any],
    argnums: Sequence[int],
    kwargs: Mapping[str, Any],
) -> Traced:
    """Trace a function in the arguments at `argnums`; the others are passed as they are."""

    @functools.wraps(function)
    def function_of_some(*chosen: Any) -> Any:
        given = list(args)
        for position, value in zip(argnums, chosen, strict=True):
            given[position] = value
        return function(*given, **kwargs)

    chosen = tuple(args[position] for position in argnums)
    arrays, paths, structure = flatten_arrays(name, chosen, argnums)
    types = [array.type for array in arrays]
    traced = trace(function_of_some, tree.unflatten(structure, types))
    everything = [*arrays, *traced.captured]
    return Traced(traced.graph, everything, len(arrays), structure, traced.out_tree, paths)


def flatten_arrays(
    name: str, values: Sequence[Any], argnums: Sequence[int] | None = None
) -> tuple[list[Array], list[str], tree.Structure]:
    """Return the leaves of a tuple of arguments as Arrays, their paths, and the structure.

    Raises
    ------
    DTypeError
        A leaf is no array, nor a number.
    """
    paths, leaves, structure = tree.flatten_with_paths(tuple(values))
    numbers = range(len(values)) if argnums is None else argnums
    shown = [_shown_path(path, numbers) for path in paths]
    for path, leaf in zip(shown, leaves, strict=True):
        if not is_array_like(leaf):
            raise DTypeError(
                f"{name}: {path} is {describe(leaf)}, which is no array",
                mend="give arrays or numbers (in tuples, lists, dicts); pass anything else as an "
                "argument that is not differentiated, or close over it",
            )
    return [as_array(leaf) for leaf in leaves], shown, structure


def _shown_path(path: str, numbers: Sequence[int]) -> str:
    number, _, rest = path.removeprefix("[").partition("]")
    return f"argument {numbers[int(number)]}" + (f" at {rest}" if rest else "")


def is_array_like(leaf: Any) -> bool:
    """Tell whether a leaf is an array or a number."""
    known = (ArrayBase, np.ndarray, np.generic, bool, int, float, complex)
    return isinstance(leaf, known) or hasattr(leaf, "__array__")


def split_aux(name: str, result: Any) -> tuple[Any, Any]:
    """Return the two parts of a `(value, aux)` result."""
    if not isinstance(result, tuple) or len(result) != 2:
        raise DTypeError(
            f"{name} with has_aux=True: the function returned {describe(result)}",
            mend="return a pair (value, aux)",
        )
    return result


def with_array_results(
    name: str, fun: Callable[..., Any], has_aux: bool
) -> Callable[..., tuple[Any, Any]]:
    """Return a function with the result `(value, aux)`, value being nested arrays."""

    @functools.wraps(fun)
    def checked(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        result = fun(*args, **kwargs)
        value, aux = split_aux(name, result) if has_aux else (result, ())
        for leaf in tree.leaves(value):
            if not is_array_like(leaf):
                raise DTypeError(
                    f"{name}: the function returned {describe(leaf)}, which is no array",
                    mend="return arrays; return anything further as aux, with has_aux=True",
                )
        return value, aux

    return checked


def value_leaves(traced: Traced) -> int:
    """Return the number of arrays in the value of a traced `(value, aux)`."""
    value, _ = tree.unflatten(traced.out_tree, range(len(traced.graph.outputs)))
    return len(tree.leaves(value))


def describe(value: Any) -> str:
    """Return a short description of any object for an error message."""
    text = repr(value)
    return f"{text if len(text) <= 60 else text[:57] + '...'} (a {type(value).__name__})"


def check_argnums(name: str, argnums: Any) -> tuple[int, ...]:
    """Return `argnums` as a tuple of ints.

    Raises
    ------
    DTypeError
        It is neither an integer nor a sequence of integers.
    """
    items = argnums if isinstance(argnums, tuple | list) else (argnums,)
    try:
        if any(isinstance(item, bool | np.bool_) for item in items):
            raise TypeError
        return tuple(operator.index(item) for item in items)
    except TypeError as error:
        raise DTypeError(
            f"{name}: argnums is an integer or a tuple of integers, not {argnums!r}",
            mend="count the positional arguments from 0, such as argnums=0 or argnums=(0, 2)",
        ) from error


def resolve_argnums(name: str, argnums: Sequence[int], count: int) -> tuple[int, ...]:
    """Return `argnums` as distinct positions among `count` positional arguments.

    Raises
    ------
    ArgumentError
        A number has no argument, or two name the same one.
    """
    for number in argnums:
        if not -count <= number < count:
            raise ArgumentError(
                f"{name}: argnums {number} is out of range: the call has {count} positional "
                f"argument{'' if count == 1 else 's'}",
                mend="pass the argument by position, not by keyword, and count from 0",
            )
    resolved = tuple(number % count for number in argnums)
    if len(set(resolved)) != len(resolved):
        raise ArgumentError(
            f"{name}: argnums {tuple(argnums)} name an argument twice", mend="name each one once"
        )
    return resolved


def checked_leaf(what: str, leaf: Any, type: ShapeDtype) -> Array:
    """Return one leaf of a tangent or cotangent as an Array of the wanted type.

    Raises
    ------
    ShapeError, DTypeError
        It has another shape or dtype, or is no array.
    """
    if not is_array_like(leaf):
        raise DTypeError(
            f"{what} is {describe(leaf)}, which is no array", mend=f"give an array of type {type}"
        )
    # Python numbers have no dtype of their own and take the wanted one.
    numbers = (bool, int, float, complex) if type.dtype.kind == "c" else (bool, int, float)
    weak = isinstance(leaf, numbers) and not isinstance(leaf, np.generic)
    array = as_array(np.asarray(leaf, type.dtype) if weak else leaf)
    if array.shape != type.shape:
        raise ShapeError(
            f"{what} has shape {array.shape}, its value has type {type}",
            mend=f"give an array of shape {type.shape}",
        )
    if array.dtype != type.dtype:
        raise DTypeError(
            f"{what} has dtype {array.dtype}, its value has type {type}",
            mend=f"convert it with astype({str(type.dtype)!r})",
        )
    return array


def check_callable(name: str, function: Any) -> None:
    """Raise `DTypeError` unless `function` can be called."""
    if not callable(function):
        raise DTypeError(
            f"{name} takes a function, not {function!r}",
            mend=f"write {name}(f)(x), not {name}(f(x))",
        )


__all__ = [
    "Traced",
    "check_argnums",
    "check_callable",
    "checked_leaf",
    "describe",
    "flatten_arrays",
    "is_array_like",
    "resolve_argnums",
    "split_aux",
    "trace_in",
    "value_leaves",
    "with_array_results",
]
