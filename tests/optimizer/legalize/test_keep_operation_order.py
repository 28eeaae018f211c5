"""Operations that XLA's simplifier would put together: what is written, and NumPy's values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.optimizer.graphs import evaluated, rewritten
from tracer.ir import parse_graph
from tracer.optimizer.legalize.operation_order import operation_order_pass
from tracer.optimizer.passes import PassLog

pytestmark = pytest.mark.xla
Function = Callable[[Any, Any], Any]


def test_constants_are_kept_apart() -> None:
    before = """
        graph(%0: float32[]) {
          %1: float32[] = constant() {value=float32[] 3.0}
          %2: float32[] = add(%0, %1) {}
          %3: float32[] = subtract(%2, %1) {}
          return %3
        }"""
    assert rewritten(operation_order_pass(), before) == (
        """
graph(%0: float32[]) {
  %1: float32[] = constant() {value=float32[] 3.0}
  %2: float32[] = add(%0, %1)
  %3: bool[] = compare(%2, %2) {direction='NE'}
  %4: float32[] = constant() {value=float32[] nan}
  %5: float32[] = select(%3, %4, %2)
  %6: float32[] = subtract(%5, %1)
  return %6
}""".strip()
    )


def test_a_deciding_divisor_is_no_constant() -> None:
    before = """
        graph(%0: float32[]) {
          %1: float32[] = constant() {value=float32[] 49.0}
          %2: float32[] = divide(%0, %1) {}
          %3: float32[] = floor(%2) {}
          return %3
        }"""
    assert rewritten(operation_order_pass(), before) == (
        """
graph(%0: float32[]) {
  %1: float32[] = constant() {value=float32[] 49.0}
  %2: bool[] = compare(%0, %0) {direction='NE'}
  %3: float32[] = select(%2, %0, %1)
  %4: float32[] = divide(%0, %3)
  %5: float32[] = floor(%4)
  return %5
}""".strip()
    )


def kept(function: Callable[..., Any], dtype: str = "float32") -> int:
    types = [tracer.ShapeDtype((30,), dtype)] * 2
    rows = tracer.compile(function).plan(*types).passes
    return sum(len(row.applied) for row in rows if row.name == "keep operation order")


def test_what_is_left_alone() -> None:
    assert kept(lambda x, y: x / 3 + y / y[0]) == 0
    assert kept(lambda x, y: (x + 1) * 3 - y) == 0
    assert kept(lambda x, y: -0.5 * (y * 3) + (x * 2) / 4) == 0
    assert kept(lambda x, y: tnp.floor(x / y)) == 0
    assert kept(lambda x, y: tnp.floor(x / 4)) == 0
    assert kept(lambda x, y: tnp.sin((x[:, None] * 0.1) * y)) == 0
    assert kept(lambda x, y: (x[:, None] * 0.5) * y) == 0
    assert kept(lambda x, y: x + 1 + 2, "int32") == 0
    assert kept(lambda x, y: x * 2 * 2j / y, "complex64") == 0
    assert kept(lambda x, y: x * (1 + 1j) * 2.5, "complex64") == 1
    assert kept(lambda x, y: x + 1.5 + 2) == 1


FORMS: dict[str, Function] = {
    "added and subtracted": lambda x, m: (x + 1e6) - 1e6,
    "added and added": lambda x, m: (x - 1e6) + 1e6,
    "reversed": lambda x, m: 1e6 - (1e6 - x),
    "rounded": lambda x, m: (x + 12582912) - 12582912,
    "viewed": lambda x, m: (x + 1e6)[:, None] - 1e6,
    "multiplied twice": lambda x, m: x * 0.1 * 3,
    "underflow": lambda x, m: ((x * 1e-30) * 1e-30) * 1e30 * 1e30,
    "scaled rows": lambda x, m: (x[:, None] * 0.1) * x[:9],
    "scaled columns": lambda x, m: (x[:, None] * (x[:9] * 1e-30)) * (x * 1e-30)[:, None],
    "rows of a scaled one": lambda x, m: x[:9] * (1e-30 * (x[:, None] * x[:9])),
    "underflow of rows": lambda x, m: ((x[:, None] + x[:9]) * 1e30 * 1e-30) * (x[:9] * 1e-20),
    "scaled by an argument": lambda x, m: ((x * 1e30) * 1e-30) * (x[3] * 1e-30),
    "floor of scaled rows": lambda x, m: m.floor(((x[:, None] * 0.3) * x[:48]) * 5),
    "quotient of a quotient": lambda x, m: x / m.flip(x) / m.roll(x, 1),
    "by a quotient": lambda x, m: x / (m.flip(x) / m.roll(x, 1)),
    "overflow": lambda x, m: (x * 1e30) / (x * 1e30) / (x * 1e30),
    "a result": lambda x, m: x / 49,
    "a result by an argument": lambda x, m: (x / x[48])[:, None],
    "floor": lambda x, m: m.floor(x / 49),
    "floor of a scaled one": lambda x, m: m.floor(x * 0.1 / 0.1),
    "bins": lambda x, m: ((x - x[0]) / 0.7).astype("int32"),
    "bins by an argument": lambda x, m: m.floor(x / x[48]),
    "by the largest": lambda x, m: m.floor(5 * (x / x.max())),
    "equal": lambda x, m: x / 49 == 1,
    "mean of hits": lambda x, m: (x[:49] > 0).mean(dtype=x.dtype),
    "mean of ones": lambda x, m: (x[:103] * 0 + 1).mean(),
    "means of rows": lambda x, m: (x[:98].reshape(2, 49) * 0 + 1).mean(1),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("form", FORMS)
def test_every_digit_is_numpys(form: str, dtype: str) -> None:
    x = np.arange(1, 200).astype(dtype)
    found = tracer.compile(lambda x: FORMS[form](x, tnp))(x)
    np.testing.assert_array_equal(np.asarray(found), FORMS[form](x, np))


COMPLEX = ["multiplied twice", "underflow", "scaled rows", "underflow of rows", "added and added"]


@pytest.mark.parametrize("form", COMPLEX)
def test_complex_numbers_are_numpys(form: str) -> None:
    x = (np.arange(1, 200) * (1 - 2j)).astype("complex64")
    found = tracer.compile(lambda x: FORMS[form](x, tnp))(x)
    np.testing.assert_allclose(np.asarray(found), FORMS[form](x, np), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_one_by_one_quotients_are_numpys(dtype: str) -> None:
    """The rounding down is in another program: `floor(x / 49)` of 49 was 0."""
    x = np.arange(1, 200).astype(dtype)
    np.testing.assert_array_equal(np.asarray(tnp.floor(tnp.asarray(x) / 49)), np.floor(x / 49))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_infinities_nan_and_zeros(dtype: str) -> None:
    x = np.array([np.inf, -np.inf, np.nan, 0, -0.0, 1], dtype)
    compiled = tracer.compile(lambda x, y: (tnp.sign(x / y), x / y))
    for divisor in np.array([49, np.inf, 0, -0.0, np.nan], dtype):
        with np.errstate(all="ignore"):
            quotient = x / divisor
        for found, wanted in zip(compiled(x, divisor), (np.sign(quotient), quotient), strict=True):
            np.testing.assert_array_equal(np.asarray(found), wanted)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_logarithms_of_negative_powers_are_none(dtype: str) -> None:
    x, y = np.array([[-3, -2, 2, -2], [3, 2, 3, 0]], dtype)
    for log in ("log", "log2", "log1p"):
        with np.errstate(invalid="ignore"):
            wanted = getattr(np, log)((x**y)[None])
        found = tracer.compile(lambda x, y, log=log: getattr(tnp, log)((x**y)[None]))(x, y)
        np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-6)


@pytest.mark.parametrize("divisor", [6e-8, 1e-5, 49, 3e4, 6e4])
def test_float16_divides(divisor: float) -> None:
    """The reciprocal was infinite, 0 * inf; of large divisors it had three digits."""
    x = np.linspace(0, divisor, 100).astype("float16")
    scale = x.dtype.type(divisor)
    for function in (lambda x: x / scale * x, lambda x: (x / x.max()) * x):
        np.testing.assert_array_equal(np.asarray(tracer.compile(function)(x)), function(x))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_by_the_largest_constants(dtype: str) -> None:
    """The reciprocal of the largest numbers is subnormal, which is zero."""
    largest = np.finfo(dtype).max
    x = np.linspace(-1, 1, 100).astype(dtype) * (largest / 2)
    for scale in (largest, 1 / np.finfo(dtype).tiny * 2):
        found = tracer.compile(lambda x, scale=scale: tnp.exp(x / scale))(x)
        np.testing.assert_allclose(np.asarray(found), np.exp(x / scale), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("number", ["int64[] 70000", "bool[] True", "uint8[] 3", "float64[] 1e39"])
def test_constants_of_another_dtype_are_judged_in_the_quotient_s(dtype: str, number: str) -> None:
    kind = number.split("[")[0]
    before = f"""
        graph(%0: {dtype}[5]) {{
          %1: {kind}[] = constant() {{value={number}}}
          %2: {dtype}[] = convert(%1) {{dtype={dtype}}}
          %3: {dtype}[5] = broadcast_in_dim(%2) {{shape=(5,), dimensions=()}}
          %4: {dtype}[5] = divide(%0, %3) {{}}
          %5: {dtype}[5] = exponential(%4) {{}}
          return %5
        }}"""
    x = np.arange(5, dtype=dtype)
    graph = parse_graph(before)
    after = operation_order_pass().run(graph, PassLog())
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(evaluated(after, x)[0], evaluated(graph, x)[0])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_powers_of_two_are_kept_apart(dtype: str) -> None:
    """Together they overflow: 0 * inf."""
    x = np.array([0, -0.0, 1, -3, np.inf, np.nan, 1e-4], dtype)
    half = x.dtype.type(2.0) ** (np.finfo(dtype).maxexp * 3 // 4)
    with np.errstate(all="ignore"):
        for exponent in (5000, 2 * np.finfo(dtype).maxexp, -5000):
            found = tracer.compile(lambda x, exponent=exponent: tnp.ldexp(x, exponent))(x)
            np.testing.assert_array_equal(np.asarray(found), np.ldexp(x, exponent))
        found = tracer.compile(lambda x: x * half * half)(x)
        np.testing.assert_array_equal(np.asarray(found), x * half * half)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_masks_hide_no_nan(dtype: str) -> None:
    """0 * NaN is NaN, and 0 * -1 is -0."""
    x = np.array([np.nan, np.inf, -np.inf, -1, 2, 0], dtype)
    for mask in (x > 1, x != x, x < 5):
        for function in (lambda m, x: m * x, lambda m, x: x[:, None] * m, lambda m, x: m / x[5]):
            with np.errstate(all="ignore"):
                wanted = function(mask, x)
            for found in (tracer.compile(function)(mask, x), function(tnp.asarray(mask), x)):
                np.testing.assert_array_equal(np.asarray(found), wanted)
                np.testing.assert_array_equal(
                    np.signbit(found)[wanted == 0], np.signbit(wanted)[wanted == 0]
                )


def test_in_a_loop() -> None:
    x = np.arange(1.0, 200)
    found = tracer.compile(
        lambda x: tracer.fori_loop(0, 3, lambda _, v: tnp.floor(v / 49) * 49 + (v + 1e15) - 1e15, x)
    )(x)
    for _ in range(3):
        x = np.floor(x / 49) * 49 + (x + 1e15) - 1e15
    np.testing.assert_array_equal(np.asarray(found), x)
