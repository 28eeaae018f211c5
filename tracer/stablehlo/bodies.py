"""What the bodies of reductions and comparators of sorts mean.

A body of one op is known by its name. Others are told by what they do: where a body only compares,
chooses and combines truth values, its answer depends on nothing but the order of its arguments, and
there are few orders. So it is run on an example of each: what agrees on all of them is the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tracer.lowering import Module, Operation, Region
from tracer.ops.rules import is_float

Values = np.ndarray[Any, Any]

COMBINERS = {
    "stablehlo.add": "add",
    "stablehlo.multiply": "multiply",
    "stablehlo.maximum": "maximum",
    "stablehlo.minimum": "minimum",
    "stablehlo.and": "and",
    "stablehlo.or": "or",
    "stablehlo.xor": "xor",
}
"""Ops that are bodies by themselves: associative and commutative."""


def combiners(region: Region) -> list[str] | None:
    """Return the combiner of each array, by name; None where one is no single known op.

    The arguments of the body are the elements on the left, then those on the right.
    `replace` is a body that returns the element on the right.
    """
    count = len(region.results)
    made = {number: op for op in region.operations for number in op.results}
    found = []
    for k, number in enumerate(region.results):
        left, right = region.arguments[k], region.arguments[count + k]
        operation = made.get(number)
        if number == right:
            found.append("replace")
        elif operation is not None and set(operation.operands) == {left, right}:
            found.append(COMBINERS.get(operation.name, ""))
        else:
            return None
    return found if all(found) else None


_COMPARE: Mapping[str, Callable[..., Any]] = {
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
}
_LOGIC: Mapping[str, tuple[Callable[..., Any], int]] = {
    "stablehlo.and": (np.bitwise_and, 2),
    "stablehlo.or": (np.bitwise_or, 2),
    "stablehlo.xor": (np.bitwise_xor, 2),
    "stablehlo.not": (np.bitwise_not, 1),
    "stablehlo.select": (np.where, 1),
    "stablehlo.maximum": (np.maximum, 0),
    "stablehlo.minimum": (np.minimum, 0),
    "stablehlo.real": (np.real, 0),
    "stablehlo.imag": (np.imag, 0),
}
"""What depends on the order of the arguments only; how many operands must be truth values."""


def run_on_examples(
    region: Region, module: Module, examples: Sequence[Values], *, known: Sequence[float] = ()
) -> list[Values] | None:
    """Evaluate a body that only compares, chooses and combines truth values.

    Parameters
    ----------
    region : Region
        The body.
    module : Module
        For its constants and functions.
    examples : sequence of ndarray
        The values of its arguments, broadcast against each other.
    known : sequence of float
        Constants that the examples cover: others make the answer depend on more than the order.

    Returns
    -------
    list of ndarray or None
        Its results; None where it does anything else.
    """
    values: dict[int, Values] = dict(zip(region.arguments, examples, strict=True))

    def read(number: int) -> Values | None:
        constant = module.constants.get(number)
        if constant is None:
            return values.get(number)
        if constant.dtype.kind == "b":
            return constant
        if constant.shape or not is_float(constant.dtype):
            return None
        wide = constant.astype(np.float64)
        is_covered = any(np.array_equal(wide, k, equal_nan=True) for k in known)
        return wide if is_covered else None

    for operation in region.operations:
        if operation.results and operation.results[0] in module.constants:
            continue
        operands = [read(number) for number in operation.operands]
        if any(x is None for x in operands):
            return None
        results = _applied(operation, module, operands, known)
        if results is None:
            return None
        values.update(zip(operation.results, results, strict=True))
    found = [read(number) for number in region.results]
    return None if any(x is None for x in found) else found  # type: ignore[return-value] # none


def _applied(
    operation: Operation, module: Module, operands: Sequence[Any], known: Sequence[float]
) -> list[Values] | None:
    if operation.name == "func.call":
        body = module.functions[operation.attributes["callee"]]
        return run_on_examples(body, module, operands, known=known)
    with np.errstate(all="ignore"):
        if operation.name == "stablehlo.compare":
            direction = _COMPARE[operation.attributes["comparison_direction"]]
            if operation.attributes.get("compare_type") == "TOTALORDER":
                operands = [total_order(x) for x in operands]
            return [direction(*operands)]
        function, truths = _LOGIC.get(operation.name, (None, 0))
        if function is not None and all(x.dtype.kind == "b" for x in operands[:truths]):
            return [function(*operands)]
    return None


def total_order(x: Values) -> Values:
    """Return integers in the total order of floats."""
    if x.dtype.kind in "biu":
        return x
    bits = np.asarray(x, np.float64).view(np.int64)
    return np.where(bits < 0, bits ^ np.iinfo(np.int64).max, bits)


NAN = float("nan")
_ORDERS = ((1.0, 2.0), (2.0, 1.0), (1.0, 1.0))
"""Two elements in each order that they can have."""
_ORDERS_OF_FLOATS = (
    *_ORDERS,
    *itertools.product((1.0, NAN, -NAN), (1.0, NAN, -NAN)),
    *itertools.product((0.0, -0.0), (0.0, -0.0)),
)
_PLACES = ((0, 1), (1, 0), (1, 1))


def extreme(region: Region, module: Module, *, is_float: bool) -> str | None:
    """Return "GT" or "LT" for a body of pairs (element, place) that finds the first extreme.

    NaN counts as the extreme; of equal elements the smallest place is taken, of two NaN any: a
    reduction may meet them in any order, and JAX's body takes the one on the left.
    """
    if len(region.arguments) != 4:
        return None
    orders = _ORDERS_OF_FLOATS if is_float else _ORDERS
    cases = [(*pair, *places) for pair, places in itertools.product(orders, _PLACES)]
    x, y, i, j = (np.array(column) for column in zip(*cases, strict=True))
    found = run_on_examples(region, module, [x, i, y, j])
    if found is None:
        return None
    value, place = (np.broadcast_to(column, x.shape) for column in found)
    is_free = np.isnan(x) & np.isnan(y)
    for direction in ("GT", "LT"):
        wins = _COMPARE[direction](x, y) | (np.isnan(x) & ~np.isnan(y))
        first = np.where(wins | ((x == y) & (i < j)), i, j)
        is_right = (place == first) | (is_free & ((place == i) | (place == j)))
        same = np.array_equal(value, np.where(wins, x, y), equal_nan=True)
        if same and is_right.all():
            return direction
    return None
