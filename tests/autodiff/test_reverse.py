"""The reverse sweep on graphs: values, activity, zeros, errors, source lines."""

from __future__ import annotations

import numpy as np
import pytest

from tests.autodiff.graphs import build, matmul, names, point, total
from tracer import ops
from tracer.autodiff import check_graph, value_and_gradient, vjp_graph
from tracer.errors import NotDifferentiableError
from tracer.ir import Op, Value, interpret, verify

VECTOR = ((3,), "float64")
SCALAR = ((), "float64")


def test_gradient_of_a_product() -> None:
    graph = build(lambda x, y: total(ops.multiply(x, y)), VECTOR, VECTOR)
    x, y = point(graph)
    value, by_x, by_y = interpret(value_and_gradient(graph, [0, 1]), [x, y])
    np.testing.assert_allclose(value, x @ y)
    np.testing.assert_allclose(by_x, y)
    np.testing.assert_allclose(by_y, x)


def test_a_value_used_twice_accumulates() -> None:
    graph = build(lambda x: ops.add(ops.multiply(x, x), ops.sine(x)), SCALAR)
    x = np.array(0.7)
    gradient = interpret(value_and_gradient(graph, [0]), [x])[1]
    np.testing.assert_allclose(gradient, 2 * x + np.cos(x))


def test_output_that_is_an_input() -> None:
    graph = build(lambda x: x, SCALAR)
    assert [float(v) for v in interpret(value_and_gradient(graph, [0]), [np.array(5.0)])] == [5, 1]


def test_same_output_twice_takes_both_cotangents() -> None:
    graph = build(lambda x: [ops.sine(x)] * 2, SCALAR)
    arrays = [np.array(0.3), np.array(2.0), np.array(5.0)]
    np.testing.assert_allclose(interpret(vjp_graph(graph, [0]), arrays)[0], 7 * np.cos(0.3))


def test_input_that_does_not_matter_gets_zeros() -> None:
    graph = build(lambda x, y: total(x), VECTOR, VECTOR)
    gradient = interpret(value_and_gradient(graph, [1]), point(graph))[1]
    np.testing.assert_array_equal(gradient, np.zeros(3))


def test_integer_input_gets_zeros_of_its_dtype() -> None:
    graph = build(
        lambda x, n: total(ops.multiply(x, ops.convert(n, dtype=np.dtype("float64")))),
        VECTOR,
        ((3,), "int32"),
    )
    x = np.ones(3)
    n = np.arange(3, dtype=np.int32)
    _, by_x, by_n = interpret(value_and_gradient(graph, [0, 1]), [x, n])
    np.testing.assert_array_equal(by_x, n)
    assert by_n.dtype == np.int32
    assert not by_n.any()


def test_no_work_for_inputs_that_are_not_asked_about() -> None:
    graph = build(lambda x, w: total(matmul(x, w)), ((4, 3), "float64"), ((3, 5), "float64"))
    both = names(value_and_gradient(graph, [0, 1])).count("dot_general")
    one = names(value_and_gradient(graph, [1])).count("dot_general")
    assert (both, one) == (3, 2)


def test_no_work_for_values_that_do_not_reach_the_output() -> None:
    graph = build(lambda x: [total(x), ops.exponential(ops.sine(x))], VECTOR)
    gradient = value_and_gradient(graph, [0])
    assert "cosine" not in names(gradient)
    assert len(gradient.outputs) == 3


def test_only_the_seeded_output_is_differentiated() -> None:
    graph = build(lambda x: [ops.sine(x), ops.exponential(x)], SCALAR)
    results = interpret(value_and_gradient(graph, [0], output=1), [np.array(0.4)])
    np.testing.assert_allclose(results, [np.sin(0.4), np.exp(0.4), np.exp(0.4)])


@pytest.mark.parametrize("op", [ops.floor, ops.sign, ops.stop_gradient])
def test_zero_derivatives_stop_silently(op: Op) -> None:
    graph = build(lambda x: ops.multiply(op(x), x), SCALAR)
    x = np.array(1.5)
    gradient = interpret(value_and_gradient(graph, [0]), [x])[1]
    np.testing.assert_allclose(gradient, interpret(build(op, SCALAR), [x])[0])


def test_zeros_are_not_made_where_a_branch_stops() -> None:
    graph = build(lambda x: total(ops.add(ops.floor(x), x)), VECTOR)
    assert "floor" not in names(vjp_graph(graph, [0]))


def loop(x: Value) -> Value:
    condition = build(
        lambda c: ops.compare(c, ops.constant(value=np.array(9.0)), direction="LT"), SCALAR
    )
    body = build(lambda c: ops.add(c, c), SCALAR)
    return ops.while_(x, condition=condition, body=body)[0]


def test_while_says_why_and_what_to_write_and_where() -> None:
    graph = build(loop, SCALAR)
    with pytest.raises(NotDifferentiableError) as caught:
        value_and_gradient(graph, [0])
    text = str(caught.value)
    assert "number of iterations" in text
    assert "fori_loop" in text
    assert "return ops.while_" in text


def test_while_on_an_inactive_path_is_no_error() -> None:
    graph = build(lambda x, y: ops.multiply(x, loop(y)), SCALAR, SCALAR)
    results = interpret(value_and_gradient(graph, [0]), [np.array(2.0), np.array(3.0)])
    np.testing.assert_allclose(results, [24, 12])


def test_while_behind_stop_gradient_is_no_error() -> None:
    graph = build(lambda x: ops.multiply(x, loop(ops.stop_gradient(x))), SCALAR)
    results = interpret(value_and_gradient(graph, [0]), [np.array(3.0)])
    np.testing.assert_allclose(results, [36, 12])


def test_backward_nodes_carry_the_line_of_the_forward_node() -> None:
    graph = build(lambda x: ops.sine(x), SCALAR)
    line = graph.nodes[0].source
    cosine = next(n for n in value_and_gradient(graph, [0]).nodes if n.name == "cosine")
    assert cosine.source == line


def test_gradients_of_gradients() -> None:
    graph = build(lambda x: ops.multiply(ops.multiply(x, x), x), SCALAR)
    first = value_and_gradient(graph, [0])
    second = value_and_gradient(first, [0], output=1)
    verify(second)
    assert [float(v) for v in interpret(second, [np.array(2.0)])] == [8, 12, 12]


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_against_differences(dtype: str) -> None:
    def function(x: Value, w: Value) -> Value:
        return ops.multiply(ops.tanh(matmul(x, w)), ops.exponential(matmul(x, w)))

    graph = build(function, ((2, 3), dtype), ((3, 2), dtype))
    arrays = [0.3 * array for array in point(graph)]
    arrays = [array.astype(dtype) for array in arrays]
    check_graph(graph, arrays, order=3, modes=("rev", "fwd"))


def test_complex_gradient_of_a_real_function_is_that_of_jax() -> None:
    # f(z) = |z|^2 = x^2 + y^2: df/dx - i df/dy = 2 conj(z)
    graph = build(
        lambda z: ops.add(
            ops.multiply(ops.real(z), ops.real(z)), ops.multiply(ops.imag(z), ops.imag(z))
        ),
        ((), "complex128"),
    )
    z = np.array(1 + 2j)
    np.testing.assert_allclose(interpret(value_and_gradient(graph, [0]), [z])[1], 2 * z.conj())


def case(index: Value, x: Value, y: Value) -> Value:
    branches = (
        build(lambda x, y: ops.multiply(x, y), SCALAR, SCALAR),
        build(lambda x, y: ops.sine(x), SCALAR, SCALAR),
        build(lambda x, y: loop(y), SCALAR, SCALAR),
    )
    return ops.case(index, x, y, branches=branches)[0]


@pytest.mark.parametrize(("index", "wanted"), [(0, 3.0), (1, np.cos(2.0)), (2, 0.0)])
def test_case_differentiates_the_branch_that_runs(index: int, wanted: float) -> None:
    graph = build(case, ((), "int32"), SCALAR, SCALAR)
    # Not with respect to y, so that the loop in the last branch does not matter.
    arrays = [np.array(index, np.int32), np.array(2.0), np.array(3.0)]
    np.testing.assert_allclose(interpret(value_and_gradient(graph, [1]), arrays)[1], wanted)
    with pytest.raises(NotDifferentiableError):
        value_and_gradient(graph, [2])


@pytest.mark.slow
def test_ten_thousand_nodes_in_linear_time() -> None:
    def chain(x: Value) -> Value:
        for _ in range(5000):
            x = ops.sine(ops.negate(x))
        return x

    graph = build(chain, SCALAR)
    gradient = value_and_gradient(graph, [0])
    assert 20_000 <= len(gradient.nodes) <= 30_000
