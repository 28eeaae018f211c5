"""Graphs as text: one line per node, exact enough to read back.

    graph(%0: float32[3,4], %1: float32[4]) {
      %2: float32[3] = dot_general(%0, %1) {lhs_batch=(), ...}  # model.py:88
      return %2
    }

Every scope, a loop's body too, counts its values from %0: bodies are closed. Constants are written
in full, since the text must give the same graph again (`Graph.fingerprint` is equal). Only the
comments, the user's lines, are not read back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from tracer.ir.graph import Graph, Node, Value
from tracer.ir.scanner import number
from tracer.ir.types import SUPPORTED_DTYPES, ShapeDtype

_SHOWN_ELEMENTS = 8
"""Constants with more elements are cut short in excerpts."""


def print_graph(graph: Graph, *, sources: bool = True) -> str:
    """Return `graph` as text that `parse_graph` reads back.

    Parameters
    ----------
    graph : Graph
        What to print.
    sources : bool
        Whether each line ends with the user's file and line as a comment. Without them the text
        does not change when the file that traced it does: right for golden tests.

    Returns
    -------
    str
        The text, with a newline between lines and none at the end.

    Examples
    --------
    >>> from tracer import ops
    >>> from tracer.ir import Builder, ShapeDtype, print_graph
    >>> with Builder() as builder:
    ...     x = builder.input(ShapeDtype((3,), "float32"))
    ...     graph = builder.finish([ops.negate(x)])
    >>> print(print_graph(graph, sources=False))
    graph(%0: float32[3]) {
      %1: float32[3] = negate(%0)
      return %1
    }
    """
    return "\n".join(_Printer(sources=sources, whole=True).graph(graph, ""))


def excerpt(graph: Graph, node: Node, *, around: int = 3) -> str:
    """Return the lines around `node`, which is marked, for an error's note.

    Bodies and large constants are cut short, and a broken graph (a value that is not defined,
    the very thing being reported) prints too.
    """
    printer = _Printer(sources=True, whole=False)
    names = printer.names(graph)
    position = graph.nodes.index(node) if node in graph.nodes else len(graph.nodes)
    first = max(position - around, 0)
    lines = [printer.header(graph, names)]
    lines += ["  ..."] if first else []
    for other in graph.nodes[first : position + around + 1]:
        mark = "> " if other is node else "  "
        lines += printer.node(other, names, mark)
    lines += ["  ..."] if position + around + 1 < len(graph.nodes) else []
    return "\n".join([*lines, printer.footer(graph, names), "}"])


class _Printer:
    """Prints graphs; `whole=False` cuts bodies and constants short."""

    def __init__(self, *, sources: bool, whole: bool) -> None:
        self.sources = sources
        self.whole = whole

    def graph(self, graph: Graph, indent: str) -> Iterator[str]:
        names = self.names(graph)
        yield self.header(graph, names)
        for node in graph.nodes:
            yield from self.node(node, names, indent + "  ")
        yield indent + self.footer(graph, names)
        yield indent + "}"

    def names(self, graph: Graph) -> dict[Value, str]:
        values = [*graph.inputs, *(value for node in graph.nodes for value in node.results)]
        return {value: f"%{number}" for number, value in enumerate(values)}

    def header(self, graph: Graph, names: Mapping[Value, str]) -> str:
        inputs = ", ".join(f"{names[value]}: {value.type}" for value in graph.inputs)
        return f"graph({inputs}) {{"

    def footer(self, graph: Graph, names: Mapping[Value, str]) -> str:
        return "  return " + _listed(graph.outputs, names) if graph.outputs else "  return"

    def node(self, node: Node, names: Mapping[Value, str], indent: str) -> Iterator[str]:
        results = ", ".join(f"{names[value]}: {value.type}" for value in node.results)
        line = f"{indent}{results} = {node.name}({_listed(node.operands, names)})"
        comment = ""
        if self.sources and node.source is not None:
            comment = f"  # {node.source.place}"
        plain = {key: node.params[key] for key in node.params if key not in node.bodies}
        if plain:
            shown = ", ".join(f"{key}={self.param(value)}" for key, value in plain.items())
            line += f" {{{shown}}}"
        if not node.bodies:
            yield line + comment
            return
        yield f"{line} with{comment}"
        for key, bodies in node.bodies.items():
            yield from self.bodies(key, bodies, indent + "  ")

    def bodies(self, key: str, bodies: Graph | tuple[Graph, ...], indent: str) -> Iterator[str]:
        if not self.whole:
            yield f"{indent}{key}=..."
            return
        if isinstance(bodies, Graph):
            first, *rest = self.graph(bodies, indent)
            yield f"{indent}{key}={first}"
            yield from rest
            return
        yield f"{indent}{key}=("
        for body in bodies:
            first, *rest, last = self.graph(body, indent + "  ")
            yield f"{indent}  {first}"
            yield from rest
            yield f"{last},"
        yield f"{indent})"

    def param(self, value: Any) -> str:
        if isinstance(value, np.dtype):
            return SUPPORTED_DTYPES[value]
        if isinstance(value, np.ndarray):
            return self.array(value)
        if isinstance(value, tuple):
            items = ", ".join(map(self.param, value))
            return f"({items},)" if len(value) == 1 else f"({items})"
        return repr(value)

    def array(self, array: np.ndarray[Any, Any]) -> str:
        type = ShapeDtype(array.shape, array.dtype)
        if not self.whole and array.size > _SHOWN_ELEMENTS:
            return f"{type} [...]"
        if _is_splat(array):
            return f"{type} splat {_element(array.flat[0])}"
        return f"{type} {_dense(array)}"


def _listed(values: tuple[Value, ...], names: Mapping[Value, str]) -> str:
    return ", ".join(names.get(value, "%undefined") for value in values)


def _is_splat(array: np.ndarray[Any, Any]) -> bool:
    """Tell whether all elements have the same bytes: -0.0 differs from 0.0, NaN is like NaN."""
    if array.size < 2:
        return False
    elements = np.ascontiguousarray(array).view(np.uint8).reshape(array.size, array.itemsize)
    return bool((elements == elements[0]).all())


def _dense(array: np.ndarray[Any, Any]) -> str:
    if array.ndim == 0:
        return _element(array[()])
    return f"[{', '.join(map(_dense, array))}]"


def _element(element: Any) -> str:
    """Write one element: the shortest decimal, or its bits where that would not read back."""
    kind = element.dtype.kind
    if kind == "b":
        return str(bool(element))
    if kind in "iu":
        return str(int(element))
    if kind == "c":
        return f"({_element(element.real)}, {_element(element.imag)})"
    text = str(element)
    if number(text, element.dtype).tobytes() == element.tobytes():
        return text
    bits = np.frombuffer(element.tobytes(), f"u{element.dtype.itemsize}")[0]
    return f"bits:{int(bits):#x}"


# `str(graph)` is its text; the class knows no text, which is made of graphs.
Graph.__str__ = print_graph  # type: ignore[assignment] # object has it for all objects

__all__ = ["excerpt", "print_graph"]
