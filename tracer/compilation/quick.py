"""The program of a call, if it is made already, with no more than a look at each argument.

Most calls are of arrays, those of NumPy and numbers. `read_call`, which takes whatever can be an
argument and can say what is wrong with it, takes ten times as long, and threads wait for each other
meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from tracer import tree
from tracer.array.array import Array
from tracer.array.promotion import WEAK, default_dtype
from tracer.array.weak import ArgumentType
from tracer.compilation.signature import number, program_key
from tracer.compilation.statics import Statics
from tracer.errors import TracerError
from tracer.ir import ShapeDtype

P = TypeVar("P")

_is_array = Array.__instancecheck__
"""Tells whether something is an Array, without a call of Python's.

optree would look up the class of each leaf in two tables, and let Python's other threads run each
time.
"""


def is_quick(leaf: Any) -> bool:
    """Tell whether an argument needs no more than a look."""
    if isinstance(leaf, Array):
        return not leaf.is_traced
    # Subclasses may be masked, or in files.
    return leaf.__class__ is np.ndarray or leaf.__class__ in WEAK or isinstance(leaf, np.generic)


def find_flat(
    programs: Mapping[tuple[Any, ...], P], args: tuple[Any, ...]
) -> tuple[P, Sequence[Any], bool] | None:
    """Return the program for arguments that are no containers, if there is one.

    Parameters
    ----------
    programs : mapping
        Programs by the types of arguments.
    args : tuple
        The arguments, not all of which are arrays of a device.

    Returns
    -------
    tuple of (program, sequence, bool) or None
        The program, its arguments as arrays of a device or of NumPy, and whether all are on a
        device already.
    """
    try:
        leaves, types = _read(args)
        return programs[types], leaves, False
    except (KeyError, TracerError):
        return None  # `read_call` finds it, or says what is wrong.


def find_nested(
    programs: Mapping[Any, P], statics: Statics, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[P, Sequence[Any], bool] | None:
    """Return the program for arguments that may be containers; see `find_flat`.

    Parameters
    ----------
    programs : mapping
        Programs by `program_key`.
    statics : Statics
        Which arguments are static.
    args, kwargs
        All arguments.
    """
    try:
        arguments, values = statics.split(args, kwargs) if statics else ((args, kwargs), ())
        leaves, structure = tree.flatten(arguments, _is_array)
        try:
            types = tuple([leaf._signature for leaf in leaves])
            are_placed = True
        except AttributeError:
            leaves, types = _read(leaves)
            are_placed = False
        return programs[program_key(structure, types, values)], leaves, are_placed
    except (KeyError, TracerError):
        return None


def _read(leaves: Sequence[Any]) -> tuple[list[Any], tuple[ArgumentType | None, ...]]:
    read = [_leaf(leaf) for leaf in leaves]
    return [leaf for leaf, _ in read], tuple([type for _, type in read])


def _leaf(leaf: Any) -> tuple[Any, ArgumentType | None]:
    """Return an argument as an array, and its type; None, which no program has, if not quick."""
    if isinstance(leaf, Array):
        return leaf, leaf._signature
    if leaf.__class__ in WEAK:
        return number("", leaf, default_dtype(leaf.__class__))
    if leaf.__class__ is not np.ndarray and not isinstance(leaf, np.generic):
        return leaf, None
    array = np.asarray(leaf)
    return array, ShapeDtype.of(array)


__all__ = ["find_flat", "find_nested", "is_quick"]
