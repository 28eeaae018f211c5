"""Where 64-bit floats enter a program of narrower ones: it then takes twice the memory, unasked."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from tracer import ops
from tracer.ir import Graph, Node, Value
from tracer.ir.types import SUPPORTED_DTYPES


def wide_float_notes(graph: Graph) -> tuple[str, ...]:
    """Return a note for the plan: the first line where an array of narrow floats becomes wide.

    Lines that compute in 64 bits and return to the width that they came from are not meant.

    Parameters
    ----------
    graph : Graph
        The program as it was traced.
    """
    return tuple(itertools.islice(_notes(graph), 1))


def _notes(graph: Graph) -> Iterator[str]:
    users: dict[Value, list[Node]] | None = None
    for node in graph.nodes:
        for body in node.body_graphs:
            yield from _notes(body)
        if not _widens(node):
            continue
        users = _users(graph) if users is None else users
        value = node.results[0]
        met = _met(value, users)
        if met is not None and _goes_on(value, users, set(graph.outputs)):
            narrow, wide = node.operands[0].type, SUPPORTED_DTYPES[value.dtype]
            yield f"{wide} enters at {node.source}: {narrow} meets {met.type}"


def _widens(node: Node) -> bool:
    if node.op is not ops.convert or node.source is None:
        return False
    (before,), (after,) = node.operands, node.types
    is_float = before.dtype.kind not in "biu" and after.dtype.kind in "fc"
    return (
        is_float
        and before.type.size > 1
        and _is_wide(after.dtype.name)
        and not _is_wide(before.dtype.name)
    )


def _is_wide(name: str) -> bool:
    return name in ("float64", "complex128")


def _users(graph: Graph) -> dict[Value, list[Node]]:
    found: dict[Value, list[Node]] = {}
    for node in graph.nodes:
        for value in node.operands:
            found.setdefault(value, []).append(node)
    return found


def _goes_on(value: Value, users: dict[Value, list[Node]], outputs: set[Value]) -> bool:
    """Tell whether something wide that comes of a value leaves the line on which it was made."""
    stack, seen = [value], {value}
    while stack:
        now = stack.pop()
        if now in outputs:
            return True
        for user in users.get(now, ()):
            wide = [v for v in user.results if _is_wide(v.dtype.name) and v not in seen]
            if wide and user.source != value.node.source:
                return True
            seen.update(wide)
            stack.extend(wide)
    return False


def _met(value: Value, users: dict[Value, list[Node]]) -> Value | None:
    """Return the wide value that a narrow one meets on its line; None for a plain `astype`."""
    stack, seen = [value], {value}
    while stack:
        now = stack.pop()
        for user in users.get(now, ()):
            others = [v for v in user.operands if v not in seen and v.dtype == value.dtype]
            if others:
                return _unbroadcast(others[0])
            if user.op is not None and user.source == value.node.source:
                seen.update(user.results)
                stack.extend(user.results)
    return None


def _unbroadcast(value: Value) -> Value:
    while value.node.op is ops.broadcast_in_dim and value.node.operands[0].shape:
        value = value.node.operands[0]
    return value


__all__ = ["wide_float_notes"]
