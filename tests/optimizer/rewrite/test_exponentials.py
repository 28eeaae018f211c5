"""Float64 exponentials as polynomials: their values, and that XLA stores what it stored before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import optree
import pytest

import tracer
import tracer.numpy as tnp
from tracer.lowering import shims
from tracer.target.record import LEAST_BARRIER_BYTES

pytestmark = pytest.mark.xla

N = 300
RNG = np.random.default_rng(0)
X, V, A = RNG.standard_normal((N, 3)), RNG.standard_normal(N), RNG.standard_normal((N, N))
OFF = "-expand-exponentials"


def squared_distances(x: Any) -> Any:
    return ((x[:, None] - x[None]) ** 2).sum(-1)


def quotient(a: Any) -> Any:
    return a / (1 + a * a)


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "kernel product": (lambda x, v: tnp.exp(-0.5 * squared_distances(x)) @ v, (X, V)),
    "a root inside": (lambda x, v: tnp.exp(-tnp.sqrt(squared_distances(x) + 1)) @ v, (X, V)),
    # Of a vector jaxlib 0.8.3 stores no operand: the product's kernel computes it.
    "a quotient inside": (lambda a, x: tnp.exp(quotient(a)) @ x, (A, X)),
    "sum of a quotient's": (lambda a: tnp.exp(quotient(a)).sum(0), (A,)),
    "two sums of a quotient's": (
        lambda a: (tnp.exp(quotient(a)).sum(0), quotient(a).sum(1)),
        (A,),
    ),
    "transpose of a quotient's": (lambda a: tnp.exp(quotient(a)).T + a, (A,)),
    "softmax": (lambda a: tracer.nn.softmax(a, axis=-1), (A,)),
    "two sums": (lambda a: (tnp.exp(a).sum(0), tnp.exp(a).sum(1)), (A,)),
    "scaled, two sums": (lambda a: ((2 * tnp.exp(a)).sum(0), (2 * tnp.exp(a)).max(1)), (A,)),
    "sum and product": (lambda a, v: (tnp.exp(a).sum(0), tnp.exp(a) @ v), (A, V)),
    "broadcast": (lambda v, a: (a * tnp.exp(v)[None, :]).sum(1), (V, A)),
    "outer product": (lambda v: tnp.exp(v)[:, None] * tnp.exp(v)[None, :], (V,)),
    "neighbours": (lambda a: tnp.exp(a)[:-1] + tnp.exp(a)[1:], (A,)),
    "concatenation": (lambda a: tnp.concatenate([tnp.exp(a), a]).sum(1), (A,)),
    "of one another": (lambda a: tnp.exp(-tnp.exp(a)).sum(0), (A,)),
    "running sum": (lambda a: tnp.cumsum(tnp.exp(a), 0), (A,)),
    "sorted": (lambda a: tnp.sort(tnp.exp(a), 0), (A,)),
    "factor": (
        lambda x: tnp.linalg.cholesky(tnp.exp(-0.5 * squared_distances(x)) + 9 * tnp.eye(N)),
        (X,),
    ),
    "loop": (
        lambda a: tracer.scan(lambda c, r: (tnp.exp(-c * c) + r, c.sum()), a[0], a),
        (A,),
    ),
    "branch": (lambda a, v: tracer.cond(v[0] > 0, tnp.exp, tnp.abs, a), (A, V)),
    "gradient": (
        tracer.grad(lambda x, v: (v * (tnp.exp(-0.5 * squared_distances(x)) @ v)).sum()),
        (X, V),
    ),
}


def compiled(function: Callable[..., Any], **options: Any) -> Any:
    return tracer.compile(function, device="cpu", **options)


def rows(plan: Any) -> list[Any]:
    return [row for row in plan.passes if row.name == "expand exponentials"]


def test_values_are_within_the_last_place() -> None:
    x = np.concatenate([np.linspace(-708.39, 709.78, 200_001), 5 * RNG.standard_normal(100_000)])
    function = compiled(tnp.exp)
    assert rows(function.plan(x))
    exact = np.exp(x.astype(np.longdouble))
    places = np.abs(np.asarray(function(x)) - exact) / np.spacing(exact.astype(np.float64))
    assert places.max() < 1.1


NOT_A_NUMBER = np.array([0x7FF00000000007A2, 0x7FF8000000000001, 2**64 - 1], np.uint64)
"""With bits besides those that say so; the first is R's for a missing value."""


def test_what_is_no_number_or_too_large() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 0, -0.0, 1e300, -1e300, 5e-324, 709.79, -746, 709.7])
    x = np.concatenate([x, NOT_A_NUMBER.view(np.float64)])
    # NumPy's loop of AVX2 says that the first of `NOT_A_NUMBER` is invalid; others do not.
    with np.errstate(over="ignore", invalid="ignore"):
        expected = np.exp(x)
    np.testing.assert_allclose(np.asarray(compiled(tnp.exp)(x)), expected, rtol=1e-15)


@pytest.mark.parametrize("name", PROGRAMS)
def test_stores_what_is_stored_without(name: str) -> None:
    function, arrays = PROGRAMS[name]
    with_it, without = compiled(function), compiled(function, passes=OFF)
    plan, other = with_it.plan(*arrays), without.plan(*arrays)
    assert plan.peak_bytes == other.peak_bytes
    # A few numbers; a row of N would be 2,400 bytes.
    assert plan.compiled_bytes <= other.compiled_bytes + 256
    found, expected = (optree.tree_leaves(f(*arrays)) for f in (with_it, without))
    for value, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.asarray(value), np.asarray(wanted), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["two sums", "scaled, two sums", "sum and product", "neighbours"])
def test_is_computed_once_for_several_kernels(name: str) -> None:
    function, arrays = PROGRAMS[name]
    assert compiled(function).hlo(*arrays).count("round-nearest-even(") == 1


@pytest.mark.parametrize("name", ["sum of a quotient's", "transpose of a quotient's"])
def test_is_left_where_an_operand_would_be_stored(name: str) -> None:
    function, arrays = PROGRAMS[name]
    (row,) = rows(compiled(function).plan(*arrays))
    assert not row.applied
    assert "XLA would store" in row.refusals[0].reason


def test_values_do_not_hang_on_the_place() -> None:
    x = 3 * RNG.standard_normal(1_000)
    function = compiled(tnp.exp)
    whole = np.asarray(function(x))
    for start, stop in ((0, 1), (1, 8), (13, 300), (0, 333), (1, 1_000)):
        np.testing.assert_array_equal(np.asarray(function(x[start:stop])), whole[start:stop])


def test_values_do_not_hang_on_the_limit() -> None:
    function, arrays = PROGRAMS["kernel product"]
    whole = compiled(function, passes="-split")
    assert not whole.plan(*arrays).loops
    sliced = compiled(function, memory_limit="400KB")
    assert sliced.plan(*arrays).loops
    found, expected = np.asarray(sliced(*arrays)), np.asarray(whole(*arrays))
    # With AVX2 the product adds the terms of its last rows in another order (also without the
    # polynomial), and a slice has last rows of its own.
    terms = np.asarray(compiled(lambda x: tnp.exp(-0.5 * squared_distances(x)))(X)) @ np.abs(V)
    assert (np.abs(found - expected) <= 4 * np.finfo(np.float64).eps * terms).all()


@pytest.mark.parametrize("dtype", [np.float32, np.complex128])
def test_other_dtypes_are_left(dtype: Any) -> None:
    x = A.astype(dtype)
    function = compiled(tnp.exp)
    assert not rows(function.plan(x))
    np.testing.assert_allclose(np.asarray(function(x)), np.exp(x), rtol=1e-6)


def in_small_call(carry: Any, x: Any) -> Any:
    """Two kernels read the exponential of 300 elements, in a loop that becomes one function."""
    product = carry * V
    found = tnp.exp(product + x)
    hit = found == found.max()
    carry = carry * 0.9 + 0.1 * tnp.where(hit, 1.0, product)
    return carry, tnp.where(hit, product, 0.0).sum()


def in_small_loop(carry: Any, x: Any) -> Any:
    """One kernel broadcasts the exponential of 64 elements."""
    carry = (A[:64, :64] * tnp.exp(carry + x)[:, None]).max(0) * 0.01
    return carry, carry.sum()


@pytest.mark.parametrize(("step", "size"), [(in_small_call, N), (in_small_loop, 64)])
def test_is_left_where_no_barrier_may_stand(step: Callable[..., Any], size: int) -> None:
    def function(start: Any, rows: Any) -> Any:
        return tracer.scan(step, start, rows)

    program = compiled(function)
    arrays = V[:size], A[:200, :size]
    (row,) = rows(program.plan(*arrays))
    assert not row.applied
    assert "can hold no barrier" in row.refusals[0].reason
    assert "round-nearest-even(" not in program.hlo(*arrays)


def test_knows_which_barriers_are_left_out() -> None:
    assert shims.SMALL_LOOP_BYTES + 1 == LEAST_BARRIER_BYTES


def test_is_no_operation_of_the_plan() -> None:
    function, arrays = PROGRAMS["kernel product"]
    program = compiled(function)
    with pytest.raises(tracer.MemoryLimitError) as error:
        compiled(function, memory_limit="10KB")(*arrays)
    assert "polynomial" not in str(error.value)
    assert "polynomial" not in "".join(str(moment) for moment in program.plan(*arrays).timeline)


def test_in_bodies_of_loops() -> None:
    function, arrays = PROGRAMS["loop"]
    (row,) = rows(compiled(function).plan(*arrays))
    assert row.applied == ("float64[300] of exponential",)


def test_can_be_switched_off() -> None:
    function, arrays = PROGRAMS["kernel product"]
    off = compiled(function, passes=OFF)
    assert not rows(off.plan(*arrays))
    assert "round_nearest_even" not in off.stablehlo(*arrays)
    assert "round_nearest_even" in compiled(function).stablehlo(*arrays)
