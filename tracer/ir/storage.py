"""Arrays in storage that running programs read and write, by number.

Programs are made for shapes, not for files: one is given a number in place of the array. The op
that reads or writes gets it as an operand, and finds the array here.
"""

from __future__ import annotations

import itertools
from typing import Any, Protocol
from weakref import WeakValueDictionary

import numpy as np

from tracer.errors import ArgumentError

AT_ONCE = 1 << 20
"""Bytes up to which rows that are near each other are read together."""
LARGE_PAGE = 1 << 21
"""Bytes of memory in one piece for a device that reads into it."""
PAGE = 1 << 12
"""Bytes that a device reads for a row, however short."""


class InStorage:
    """An array that is not in memory: functions of arrays do not take it in silence."""


def needed_in_memory(value: InStorage) -> ArgumentError:
    """Return the error for an array in storage that is used where all of it would be read."""
    return ArgumentError(
        f"{value!r} is in storage, and this needs it in memory",
        mend="give it to a compiled function as an argument, which reads it piece by piece; or "
        "read it, with x[a:b] or numpy.asarray(x)",
    )


class Reader(Protocol):
    """A place in a program that reads blocks of one shape."""

    __weakref__: Any

    @property
    def devices(self) -> int:
        """How many devices run it in this process, each in its own part of an array."""
        ...


class Stored(Protocol):
    """What a program needs of an array in storage."""

    __weakref__: Any

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes along the axes."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the elements that are read."""
        ...

    def read(
        self, starts: tuple[int, ...], shape: tuple[int, ...], reader: Reader
    ) -> np.ndarray[Any, Any]:
        """Return a block as an array of its own, from these places on and of this shape.

        Each device of a reader walks through the array in steps.
        """
        ...

    def rows(self, places: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Return parts along the first axis: an array of the shape of the places, and a row's.

        Places outside are the first or the last one.
        """
        ...

    def write(self, starts: tuple[int, ...], block: np.ndarray[Any, Any]) -> None:
        """Write a block from these places on; its memory is another's afterwards."""
        ...


_numbers = itertools.count(1)
_KNOWN: WeakValueDictionary[int, Stored] = WeakValueDictionary()


def register(stored: Stored) -> int:
    """Return a number by which programs find the array, as long as it exists."""
    number = next(_numbers)
    _KNOWN[number] = stored
    return number


def find(number: int) -> Stored:
    """Return the array of a number.

    Raises
    ------
    KeyError
        It does not exist any more.
    """
    return _KNOWN[number]


__all__ = [
    "AT_ONCE",
    "LARGE_PAGE",
    "PAGE",
    "InStorage",
    "Reader",
    "Stored",
    "find",
    "needed_in_memory",
    "register",
]
