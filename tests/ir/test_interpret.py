"""The interpreter: values, exact types, memory that is freed."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tracer import ops
from tracer.errors import ArgumentError, DTypeError, ShapeError, VerifyError
from tracer.ir import Builder, Graph, ShapeDtype, interpret

FLOAT3 = ShapeDtype((3,), "float32")


@contextlib.contextmanager
def negate_evaluated_by(evaluate: Any) -> Iterator[None]:
    """Give the op `negate` another evaluation for a while; records are frozen for everyone else."""
    original = ops.negate.evaluate
    object.__setattr__(ops.negate, "evaluate", evaluate)
    try:
        yield
    finally:
        object.__setattr__(ops.negate, "evaluate", original)


def chain(length: int) -> Graph:
    with Builder() as builder:
        value = builder.input(FLOAT3)
        for _ in range(length):
            value = ops.negate(value)
        return builder.finish([value])


def test_evaluates_in_order() -> None:
    with Builder() as builder:
        x, y = builder.input(FLOAT3), builder.input(FLOAT3)
        total = ops.add(x, y)
        graph = builder.finish([ops.multiply(total, x), total, y])
    x_array = np.array([1, 2, 3], np.float32)
    product, total_array, same = interpret(graph, [x_array, np.ones(3, np.float32)])
    np.testing.assert_array_equal(product, np.array([2, 6, 12], np.float32))
    np.testing.assert_array_equal(total_array, np.array([2, 3, 4], np.float32))
    np.testing.assert_array_equal(same, np.ones(3, np.float32))


def test_results_are_read_only_and_leave_the_arguments_alone() -> None:
    argument = np.ones(3, np.float32)
    (result,) = interpret(chain(0), [argument])
    with pytest.raises(ValueError, match="read-only"):
        result[0] = 5
    argument[0] = 7


def test_unused_inputs_and_no_outputs() -> None:
    with Builder() as builder:
        builder.input(FLOAT3)
        graph = builder.finish([])
    assert interpret(graph, [np.ones(3, np.float32)]) == []


def test_bodies_are_interpreted() -> None:
    counter = ShapeDtype((), "int32")
    with Builder() as builder:
        i, x = builder.input(counter), builder.input(FLOAT3)
        limit = ops.constant(value=np.array(4, np.int32))
        condition = builder.finish([ops.compare(i, limit, direction="LT")])
    with Builder() as builder:
        i, x = builder.input(counter), builder.input(FLOAT3)
        one = ops.constant(value=np.array(1, np.int32))
        body = builder.finish([ops.add(i, one), ops.add(x, x)])
    with Builder() as builder:
        carry = builder.input(counter), builder.input(FLOAT3)
        graph = builder.finish(ops.while_(*carry, condition=condition, body=body))
    count, doubled = interpret(graph, [np.array(1, np.int32), np.ones(3, np.float32)])
    assert count == 4
    np.testing.assert_array_equal(doubled, np.full(3, 8, np.float32))


def test_frees_values_after_their_last_use() -> None:
    alive: list[weakref.ref[Any]] = []
    most = 0

    def evaluate(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        nonlocal most
        result = -x
        alive.append(weakref.ref(result))
        most = max(most, sum(reference() is not None for reference in alive))
        return result

    with negate_evaluated_by(evaluate):
        interpret(chain(20), [np.ones(3, np.float32)])
    assert most == 2  # an operand and the result


@pytest.mark.parametrize(
    ("arrays", "error"),
    [
        ([], ArgumentError),
        ([np.ones(3, np.float32)] * 2, ArgumentError),
        ([np.ones(3)], DTypeError),
        ([np.ones(3, ">f4")], DTypeError),
        ([np.ones((3, 1), np.float32)], ShapeError),
    ],
)
def test_refuses_arguments_of_another_type(arrays: list[Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        interpret(chain(1), arrays)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda x: x.astype(np.float64), "float64[3] instead of float32[3]"),
        (lambda x: x[:2], "float32[2] instead of float32[3]"),
        (lambda x: (x, x), "2 results instead of 1"),
        (lambda x: 1.0, "a float instead of float32[3]"),
    ],
)
def test_refuses_results_of_another_type(wrong: Any, said: str) -> None:
    graph = chain(1)
    with negate_evaluated_by(wrong), pytest.raises(VerifyError) as caught:
        interpret(graph, [np.ones(3, np.float32)])
    assert said in caught.value.what.replace(", ", ",")
    assert "'negate'" in caught.value.what
    assert caught.value.where == graph.nodes[0].source


def test_errors_of_an_evaluation_name_the_node() -> None:
    def fails(x: np.ndarray[Any, Any]) -> Any:
        raise ZeroDivisionError("inside")

    with negate_evaluated_by(fails), pytest.raises(ZeroDivisionError) as caught:
        interpret(chain(1), [np.ones(3, np.float32)])
    (note,) = caught.value.__notes__
    assert "<negate: float32[3]>" in note
    assert "test_interpret.py" in note
