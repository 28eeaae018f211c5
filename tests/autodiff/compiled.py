"""Derivatives of compiled programs, both modes, against central differences of such programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import tracer
import tracer.numpy as tnp

Array = np.ndarray[Any, Any]
Points = tuple[Array, ...]
STEP = 1e-6


@dataclass(frozen=True)
class Case:
    """A real function of some arrays, and where it is differentiated.

    Attributes
    ----------
    label : str
        Names it where it fails.
    loss : callable
        Takes a tuple of arrays, float64 or complex128, and returns a real scalar.
    points : tuple of np.ndarray
        Where.
    along, then : tuple of np.ndarray
        The directions of the derivative that is checked, and of the one before.
    """

    label: str
    loss: Callable[[Any], Any]
    points: Points
    along: Points
    then: Points

    def slope(self, points: Any) -> Any:
        """Return the first derivative along `then`, by reverse mode."""
        return pairing(tracer.grad(self.loss)(points), self.then)

    def moved(self, step: float) -> Points:
        """Return the points, moved along a direction."""
        return tuple(x + step * v for x, v in zip(self.points, self.along, strict=True))


def pairing(xs: Sequence[Any], ys: Sequence[Any]) -> Any:
    """Return Re(sum(x y)): cotangents are not conjugated."""
    return sum((tnp.real(x * y).sum() for x, y in zip(xs, ys, strict=True)), 0.0)


def derivatives(function: Callable[[Any], Any], case: Case, points: Any) -> tuple[Any, Any, Any]:
    """Return the value of a real function, and its derivative by reverse and by forward mode."""
    tangent = tracer.jvp(function, (points,), (case.along,))[1]
    return function(points), pairing(tracer.grad(function)(points), case.along), tangent


def check(cases: Sequence[Case], order: int, limit: float = 3e-6) -> None:
    """Compile the derivatives of some functions as one program; compare each with differences.

    Those of the first order are compared with differences of the compiled function; those of the
    second with differences of its compiled first derivative.
    """

    def program(places: Any) -> Any:
        functions = [case.loss if order == 1 else case.slope for case in cases]
        return [derivatives(*of) for of in zip(functions, cases, places, strict=True)]

    compiled = tracer.compile(program)
    here, ahead, behind = (
        compiled([case.moved(step) for case in cases]) for step in (0.0, STEP, -STEP)
    )
    for case, found, after, before in zip(cases, here, ahead, behind, strict=True):
        wanted = (float(after[0]) - float(before[0])) / (2 * STEP)
        reverse, forward = float(found[1]), float(found[2])
        np.testing.assert_allclose(reverse, wanted, limit, limit, err_msg=case.label)
        np.testing.assert_allclose(forward, reverse, 1e-9, 1e-9, err_msg=case.label)
