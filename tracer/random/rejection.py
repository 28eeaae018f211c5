"""Draw again what was rejected: the loop of the distributions that have no inverse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracer.array.array import Array
from tracer.control import while_loop
from tracer.numpy.creation import zeros
from tracer.numpy.elementwise import where
from tracer.numpy.logic import logical_and, logical_not, logical_or
from tracer.numpy.reductions import all
from tracer.random.threefry import fold_in


def until_accepted(
    key: Array, shape: tuple[int, ...], dtype: Any, trial: Callable[[Array], tuple[Array, Array]]
) -> Array:
    """Return numbers of the first trials that are accepted, element by element.

    `trial(key)` draws a number for each element, and tells which of them are accepted. The key is
    carried, not closed over: the results lie where it was put.
    """

    def unfinished(carry: Any) -> Any:
        return logical_not(all(carry[2]))

    def step(carry: Any) -> Any:
        key, number, accepted, found = carry
        fresh, fits = trial(fold_in(key, number))
        found = where(logical_and(fits, logical_not(accepted)), fresh, found)
        return key, number + 1, logical_or(accepted, fits), found

    start = (key, zeros((), "uint32"), zeros(shape, bool), zeros(shape, dtype))
    return while_loop(unfinished, step, start)[3]  # type: ignore[no-any-return]
