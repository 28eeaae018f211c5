"""Python functions that a program calls while it runs, as parameters of ops.

Two of them are equal when they are the same object. So a graph's fingerprint tells programs with
different functions apart, and `host_function` returns the same object where it is asked for the
same function again.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Hashable
from types import MethodType
from typing import Any
from weakref import WeakValueDictionary

WORD = "python"
"""How texts of graphs begin to name one."""
_NUMBERS = itertools.count(1)
_LOCK = threading.Lock()


class Stop:
    """Whether a program is to end early.

    `threading.Event` has a lock in Python's code, which an interrupt may leave locked.
    """

    __slots__ = ("is_set",)

    def __init__(self) -> None:
        self.is_set = False


class HostFunction:
    """A function of NumPy arrays, in order, that returns a tuple of arrays.

    Attributes
    ----------
    function : callable
        What is called.
    name : str
        What users read of it.
    stop : Stop or None
        The function raises once it is set: a program that calls it can be interrupted.
    """

    __slots__ = ("__weakref__", "_key", "_number", "function", "name", "stop")

    def __init__(
        self,
        function: Callable[..., tuple[Any, ...]],
        name: str,
        key: Any,
        stop: Stop | None = None,
    ) -> None:
        self.function = function
        self.name = name
        self.stop = stop
        # What the key holds by its address must not be collected, or another may get the address.
        self._key = key
        self._number = next(_NUMBERS)
        _BY_NUMBER[self._number] = self

    def __repr__(self) -> str:
        """Return number and name, as in texts of graphs; no later one has the same number."""
        return f"{WORD}({self._number}, {self.name!r})"


_BY_NUMBER: WeakValueDictionary[int, HostFunction] = WeakValueDictionary()


def host_function_of(number: int) -> HostFunction | None:
    """Return the function with a number, if this process still has it."""
    return _BY_NUMBER.get(number)


_KNOWN: WeakValueDictionary[Hashable, HostFunction] = WeakValueDictionary()


def host_function(
    make: Callable[[], Callable[..., tuple[Any, ...]]],
    name: str,
    function: Callable[..., Any],
    *details: Any,
) -> HostFunction:
    """Return the parameter for a user's function, the same one for the same function and details.

    Parameters
    ----------
    make : callable
        Returns what is called: it is asked only if there is none yet.
    name : str
        What users read of it.
    function : callable
        The user's function, compared by identity.
    *details
        What else the call depends on. Where they cannot be hashed, each call gives a new one.
    """
    owners: tuple[Any, ...] = (function,)
    if isinstance(function, MethodType):  # made anew each time that it is asked for
        owners = (function.__self__, function.__func__)
    key = (*map(id, owners), *details)
    try:
        hash(key)
    except TypeError:
        return HostFunction(make(), name, owners)
    # 1, 1.0 and True are equal and print differently.
    key = (*key, repr(details))
    with _LOCK:
        found = _KNOWN.get(key)
        if found is None:
            found = _KNOWN[key] = HostFunction(make(), name, owners)
    return found


__all__ = ["WORD", "HostFunction", "host_function", "host_function_of"]
