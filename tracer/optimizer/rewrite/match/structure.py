"""Where a pattern matches a program: the same ops on the same operands.

Both are graphs in the same normal form. Operands of commuting ops are tried in both orders. A leaf
that occurs twice in the pattern must be one value of the program; common subexpression elimination
has merged equal ones. Gradients are taken before any pass runs, so `stop_gradient` is ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tracer import ops
from tracer.ir import Graph, Node, Value, param_key

Binding = Mapping[Value, Value]
"""Values of the pattern, leaves among them, and what they are in the program."""
_Pairs = tuple[tuple[Value, Value], ...]


def seen_through(value: Value) -> Value:
    """Return the value under `stop_gradient`, which computes nothing."""
    while value.node.op is ops.stop_gradient:
        value = value.node.operands[0]
    return value


def root_of(pattern: Graph) -> Value:
    """Return what a pattern computes."""
    return seen_through(pattern.outputs[0])


def bindings(pattern: Graph, root: Value, *, exact: bool) -> Iterator[Binding]:
    """Yield every way in which `root` is computed as the pattern says.

    Parameters
    ----------
    pattern : Graph
        Its inputs are the leaves.
    root : Value
        A value of the program.
    exact : bool
        Compare parameters and types too; otherwise only which op reads which.
    """
    yield from _bind(((root_of(pattern), root),), {}, exact)


def _bind(pairs: _Pairs, found: Binding, exact: bool) -> Iterator[Binding]:
    if not pairs:
        yield found
        return
    (wanted, value), rest = pairs[0], pairs[1:]
    wanted, value = seen_through(wanted), seen_through(value)
    if wanted in found:
        if found[wanted] is value:
            yield from _bind(rest, found, exact)
        return
    if exact and wanted.type is not value.type:
        return
    found = {**found, wanted: value}
    if wanted.node.op is None:
        yield from _bind(rest, found, exact)
    elif wanted.index == value.index and _is_same(wanted.node, value.node, exact):
        for operands in _orders(value.node):
            inner = tuple(zip(wanted.node.operands, operands, strict=True))
            yield from _bind((*inner, *rest), found, exact)


def _is_same(wanted: Node, node: Node, exact: bool) -> bool:
    if wanted.op is not node.op or len(wanted.operands) != len(node.operands):
        return False
    return not exact or all(
        param_key(value) == param_key(node.params.get(key)) for key, value in wanted.params.items()
    )


def _orders(node: Node) -> Iterator[tuple[Value, ...]]:
    assert node.op is not None
    yield node.operands
    if len(node.operands) == 2 and node.op.commutes(**node.params):
        yield node.operands[::-1]
