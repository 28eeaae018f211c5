"""How a value responds when others are shifted or scaled by amounts constant along some axes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import isfinite

from tracer.ir import Label, Node, Response, ShapeDtype, Value
from tracer.ops.rules import is_float

Places = tuple[int | None, ...]
"""For each axis of one value the matching axis of another; None: it has one element."""


class Refused(Exception):
    """The change of a value is not known."""


class Lost(Refused):
    """The change of a value is not known, in no earlier loop either.

    What replaces a value in one loop does so in all earlier ones, and what one loop computes
    they compute too. So a refusal for which it does not matter *how* the value changes stays.
    """


class Late(Exception):
    """A value that was taken for a factor is added or subtracted."""

    def __init__(self, value: Value) -> None:
        super().__init__(str(value))
        self.value = value


@dataclass(frozen=True)
class Anchored:
    """A running maximum or minimum, and the positions of its axes in what is derived from it."""

    maximum: Value
    places: Places


@dataclass(frozen=True)
class Reference:
    """What replaces, within a loop, a value that is known only after it.

    The running maximum `anchor`; without one zero where `is_shift`, else one.
    """

    value: Value
    anchor: Anchored | None
    is_shift: bool


@dataclass(frozen=True)
class Term:
    """A part of a change: `weight` times that of the reference, or its exponential, or a power.

    `places` gives the positions of the axes of the reference's value.
    """

    reference: Reference
    weight: float
    places: Places


@dataclass(frozen=True)
class Tied:
    """`weight` times an operand of a maximum or minimum is added in a value."""

    maximum: Value
    weight: float
    places: Places


@dataclass(frozen=True)
class Change:
    """How a value changes: by the sum of `shifts`, or by the product of `factors`.

    `ties` are the operands of maxima that are added in it; `is_alone` says that nothing else is.
    """

    shifts: tuple[Term, ...] = ()
    factors: tuple[Term, ...] = ()
    ties: tuple[Tied, ...] = ()
    is_alone: bool = field(default=True)

    @property
    def is_real(self) -> bool:
        """Tell whether the value changes at all."""
        return bool(self.shifts or self.factors)


def moved(
    change: Change, type: ShapeDtype, labels: tuple[Label | None, ...], results: tuple[Label, ...]
) -> Change:
    """Return the change of an operand in terms of the result's axes, by the axis rule's labels."""
    to = [results.index(label) if label in results else None for label in labels]

    def follow(places: Places, sizes: tuple[int, ...]) -> Places | None:
        new = tuple(None if place is None else to[place] for place in places)
        lost = any(n is None and size != 1 for n, size in zip(new, sizes, strict=True))
        return None if lost else new

    def terms(old: tuple[Term, ...]) -> tuple[Term, ...]:
        found = []
        for term in old:
            places = follow(term.places, term.reference.value.shape)
            if places is None:
                raise Lost
            found.append(replace(term, places=places))
        return tuple(found)

    # An operand of a maximum has all axes itself; reduced axes are of no use.
    ties = tuple(
        replace(tie, places=tuple(None if p is None else to[p] for p in tie.places))
        for tie in change.ties
    )
    return replace(change, shifts=terms(change.shifts), factors=terms(change.factors), ties=ties)


def combined(node: Node, operands: Sequence[Change]) -> Change:
    """Return the change of a node's result, as its record states; raise `Refused` if it is unknown.

    A value that does not change may still be tied to a maximum.
    """
    assert node.op is not None
    is_real = any(change.is_real for change in operands)
    response = node.op.response
    if response is None or len(node.types) != 1 or not is_float(node.types[0].dtype):
        found = None
    elif response.is_exponential:
        found = _exponential(operands[0])
    elif response.signs and any(change.shifts or change.ties for change in operands):
        found = _sum(operands, response)
    elif response.powers:
        found = _product(node, operands, response)
    else:
        found = _alike(operands, response)
    if found is None and is_real:
        raise Refused if _may_pass(node) else Lost
    return found or Change()


def _may_pass(node: Node) -> bool:
    """Tell whether any change of the operands gives a known change of the result."""
    assert node.op is not None
    response = node.op.response
    if response is None or len(node.types) != 1 or not is_float(node.types[0].dtype):
        return False
    return bool(response.signs or response.powers or response.is_exponential)


def _sum(operands: Sequence[Change], response: Response) -> Change | None:
    if any(change.factors for change in operands):
        if not any(change.shifts for change in operands):
            return _alike(operands, response)
        raise _late(operands)
    if len(response.signs) != len(operands):
        return None
    shifts: list[Term] = []
    ties: list[Tied] = []
    for sign, change in zip(response.signs, operands, strict=True):
        shifts += [replace(term, weight=sign * term.weight) for term in change.shifts]
        ties += [replace(tie, weight=sign * tie.weight) for tie in change.ties]
    known = all(change.is_alone and (change.shifts or change.ties) for change in operands)
    return Change(tuple(shifts), (), tuple(ties), known)


def _late(operands: Sequence[Change]) -> Exception:
    for change in operands:
        if len(change.factors) == 1 and not change.factors[0].reference.is_shift:
            return Late(change.factors[0].reference.value)
    return Refused()


def _alike(operands: Sequence[Change], response: Response) -> Change | None:
    """Return the factor that all operands share."""
    first = operands[0].factors
    same = response.signs and all(change.factors == first for change in operands)
    return Change(factors=first) if same else None


def _product(node: Node, operands: Sequence[Change], response: Response) -> Change | None:
    if any(change.shifts for change in operands) or not any(c.is_real for c in operands):
        return _scaled(node, operands, response)
    factors: list[Term] = []
    for power, change in zip(response.powers, operands, strict=True):
        for term in change.factors:
            if power < 0 and term.reference.is_shift:
                return None  # its reciprocal would grow
            factors.append(replace(term, weight=term.weight * (power if power < 0 else 1)))
    return Change(factors=tuple(factors))


def _scaled(node: Node, operands: Sequence[Change], response: Response) -> Change | None:
    """Return a shift that is multiplied by a number, or by nothing."""
    moving = [i for i, change in enumerate(operands) if change.shifts or change.ties]
    if len(moving) != 1 or response.powers[moving[0]] != 1:
        return None
    scale = 1.0
    for position, value in enumerate(node.operands):
        if position != moving[0]:
            number = static_number(value)
            if number is None or number == 0 or not isfinite(number):
                return None
            scale *= number ** response.powers[position]
    change = operands[moving[0]]
    if len(node.operands) == 1 and not response.signs:
        return None  # a sum of shifts is more than one of them
    return replace(
        change,
        shifts=tuple(replace(term, weight=scale * term.weight) for term in change.shifts),
        ties=tuple(replace(tie, weight=scale * tie.weight) for tie in change.ties),
    )


def _exponential(change: Change) -> Change | None:
    """Return the factor of an exponential whose operand is at most zero in every trip.

    That is so when the operand is a multiple of `x - m`, where m is a running maximum of x, or of
    `m - x` for a minimum. Anything else could overflow on the way, where the whole does not.
    """
    anchored = [term for term in change.shifts if term.reference.anchor is not None]
    if len(anchored) != 1 or len(change.ties) < 1 or not change.is_alone:
        return None
    (term,) = anchored
    anchor = term.reference.anchor
    assert anchor is not None
    ties = [tie for tie in change.ties if tie.maximum is anchor.maximum]
    if len(ties) != 1 or not _is_bounded(term, ties[0], change):
        return None
    return Change(factors=change.shifts)


def _is_bounded(term: Term, tie: Tied, change: Change) -> bool:
    anchor = term.reference.anchor
    assert anchor is not None
    maximum, node = anchor.maximum, anchor.maximum.node
    assert node.op is not None
    response = node.op.response
    assert response is not None
    others = [other for other in change.ties if other is not tie]
    if others and any(other.maximum.node.operands != node.operands for other in others):
        return False
    if tie.weight != -term.weight or tie.weight * response.bound <= 0:
        return False
    rule = node.op.axes(node.operand_types, node.types, **node.params)
    for axis, size in enumerate(maximum.shape):
        here = anchor.places[axis]
        of_value = None if here is None else term.places[here]
        of_operand = tie.places[rule.operands[0].index(rule.results[0][axis])]
        if size != 1 and of_value != of_operand:
            return False
    return True


def static_number(value: Value) -> float | None:
    """Return the number that a value holds in every element, if the program says so."""
    node = value.node
    while node.op is not None and len(node.operands) == 1 and _keeps_elements(node):
        node = node.operands[0].node
    if node.op is None or node.operands or node.types[0].size != 1:
        return None
    return float(node.op.evaluate(**node.params).reshape(()))


def _keeps_elements(node: Node) -> bool:
    assert node.op is not None
    response = node.op.response
    return response is not None and response.signs == (1,) and response.powers == (1,)
