"""Every public element-wise function compiled, in every dtype, at awkward values and four sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.sampling import in_turn
from tests.sweep.compare import apart
from tests.sweep.functions import FUNCTIONS, NOT_ELEMENTWISE
from tests.sweep.machines import INSTRUCTION_SETS, told_with
from tests.sweep.sweep import compiled, differences, eager
from tests.sweep.tolerances import SIGN_OF_ZERO, TOLERANCES
from tests.sweep.values import BFLOAT16, COMPLEX, DTYPES, FLOATS, SIZES, pair
from tracer import nn
from tracer.scipy import special

LARGE = 4097
"""So many that all pairs of awkward values are among them."""
MODULE = "tests.sweep.sweep"
pytestmark = pytest.mark.xla


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_functions_have_the_oracles_values(dtype: np.dtype[Any]) -> None:
    assert differences(dtype, LARGE) == []


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 7])
def test_functions_of_few_elements(size: int) -> None:
    assert differences(np.dtype(np.float32), size) == []


@pytest.mark.slow
@pytest.mark.sweep
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("run", [compiled, eager])
def test_functions_at_all_sizes_compiled_and_eager(
    run: Any, dtype: np.dtype[Any], size: int
) -> None:
    assert differences(dtype, size, run) == []


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize(
    ("instructions", "dtype"), in_turn(INSTRUCTION_SETS, ["float32", "float64"])
)
def test_functions_on_machines_with_fewer_instructions(instructions: str, dtype: str) -> None:
    assert told_with(instructions, MODULE, f"{dtype}:{LARGE}") == ""


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.sweep
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("instructions", INSTRUCTION_SETS)
def test_all_functions_on_machines_with_fewer_instructions(
    instructions: str, dtype: np.dtype[Any]
) -> None:
    assert told_with(instructions, MODULE, *(f"{dtype}:{size}" for size in SIZES)) == ""


# The sweep itself.


def test_no_function_is_left_out() -> None:
    names = {function.name.partition("(")[0] for function in FUNCTIONS}
    for room, module in (("nn", nn), ("special", special)):
        public = {name for name in module.__all__ if name not in NOT_ELEMENTWISE[room]}
        assert {f"{room}.{name}" for name in public} <= names
    assert len([name for name in names if name.startswith("numpy.")]) > 90


def test_each_tolerance_is_of_a_function_and_has_a_reason() -> None:
    names = {function.name for function in FUNCTIONS}
    assert set(TOLERANCES) <= names
    assert set(SIGN_OF_ZERO) <= names
    assert all(found.why for found in TOLERANCES.values())


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d in (*FLOATS, *COMPLEX)], ids=str)
def test_units_are_counted(dtype: np.dtype[Any]) -> None:
    """One unit up is one; NaN, an infinity or another number for a number is no small thing."""
    x = np.array([1.0, 3.0, -2.5]).astype(dtype)
    part = np.dtype(f"float{4 * dtype.itemsize}") if dtype in COMPLEX else dtype
    eps = 2.0**-7 if dtype == BFLOAT16 else float(np.finfo(part).eps)
    assert apart(x, x, dtype).max() == 0
    wide = np.array([1.0, 2.0, -2.0]).astype(np.complex128 if dtype in COMPLEX else np.longdouble)
    moved = (wide * (1 + eps)).astype(dtype)
    assert 0.9 <= apart(moved, wide, dtype).max() <= 1.1
    for wrong in (np.nan, np.inf, 7.0):
        assert apart(np.full(3, wrong).astype(dtype), x, dtype).min() > 100


def test_pairs_of_awkward_values_are_there() -> None:
    x, y = pair(np.dtype(np.float32), LARGE)
    for first in (np.inf, -0.0, 3.4028235e38):
        for second in (np.inf, -np.inf, 0.0):
            assert ((x == np.float32(first)) & (y == np.float32(second))).any()
    assert (np.isnan(x) & np.isnan(y)).any()
