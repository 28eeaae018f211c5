"""From a Python function and the types of its arguments to a Graph."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from tracer import tree
from tracer.array import promotion
from tracer.array.array import Array
from tracer.array.recording import Reading, Recording, TracedArray, made_at, recorded
from tracer.array.stored import StoredType
from tracer.array.weak import ArgumentType, WeakType, argument, as_given, weak_positions, weakened
from tracer.errors import ArgumentError, DTypeError, Source, TracingError
from tracer.ir import SUPPORTED_DTYPES, Graph, ShapeDtype, as_dtype

Written: TypeAlias = tuple[tuple[int, int], ...]


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
    weak_outputs : tuple of int
        The results that are Python numbers or come only from them.
    written : tuple of (int, int)
        The arguments into which the function writes, and which outputs of the graph they hold then;
        those that are no results come after these.
    readings : tuple of Reading
        The concrete arrays that the function read, to tell whether one was written to since.
    """

    graph: Graph
    captured: tuple[Array, ...]
    in_tree: tree.Structure
    out_tree: tree.Structure
    weak_outputs: tuple[int, ...]
    written: Written = ()
    readings: tuple[Reading, ...] = ()

    @property
    def argument_types(self) -> tuple[ShapeDtype, ...]:
        """Types of the leaves of the arguments."""
        return self.graph.input_types[: len(self.graph.inputs) - len(self.captured)]

    @property
    def output_types(self) -> tuple[ShapeDtype, ...]:
        """Types of the leaves of the result."""
        return self.graph.output_types[: self.out_tree.num_leaves]

    def result(self, outputs: Sequence[Array]) -> Any:
        """Return the leaves of a result in their structure, the weak ones as weak arrays."""
        own = outputs[: self.out_tree.num_leaves]
        return tree.unflatten(self.out_tree, weakened(own, self.weak_outputs))


def trace(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    writes: str = "own",
) -> Traced:
    """Record what a function computes.

    Parameters
    ----------
    function : callable
        Takes and returns (nested containers of) arrays; called once, with traced arrays.
    args : sequence
        Arguments, nested; their leaves are arrays, numbers, `ShapeDtype` or `WeakType`, of which
        only the type matters. Python numbers are weak arrays in the function, whatever their value.
    kwargs : mapping, optional
        Keyword arguments, likewise.
    writes : {"own", "back", "apart", "refuse"}
        What becomes of an assignment to a part of an argument: the function's own business; an
        output for `write_back`, which may be one of the results, or none of them; an error.

    Returns
    -------
    Traced
        The graph, and what is needed to call it.

    Raises
    ------
    DTypeError
        A leaf of the arguments or the result is no array and no number.
    TracingError
        The function needs the value of a traced array, or writes where that is refused.

    Examples
    --------
    >>> import tracer
    >>> from tracer.array.trace import trace
    >>> traced = trace(lambda x: 2 * x, [tracer.ShapeDtype((3,), "float32")])
    >>> traced.output_types
    (ShapeDtype((3,), 'float32'),)
    """
    leaves, in_tree = tree.flatten((tuple(args), dict(kwargs or {})))
    types = [signature_of(leaf) for leaf in leaves]
    if None in types:
        raise _argument_error((tuple(args), dict(kwargs or {})))
    source = source_of(function)

    def record(recording: Recording) -> Traced:
        arrays = [argument(recording, type, source) for type in types if type is not None]
        given = [array._value for array in arrays]
        in_storage = [i for i, type in enumerate(types) if isinstance(type, StoredType)]
        call_args, call_kwargs = tree.unflatten(in_tree, arrays)
        result = function(*call_args, **call_kwargs)
        outputs, out_tree = _outputs(result)
        changed = [i for i, array in enumerate(arrays) if array._value is not given[i]]
        if not set(changed).isdisjoint(in_storage):
            raise TracingError(
                "the function writes into an argument that is in storage",
                mend="copy it first inside the function (x = x.copy()), or use "
                "x = x.at[index].set(value)",
            )
        written, more = _held_after(writes, arrays, changed, outputs)
        graph, captured = recording.finish([*outputs, *more])
        weak, readings = weak_positions(outputs), recording.readings
        return Traced(graph, tuple(captured), in_tree, out_tree, weak, written, readings)

    return recorded(record)


def _held_after(
    writes: str, arrays: Sequence[TracedArray], changed: Sequence[int], outputs: Sequence[Array]
) -> tuple[Written, list[Array]]:
    """Return `Traced.written`, and the outputs that it needs beside the results."""
    if writes == "own" or not changed:
        return (), []
    if writes == "refuse":
        array = arrays[changed[0]]
        raise TracingError(
            f"the function writes into its argument {changed[0]}, {array.type} (at "
            f"{made_at(array)}), and the caller's array cannot be updated here",
            mend="copy it first inside the function (x = x.copy()), or use "
            "x = x.at[index].set(value)",
        )
    values = [getattr(output, "_value", None) for output in outputs]
    written: list[tuple[int, int]] = []
    more: list[Array] = []
    for position in changed:
        value = arrays[position]._value
        if writes == "apart" or value not in values:
            more.append(arrays[position])
            values.append(value)
        place = len(values) - 1 if writes == "apart" else values.index(value)
        written.append((position, place))
    return tuple(written), more


def write_back(written: Written, arrays: Sequence[Array], outputs: Sequence[Array]) -> None:
    """Let the caller's arrays hold what a function wrote into its arguments.

    Raises
    ------
    ArgumentError
        One of them is another argument too, which the function did not see change.
    TracingError
        It was made outside of the trace that is active.
    """
    for position, _ in written:
        if sum(array is arrays[position] for array in arrays) > 1:
            raise ArgumentError(
                f"an array, {arrays[position].type}, is given as two arguments, and the function "
                "writes into one of them",
                mend="give x.copy() as one of them",
            )
    for position, place in written:
        arrays[position]._hold(outputs[place])


def signature_of(leaf: Any) -> ArgumentType | None:
    """Return the type of an argument's leaf, a `WeakType` where it is weak; None for no array."""
    if isinstance(leaf, WeakType | StoredType):
        return leaf
    type = leaf_type(leaf)
    return type if type is None or promotion.weak_class(leaf) is None else WeakType(type)


def leaf_type(leaf: Any) -> ShapeDtype | None:
    """Return the type of an argument's leaf; None if it is neither an array nor a number."""
    if isinstance(leaf, Array):
        return leaf._type
    if isinstance(leaf, ShapeDtype):
        return leaf
    if isinstance(leaf, WeakType):
        return leaf.type
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
        if isinstance(leaf, ShapeDtype | WeakType) or leaf_type(leaf) is None:
            path = tree.flatten_with_paths(result)[0][position]
            raise TracingError(
                f"the function returned result{path} {_described(leaf)}: no array and no number",
                mend="return arrays and numbers, nested in tuples, lists, dicts or registered "
                "classes; None where there is nothing",
            )
    return [as_given(leaf) for leaf in leaves], structure
