"""Sorts, searches, quantiles and sets: what the sweep of rows compiles."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.sweep.rows import NOT_FINITE, Case, Function, Rows

METHODS = (
    "inverted_cdf", "averaged_inverted_cdf", "closest_observation", "interpolated_inverted_cdf",
    "hazen", "weibull", "linear", "median_unbiased", "normal_unbiased", "lower", "higher",
    "midpoint", "nearest",
)  # fmt: skip
_STABLE = "stable"
_CHOOSING = ("inverted_cdf", "closest_observation", "lower", "higher", "nearest")
_SLOPE = "a slope is infinite or NaN by the order in which a formula is computed"
_ZEROS = "many floats are sorted as integers, in which -0 comes before 0; NumPy leaves them"
_OF_NOTHING = "NumPy has NaN and a warning, we refuse"
_INFINITE = (*NOT_FINITE, "largest")
_BETWEEN_INFINITIES = "between two infinities of one sign NumPy has NaN; we have that infinity"


def _along(name: str, **keywords: Any) -> Function:
    return lambda m, r: getattr(m, name)(r.x, axis=r.axis, **keywords)


def _backwards(m: Any, r: Rows) -> Any:
    """NumPy's stable order of elements from the largest, equal ones as they stand."""
    flipped = np.flip(r.x, r.axis)
    return np.flip(r.n - 1 - np.argsort(flipped, axis=r.axis, kind=_STABLE), r.axis)


def _top(m: Any, r: Rows) -> Any:
    """The largest, NaN first; of equal ones the first."""
    k = min(r.n, 5)
    if m is not np:
        return m.top_k(r.x, k, r.axis)
    order = np.take(_backwards(m, r), range(k), r.axis)
    return np.take_along_axis(r.x, order, r.axis), order


def _sorts() -> list[Case]:
    stable = lambda name: lambda m, r: getattr(m, name)(r.x, axis=r.axis, kind=_STABLE)
    keys = lambda m, r: m.lexsort([r.y, r.x], axis=r.axis)
    return [
        Case("sort", stable("sort"), units=0.0, why=_ZEROS),
        Case("sort of all", lambda m, r: m.sort(r.x, axis=None, kind=_STABLE), units=0.0,
             why=_ZEROS),
        Case("argsort", stable("argsort")),
        Case("sort of a sum", lambda m, r: m.sort(r.x + r.x, axis=r.axis), kinds="iuf",
             without=("largest",)),
        Case("argsort, descending", lambda m, r: m.argsort(r.x, axis=r.axis, descending=True),
             _backwards),
        Case("sort, descending", lambda m, r: m.sort(r.x, axis=r.axis, descending=True),
             lambda m, r: np.take_along_axis(r.x, _backwards(m, r), r.axis), units=0.0,
             why=_ZEROS),
        Case("top_k", _top, least=1, kinds="iuf"),
        Case("lexsort", keys),
        Case("sort_complex", lambda m, r: m.sort_complex(r.vector(r.x)), kinds="bifc"),
        Case("partition", lambda m, r: m.partition(r.x, r.n // 2, axis=r.axis)[_middle(r)],
             least=1),
        Case("argpartition", lambda m, r: m.take_along_axis(
            r.x, m.argpartition(r.x, r.n // 2, axis=r.axis), r.axis)[_middle(r)], least=1),
    ]  # fmt: skip


def _middle(r: Rows) -> Any:
    return (slice(None), r.n // 2) if r.axis else r.n // 2


def _quantiles() -> list[Case]:
    scale = lambda m, r: m.max(r.x, axis=r.axis, initial=0)
    found = [
        Case("median", _along("median"), kinds="biuf", scale=scale, without=("largest",),
             least=1, why=_OF_NOTHING),
        Case("nanmedian", _along("nanmedian"), kinds="biuf", scale=scale, without=("largest",),
             least=1, why=_OF_NOTHING),
        Case("median of all", lambda m, r: m.median(r.x), kinds="iuf",
             scale=lambda m, r: m.max(r.x), without=("largest",), least=1, why=_OF_NOTHING),
        Case("percentile", lambda m, r: m.percentile(r.x, [0, 30, 100], axis=r.axis), kinds="iuf",
             scale=scale, least=1, without=_INFINITE, why=_BETWEEN_INFINITIES),
        Case("nanquantile", lambda m, r: m.nanquantile(r.x, 0.7, axis=r.axis), kinds="iuf",
             scale=scale, least=1, without=_INFINITE, why=_BETWEEN_INFINITIES),
    ]  # fmt: skip
    for method in METHODS:
        ours = lambda m, r, method=method: m.quantile(r.x, [0.0, 0.25, 0.61, 1.0], axis=r.axis,
                                                      method=method)  # fmt: skip
        found.append(Case(f"quantile, {method}", ours, kinds="iuf", scale=scale, least=1,
                          without=() if method in _CHOOSING else _INFINITE,
                          why=_BETWEEN_INFINITIES))  # fmt: skip
    return found


def _searches() -> list[Case]:
    found = []
    for side in ("left", "right"):
        ours = lambda m, r, side=side: m.searchsorted(m.sort(r.vector(r.x)), r.y, side=side)
        found.append(Case(f"searchsorted, {side}", ours, kinds="biufc"))
        bins = lambda m, r, side=side: m.digitize(r.x, np.array([-2, -0.5, 0, 1.5, 9]),
                                                  right=side == "right")  # fmt: skip
        found.append(Case(f"digitize, {side}", bins, kinds="biuf"))
    known = lambda m, r: m.searchsorted(m.sort(r.vector(r.x)), r.vector(r.y), side="left",
                                        sorter=None)  # fmt: skip
    sorter = lambda m, r: m.searchsorted(
        r.vector(r.x), r.y, sorter=m.argsort(r.vector(r.x), kind=_STABLE)
    )
    interpolated = lambda m, r: m.interp(r.y, m.arange(r.n) * 0.5 - r.n // 5, r.vector(r.x))
    return [
        *found,
        Case("searchsorted of a vector", known, kinds="biuf"),
        Case("searchsorted, sorter", sorter, kinds="biuf"),
        Case("interp", interpolated, kinds="iuf", least=1, without=_INFINITE, why=_SLOPE,
             scale=lambda m, r: m.max(r.x) * (1 + m.max(r.y))),
        Case("isin", lambda m, r: m.isin(r.x, r.vector(r.y))),
        Case("histogram", lambda m, r: m.histogram(r.x, 10, (-5, 5))[0], kinds="iuf"),
        Case("nonzero", lambda m, r: (m.flatnonzero(r.x, size=3 * r.n) if m is not np
             else np.pad(np.flatnonzero(r.x), (0, 3 * r.n - np.count_nonzero(r.x)))), least=1),
    ]  # fmt: skip


def _unique(m: Any, r: Rows) -> Any:
    """The distinct elements of a vector with where they were, padded to one length."""
    more = {"return_index": True, "return_inverse": True, "return_counts": True}
    v = r.vector(r.x)
    if m is not np:
        values, first, inverse, counts = m.unique(v, size=r.n, fill_value=0, **more)
        return values, first * (counts > 0), inverse, counts
    values, first, inverse, counts = np.unique(v, **more)
    rest = (0, r.n - len(values))
    return np.pad(values, rest), np.pad(first, rest), inverse, np.pad(counts, rest)


def _sets() -> list[Case]:
    return [
        Case("unique", _unique, least=1, moves=True),
        Case("bincount", lambda m, r: m.bincount(m.abs(r.vector(r.x)) % 7, minlength=7),
             kinds="u", least=1),
    ]  # fmt: skip


CASES = (*_sorts(), *_quantiles(), *_searches(), *_sets())

__all__ = ["CASES"]
