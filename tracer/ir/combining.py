"""What op records say about slices: how they are combined, and how results respond to operands.

It knows no particular op.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

Order = Literal["any", "forward", "backward"]
"""In which order slices have to come: it plays no part, from the first, or from the last one."""


def any_order(**_: Any) -> Order:
    """Say that the order of the slices plays no part."""
    return "any"


def in_order(**_: Any) -> Order:
    """Say that the slices have to come from the first to the last."""
    return "forward"


@dataclass(frozen=True)
class Merge:
    """How the slices along an axis come together where joining results pairwise does not say it.

    An axis rule names an op that has one in `AxisRule.reduced`. The *state* is what a loop over
    slices carries.

    Attributes
    ----------
    initial : callable
        `(operands, operand types, result types, **params) -> tuple of Value`: the state before the
        first slice. Of `operands` those that `replaced` names are given, the others are None.
    fold : callable
        `(state, operands, chunk, **params) -> tuple of Value`: the state after one more slice, of
        the types it had. `operands` are the slices, None for those that `replaced` names.
    finish : callable
        `(state, **params) -> tuple of Value`: the op's results. They may have the state's dtype.
    order : callable
        `(**params) -> Order`: in which order the slices come.
    replaced : tuple of int
        Operands without the axis that only the initial state reads.
    """

    initial: Callable[..., tuple[Any, ...]]
    fold: Callable[..., tuple[Any, ...]]
    finish: Callable[..., tuple[Any, ...]] = lambda state, **_: state
    order: Callable[..., Order] = any_order
    replaced: tuple[int, ...] = ()


@dataclass(frozen=True)
class Piece:
    """A run of elements along one axis of a result that are adjacent in one operand.

    Every other axis of the operand is the result's, cut as `cut` says. A scalar operand fills the
    run.

    Attributes
    ----------
    operand : int
        Position of the operand.
    start : int
        Its first element, along the same axis.
    size : int
        Elements in the run.
    cut : tuple of (int, int, int)
        Start, limit and stride along each axis, of which that of the run itself plays no part.
        Empty: the other axes are whole.
    """

    operand: int
    start: int
    size: int
    cut: tuple[tuple[int, int, int], ...] = ()


@dataclass(frozen=True)
class Response:
    """How an op's result changes when operands are shifted or multiplied, exact arithmetic assumed.

    Attributes
    ----------
    signs : tuple of int
        A shift of operand i shifts the result by `signs[i]` times as much, and a factor of all
        operands is a factor of the result. Empty: shifts do not pass.
    powers : tuple of int
        A factor of operand i is a factor of the result to the power `powers[i]`, whatever the
        other operands are. Empty: factors of single operands do not pass.
    is_exponential : bool
        A shift of the operand is a factor of the result: the exponential of the shift.
    bound : int
        1: the result is at least each operand; -1: at most.
    """

    signs: tuple[int, ...] = ()
    powers: tuple[int, ...] = ()
    is_exponential: bool = False
    bound: int = 0


SUM = Response(signs=(1, 1))
DIFFERENCE = Response(signs=(1, -1))
NEGATION = Response(signs=(-1,), powers=(1,))
PRODUCT = Response(powers=(1, 1))
QUOTIENT = Response(powers=(1, -1))
SAME_ELEMENTS = Response(signs=(1,), powers=(1,))
"""The operand's elements at other places, or in another precision."""
TOTAL = Response(powers=(1,))
EXPONENTIAL = Response(is_exponential=True)
AT_LEAST = Response(bound=1)
AT_MOST = Response(bound=-1)
