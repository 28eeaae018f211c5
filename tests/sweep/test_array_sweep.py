"""Functions of whole rows and of matrices compiled, in every dtype, at awkward values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.sweep import matrices
from tests.sweep.machines import told_with
from tests.sweep.row_sweep import FAMILIES, LENGTHS, differences
from tests.sweep.rows import Case, Rows, off
from tests.sweep.values import DTYPES

pytestmark = pytest.mark.xla
SINGLE, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)
BOTH_AXES = (SINGLE, DOUBLE)
"""Other dtypes are swept along one axis at each length, the other one at the next."""
COMBINATIONS = [
    (dtype, n, axis)
    for dtype in DTYPES
    for k, n in enumerate(LENGTHS)
    for axis in (0, 1)
    if dtype in BOTH_AXES or axis == (k + DTYPES.index(dtype)) % 2
]


@pytest.mark.parametrize("family", FAMILIES)
def test_functions_of_rows_have_numpys_values(family: str) -> None:
    assert differences(family, SINGLE, 7, 1) == []


@pytest.mark.slow
@pytest.mark.sweep
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("dtype", "n", "axis"), COMBINATIONS)
def test_all_functions_of_rows_have_numpys_values(
    family: str, dtype: np.dtype[Any], n: int, axis: int
) -> None:
    assert differences(family, dtype, n, axis) == []


def test_matrices_are_what_defines_them() -> None:
    assert matrices.differences(SINGLE, 7, "everyday") == []


@pytest.mark.slow
@pytest.mark.sweep
@pytest.mark.parametrize("n", matrices.SIZES)
@pytest.mark.parametrize("dtype", [*matrices.DTYPES, matrices.INTEGER], ids=str)
def test_all_matrices_are_what_defines_them(dtype: np.dtype[Any], n: int) -> None:
    is_integer = dtype == matrices.INTEGER
    flavours = matrices.INTEGERS_HAVE if is_integer else (*matrices.SOUND, *matrices.BROKEN)
    told = [line for flavour in flavours for line in matrices.differences(dtype, n, flavour)]
    assert told == []


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.sweep
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE, np.dtype(np.int64)], ids=str)
def test_functions_of_rows_with_fewer_instructions(family: str, dtype: np.dtype[Any]) -> None:
    told = told_with(
        "SSE4_2", "tests.sweep.row_sweep", *(f"{family}:{dtype}:{n}:1" for n in (7, 1000, 4097))
    )
    assert told == ""


# The sweep itself.


def test_what_is_left_out_has_a_reason() -> None:
    for case in (case for cases in FAMILIES.values() for case in cases):
        assert not {"nan", "inf"} & set(case.without) or case.why, case.name


@pytest.mark.parametrize("wrong", [np.nan, np.inf, 1.001])
def test_a_wrong_element_is_seen(wrong: float) -> None:
    rows = Rows(np.ones((3, 7), "f4"), np.ones((3, 7), "f4"), np.arange(5), 1, 7)
    wanted = np.full(3, 7.0)
    got = np.array([7, 7 * wrong, 7], "f4")
    for case in (
        Case("sum", lambda m, r: m.sum(r.x, axis=1), scale=lambda m, r: m.sum(r.x, axis=1)),
        Case("moved", lambda m, r: r.x, moves=True),
    ):
        np.testing.assert_array_equal(off(case, rows, 0, got, wanted), [False, True, False])
