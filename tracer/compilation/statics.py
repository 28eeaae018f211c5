"""Static arguments: values that belong to the program, by position and by name."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tracer.compilation.parameters import Parameters
from tracer.errors import ArgumentError

Values = tuple[tuple[int | str, Any], ...]
"""Positions and names of static arguments, each with its value."""
Arguments = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class Statics:
    """Which arguments are static: positions where passed by position, names where by name.

    `required` are the positions that a call may not leave out, each with the argument's name.
    """

    positions: tuple[int, ...] = ()
    names: frozenset[str] = frozenset()
    required: tuple[tuple[int, str | None], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.positions or self.names)

    def split(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Arguments, Values]:
        """Return the arguments that are not static, and those that are.

        Raises
        ------
        ArgumentError
            A static argument is missing or cannot be hashed.
        """
        for position, name in self.required:
            if position >= len(args) and name not in kwargs:
                raise ArgumentError(
                    f"static argument {position} is missing: {len(args)} positional arguments "
                    "were given",
                    mend="pass it by position, or by its name",
                )
        places = self.places(len(args))
        values: Values = (
            *((i, _hashable(i, args[i])) for i in places),
            *((key, _hashable(key, kwargs[key])) for key in sorted(self.names & kwargs.keys())),
        )
        dynamic = tuple([arg for i, arg in enumerate(args) if i not in places])
        rest = {key: value for key, value in kwargs.items() if key not in self.names}
        return (dynamic, rest), values

    def places(self, count: int) -> tuple[int, ...]:
        """Return the positions that are static among so many; negative ones count from the end."""
        return tuple(sorted({i % count for i in self.positions if -count <= i < count}))


def resolve_statics(
    function: Callable[..., Any], positions: tuple[int, ...], names: tuple[str, ...]
) -> Statics:
    """Complete positions by names, or names by positions, where one is given, as JAX does.

    Raises
    ------
    ArgumentError
        A name is no parameter of the function.
    """
    parameters = Parameters(function)
    parameters.require("static_argnames", names)
    required = tuple(
        (i, parameters.name_at(i)) for i in positions if i >= 0 and not parameters.has_default(i)
    )
    if positions and not names:
        found = (parameters.name_at(i) for i in positions)
        names = tuple(name for name in found if name in parameters.by_name)
    elif names and not positions:
        positions = parameters.positions_of(names)
    return Statics(positions, frozenset(names), required)


def joined(values: Values, count: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
    """Put static arguments between the others; `count` are passed by position, with these."""
    fixed, rest = dict(values), iter(args)
    whole = tuple([fixed[i] if i in fixed else next(rest) for i in range(count)])
    return whole, kwargs | {key: value for key, value in values if isinstance(key, str)}


def bound(function: Callable[..., Any], values: Values, count: int) -> Callable[..., Any]:
    """Return a function of the other arguments; `count` are passed by position, with these."""
    if not values:
        return function

    @functools.wraps(function)
    def of_others(*args: Any, **kwargs: Any) -> Any:
        whole, keywords = joined(values, count, args, kwargs)
        return function(*whole, **keywords)

    return of_others


def _hashable(place: int | str, value: Any) -> Any:
    try:
        hash(value)
    except TypeError as error:
        raise ArgumentError(
            f"static argument {place!r}, a {type(value).__name__}, cannot be hashed",
            mend="pass a hashable value (a tuple for a list), or do not declare it static",
        ) from error
    return value


__all__ = ["Arguments", "Statics", "Values", "bound", "joined", "resolve_statics"]
