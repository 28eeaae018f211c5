"""Arrays of three rows with awkward values among others, and what a function of rows should give.

The rows differ in how much of them is awkward: little, some, all. Functions are written once, for
NumPy and for tracer: they take the module as their first argument.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from tests.sweep.compare import flushed, part_dtype, wide
from tests.sweep.values import BFLOAT16, BOOL, COMPLEX, INTEGERS, everyday

Array = np.ndarray[Any, Any]
Function = Callable[[Any, "Rows"], Any]
ROWS = 3


@dataclass(frozen=True)
class Rows:
    """What a function is given: two arrays, the axis along which their rows lie, and indices.

    Attributes
    ----------
    x, y : array
        Shape (3, n), or (n, 3) where `axis` is 0.
    i : array of int64
        Shape (5,), indices along the axis: both ends, one twice, one counted from the end.
    axis : int
        0 or 1.
    n : int
        The length of a row.
    """

    x: Any
    y: Any
    i: Any
    axis: int
    n: int

    def vector(self, x: Any) -> Any:
        """Return the first row of `x` or `y`."""
        return x[0] if self.axis else x[:, 0]

    def matrix(self, x: Any) -> Any:
        """Return `x` or `y` with its rows as rows."""
        return x if self.axis else x.T


@dataclass(frozen=True)
class Case:
    """A function of rows, and how near its results must be.

    Attributes
    ----------
    name : str
        What it is.
    ours : callable
        Of a module (`numpy` or `tracer.numpy`) and rows; one result or several.
    oracle : callable, optional
        The same for NumPy, where the text differs.
    kinds : str
        Kinds of dtypes, of "b", "i" and "u", "f", "c", that it is swept for.
    units : float
        Units in the last place of `scale`.
    scale : callable, optional
        Of rows of wide absolute values: how large an error of one unit may be; else the result.
    moves : bool
        Results are elements that were moved: their signs and infinities are the oracle's.
    without : tuple of str
        The flavours of rows that say nothing; `why` says the reason.
    least : int
        The shortest row.
    most : int
        The longest row.
    why : str
        What is undefined, or differs on purpose.
    """

    name: str
    ours: Function
    oracle: Function | None = None
    kinds: str = "biufc"
    units: float = 8.0
    scale: Function | None = None
    moves: bool = False
    without: tuple[str, ...] = ()
    least: int = 0
    most: int = 4097
    why: str = ""

    def reference(self, rows: Rows) -> Any:
        """Return NumPy's results."""
        return (self.oracle or self.ours)(np, rows)


def kind_of(dtype: np.dtype[Any]) -> str:
    """Return "b", "i", "u", "f" or "c"."""
    return "f" if dtype == BFLOAT16 else dtype.kind


def flavours(dtype: np.dtype[Any]) -> tuple[str, ...]:
    """Return the names of what rows of a dtype may hold."""
    if dtype == BOOL:
        return ("everyday", "zeros", "ones")
    if dtype in INTEGERS:
        return ("everyday", "ties", "ends")
    return ("everyday", "ties", "nan", "inf", "edges", "largest")


NOT_FINITE = ("nan", "inf")
BEYOND = ("edges", "largest")
"""Whose sums and products go beyond the largest number, or below the least, on the way."""


def make(dtype: np.dtype[Any], n: int, axis: int, flavour: str) -> Rows:
    """Return rows of a flavour."""
    rng = np.random.default_rng([n, axis, sum(map(ord, flavour))])
    x, y = (_filled(dtype, n, flavour, rng) for _ in range(2))
    if axis == 0:
        x, y = np.ascontiguousarray(x.T), np.ascontiguousarray(y.T)
    i = rng.integers(-n, n, 5) if n else np.zeros(0, np.int64)
    if n:
        i[:3] = 0, -1, n - 1
    return Rows(x, y, i, axis, n)


def _filled(dtype: np.dtype[Any], n: int, flavour: str, rng: np.random.Generator) -> Array:
    x = everyday(dtype, ROWS * n, rng).reshape(ROWS, n)
    if dtype == BOOL:
        return x if flavour == "everyday" else np.full((ROWS, n), flavour == "ones")
    if flavour == "ties":
        ties = rng.integers(0 if dtype.kind == "u" else -2, 3, (ROWS, n)).astype(dtype)
        return ties if dtype in INTEGERS else np.where(rng.random((ROWS, n)) < 0.5, ties, -ties)
    for row, share in enumerate((0.0, 0.3, 1.0)):
        some = rng.random(n) < share
        if n:
            some[rng.integers(n)] = True
        for k, chosen in enumerate(_awkward(dtype, flavour)):
            x[row, some & (rng.integers(0, k + 1, n) == 0)] = chosen
    return x


def _awkward(dtype: np.dtype[Any], flavour: str) -> list[Any]:
    if flavour == "everyday":
        return []
    if dtype in INTEGERS:
        return [np.iinfo(dtype).min, np.iinfo(dtype).max]
    inf, nan = np.inf, np.nan
    if dtype in COMPLEX:
        found = {
            "nan": [complex(nan, 1), complex(1, nan), complex(nan, nan), complex(-0.0, 0.0)],
            "inf": [complex(inf, 1), complex(1, -inf), complex(-inf, 0)],
        }
    else:
        found = {"nan": [nan, inf, -0.0, nan, -nan], "inf": [inf, -inf]}
    if flavour in found:
        return found[flavour]
    info = ml_dtypes.finfo(part_dtype(dtype))
    small = float(info.smallest_normal)
    if flavour == "largest":
        return [float(info.max), -float(info.max)]
    return [0.0, -0.0, small, 5 * float(info.smallest_subnormal), -small]


def oracles(case: Case, rows: Rows) -> list[list[Array]]:
    """Return NumPy's results of numbers with more digits, of the numbers themselves, and flushed.

    Parameters
    ----------
    case : Case
        The function.
    rows : Rows
        Of NumPy arrays.

    Returns
    -------
    list of list of ndarray
        Every result is to be near the same result of one of them.
    """
    given = [rows]
    if kind_of(rows.x.dtype) in "fc":
        with_zeros = _mapped(rows, flushed)
        given = [_mapped(r, wide) for r in (rows, with_zeros)]
        given += [rows, with_zeros] if rows.x.dtype != BFLOAT16 else []
    found = [r for r in (_tried(case, g) for g in given) if r is not None]
    if kind_of(rows.x.dtype) in "biu" and any(r.dtype.kind in "fc" for r in found[0]):
        more = _tried(case, _mapped(rows, lambda x: x.astype(np.longdouble)))
        found += [] if more is None else [_floats_of(more, found[0])]
    return found


def _floats_of(more: list[Array], found: list[Array]) -> list[Array]:
    return [a if b.dtype.kind in "fc" else b for a, b in zip(more, found, strict=True)]


def _mapped(rows: Rows, change: Callable[[Array], Array]) -> Rows:
    return Rows(change(rows.x), change(rows.y), rows.i, rows.axis, rows.n)


def _tried(case: Case, rows: Rows) -> list[Array] | None:
    """Return NumPy's results; nothing where NumPy has none for so few elements or this dtype."""
    try:
        return quietly(case.reference, rows)
    except (TypeError, ValueError, IndexError, ZeroDivisionError):
        return None


def quietly(function: Callable[[Rows], Any], rows: Rows) -> list[Array]:
    """Return NumPy's results without its warnings."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return as_list(function(rows))


def as_list(results: Any) -> list[Array]:
    """Return one result or several as a list of NumPy arrays."""
    return [np.asarray(r) for r in (results if isinstance(results, (tuple, list)) else [results])]


def dtypes(case: Case, dtype: np.dtype[Any], n: int, axis: int) -> list[np.dtype[Any]] | None:
    """Return the dtypes of NumPy's results; bfloat16 stays; None where it has none."""
    same = np.dtype(np.float32) if dtype == BFLOAT16 else dtype
    found = _tried(case, make(same, n, axis, flavours(same)[0]))
    if found is None:
        return None
    return [BFLOAT16 if dtype == BFLOAT16 and r.dtype == same else r.dtype for r in found]


def allowed(case: Case, rows: Rows, result: int, wanted: Array) -> Array:
    """Return how far a result may be off."""
    with np.errstate(all="ignore"):
        if case.scale is None:
            return np.abs(wide(wanted))
        x, y = (np.abs(wide(_numbers(v))) for v in (rows.x, rows.y))
        finite = [np.where(np.isfinite(v), v, v.dtype.type(0)) for v in (x, y)]
    found = quietly(lambda r: case.scale(np, r), Rows(*finite, rows.i, rows.axis, rows.n))
    return found[result if len(found) > 1 else 0]


def _numbers(x: Array) -> Array:
    return x if kind_of(x.dtype) in "fc" else x.astype(np.float64)


def off(case: Case, rows: Rows, result: int, got: Array, wanted: Array) -> Array:
    """Tell which elements of a result are wrong beside one oracle's."""
    if kind_of(got.dtype) not in "fc":
        return got != wanted.astype(got.dtype)
    part = part_dtype(got.dtype)
    info = ml_dtypes.finfo(part)
    with np.errstate(all="ignore"):
        rounded = wanted.astype(got.dtype)
        if case.moves and not _has_subnormals(rows.x):
            return ~_same(got, rounded)
        distance = np.abs(wide(got) - wide(rounded))
        most = case.units * float(info.eps) * allowed(case, rows, result, wanted)
        # What is below the least normal number is zero, in each term of a sum too.
        most = most + (4 + rows.n) * float(info.smallest_normal)
        near = distance <= most
        for a, b in _parts(got, rounded):
            near &= (np.isnan(a) == np.isnan(b)) & ((np.isinf(a) == np.isinf(b)) | (a == b))
        return ~(near | _same_kind(got, rounded))


def _has_subnormals(x: Array) -> bool:
    """Which zero an order puts where is open then: XLA takes them for zeros as it compares."""
    return kind_of(x.dtype) in "fc" and bool((flushed(x) != x)[x == x].any())


def _parts(a: Array, b: Array) -> list[tuple[Array, Array]]:
    pairs = [(a.real, b.real), (a.imag, b.imag)] if a.dtype in COMPLEX else [(a, b)]
    return [(x.astype(np.float64), y.astype(np.float64)) for x, y in pairs]


def _same(a: Array, b: Array) -> Array:
    """Tell where numbers are equal, zeros with their signs."""
    found = np.ones(a.shape, bool)
    for x, y in _parts(a, b):
        found &= (np.isnan(x) & np.isnan(y)) | ((x == y) & (np.signbit(x) == np.signbit(y)))
    return found


def _same_kind(a: Array, b: Array) -> Array:
    """Tell where both are NaN, or the same infinity; of complex numbers: both not finite."""
    if a.dtype in COMPLEX:
        return ~np.isfinite(a) & ~np.isfinite(b)
    x, y = a.astype(np.float64), b.astype(np.float64)
    return (np.isnan(x) & np.isnan(y)) | (np.isinf(x) & (x == y))


__all__ = ["BEYOND", "NOT_FINITE", "Case", "Rows", "dtypes", "flavours", "make", "off", "oracles"]
