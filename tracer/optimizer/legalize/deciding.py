"""Which floats decide something: where the last digit of a number may change a result by more.

`sign(u * v - w)` is zero or one by a rounding, `floor(x / 49)` is 0 or 1, `log(u * v - w)` is
infinite or not, and equal numbers are sorted in another order.

Steps are comparisons, signs, roundings: all that is computed for one in the same kernel decides.
Jumps (`Op.jumps`: denominators, logarithms, roots, keys of sorts) are mostly at zero. So a sum that
may vanish decides there, a sum of squares does not, and nothing does behind a transcendental
function. What a library computes in between is not followed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from tracer import ops
from tracer.ir import Graph, Node, NotDifferentiable, Value
from tracer.ir.combining import SAME_ELEMENTS

_PRODUCTS = (ops.multiply, ops.divide, ops.power)
"""What ends with a product, after XLA's simplifier."""

_CHEAP_FLOPS = 4
"""Operations of an element of an op that gives zero for zeros, or passes one of its operands on."""

_EXPONENTIALS = (ops.exponential, ops.polynomial_exponential)
_EXTREMES = (ops.reduce_maximum, ops.reduce_minimum)
_OF_CENTRES = (ops.reduce_add, *_EXTREMES)
"""What a centre is computed from."""

_HANDING_ON = (ops.maximum, ops.minimum, ops.select, ops.stop_gradient, ops.optimization_barrier)
"""What gives an extreme on: those of the blocks of a row are joined trip by trip."""

_FEW_TERMS = 8
"""Longest sum that NumPy and XLA both compute term by term, in order."""


def deciding_values(graph: Graph) -> tuple[set[Value], set[Value]]:
    """Return the floats that steps are computed from, and the products that decide something.

    The products are terms of sums of which the last digit decides at a step or at a jump.
    """
    steps, jumps = _reaching(graph)
    signed = _signed_values(graph)
    sums = {value.node for value in steps if _is_short_sum(value, signed)}
    sums |= {value.node for value in jumps & signed if _is_short_sum(value, signed)}
    sums |= _differences_of_points(graph)
    return steps, set(_products_of(sums))


def products_less_extremes(graph: Graph) -> dict[Node, list[int]]:
    """Return the differences from extremes, and which operands of each are products.

    A product that is not rounded may be larger than the largest of the rounded ones, by more than
    exponentials reach: softmax of `1e10 * x` was NaN.
    """
    differences = {node for node in graph.nodes if _is_less_its_extreme(node)} | _exponents(graph)
    found = {
        node: [place for place, x in enumerate(node.operands) if any(_products_among([x]))]
        for node in differences
    }
    return {node: places for node, places in found.items() if places}


def _reaching(graph: Graph) -> tuple[set[Value], set[Value]]:
    steps: set[Value] = set()
    jumps: set[Value] = set()
    for node in reversed(graph.nodes):
        if node.op is None:
            continue
        is_fused = node.op.fusion != "opaque"
        if _is_step(node) or (is_fused and not steps.isdisjoint(node.results)):
            steps.update(node.operands)
        elif is_fused and _is_cheap(node) and not jumps.isdisjoint(node.results):
            jumps.update(node.operands)
        jumps.update(node.operands[place] for place in node.op.jumps)
    return _floats(steps), _floats(jumps)


def _differences_of_points(graph: Graph) -> set[Node]:
    """Return the differences of scaled points that several kernels may compute, each in its way.

    What is added up of them, as gradients for the scale are, cancels to the last digit of the
    points. So it does where distances are products, of points less a centre, and the points
    themselves are read, too.
    """
    readers: dict[Value, list[Node]] = {}
    for node in graph.nodes:
        for value in node.operands:
            readers.setdefault(value, []).append(node)
    return {
        node
        for node in graph.nodes
        if node.op is ops.subtract
        and (
            _is_read_otherwise(node.operands[0], readers)
            if _is_centred(node)
            else len(readers.get(node.results[0], ())) > 1 and all(map(is_repeated, node.operands))
        )
    }


def _is_read_otherwise(points: Value, readers: dict[Value, list[Node]]) -> bool:
    """Tell whether points are read, but for their differences from a centre and for that."""
    stack = [moved_from(points)]
    while stack:
        for node in readers.get(stack.pop(), ()):
            if is_move(node) and len(node.operands) == 1:
                stack += node.results
            elif node.op not in _OF_CENTRES and not _is_centred(node):
                return True
    return False


def _is_centred(node: Node) -> bool:
    return node.op is ops.subtract and _is_on_grid(node.operands[1])


def _is_on_grid(value: Value) -> bool:
    """Tell whether a value is a centre that is rounded so that differences from it are exact."""
    for op in (ops.select, ops.select, ops.multiply, ops.round_nearest_even):
        node = moved_from(value).node
        if node.op is not op:
            return False
        value = node.operands[1 if op is ops.select else 0]
    return True


def _is_less_its_extreme(node: Node) -> bool:
    """Tell whether the largest of numbers is taken from them, as before exponentials."""
    return node.op is ops.subtract and any(map(_is_extreme, node.operands))


def _exponents(graph: Graph) -> set[Node]:
    """Return differences from repeated numbers that were computed before, below exponentials.

    These may be extremes: of an earlier loop, or of an earlier call. The exponential may be one of
    another loop, of what is left of the largest difference.
    """
    above = (node for node in graph.nodes if node.op in (*_EXPONENTIALS, *_EXTREMES))
    stack = [node.operands[0] for node in above]
    found: set[Node] = set()
    while stack:
        node = moved_from(stack.pop()).node
        if node.op is ops.subtract and node not in found:
            found.add(node)
            stack += node.operands
    return {node for node in found if any(map(_is_given, node.operands))}


def _is_given(value: Value) -> bool:
    """Tell whether a value repeats what its graph is given, or a loop."""
    node = moved_from(value).node
    return is_repeated(value) and (node.op is None or bool(node.bodies))


def _is_extreme(value: Value) -> bool:
    """Tell whether a value is an extreme, or one of several, moved or chosen."""
    stack, seen = [value.node], {value.node}
    while stack:
        node = stack.pop()
        if node.op in _EXTREMES:
            return True
        if is_move(node) or node.op in _HANDING_ON:
            found = {operand.node for operand in node.operands} - seen
            stack += found
            seen |= found
    return False


def _floats(values: set[Value]) -> set[Value]:
    return {value for value in values if value.dtype.kind == "f"}


def _products_of(sums: set[Node]) -> Iterator[Value]:
    """Yield the products of floats that are terms of sums."""
    return _products_among([value for node in sums for value in node.operands])


def _products_among(terms: Iterable[Value]) -> Iterator[Value]:
    """Yield the products of floats that terms of a sum are."""
    stack = [*terms]
    seen = set(stack)
    while stack:
        value = stack.pop()
        if value.dtype.kind != "f":
            continue
        node = value.node
        is_exact = node.op in _PRODUCTS and any(map(is_power_of_two, node.operands))
        if node.op in _PRODUCTS and not is_exact:
            yield value
        elif is_exact or is_move(node) or node.op is ops.negate:
            found = [operand for operand in node.operands if operand not in seen]
            stack += found
            seen.update(found)


def _is_short_sum(value: Value, signed: set[Value]) -> bool:
    node = value.node
    if node.op in (ops.add, ops.subtract):
        return True
    if node.op is ops.cumulative_add:
        return bool(node.operand_types[0].shape[node.params["axis"]] <= _FEW_TERMS)
    # Nobody compares a sum of squares with the same by another way to the last digit.
    if node.op is not ops.reduce_add or value not in signed:
        return False
    return bool(node.operand_types[0].size <= _FEW_TERMS * node.types[0].size)


def _signed_values(graph: Graph) -> set[Value]:
    """Return the values that may be negative, or zero though their terms are not."""
    signed = set(graph.inputs)
    for node in graph.nodes:
        if not _is_not_negative(node, signed):
            signed.update(node.results)
    return signed


def _is_not_negative(node: Node, signed: set[Value]) -> bool:
    if node.op is ops.constant:
        with np.errstate(invalid="ignore"):  # NaN of the narrow floats warns.
            return bool(np.all(np.real(node.params["value"]) >= 0))
    if node.op in (ops.abs, ops.sqrt, ops.exponential):
        return True
    if node.op is ops.multiply and node.operands[0] is node.operands[1]:
        return True
    keeps_signs = node.op in (ops.add, ops.reduce_add, ops.multiply, ops.divide) or is_move(node)
    return keeps_signs and signed.isdisjoint(node.operands)


def _is_step(node: Node) -> bool:
    """Tell whether an op on floats has steps: its result is constant nearly everywhere."""
    assert node.op is not None
    if not any(type.dtype.kind == "f" for type in node.operand_types):
        return False
    # Of NaN and infinities a rounding makes the same; `stop_gradient` gives what it is given.
    if node.op in (ops.is_finite, ops.stop_gradient):
        return False
    if node.op is ops.compare:
        x, y = node.operands
        return x is not y and not any(is_constant(value, np.isinf) for value in (x, y))
    if node.op is ops.convert:
        return node.types[0].dtype.kind in "iub"
    return node.op is ops.sign or (isinstance(node.op.vjp, NotDifferentiable) and node.op.vjp.zero)


def _is_cheap(node: Node) -> bool:
    """Tell whether a zero of an operand may be a zero of the result."""
    sizes = (type.size for type in (*node.operand_types, *node.types))
    return node.cost.flops <= _CHEAP_FLOPS * max(sizes)


def is_move(node: Node) -> bool:
    """Tell whether a fused op gives elements of its operands at other places."""
    if node.op is None or node.op.fusion not in ("view", "loop"):
        return False
    return node.op.response == SAME_ELEMENTS or node.cost.flops == 0


def moved_from(value: Value) -> Value:
    """Return the value that the elements of a value come from."""
    while is_move(value.node) and len(value.node.operands) == 1:
        value = value.node.operands[0]
    return value


def is_repeated(value: Value) -> bool:
    """Tell whether elements of a value are repeated ones of another."""
    while is_move(value.node) and len(value.node.operands) == 1:
        (operand,) = value.node.operands
        if value.node.op is ops.broadcast_in_dim and operand.type.size < value.type.size:
            return True
        value = operand
    return False


def is_constant(value: Value, test: Callable[[Any], Any] = lambda x: True) -> bool:
    """Tell whether a value is known, and a test holds for all of its elements."""
    node = moved_from(value).node
    return node.op is ops.constant and bool(np.all(test(node.params["value"])))


def is_power_of_two(value: Value) -> bool:
    """Tell whether a product by a value is exact, as that is known to be powers of two."""
    return is_constant(value, lambda x: np.abs(np.frexp(_only_part(x))[0]) == 0.5)


def _only_part(numbers: Any) -> Any:
    """Return the one part of each complex number that is not zero; NaN where both are not."""
    is_one = (numbers.real == 0) | (numbers.imag == 0)
    return np.where(is_one, numbers.real + numbers.imag, np.nan)


__all__ = [
    "deciding_values",
    "is_constant",
    "is_move",
    "is_power_of_two",
    "is_repeated",
    "moved_from",
    "products_less_extremes",
]
