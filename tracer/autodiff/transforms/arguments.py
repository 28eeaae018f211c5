"""Arguments of a differentiated function: which ones, their checks, and tracing with them."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracer import tree
from tracer.array.array import Array
from tracer.array.convert import as_array, convert
from tracer.array.dispatch import apply_graph
from tracer.array.promotion import weak_class
from tracer.array.trace import Written, trace, write_back
from tracer.array.weak import Signature, WeakType, as_given, weak_positions, weakened
from tracer.errors import ArgumentError, DTypeError, ShapeError, TracerError
from tracer.ir import Graph, ShapeDtype
from tracer.ops.rules import dtype_kind


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
    weak_outputs : tuple of int
        The leaves of the result that are weak.
    written : tuple of (int, int)
        See `tracer.array.trace.Traced`.
    """

    graph: Graph
    arrays: list[Array]
    leaves: int
    in_tree: tree.Structure
    out_tree: tree.Structure
    paths: list[str]
    weak_outputs: tuple[int, ...]
    written: Written = ()

    @property
    def weak_inputs(self) -> tuple[int, ...]:
        """The leaves of arguments that are weak."""
        return weak_positions(self.arrays[: self.leaves])

    @property
    def signatures(self) -> list[Signature]:
        """The types of the leaves of arguments."""
        return [array._signature for array in self.arrays[: self.leaves]]

    def result(self, outputs: Sequence[Array]) -> Any:
        """Return the leaves of the result in their structure."""
        own = outputs[: self.out_tree.num_leaves]
        return tree.unflatten(self.out_tree, weakened(own, self.weak_outputs))

    def write_back(self, outputs: Sequence[Array]) -> None:
        """Let the arguments hold what the function wrote into them."""
        write_back(self.written, self.arrays[: self.leaves], outputs)

    def as_arguments(self, outputs: Sequence[Array]) -> Any:
        """Return arrays like the leaves of arguments in their structure."""
        return tree.unflatten(self.in_tree, weakened(outputs, self.weak_inputs))

    def run(self, graph: Graph, *more: Array) -> list[Array]:
        """Apply a graph that takes the inputs of this one and `more`."""
        return apply_graph(graph, [*self.arrays, *more])


def trace_in(
    name: str,
    function: Callable[..., Any],
    args: Sequence[Any],
    argnums: Sequence[int],
    kwargs: Mapping[str, Any],
    *,
    writes: str = "refuse",
) -> Traced:
    """Trace a function in the arguments at `argnums`; the others are passed as they are.

    With `writes="back"` the caller hands the outputs to `Traced.write_back`.
    """

    @functools.wraps(function)
    def function_of_some(*chosen: Any) -> Any:
        given = list(args)
        for position, value in zip(argnums, chosen, strict=True):
            given[position] = value
        return function(*given, **kwargs)

    chosen = tuple(args[position] for position in argnums)
    arrays, paths, structure = flatten_arrays(name, chosen, argnums)
    types = [array._signature for array in arrays]
    traced = trace(function_of_some, tree.unflatten(structure, types), writes=writes)
    everything = [*arrays, *traced.captured]
    return Traced(
        traced.graph,
        everything,
        len(arrays),
        structure,
        traced.out_tree,
        paths,
        traced.weak_outputs,
        traced.written,
    )


def flatten_arrays(
    name: str, values: Sequence[Any], argnums: Sequence[int] | None = None
) -> tuple[list[Array], list[str], tree.Structure]:
    """Return the leaves of a tuple of arguments as Arrays, their paths, and the structure.

    Python numbers become weak arrays.

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
                "argument that is not differentiated, or close over it; or "
                + tree.how_to_register(type(leaf)),
            )
    arrays = [
        named(f"{name}: {path}", as_given, leaf) for path, leaf in zip(shown, leaves, strict=True)
    ]
    return arrays, shown, structure


def named(what: str, convert: Callable[[Any], Array], leaf: Any) -> Array:
    """Return an argument as an Array; the errors of its conversion say which one it is."""
    try:
        return convert(leaf)
    except TracerError as error:
        error.what = f"{what}: {error.what}"
        error.args = (error.what,)
        raise


def _shown_path(path: str, numbers: Sequence[int]) -> str:
    number, _, rest = path.removeprefix("[").partition("]")
    return f"argument {numbers[int(number)]}" + (f" at {rest}" if rest else "")


def is_array_like(leaf: Any) -> bool:
    """Tell whether a leaf is an array or a number."""
    known = (Array, np.ndarray, np.generic, bool, int, float, complex)
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
    value, _ = tree.unflatten(traced.out_tree, range(traced.out_tree.num_leaves))
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
    cls = weak_class(leaf)
    takes_it = cls is not None and (cls is not complex or type.dtype.kind == "c")
    if isinstance(leaf, Array):
        array = convert(as_array(leaf), type.dtype) if takes_it else as_array(leaf)
    else:
        array = named(what, as_array, np.asarray(leaf, type.dtype) if takes_it else leaf)
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


def like_given(what: str, leaf: Any, signature: Signature) -> Array:
    """Return one leaf of a (co)tangent as an Array; that of a weak array may be of any float dtype.

    A weak array takes part in the dtype of what it meets, so a rule computes in that.
    """
    if not isinstance(signature, WeakType):
        return checked_leaf(what, leaf, signature)
    kinds = "fc" if signature.dtype.kind == "c" else "f"
    if is_array_like(leaf) and dtype_kind(as_array(leaf).dtype) in kinds:
        leaf = convert(as_array(leaf), signature.dtype)
    return checked_leaf(what, leaf, signature.type)


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
    "like_given",
    "named",
    "resolve_argnums",
    "split_aux",
    "trace_in",
    "value_leaves",
    "with_array_results",
]
