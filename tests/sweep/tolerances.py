"""How many units in the last place each function may be off, and why where it is many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.sweep.values import COMPLEX

DEFAULT = 5.0
"""Units that XLA's functions, and those composed of two or three of them, stay within."""


@dataclass(frozen=True)
class Tolerance:
    """Units of results, for float32 (and fewer bits) and float64, and of which size at least."""

    single: float
    double: float
    least: float = 0.0
    why: str = ""


_EXPONENT = "the exponential of x + log(1/2): its error grows with x"
_CANCELS = "a sum of terms as large as one, of which nearly nothing may be left"
_TAIL = "exp(-x*x) far out: an error of x*x in its last place"
_SCALED_TAIL = "erfc of a rounded x / sqrt(2), far out (SciPy's own too)"
_ANGLE = "the exponential of a product: its error is the product's, times the result"
_SERIES = "Chebyshev series and Lanczos' sum as XLA has them"
_LOGARITHM = "the exponential of a logarithm, whose error grows with it (JAX's too)"
TOLERANCES: dict[str, Tolerance] = {
    "numpy.cosh": Tolerance(70, 520, why=_EXPONENT),
    "numpy.sinh": Tolerance(70, 520, why=_EXPONENT),
    "numpy.cos": Tolerance(70, 520, why=_EXPONENT + " (complex)"),
    "numpy.sin": Tolerance(70, 520, why=_EXPONENT + " (complex)"),
    "numpy.tan": Tolerance(50, 100, why="a quotient of three functions (complex)"),
    "numpy.tanh": Tolerance(50, 100, why="a quotient of polynomials; complex: as tan"),
    "numpy.expm1": Tolerance(24, 24, why="from tanh(x / 2) near zero"),
    "numpy.log2": Tolerance(6, 6, why="a quotient of a logarithm"),
    "numpy.log10": Tolerance(6, 6, why="a quotient of a logarithm"),
    "numpy.logaddexp": Tolerance(8, 8, 1.0, why=_CANCELS),
    "numpy.logaddexp2": Tolerance(16, 16, 1.0, why=_CANCELS),
    "numpy.exp2": Tolerance(1000, 1000, why=_ANGLE + " (complex)"),
    "numpy.power": Tolerance(4000, 4000, why=_ANGLE + " (complex)"),
    "numpy.float_power": Tolerance(4000, 4000, why=_ANGLE + " (complex)"),
    "numpy.sinc": Tolerance(8, 8, 1.0, why="sin(pi x) of a rounded pi x"),
    "nn.gelu": Tolerance(16, 16, 1.0, why="1 + tanh cancels; x times one unit is left"),
    "nn.gelu(approximate=False)": Tolerance(300, 1200, why=_SCALED_TAIL),
    "nn.elu": Tolerance(8, 8, why="of expm1"),
    "nn.log1mexp": Tolerance(32, 32, why="a logarithm of expm1"),
    "nn.tanh": Tolerance(50, 100, why="a quotient of polynomials"),
    "special.betaln": Tolerance(64, 64, 32.0, why=_CANCELS),
    "special.digamma": Tolerance(24, 64, 1.0, why=_SERIES),
    "special.entr": Tolerance(6, 6, why="a product of a logarithm"),
    "special.erf": Tolerance(6, 6, why=_SERIES),
    "special.erfc": Tolerance(80, 16, why=_TAIL + ", of float32"),
    "special.erfinv": Tolerance(32, 40, why=_SERIES),
    "special.exp1": Tolerance(8, 16, why=_CANCELS),
    "special.expi": Tolerance(8, 32, 1.0, why=_CANCELS),
    "special.factorial": Tolerance(200, 1000, why=_LOGARITHM),
    "special.gamma": Tolerance(200, 1000, why=_LOGARITHM),
    "special.gammaln": Tolerance(24, 64, 1.0, why=_SERIES),
    "special.loggamma": Tolerance(24, 64, 1.0, why=_SERIES),
    "special.i0e": Tolerance(12, 12, why=_SERIES),
    "special.i1": Tolerance(16, 16, why=_SERIES),
    "special.i1e": Tolerance(12, 12, why=_SERIES),
    "special.log_ndtr": Tolerance(300, 1200, why=_SCALED_TAIL),
    "special.ndtr": Tolerance(300, 1200, why=_SCALED_TAIL),
    "special.ndtri": Tolerance(32, 40, why=_SERIES),
    "special.rel_entr": Tolerance(24, 24, 1.0, why=_CANCELS),
    "special.spence": Tolerance(8, 32, why=_CANCELS),
}
TOLERANCES["special.psi"] = TOLERANCES["special.digamma"]


def tolerance(name: str, dtype: np.dtype[Any]) -> tuple[float, float]:
    """Return the units, and the least size that they are of."""
    found = TOLERANCES.get(name, Tolerance(DEFAULT, DEFAULT))
    is_double = np.dtype(dtype).itemsize == (16 if dtype in COMPLEX else 8)
    return (found.double if is_double else found.single), found.least


SIGN_OF_ZERO = {
    "nn.relu6": "0 of -0: either is the smaller",
    "nn.selu": "-0 of -0",
    "special.entr": "-0 for 0",
    "special.xlogy": "-0 for 0",
    "special.xlog1py": "-0 for 0",
    "special.erfinv": "odd: -0 of -0, where SciPy has 0",
    "special.i1": "odd: -0 of -0, where SciPy has 0",
    "special.i1e": "odd: -0 of -0, where SciPy has 0",
    "special.spence": "-0 of 1",
    **dict.fromkeys(
        ("numpy.fmax", "numpy.fmin", "numpy.maximum", "numpy.minimum", "numpy.clip"),
        "of two zeros either",
    ),
    "numpy.nextafter": "of two zeros either",
    "numpy.sign": "-0 of -0, where NumPy has 0",
}
WITHOUT_SUBNORMALS = {
    "numpy.log",
    "numpy.log2",
    "numpy.log10",
    "numpy.power",
    "numpy.float_power",
    "special.xlogy",
    "special.rel_entr",
    "special.entr",
    "special.logit",
}
"""Functions whose bit tests see a subnormal number that their arithmetic takes for 0.

Their values there are of neither: `log` of a subnormal float32 is -103.97.
"""
DOMAINS: dict[str, tuple[float, float, float]] = {
    "numpy.sinc": (-1e4, 1e4, 0.75),
    "special.digamma": (1e-30, float("inf"), 2.5),
    "special.psi": (1e-30, float("inf"), 2.5),
    "special.gammaln": (1e-30, float("inf"), 2.5),
    "special.betaln": (1e-3, 100.0, 2.5),
}
"""The least and the largest argument, and what stands in for others: see `OTHERWISE`."""
COMPLEX_INFINITIES = {
    f"numpy.{name}"
    for name in (
        "absolute conjugate equal fmax fmin greater greater_equal isfinite isinf isnan less "
        "less_equal logical_and logical_not logical_or logical_xor maximum minimum negative "
        "not_equal positive sign"
    ).split()
}
"""Functions of complex numbers that are compared at infinities and NaN too."""
OTHERWISE: dict[str, str] = {
    "numpy.reciprocal of integers": "a division by zero: NumPy has what the processor says",
    "numpy.lcm of integers": "what does not fit: NumPy wraps before it takes the sign away",
    "numpy.nan_to_num of bfloat16": "NumPy does not know its NaN",
    "special.digamma and gammaln below 0": "between poles SciPy itself has few digits",
    "numpy.sinc of 1e4 and more": "sin(pi x) of a rounded pi x",
    "power of complex numbers above 8": "a factor may overflow where the product does not",
    "division of complex numbers by 0": "infinite, C leaves the sign and NaN of the parts open",
    "special.betaln of what is not in (0, 100)": "SciPy has few digits; tests/scipy have ours",
    "special.betaln of 0 and NaN": "infinite in SciPy, NaN here as in JAX (tests/scipy)",
    "complex numbers that are not finite": "C leaves the parts open (tests/numpy have the limits), "
    "but of `COMPLEX_INFINITIES`",
}
"""Where a comparison would say nothing, and why."""
