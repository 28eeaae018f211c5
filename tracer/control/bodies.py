"""Tracing of loop bodies and branches, and the checks that their types agree."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracer import tree
from tracer.array.array import Array
from tracer.array.convert import as_array, convert
from tracer.array.promotion import scalar_value, weak_class, weak_dtype
from tracer.array.recording import Recording, TracedArray, recorded
from tracer.array.weak import Signature, WeakType, argument, as_given, as_weak
from tracer.errors import DTypeError, ShapeError, TracingError
from tracer.ir import SUPPORTED_DTYPES, Builder, Graph, ShapeDtype, Value


@dataclass(frozen=True)
class Arguments:
    """Nested arrays given to a loop or a branch.

    Attributes
    ----------
    arrays : list of Array
        The leaves; Python numbers are weak arrays, whose dtype may still change.
    paths : list of str
        Where each leaf is, written as Python.
    structure : Structure
        How they are nested.
    """

    arrays: list[Array]
    paths: list[str]
    structure: tree.Structure

    @property
    def types(self) -> list[ShapeDtype]:
        """Types of the leaves."""
        return [array.type for array in self.arrays]

    @property
    def signatures(self) -> list[Signature]:
        """Types of the leaves, and which of them are weak."""
        return [array._signature for array in self.arrays]


@dataclass(frozen=True)
class Body:
    """A traced body: inputs of the graph are its arguments, then what it closes over.

    Attributes
    ----------
    graph : Graph
        The body.
    captured : list of Array
        What it closes over.
    structure : Structure
        How the result is nested.
    outputs : list of Signature
        Types of the result's leaves, and which of them are weak.
    """

    graph: Graph
    captured: list[Array]
    structure: tree.Structure
    outputs: list[Signature]


def check_callable(name: str, what: str, function: Any) -> None:
    """Raise `DTypeError` unless `function` can be called."""
    if not callable(function):
        raise DTypeError(f"{name}: {what} is {function!r}, which is no function", mend="give one")


def flatten_arguments(name: str, what: str, values: Any, inside: str = "") -> Arguments:
    """Return the leaves of nested arrays; of what users gave, `inside` is where it stands.

    Raises
    ------
    DTypeError
        A leaf is no array, nor a number.
    """
    paths, leaves, structure = tree.flatten_with_paths(values)
    paths = [path.removeprefix(inside) for path in paths]
    for path, leaf in zip(paths, leaves, strict=True):
        _require_array(name, f"{what}{path}", leaf)
    return Arguments([as_given(leaf) for leaf in leaves], paths, structure)


def _require_array(name: str, what: str, leaf: Any) -> None:
    known = (Array, np.ndarray, np.generic, bool, int, float, complex)
    if not isinstance(leaf, known) and not hasattr(leaf, "__array__"):
        raise DTypeError(
            f"{name}: {what} is {leaf!r}, a {type(leaf).__name__}, which is no array",
            mend="use arrays and numbers, in tuples, lists and dicts; anything else can be "
            "closed over",
        )


def trace_body(
    name: str,
    function: Callable[..., Any],
    structure: tree.Structure,
    types: Sequence[Signature],
    expected: Sequence[Signature] = (),
) -> Body:
    """Trace a body whose positional arguments have this structure and these types.

    Weak leaves of the result take the dtype of the leaf at their place in `expected`.
    """

    def record(recording: Recording) -> Body:
        arguments = [argument(recording, type) for type in types]
        result = function(*tree.unflatten(structure, arguments))
        paths, leaves, found = tree.flatten_with_paths(result)
        outputs = []
        for position, (path, leaf) in enumerate(zip(paths, leaves, strict=True)):
            require_result(name, function, path, leaf)
            wanted = expected[position] if position < len(expected) else None
            outputs.append(_as_output(leaf, wanted))
        graph, captured = recording.finish(outputs)
        return Body(graph, captured, found, [output._signature for output in outputs])

    return recorded(record)


def require_result(name: str, function: Any, path: str, leaf: Any) -> None:
    """Raise `DTypeError` unless a leaf of what a function of the user's returned is an array."""
    _require_array(name, f"the result{path} of {_name_of(function)}", leaf)


def _name_of(function: Any) -> str:
    return getattr(function, "__name__", None) or type(function).__name__


def _as_output(leaf: Any, wanted: Signature | None) -> Array:
    cls = weak_class(leaf)
    if cls is None or wanted is None or weak_dtype(wanted.dtype, cls) != wanted.dtype:
        return as_given(leaf)
    if isinstance(leaf, Array):
        array = convert(as_array(leaf), wanted.dtype)
    else:
        array = as_array(scalar_value(leaf, wanted.dtype))
    return as_weak(array) if isinstance(wanted, WeakType) else array


def check_same(
    name: str,
    first: tuple[str, tree.Structure, Sequence[ShapeDtype]],
    second: tuple[str, tree.Structure, Sequence[ShapeDtype]],
    paths: Sequence[str],
    mend: str,
    results: Sequence[Value] = (),
) -> None:
    """Raise unless two sets of leaves have the same structure, shapes and dtypes.

    Parameters
    ----------
    name : str
        The function the user called.
    first, second : tuple
        What they are, their structure and their types.
    paths : sequence of str
        Where each leaf is.
    mend : str
        What the user can write instead.
    results : sequence of Value
        The leaves of the second set in their graph: to say where another dtype comes from.

    Raises
    ------
    TracingError
        The structures differ.
    ShapeError, DTypeError
        The shapes or the dtypes of a leaf differ.
    """
    if first[1] != second[1]:
        raise TracingError(
            f"{name}: {first[0]} is nested as {first[1]}, {second[0]} as {second[1]}", mend=mend
        )
    for i, (path, one, other) in enumerate(zip(paths, first[2], second[2], strict=True)):
        if one is other:
            continue
        at = f" at {path}" if path else ""
        what = f"{name}: {first[0]}{at} is {one}, {second[0]}{at} is {other}"
        if one.shape != other.shape:
            raise ShapeError(what, mend=mend)
        raise DTypeError(what + (_origin(results[i]) if results else ""), mend=mend)


def _origin(result: Value) -> str:
    """Say at which line the dtype of a result comes up."""
    value = result
    while True:
        same = [x for x in value.node.operands if x.dtype == result.dtype and x.node.op is not None]
        if not same:
            break
        value = same[0]
    if value.node.op is None or value.node.source is None:
        return ""
    return f"\n  {SUPPORTED_DTYPES[result.dtype]} comes up at {value.node.source}"


class Captures:
    """The arrays that several bodies close over, each one once."""

    def __init__(self, *bodies: Body) -> None:
        self.arrays: list[Array] = []
        self._positions: dict[int, int] = {}
        for body in bodies:
            for array in body.captured:
                if _identity(array) not in self._positions:
                    self._positions[_identity(array)] = len(self.arrays)
                    self.arrays.append(array)

    @property
    def types(self) -> list[ShapeDtype]:
        """Types of the arrays."""
        return [array.type for array in self.arrays]

    def inline(self, body: Body, builder: Builder) -> Any:
        """Add inputs to `builder`, captures then arguments; inline the body on them.

        Returns
        -------
        (list of Value, list of Value, list of Value)
            The captured inputs, the argument inputs and the body's results.
        """
        own = body.graph.input_types[: len(body.graph.inputs) - len(body.captured)]
        closed = [builder.input(type) for type in self.types]
        arguments = [builder.input(type) for type in own]
        used = [closed[self._positions[_identity(array)]] for array in body.captured]
        return closed, arguments, builder.inline(body.graph, [*arguments, *used])

    def graph_of(self, body: Body) -> Graph:
        """Return the body's graph with inputs: captures, then arguments."""
        with Builder() as builder:
            _, _, results = self.inline(body, builder)
            return builder.finish(results)


def _identity(array: Array) -> int:
    return id(array._value if isinstance(array, TracedArray) else array._buffer)


__all__ = [
    "Arguments",
    "Body",
    "Captures",
    "check_callable",
    "check_same",
    "flatten_arguments",
    "trace_body",
]
