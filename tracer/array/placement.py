"""Put results that no op computes on the device of the arguments.

An op computes on the device of its operands. Some functions compute on the host (`nonzero`,
`unique`: their shapes depend on values) or only read a shape (`zeros_like`). Their results would
otherwise be on the default device.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from tracer import tree
from tracer.array.active import ACTIVE
from tracer.array.array import Array, get_evaluator

P = ParamSpec("P")
R = TypeVar("R")


def place_beside(values: Any) -> Any:
    """Return where an array goes that is to be used with others; None is the default device.

    Parameters
    ----------
    values : nested containers
        The arrays among them that were put somewhere decide; the first one, if they differ.
    """
    found = [leaf._device for leaf in tree.leaves(values) if isinstance(leaf, Array)]
    return get_evaluator().place_beside(found) if found else None


def beside_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """Make the arrays that a function makes, naming no device, where its arguments are."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        outer = ACTIVE.place
        place = place_beside((args, kwargs))
        if place is None:
            return function(*args, **kwargs)
        ACTIVE.place = place
        try:
            return function(*args, **kwargs)
        finally:
            ACTIVE.place = outer

    return run
