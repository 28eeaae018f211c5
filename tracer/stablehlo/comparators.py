"""By which keys a comparator sorts."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tracer.ir import ShapeDtype
from tracer.lowering import Module, Region
from tracer.ops.rules import dtype_kind
from tracer.stablehlo.bodies import NAN, Values, run_on_examples, total_order

_FLOATS = (-NAN, -np.inf, -1.0, -0.0, 0.0, 1.0, np.inf, NAN)
_FEW_FLOATS = (-NAN, -1.0, -0.0, 0.0, 1.0, NAN)
_MOST_KEYS = 3
"""With more the examples are too many."""


@dataclass(frozen=True)
class Key:
    """What a comparator looks at, one after the other.

    Attributes
    ----------
    operand : int
        Which array.
    part : str
        "real" or "imag" of complex arrays, "" for others.
    order : str
        "numbers": NaN last, -0 = +0; "total": -NaN < -inf < -0 < +0 < inf < NaN.
    is_descending : bool
        The largest first; NaN stays last in the order of numbers.
    """

    operand: int
    part: str
    order: str
    is_descending: bool


@dataclass(frozen=True)
class _Order:
    """An order: how two elements compare, and for which pairs it says something."""

    name: str
    is_descending: bool
    less: Callable[[Values, Values], Values]
    is_stated: Callable[[Values, Values], Values]


def _always(x: Values, y: Values) -> Values:
    return np.ones(np.broadcast(x, y).shape, bool)


def _nan_last(x: Values, y: Values) -> Values:
    return (x < y) | (np.isnan(y) & ~np.isnan(x))


def _nan_last_descending(x: Values, y: Values) -> Values:
    return (x > y) | (np.isnan(y) & ~np.isnan(x))


def _are_numbers(x: Values, y: Values) -> Values:
    return ~np.isnan(x) & ~np.isnan(y)


_ORDERS = (
    _Order("numbers", False, _nan_last, _always),
    _Order("total", False, lambda x, y: total_order(x) < total_order(y), _always),
    _Order("numbers", True, _nan_last_descending, _always),
    _Order("total", True, lambda x, y: total_order(x) > total_order(y), _always),
    # A plain x < y says nothing about NaN.
    _Order("numbers", False, _nan_last, _are_numbers),
    _Order("numbers", True, _nan_last_descending, _are_numbers),
)


def keys_of(
    region: Region, module: Module, types: tuple[ShapeDtype, ...]
) -> tuple[Key, ...] | None:
    """Return the keys by which a comparator sorts arrays of these types; None where it is another.

    The comparator is run on all orders that pairs of elements can have; with each key found, the
    pairs that it decides are left out.
    """
    read = [k for k, pair in enumerate(_pairs(region)) if _is_read(region, pair)]
    if not read or len(read) > _MOST_KEYS:
        return None
    examples = _examples(types, read)
    given = [np.zeros((), bool)] * len(region.arguments)
    for k, pair in examples.items():
        given[2 * k : 2 * k + 2] = pair
    answer = run_on_examples(region, module, given, known=(0.0, NAN))
    if answer is None:
        return None
    shape = np.broadcast(*itertools.chain(*examples.values())).shape
    return _searched(np.broadcast_to(answer[0], shape), examples)


def _searched(before: Values, examples: dict[int, tuple[Values, Values]]) -> tuple[Key, ...] | None:
    """Find the keys one by one."""
    open_pairs, keys = np.ones(before.shape, bool), []
    while (before & open_pairs).any():
        for key, less, more, stated in _candidates(examples):
            asked = open_pairs & stated
            decides = (less & asked).any() and (more & asked).any()
            if decides and before[less & asked].all() and not before[more & asked].any():
                open_pairs = asked & ~less & ~more
                keys.append(key)
                break
        else:
            return None
    return tuple(keys) or None


def _candidates(
    examples: dict[int, tuple[Values, Values]],
) -> Iterator[tuple[Key, Values, Values, Values]]:
    for operand, (x, y) in examples.items():
        parts = ("real", "imag") if x.dtype.kind == "c" else ("",)
        for part, order in itertools.product(parts, _ORDERS):
            pair = (getattr(x, part), getattr(y, part)) if part else (x, y)
            key = Key(operand, part, order.name, order.is_descending)
            yield key, order.less(*pair), order.less(*pair[::-1]), order.is_stated(*pair)


def _pairs(region: Region) -> list[tuple[int, int]]:
    arguments = region.arguments
    return list(zip(arguments[::2], arguments[1::2], strict=True))


def _is_read(region: Region, pair: tuple[int, int]) -> bool:
    return any(set(pair) & set(operation.operands) for operation in region.all_operations())


def _examples(types: tuple[ShapeDtype, ...], read: list[int]) -> dict[int, tuple[Values, Values]]:
    """Return pairs of elements of each array, along axes of their own."""
    found: dict[int, tuple[Values, Values]] = {}
    for number, k in enumerate(read):
        elements = _elements(types[k].dtype, few=len(read) > 1)
        x, y = (grid.ravel() for grid in np.meshgrid(elements, elements, indexing="ij"))
        shape = [1] * len(read)
        shape[number] = x.size
        found[k] = x.reshape(shape), y.reshape(shape)
    return found


def _elements(dtype: np.dtype[Any], *, few: bool) -> Values:
    kind = dtype_kind(dtype)
    if kind == "b":
        return np.array([False, True])
    if kind in "iu":
        return np.array([1, 2, 3], dtype)
    floats = np.array(_FEW_FLOATS if few or kind == "c" else _FLOATS)
    if kind == "f":
        return floats
    real, imag = np.meshgrid(floats, floats)
    values = np.empty(real.size, np.complex128)
    values.real, values.imag = real.ravel(), imag.ravel()
    return values
