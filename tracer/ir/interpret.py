"""Evaluate a graph with NumPy, one node after another: the oracle for everything else.

It knows no particular op: each record's `evaluate` says what the op means. Ops with bodies
(`while`, `case`) call `interpret` again on their bodies.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NoReturn, Protocol

import numpy as np

from tracer.errors import ArgumentError, DTypeError, ShapeError, VerifyError
from tracer.ir.graph import Graph, Node, Value
from tracer.ir.types import ShapeDtype

Array = np.ndarray[Any, Any]


class Observer(Protocol):
    """Is told what the interpreter does."""

    def enter(self, graph: Graph) -> None:
        """Take note that a graph begins: the whole one, or a body of the node that runs."""

    def start(self, node: Node) -> None:
        """Take note that a node begins."""

    def end(self, node: Node, operands: Sequence[Array], results: Sequence[Array]) -> None:
        """Take note of what a node computed."""

    def leave(self) -> None:
        """Take note that the graph that began last has ended."""


_OBSERVER: ContextVar[Observer | None] = ContextVar("observer of the interpreter", default=None)


@contextmanager
def observed(observer: Observer) -> Iterator[None]:
    """Tell an observer of all graphs that are interpreted within the context."""
    token = _OBSERVER.set(observer)
    try:
        yield
    finally:
        _OBSERVER.reset(token)


def interpret(graph: Graph, arrays: Sequence[Array]) -> list[Array]:
    """Evaluate `graph` on NumPy arrays.

    Values are freed after their last use, so the oracle needs no more memory than the program.

    Parameters
    ----------
    graph : Graph
        What to compute.
    arrays : sequence of np.ndarray
        One for each input, of exactly the input's shape and dtype; nothing is converted.

    Returns
    -------
    list of np.ndarray
        One read-only array for each output. They may share memory with `arrays`.

    Raises
    ------
    ArgumentError
        The number of arrays is not the number of inputs.
    ShapeError, DTypeError
        An array does not have the type of its input.
    VerifyError
        An op's evaluation gave another type than its shape rule inferred.

    Examples
    --------
    >>> import numpy as np
    >>> from tracer import ops
    >>> from tracer.ir import Builder, ShapeDtype, interpret
    >>> with Builder() as builder:
    ...     x = builder.input(ShapeDtype((3,), "float32"))
    ...     graph = builder.finish([ops.add(x, x)])
    >>> interpret(graph, [np.arange(3, dtype="float32")])
    [array([0., 2., 4.], dtype=float32)]
    """
    values = _bind(graph, arrays)
    last_users = _last_users(graph)
    for value in graph.inputs:
        if value not in last_users:
            del values[value]
    observer = _OBSERVER.get()
    if observer is not None:
        observer.enter(graph)
    for node in graph.nodes:
        results = _evaluate(node, [values[operand] for operand in node.operands], observer)
        for operand in set(node.operands):
            if last_users[operand] is node:
                del values[operand]
        pairs = zip(node.results, results, strict=True)
        values.update((value, array) for value, array in pairs if value in last_users)
        del results, pairs
    if observer is not None:
        observer.leave()
    return [_read_only(values[value]) for value in graph.outputs]


def _bind(graph: Graph, arrays: Sequence[Array]) -> dict[Value, Array]:
    if len(arrays) != len(graph.inputs):
        raise ArgumentError(
            f"the graph has {len(graph.inputs)} inputs, got {len(arrays)} arrays",
            mend="give one array for each input",
        )
    values = {}
    for position, (value, given) in enumerate(zip(graph.inputs, arrays, strict=True)):
        array = np.asarray(given)
        mend = "convert it before the call: the interpreter converts nothing"
        if array.dtype != value.dtype:
            raise DTypeError(f"input {position} is {value.type}, got {array.dtype}", mend=mend)
        if array.shape != value.shape:
            raise ShapeError(f"input {position} is {value.type}, got {array.shape}", mend=mend)
        values[value] = array
    return values


def _last_users(graph: Graph) -> dict[Value, Node | None]:
    """Map each value that is used to the last node that reads it; None for the outputs."""
    users: dict[Value, Node | None] = {}
    for node in graph.nodes:
        users.update(dict.fromkeys(node.operands, node))
    users.update(dict.fromkeys(graph.outputs))
    return users


def _evaluate(node: Node, operands: list[Array], observer: Observer | None) -> list[Array]:
    assert node.op is not None
    if observer is not None:
        observer.start(node)
    try:
        evaluated = node.op.evaluate(*operands, **node.params)
    except Exception as error:
        error.add_note(f"while interpreting {node!r} of {node.source}")
        raise
    results = list(evaluated) if isinstance(evaluated, tuple) else [evaluated]
    if len(results) != len(node.types):
        _refuse(node, f"{len(results)} results instead of {len(node.types)}")
    checked = [_checked(node, *pair) for pair in zip(results, node.types, strict=True)]
    if observer is not None:
        observer.end(node, operands, checked)
    return checked


def _checked(node: Node, result: Any, type: ShapeDtype) -> Array:
    # NumPy returns scalars for 0-d results; Python numbers have no dtype and are refused.
    if not isinstance(result, np.ndarray | np.generic):
        _refuse(node, f"a {result.__class__.__name__} instead of {type}")
    array = np.asarray(result)
    if array.dtype != type.dtype or array.shape != type.shape:
        _refuse(node, f"{array.dtype}{list(array.shape)} instead of {type}")
    return array


def _refuse(node: Node, got: str) -> NoReturn:
    raise VerifyError(
        f"evaluation of {node.name!r} gave {got}",
        mend=f"make the rules `infer` and `evaluate` of the op record {node.name!r} agree",
        where=node.source,
    )


def _read_only(array: Array) -> Array:
    view = array.view()
    view.flags.writeable = False
    return view


__all__ = ["Observer", "interpret", "observed"]
