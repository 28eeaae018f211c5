"""Which arguments are donated, by position and by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tracer.array.array import Array
from tracer.array.stored import StoredType
from tracer.compilation.parameters import Parameters, read_names
from tracer.compilation.signature import Call
from tracer.errors import ArgumentError, DonatedArrayError


@dataclass(frozen=True)
class Donation:
    """Arguments to donate: positions where they are passed by position, names where by name.

    `required` are the positions that the user gave, each with the argument's name.
    """

    positions: tuple[int, ...] = ()
    names: frozenset[str] = frozenset()
    required: tuple[tuple[int, str | None], ...] = ()


@dataclass(frozen=True)
class Donatable:
    """An argument that the caller may donate: its position, or its name, and its leaves."""

    position: int | None
    name: str
    leaves: frozenset[int]


def resolve_donation(
    function: Callable[..., Any], positions: tuple[int, ...], names: str | Sequence[str]
) -> Donation:
    """Complete positions with names and names with positions, from the function's signature.

    An argument is then donated however the caller passes it, as in JAX.

    Raises
    ------
    ArgumentError
        A name is no parameter of the function.
    """
    wanted = read_names("donate_argnames", names)
    parameters = Parameters(function)
    parameters.require("donate_argnames", wanted)
    found = parameters.positions_of(wanted)
    required = tuple((i, parameters.name_at(i)) for i in positions)
    known = parameters.by_name.intersection(name for _, name in required if name is not None)
    return Donation(tuple(sorted({*found, *positions})), frozenset(wanted | known), required)


def donatable_arguments(call: Call) -> tuple[Donatable, ...]:
    """Return all arguments of a call that have leaves."""
    ranges = [
        *((place, "", leaves) for place, leaves in enumerate(call.leaf_ranges)),
        *((None, name, leaves) for name, leaves in call.keyword_ranges.items()),
    ]
    return tuple(
        Donatable(place, name, frozenset(range(first, last)))
        for place, name, (first, last) in ranges
        if first < last
    )


def donated_leaves(call: Call, donation: Donation) -> tuple[int, ...]:
    """Return the leaves of a call that are donated. Arrays in storage have no memory to donate.

    Raises
    ------
    ArgumentError
        The call has no argument at a position, neither there nor by name.
    """
    leaves: list[int] = []
    for position, name in donation.required:
        if position >= len(call.leaf_ranges) and name not in call.keyword_ranges:
            raise ArgumentError(
                f"donate_argnums names argument {position}, but the call has "
                f"{len(call.leaf_ranges)} positional arguments",
                mend="pass the donated argument by position, or by its name",
            )
    for position in donation.positions:
        if position < len(call.leaf_ranges):
            leaves.extend(range(*call.leaf_ranges[position]))
    for name in donation.names:
        leaves.extend(range(*call.keyword_ranges.get(name, (0, 0))))
    in_memory = (i for i in leaves if not isinstance(call.signatures[i], StoredType))
    return tuple(sorted(in_memory))


def given_twice(
    function: str, names: Sequence[str], donated: Sequence[int], arrays: Sequence[Array]
) -> DonatedArrayError | None:
    """Return the error for a donated array that is passed to the program twice, if there is one."""
    for position in donated:
        for other, array in enumerate(arrays):
            if other != position and array._buffer is arrays[position]._buffer:
                what = names[other] if other < len(names) else "an array that it captured"
                return DonatedArrayError(
                    f"{names[position]} of {function} is donated, and {what} is the same array: "
                    "its memory would be reused while it is still needed",
                    mend="pass a copy in one of the two places (x.copy()), or do not donate it",
                )
    return None
