"""Check that a graph obeys the rules of the language. Every pass's output goes through here.

The checks derive everything again from `node.operands` and the op records; they trust neither the
stored types nor the networkx edges.
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NoReturn

import numpy as np

from tracer.errors import TracerError, VerifyError
from tracer.ir.graph import Graph, Node, Value
from tracer.ir.host import HostFunction
from tracer.ir.text import excerpt
from tracer.ir.types import SUPPORTED_DTYPES, ShapeDtype

_MEND = "this is a bug in the pass that made the graph: turn that pass off, and please report it"
_SCALARS = (int, float, bool, str, type(None))


def verify(graph: Graph) -> None:
    """Check that `graph` is well formed, bodies of loops and branches included.

    Parameters
    ----------
    graph : Graph
        The graph to check.

    Raises
    ------
    VerifyError
        A value is used before its definition or comes from another graph (a body that is not
        closed, for one); a stored type is not the one the op infers; a parameter is of a kind
        that has no place in a graph; inputs are not distinct; an output is not defined; the
        networkx edges differ from the operands. The error carries the node's user line, and the
        text of the graph around the node as a note.
    """
    _verify(graph, set())


def _verify(graph: Graph, verified: set[Graph]) -> None:
    """Check a graph, and those of its bodies that were not found right already."""
    defined = set(_checked_inputs(graph))
    seen: set[Node] = set()
    for node in graph.nodes:
        if node in seen:
            _refuse(graph, node, f"{node.name!r} occurs twice in the order")
        seen.add(node)
        _check_operands(graph, node, defined)
        _check_params(graph, node, verified)
        _check_types(graph, node)
        defined.update(node.results)
    for position, value in enumerate(graph.outputs):
        if value not in defined:
            _refuse(graph, value.node, f"output {position}, {value!r}, is not defined here")
    if "dag" in vars(graph):  # else it is made of the operands when it is first asked for
        _check_edges(graph)
    verified.add(graph)


def verify_same_signature(before: Graph, after: Graph) -> None:
    """Check that two graphs have the same input and output types, as a pass must keep them.

    Parameters
    ----------
    before, after : Graph
        The graphs to compare.

    Raises
    ------
    VerifyError
        The number or the types of inputs or outputs differ.
    """
    for what, old, new in (
        ("inputs", before.input_types, after.input_types),
        ("outputs", before.output_types, after.output_types),
    ):
        if old != new:
            raise VerifyError(f"the {what} changed from {_shown(old)} to {_shown(new)}", mend=_MEND)


def _checked_inputs(graph: Graph) -> tuple[Value, ...]:
    for position, value in enumerate(graph.inputs):
        node = value.node
        if node.op is not None or node.operands or node.params or len(node.types) != 1:
            _refuse(graph, node, f"input {position} is the result of {node.name!r}")
    for value, count in Counter(graph.inputs).items():
        if count > 1:
            _refuse(graph, value.node, f"input {value!r} occurs {count} times among the inputs")
    return graph.inputs


def _check_operands(graph: Graph, node: Node, defined: set[Value]) -> None:
    for position, value in enumerate(node.operands):
        if value not in defined:
            _refuse(
                graph,
                node,
                f"operand {position} of {node.name!r}, {value!r}, is not defined before its use"
                " or belongs to another graph",
            )


def _check_params(graph: Graph, node: Node, verified: set[Graph]) -> None:
    if not node._rules.get("params_verified"):
        for key, value in node.params.items():
            if not _is_param(value):
                what = f"parameter {key} of {node.name!r} holds {value!r}, which is no parameter"
                _refuse(graph, node, what)
        node._rules["params_verified"] = True
    for key, bodies in node.bodies.items():
        for body in bodies if isinstance(bodies, tuple) else (bodies,):
            if body in verified:
                continue
            try:
                _verify(body, verified)
            except VerifyError as error:
                error.add_note(f"in {key} of {node.name!r} from {node.source}")
                raise


def _is_param(value: Any) -> bool:
    # Exact classes: a NumPy integer would print and hash differently from the int it equals.
    if value.__class__ is tuple:
        return all(map(_is_param, value))
    if isinstance(value, np.ndarray):
        return value.dtype in SUPPORTED_DTYPES
    return value.__class__ in _SCALARS or isinstance(value, np.dtype | Graph | HostFunction)


def _check_types(graph: Graph, node: Node) -> None:
    if [(value.node, value.index) for value in node.results] != [
        (node, index) for index in range(len(node.types))
    ]:
        _refuse(graph, node, f"the results of {node.name!r} do not belong to it")
    # Copies share what was found for their op, parameters and types; operands may be others.
    found = node.operand_types, node.types
    if node._rules.get("verified") != found:
        _check_inferred(graph, node)
        node._rules["verified"] = found


def _check_inferred(graph: Graph, node: Node) -> None:
    assert node.op is not None
    try:
        inferred = node.op.infer(*node.operand_types, **node.params)
    except (TracerError, TypeError, ValueError, IndexError) as error:
        what = f"{node.name!r} does not accept its operands or parameters: {error}"
        _refuse(graph, node, what, error)
    types = (inferred,) if isinstance(inferred, ShapeDtype) else tuple(inferred)
    if types != node.types:
        what = f"{node.name!r} infers {_shown(types)}, but the node says {_shown(node.types)}"
        _refuse(graph, node, what)


def _check_edges(graph: Graph) -> None:
    edges = Counter(
        (value.node, node, position, value.index)
        for node in graph.nodes
        for position, value in enumerate(node.operands)
    )
    stored = Counter(
        (source, user, position, index)
        for source in graph.dag
        for user, position, index in graph.users(source)
    )
    for _, node, position, _ in (edges - stored) + (stored - edges):
        what = f"the edge into operand {position} of {node.name!r} differs from node.operands"
        _refuse(graph, node, what)


def _refuse(graph: Graph, node: Node, what: str, cause: BaseException | None = None) -> NoReturn:
    error = VerifyError(what, mend=_MEND, where=node.source)
    error.add_note(excerpt(graph, node))
    raise error from cause


def _shown(types: tuple[ShapeDtype, ...]) -> str:
    return f"({', '.join(map(str, types))})"


__all__ = ["verify", "verify_same_signature"]
