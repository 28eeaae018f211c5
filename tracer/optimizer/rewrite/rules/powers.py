"""Powers by multiplication where XLA calls the power function.

Measured on a CPU (docs/rules.md): XLA itself writes squares, cubes and square roots as products and
roots. The exponents here take about three times as long as their products. A product of n factors
is off by at most n roundings, the power function by about one.
"""

from __future__ import annotations

from typing import Any

import tracer.numpy as tnp
from tracer.array.array import Array
from tracer.ir import Value
from tracer.ops.rules import dtype_kind
from tracer.optimizer.rewrite.match.rule import Bound
from tracer.optimizer.rewrite.rules.guards import real_floating
from tracer.optimizer.rewrite.rules.notation import rule
from tracer.optimizer.rewrite.simplify import constant_value

_EXPONENTS = (4.0, 5.0, 6.0, 7.0, 8.0, -0.5, 1.5, 2.5)
_NO_EXPONENT = 0.0


def _exponent(root: Value) -> dict[str, Any]:
    """Return the exponent as the number `n`, when it is one number."""
    if len(root.node.operands) < 2:
        return {"n": _NO_EXPONENT}
    exponent = root.node.operands[1]
    if exponent.node.operands:
        exponent = exponent.node.operands[0]
    number = constant_value(exponent)
    if number is None or number.ndim or dtype_kind(number.dtype) != "f":
        return {"n": _NO_EXPONENT}
    return {"n": float(number)}


def _worth_multiplying(bound: Bound) -> str | None:
    if bound.numbers["n"] in _EXPONENTS:
        return None
    return f"the exponent {bound.numbers['n']:g} is not one of {', '.join(map(str, _EXPONENTS))}"


def _multiplied(x: Array, n: float) -> Array:
    if not n.is_integer():
        # pow(-0, 1.5) = 0 and pow(-inf, 1.5) = inf (C99), where roots say -0 and NaN.
        x = tnp.where(x == 0, 0, tnp.where(x == -tnp.inf, tnp.inf, x))
    factors = [] if n.is_integer() else [tnp.sqrt(x)]
    square, left = x, int(abs(n))
    while left:
        if left % 2:
            factors.append(square)
        left //= 2
        square = square * square if left else square
    result: Array = factors[0]
    for factor in factors[1:]:
        result = result * factor
    return 1 / result if n < 0 else result


RULES = (
    rule(
        "power-by-multiplication",
        [lambda x, *, n: x**n],
        lambda x, *, n: _multiplied(x, n),
        samples=["i", "."],
        numbers=_exponent,
        sample_numbers=[{"n": 4.0}],
        source="Knuth, The Art of Computer Programming 2 (1997), section 4.6.3",
        guards=[real_floating, _worth_multiplying],
        purpose="measured",
    ),
)
