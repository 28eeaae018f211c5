"""Operations stay as they are written where XLA's simplifier would change what they round.

The simplifier computes with real numbers. `(x + 1e6) - 1e6` becomes `x`, though it rounds `x` to
multiples of 1/16 in float32; `(x * 1e-30) * 1e-30` becomes zero; of `x / y / z` it makes
`x / (y * z)`, which overflows; of `(x * 1e-30) * row` it makes `x * (1e-30 * row)`. Behind a choice
(`writer.rounded`) it puts nothing together. What is computed of numbers alone is a number to it,
too: `2.0**100`, of which `ldexp` multiplies by four.

Of `log(x**y)` it makes `y * log(abs(x))`, a number where the logarithm of a negative power is NaN.

Of a product by truth values it makes a choice between a number and 0, where 0 * inf is NaN.

A quotient by one number becomes a product by its rounded reciprocal. That is off by one unit in the
last place, so `floor(x / 49)` of 49 is 0, and a mean of 49 ones is less than one. Where a quotient
decides something (`deciding.py`), where it divides a sum, and where it is a result, which may
decide something in the next program (eager calls are programs of one function each), the divisor is
`select(x != x, x, y)`: the quotient is the same, and no simplifier sees one number. Other quotients
stay products, as a division takes several times as long.

Reciprocals of a float's largest numbers are subnormal: zeros, except of float16, whose reciprocals
have fewer digits from 16,384 on, and are infinite for divisors below 1.6e-5. So quotients of
float16, and by such a constant, are divisions everywhere.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from tracer import ops
from tracer.ir import Builder, Graph, Node, Value, rebuild
from tracer.optimizer.legalize.deciding import (
    deciding_values,
    is_constant,
    is_move,
    is_power_of_two,
    is_repeated,
    moved_from,
)
from tracer.optimizer.legalize.writer import rounded
from tracer.optimizer.model.in_order import is_elementwise
from tracer.optimizer.passes import Pass, PassLog

Array = np.ndarray[Any, Any]
_SUMS = (ops.add, ops.subtract)
_PRODUCTS = (ops.multiply, ops.divide)


def operation_order_pass() -> Pass:
    """Return the pass that keeps operations from being put together by the simplifier."""
    return Pass("keep operation order", _in_order)


def _in_order(graph: Graph, log: PassLog) -> Graph:
    deciding = set(map(moved_from, graph.outputs)).union(*deciding_values(graph))
    numbers = _numbers(graph)

    def rewrite(
        builder: Builder, node: Node, operands: tuple[Value, ...]
    ) -> Sequence[Value] | None:
        if node.op is ops.log and _is_power(node.operands[0]):
            log.applied.append(f"log of a power of {node.types[0]}")
            return builder.copy(node, (rounded(operands[0]),))
        if node.op not in (*_SUMS, *_PRODUCTS) or node.types[0].dtype.kind not in "fc":
            return None
        found = [
            rounded(operand)
            if _is_put_together(node, old, numbers)
            or _is_scaled_row(node, old, numbers, deciding)
            or _is_mask(node, old)
            else operand
            for old, operand in zip(node.operands, operands, strict=True)
        ]
        if _is_exact_quotient(node, deciding):
            found[1] = _hidden(found[0], found[1])
        if found == list(operands):
            return None
        log.applied.append(f"{node.name} of {node.types[0]}")
        return builder.copy(node, tuple(found))

    return rebuild(graph, rewrite)


def _is_power(value: Value) -> bool:
    """Tell whether a value is a real power."""
    return moved_from(value).node.op is ops.power and value.dtype.kind == "f"


def _numbers(graph: Graph) -> set[Value]:
    """Return the values of which all elements are one number that is known to XLA."""
    found: set[Value] = set()
    for node in graph.nodes:
        is_made_of_known = bool(node.operands) and found.issuperset(node.operands)
        is_number = node.op is ops.constant and node.types[0].size == 1
        if is_number or (is_made_of_known and (is_elementwise(node) or is_move(node))):
            found.update(node.results)
    return found


def _is_put_together(node: Node, operand: Value, numbers: Collection[Value]) -> bool:
    """Tell whether the simplifier puts a node together with the one that computes an operand."""
    inner = operand.node
    if ops.divide is node.op and inner.op is ops.divide:
        return True
    for family in (_SUMS, _PRODUCTS):
        if node.op in family and inner.op in family:
            return _has_constant(node, numbers) and _has_constant(inner, numbers)
    return False


def _has_constant(node: Node, numbers: Collection[Value]) -> bool:
    """Tell whether a sum or product has a constant that changes what is rounded."""
    known = [value for value in node.operands if value in numbers or is_constant(value)]
    return bool(known) and not (node.op in _PRODUCTS and all(map(_is_small_power_of_two, known)))


def _is_small_power_of_two(value: Value) -> bool:
    """Tell whether a product by a value is exact, and by a few of them, too."""
    return is_power_of_two(value) and _is_moderate(value)


def _is_moderate(value: Value) -> bool:
    """Tell whether a known number is far from where products by it over- or underflow."""
    most = np.finfo(value.dtype).maxexp // 8
    return is_constant(
        value, lambda x: all(np.all(np.abs(np.frexp(y)[1]) <= most) for y in (x.real, x.imag))
    )


def _is_scaled_row(
    node: Node, operand: Value, numbers: Collection[Value], deciding: Collection[Value]
) -> bool:
    """Tell whether the simplifier multiplies what is repeated by a number, not `operand`.

    Of `(x * 0.3) * row` it makes `x * (0.3 * row)`. Where the last digit decides nothing, a number
    of moderate size may be where it likes.
    """
    inner = operand.node
    if node.op is not ops.multiply or inner.op is not ops.multiply:
        return False
    if not any(is_repeated(other) for other in node.operands if other is not operand):
        return False
    is_moderate = all(map(_is_moderate, filter(is_constant, inner.operands)))
    return _has_constant(inner, numbers) and (not is_moderate or node.results[0] in deciding)


def _is_mask(node: Node, value: Value) -> bool:
    """Tell whether truth values are multiplied: 0 * NaN would be a choice of 0."""
    while node.op in _PRODUCTS and is_move(value.node) and len(value.node.operands) == 1:
        (operand,) = value.node.operands
        if operand.dtype.kind == "b":
            return value.dtype.kind == "f"
        value = operand
    return False


def _is_exact_quotient(node: Node, deciding: Collection[Value]) -> bool:
    """Tell whether a node divides by one number, of which a reciprocal would not do."""
    if node.op is not ops.divide or node.types[0].dtype.kind != "f":
        return False
    divided, divisor = node.operands
    if is_constant(divisor, lambda number: _has_no_reciprocal(number, divisor.dtype)):
        return True
    if is_power_of_two(divisor) or not (is_constant(divisor) or is_repeated(divisor)):
        return False
    total = moved_from(divided).node
    is_mean = total.op is not None and total.op.fusion == "reduce"
    return is_mean or divided.dtype == np.float16 or node.results[0] in deciding


def _has_no_reciprocal(numbers: Array, dtype: np.dtype[Any]) -> Array:
    """Tell which numbers have a subnormal or infinite reciprocal in a dtype."""
    limits = np.finfo(dtype)
    with np.errstate(over="ignore", invalid="ignore"):
        size = np.abs(numbers.astype(dtype))
        return np.asarray((size * limits.smallest_normal > 1) | (size * limits.max < 1))


def _hidden(divided: Value, divisor: Value) -> Value:
    """Write a divisor that is not one number to the simplifier; a quotient of NaN is NaN."""
    is_nan = ops.compare(divided, divided, direction="NE")
    return ops.select(is_nan, divided, divisor)  # type: ignore[no-any-return]


__all__ = ["operation_order_pass"]
