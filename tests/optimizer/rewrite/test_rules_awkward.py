"""Rules at awkward values: other dtypes, leaves that are one value, numbers that are not finite.

The cases are those of `rule_cases.py`. Whole numbers are drawn from their whole range, where they
wrap around; complex ones show a conjugate that got lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.optimizer.rewrite.rule_cases import CASES, FLOAT, Case, sample_arrays
from tests.optimizer.rewrite.test_rules import applied, in_double, rewritten
from tracer.array.trace import trace
from tracer.errors import DTypeError
from tracer.ir import ShapeDtype, interpret
from tracer.optimizer.rewrite.rules import RULES

Types = tuple[ShapeDtype, ...]
# Integers overflow in the naive forms, which is what these rules are for.
ACCURACY = {rule.name for rule in RULES if rule.purpose == "accuracy"}


def typed(types: Types, dtype: str) -> Types:
    return tuple(t.with_dtype(dtype) if t.dtype == FLOAT else t for t in types)


def drawn(type: ShapeDtype, rng: np.random.Generator) -> Any:
    if type.dtype.kind == "b":
        return rng.random(type.shape) < 0.5
    if type.dtype.kind in "iu":
        return rng.integers(0, 256, type.shape).astype(type.dtype)
    real = rng.standard_normal(type.shape)
    return (real + 1j * rng.standard_normal(type.shape)).astype(type.dtype)


def merged(function: Callable[..., Any], types: Types) -> tuple[Callable[..., Any], Types]:
    """Return the function with one argument for all leaves of one type."""
    order = list(dict.fromkeys(types))
    return lambda *leaves: function(*[leaves[order.index(t)] for t in types]), tuple(order)


def assert_same(function: Callable[..., Any], types: Types, seed: int) -> bool:
    """Compare a program with what the rules make of it; tell whether there was something to do."""
    before, after, log = rewritten(function, types)
    rng = np.random.default_rng(seed)
    own = sample_arrays(types)
    arrays = [
        x
        if t.dtype == np.float64 or (x.dtype == np.int32 and t.dtype == np.int32)
        else drawn(t, rng)
        for x, t in zip(own, types, strict=True)
    ]
    with np.errstate(all="ignore"):
        pairs = zip(interpret(after, arrays), interpret(before, arrays), strict=True)
        for got, want in pairs:
            exact = want.dtype.kind in "iub"
            np.testing.assert_allclose(
                got, want, rtol=0 if exact else 1e-8, atol=0 if exact else 1e-8
            )
    return bool(applied(log))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["int8", "uint64", "bool", "float64", "complex128"])
def test_every_dtype_and_one_value_for_several_leaves(dtype: str) -> None:
    """Those that a rule refuses stay as they are."""
    done = 0
    for seed, (name, function, types) in enumerate(CASES):
        if name in ACCURACY and dtype != "float64":
            continue
        for used, own in ((function, typed(types, dtype)), merged(function, typed(types, dtype))):
            try:
                trace(used, own)
            except DTypeError:  # what NumPy does not define for this dtype
                continue
            done += assert_same(used, own, seed)
    assert done > 15


AWKWARD = (np.nan, np.inf, -np.inf, 0.0, -0.0, 5e-324, 1e300, -1e300)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_what_is_finite_stays_the_same_number_beside_any_other(case: Case) -> None:
    """Docs/rules.md says which rules give numbers where the plain program has infinity or NaN."""
    _, function, types = case
    before, after, _ = rewritten(function, in_double(types))
    for value in AWKWARD:
        arrays = sample_arrays(in_double(types))
        for array in arrays:
            if array.dtype.kind == "f" and array.size:
                array.reshape(-1)[array.size // 2] = value
        with np.errstate(all="ignore"):
            plain, found = interpret(before, arrays), interpret(after, arrays)
        for got, want in zip(found, plain, strict=True):
            known = np.isfinite(want)
            np.testing.assert_allclose(got[known], want[known], rtol=1e-7, atol=1e-9)
