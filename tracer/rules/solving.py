"""Linear systems: no inverse where a solution will do, and factors that are at hand."""

from __future__ import annotations

from tracer.numpy import linalg
from tracer.rules.guards import inexact
from tracer.rules.notation import rule

INVERSE_TIMES = rule(
    "inverse-times",
    [lambda a, b: linalg.inv(a) @ b],
    lambda a, b: linalg.solve(a, b),
    samples=["ii i", "ii ij", "bii bij"],
    source="Higham, Accuracy and Stability of Numerical Algorithms (2002), section 14.1: "
    "a solution is a third of the work of an inverse and at least as accurate",
    guards=[inexact],
)

RULES = (INVERSE_TIMES,)
