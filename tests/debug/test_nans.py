"""debug.nans names the operation that made the first NaN, its line, its operands and the step."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tracer.errors import DTypeError, NanError, TracingError

nans = tracer.debug.nans


def failure(fun: Any, *args: Any) -> str:
    with pytest.raises(FloatingPointError) as caught:
        nans(fun)(*args)
    assert isinstance(caught.value, NanError)
    return str(caught.value)


@pytest.mark.xla
def test_returns_what_the_function_returns() -> None:
    def f(x: Any, *, y: Any) -> Any:
        return {"sum": x + y, "n": 2, "root": tnp.sqrt(abs(x))}

    x = np.array([-4.0, 9.0], np.float32)
    found, expected = nans(f)(x, y=1), f(tnp.array(x), y=1)
    assert found.keys() == expected.keys()
    for key in ("sum", "root"):
        np.testing.assert_allclose(found[key], expected[key])
        assert found[key].dtype == expected[key].dtype
    assert int(found["n"]) == 2


def test_names_op_line_and_operands() -> None:
    text = failure(lambda x: tnp.sqrt(x) + 1, np.array([1.0, -2.0, -3.0, np.inf]))
    first, operand, where, *_ = text.splitlines()
    assert first == "sqrt made the first NaN: 2 of the 4 elements of float64[4]"
    assert operand == "  operand 0: float64[4], from -3.0 to 1.0, 1 infinite"
    assert where.startswith("  where: test_nans.py:")
    assert "tnp.sqrt(x) + 1" in where


def test_all_operands_are_described() -> None:
    def f(x: Any, y: Any) -> Any:
        return tnp.divide(x, y)

    text = failure(f, np.zeros((2, 2)), np.zeros((2, 2)))
    assert "operand 0: float64[2,2], 0.0\n" in text
    assert "operand 1: float64[2,2], 0.0\n" in text


def test_the_first_one_counts() -> None:
    def f(x: Any) -> Any:
        y = tnp.log(x)
        return tnp.sqrt(y - 1)

    assert failure(f, -1.0).startswith("log made")


@pytest.mark.xla
def test_steps_of_loops_are_counted() -> None:
    def step(carry: Any, x: Any) -> tuple[Any, Any]:
        carry = tracer.while_loop(lambda c: c > 2, lambda c: tnp.log(c - x) * 2, carry)
        return carry + 1, carry

    text = failure(lambda xs: tracer.scan(step, 5.0, xs)[0], np.array([0.0, 0.1, 3.0]))
    lines = text.splitlines()
    assert lines[0].startswith("log made the first NaN")
    assert lines[2].startswith("  in step 0, counted from 0, of the while at test_nans.py:")
    assert lines[3].startswith("  in step 2, counted from 0, of the scan at test_nans.py:")


@pytest.mark.xla
def test_conditions_and_branches_are_named() -> None:
    def holds(c: Any) -> Any:
        return tnp.sqrt(2 - c) > 0

    text = failure(lambda x: tracer.while_loop(holds, lambda c: c + 1.5, x), 0.0)
    assert "  in condition of step 2, counted from 0, of the while at" in text

    def g(x: Any) -> Any:
        return tracer.cond(x > 0, lambda x: x, lambda x: tnp.log(x), x)

    assert float(nans(g)(1.0)) == 1
    assert "  in branches[0] of the case at" in failure(g, -1.0)


@pytest.mark.xla
def test_gradients_name_the_line_of_the_value() -> None:
    def f(x: Any) -> Any:
        return tnp.where(x > 0, tnp.sqrt(x), 0.0).sum()

    x = np.array([0.0, 4.0])
    text = failure(tracer.grad(f), x)
    assert "tnp.sqrt(x)" in text
    safe = tracer.grad(lambda x: tnp.where(x > 0, tnp.sqrt(tnp.where(x > 0, x, 1.0)), 0.0).sum())
    np.testing.assert_array_equal(nans(safe)(x), [0, 0.25])


@pytest.mark.xla
def test_compiled_functions_are_looked_into() -> None:
    compiled = tracer.compile(lambda x: tnp.log(x), memory_limit="1GB")
    assert failure(compiled, -1.0).startswith("log made")


@pytest.mark.xla
def test_nans_that_come_in_may_go_through() -> None:
    found = nans(lambda x: tnp.where(x > 0, x, np.nan) * 2)(np.array([np.nan, 1.0, -1.0]))
    np.testing.assert_array_equal(found, [np.nan, 2, np.nan])


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.complex64])
def test_every_float(dtype: Any) -> None:
    def f(x: Any) -> Any:
        return x - x

    text = failure(f, np.array([np.inf, 1], dtype))
    assert text.startswith("subtract made the first NaN: 1 of the 2 elements")


@pytest.mark.xla
def test_captured_arrays_are_read() -> None:
    y = tnp.arange(100.0)
    np.testing.assert_array_equal(nans(lambda x: x * y)(2.0), 2 * np.arange(100.0))


def test_where_it_can_be_used() -> None:
    with pytest.raises(TracingError, match="inside of a traced function"):
        tracer.eval_shape(nans(lambda x: x), 1.0)
    with pytest.raises(DTypeError, match="no function"):
        nans(3.0)  # type: ignore[arg-type]
