"""Programs of functions of rows, and which of their results are wrong.

`python -m tests.sweep.row_sweep reductions:float32:1000:1 ...` prints them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

import tracer
import tracer.numpy as tnp
from tests.sweep import linear, ordering, placing, reducing
from tests.sweep.rows import (
    Case,
    Rows,
    as_list,
    dtypes,
    flavours,
    kind_of,
    make,
    off,
    oracles,
)
from tests.sweep.values import DTYPES, SIZES

Array = np.ndarray[Any, Any]
FAMILIES: dict[str, tuple[Case, ...]] = {
    "reductions": reducing.CASES,
    "orders": ordering.CASES,
    "places": placing.CASES,
    "linear": linear.CASES,
}
LENGTHS = (0, *SIZES)


def chosen(family: str, dtype: np.dtype[Any], n: int, axis: int) -> list[Case]:
    """Return the cases that NumPy has for a dtype and a length of rows."""
    return [
        case
        for case in FAMILIES[family]
        if kind_of(dtype) in case.kinds
        and case.least <= n <= case.most
        and dtypes(case, dtype, n, axis) is not None
    ]


def program(cases: Sequence[Case], axis: int, n: int) -> Any:
    """Return one compiled program of cases."""

    def of(x: Any, y: Any, i: Any) -> list[Any]:
        rows = Rows(x, y, i, axis, n)
        return [case.ours(tnp, rows) for case in cases]

    return tracer.compile(of)


def differences(
    family: str, dtype: np.dtype[Any], n: int, axis: int, counts: list[int] | None = None
) -> list[str]:
    """Return what is off, a line for each result.

    Parameters
    ----------
    family : str
        Of `FAMILIES`.
    dtype : dtype
        Of the arrays.
    n, axis : int
        Length of a row, and the axis that it lies along.
    counts : list of int, optional
        Gets the number of results that were compared.
    """
    cases = chosen(family, dtype, n, axis)
    run = program(cases, axis, n)
    told = []
    for flavour in flavours(dtype):
        rows = make(dtype, n, axis, flavour)
        results = run(rows.x, rows.y, rows.i)
        for case, result in zip(cases, results, strict=True):
            if flavour in case.without:
                continue
            name = f"{case.name} of {dtype}, rows of {n} along {axis}, {flavour}"
            told += _told(name, case, rows, as_list(result), counts)
    return told


def _told(
    name: str, case: Case, rows: Rows, results: list[Array], counts: list[int] | None
) -> list[str]:
    found = oracles(case, rows)
    if not found:  # such as the place of the largest of nothing but NaN
        return []
    told = []
    wanted_dtypes = dtypes(case, rows.x.dtype, rows.n, rows.axis)
    assert wanted_dtypes is not None
    for k, (got, wanted_dtype) in enumerate(zip(results, wanted_dtypes, strict=True)):
        if counts is not None:
            counts.append(1)
        wanted = [oracle[k] for oracle in found]
        if (got.dtype, got.shape) != (wanted_dtype, wanted[0].shape):
            told.append(f"{name}[{k}]: {got.dtype}{got.shape}, not {wanted_dtype}{wanted[0].shape}")
            continue
        wrong = np.all([off(case, rows, k, got, w) for w in wanted], axis=0)
        if wrong.any():
            at = tuple(int(v[0]) for v in np.nonzero(wrong))
            told.append(
                f"{name}[{k}]: {int(wrong.sum())} of {wrong.size} off, at {at}: {got[at]!r}, "
                f"NumPy {[w[at] for w in wanted]}"
            )
    return told


def main() -> None:
    """Print what is off for each `family:dtype:n:axis` of the command line."""
    for argument in sys.argv[1:]:
        family, name, n, axis = argument.split(":")
        dtype = next(dtype for dtype in DTYPES if str(dtype) == name)
        for line in differences(family, dtype, int(n), int(axis)):
            sys.stdout.write(line + "\n")


if __name__ == "__main__":
    main()
