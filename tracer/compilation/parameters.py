"""What a function calls its arguments, and options that name some of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence, Set
from typing import Any

from tracer.errors import ArgumentError

_BY_POSITION = {inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}
_BY_NAME = {inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD}


class Parameters:
    """The parameters of a function; none for builtins without a signature.

    Attributes
    ----------
    by_position : list of str
        Names of those that may be passed by position, in order.
    by_name : set of str
        Those that may be passed by name.
    takes_any_name : bool
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        try:
            found: Mapping[str, Any] = inspect.signature(function).parameters
        except (TypeError, ValueError):
            found = {}
        self._found = found
        self.by_position = [name for name, p in found.items() if p.kind in _BY_POSITION]
        self.by_name = {name for name, p in found.items() if p.kind in _BY_NAME}
        kinds = [p.kind for p in found.values()]
        self.takes_any_name = inspect.Parameter.VAR_KEYWORD in kinds or not found

    def name_at(self, position: int) -> str | None:
        """Return the name of the parameter at a position."""
        names = self.by_position
        return names[position] if -len(names) <= position < len(names) else None

    def has_default(self, position: int) -> bool:
        """Tell whether a call may leave out the argument at a position."""
        name = self.name_at(position)
        return name is not None and self._found[name].default is not inspect.Parameter.empty

    def positions_of(self, names: Collection[str]) -> tuple[int, ...]:
        """Return the positions of those names that have one."""
        return tuple(i for i, name in enumerate(self.by_position) if name in names)

    def require(self, option: str, names: Collection[str]) -> None:
        """Raise `ArgumentError` for a name that is no parameter of the function."""
        for name in names:
            if name not in self.by_name and not self.takes_any_name:
                known = ", ".join(map(repr, sorted(self.by_name)))
                raise ArgumentError(
                    f"{option} names {name!r}, but the function has no argument of that name",
                    mend=f"use one of {known or option.replace('names', 'nums')}",
                )


def read_names(option: str, names: str | Sequence[str]) -> set[str]:
    """Return the names that an option gives.

    Raises
    ------
    ArgumentError
        They are no names.
    """
    many = (names,) if isinstance(names, str) else names
    if not isinstance(many, Sequence | Set) or not all(isinstance(name, str) for name in many):
        raise ArgumentError(
            f"{option} takes names of arguments, not {names!r}",
            mend=f"give a str or a sequence of them, such as {option}='state'",
        )
    return set(many)


__all__ = ["Parameters", "read_names"]
