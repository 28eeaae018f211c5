"""Find the gradients of maxima and minima, as `ops.reduce_maximum` and others write them.

    extreme = max(x, axes);  test = x == extreme;  count = sum(test, axes)
    selected = where(test, weight / count, 0)

An extreme that is read several times may have several weights. Only this form is touched: the test
has no other reader, and the weights are computed from values that are stored anyhow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tracer import ops
from tracer.ir import Node, Value
from tracer.ir.combining import SAME_ELEMENTS
from tracer.ops.sink_guard import tests_floats
from tracer.optimizer.loops.split.region import Subject

LargeTest = Callable[[Node], bool]


@dataclass(frozen=True, eq=False)
class ExtremeGradient:
    """One gradient of a maximum or minimum.

    Attributes
    ----------
    operand : Value
        What the extreme is taken of, a large value.
    extreme : Node
    spread : tuple of Node
        What brings the extreme to the operand's shape, in order.
    test : Node
        Where the operand equals the extreme.
    count : Node
        How often along the reduced axes.
    weights : dict of Node to Value
        The cotangent of the extreme, for each gradient: the weight by the count where the test
        holds, else zero.
    """

    operand: Value
    extreme: Node
    spread: tuple[Node, ...]
    test: Node
    count: Node
    weights: dict[Node, Value]

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes that go."""
        axes: tuple[int, ...] = self.extreme.params["axes"]
        return axes


def find_gradients(subject: Subject, is_large: LargeTest) -> Iterator[ExtremeGradient]:
    """Yield the gradients of extremes of large values."""
    for node in subject.graph.nodes:
        if is_large(node) and node.op is not None and tests_floats(node):
            left, right = node.operands
            found = _of_test(subject, node, left, right, is_large)
            found = found or _of_test(subject, node, right, left, is_large)
            if found is not None:
                yield found


def _of_test(
    subject: Subject, test: Node, operand: Value, other: Value, is_large: LargeTest
) -> ExtremeGradient | None:
    spread, extreme = spread_from(other)
    if extreme.op is None or extreme.op.response is None or not extreme.op.response.bound:
        return None
    if extreme.operands != (operand,) or "axes" not in extreme.params or is_large(extreme):
        return None
    readers = {user for user, _, _ in subject.users(test)}
    counts = [node for node in readers if node.op is ops.convert]
    count = _count(subject, counts[0], extreme) if len(counts) == 1 else None
    if count is None:
        return None
    weights = {node: _weight(node, test, count, is_large) for node in readers - {*counts}}
    found = {node: weight for node, weight in weights.items() if weight is not None}
    if not found or len(found) < len(weights):
        return None
    return ExtremeGradient(operand, extreme, spread, test, count, found)


def _weight(node: Node, test: Node, count: Node, is_large: LargeTest) -> Value | None:
    """Return the weight of a gradient that a reader of the test is."""
    if node.op is not ops.select or node.operands[0].node is not test:
        return None
    _, quotient = spread_from(node.operands[1])
    is_ours = (
        is_zero(node.operands[2])
        and quotient.op is ops.divide
        and not is_large(quotient)
        and quotient.operands[1] is count.results[0]
    )
    return quotient.operands[0] if is_ours else None


def _count(subject: Subject, converted: Node, extreme: Node) -> Node | None:
    """Return the sum of the test's ones over the axes of the extreme, if it is their only use."""
    users = [user for user, _, _ in subject.users(converted)]
    if len(users) != 1 or users[0].op is not ops.reduce_add or users[0].params != extreme.params:
        return None
    return users[0]


def spread_from(value: Value) -> tuple[tuple[Node, ...], Node]:
    """Return the nodes that only bring elements to other places, and the node they start from."""
    chain: list[Node] = []
    node = value.node
    while node.op is not None and node.op.response == SAME_ELEMENTS and len(node.operands) == 1:
        chain.append(node)
        node = node.operands[0].node
    return tuple(reversed(chain)), node


def is_zero(value: Value) -> bool:
    """Tell whether a value is zeros by the program's text."""
    _, node = spread_from(value)
    return node.op is ops.constant and not node.params["value"].any()


__all__ = ["ExtremeGradient", "find_gradients", "is_zero", "spread_from"]
