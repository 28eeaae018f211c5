"""Gradients of ops with bodies: scan, checkpoint, custom_vjp_call."""

from __future__ import annotations

import numpy as np
import pytest

from tests.autodiff.graphs import build, matmul, names, point, total
from tracer import ops
from tracer.autodiff import check_graph, pull_back, value_and_gradient, vjp_graph
from tracer.errors import NotDifferentiableError, ShapeError
from tracer.ir import Graph, Node, Value, interpret, verify

MATRIX = ((3, 3), "float64")
VECTOR = ((3,), "float64")
SCALAR = ((), "float64")
STACK = ((4, 3), "float64")


def step(w: Value, c: Value, x: Value) -> list[Value]:
    carry = ops.tanh(ops.add(matmul(c, w), ops.multiply(x, ops.sine(c))))
    return [carry, ops.multiply(carry, x)]


def recurrent(*, reverse: bool = False) -> Graph:
    body = build(step, MATRIX, VECTOR, VECTOR)
    return build(
        lambda w, c, xs: ops.scan(
            w, c, xs, body=body, length=4, num_consts=1, num_carry=1, reverse=reverse
        ),
        MATRIX,
        VECTOR,
        STACK,
    )


def scans(graph: Graph) -> list[Node]:
    return [node for node in graph.nodes if node.op is ops.scan]


@pytest.mark.parametrize("reverse", [False, True])
def test_scan_means_its_expansion(reverse: bool) -> None:
    graph = recurrent(reverse=reverse)
    params = scans(graph)[0].params
    expansion = build(lambda *v: ops.scan.expand(*v, **params), MATRIX, VECTOR, STACK)
    verify(expansion)
    arrays = point(graph)
    pairs = zip(interpret(graph, arrays), interpret(expansion, arrays), strict=True)
    for one, other in pairs:
        np.testing.assert_allclose(one, other)


@pytest.mark.parametrize("reverse", [False, True])
def test_scan_against_differences(reverse: bool) -> None:
    graph = recurrent(reverse=reverse)
    check_graph(graph, point(graph), order=3, modes=("rev", "fwd"))


def test_scan_keeps_only_what_the_backward_steps_read() -> None:
    forward, backward = scans(vjp_graph(recurrent(), [0, 1, 2]))
    # The carries entering and leaving each step; not the sine, the cosine, the slope of tanh.
    assert [str(t) for t in forward.types] == ["float64[3]"] + ["float64[4,3]"] * 3
    assert backward.params["reverse"] is not forward.params["reverse"]


def test_scan_sums_no_cotangents_that_are_not_asked_about() -> None:
    _, backward = scans(vjp_graph(recurrent(), [1]))
    assert [str(t) for t in backward.types] == ["float64[3]"]


def test_scan_hoists_what_depends_on_constants_only() -> None:
    body = build(lambda w, c, x: [ops.multiply(matmul(c, matmul(w, w)), x)], MATRIX, VECTOR, VECTOR)
    graph = build(
        lambda w, c, xs: ops.scan(
            w, c, xs, body=body, length=4, num_consts=1, num_carry=1, reverse=False
        )[0],
        MATRIX,
        VECTOR,
        STACK,
    )
    gradient = vjp_graph(graph, [1])
    (backward,) = scans(gradient)  # linear in the carry: no forward step is needed
    assert names(gradient).count("dot_general") == 1
    assert names(backward.params["body"]).count("dot_general") == 1
    assert all(t.shape != (4, 3, 3) for t in backward.operand_types)
    check_graph(graph, point(graph))


def test_scan_with_integer_carry_and_unused_slices() -> None:
    def counted(n: Value, c: Value, x: Value) -> list[Value]:
        scale = ops.convert(n, dtype=np.dtype("float64"))
        more = ops.add(n, ops.constant(value=np.array(1, np.int32)))
        return [more, ops.multiply(c, ops.sine(scale)), scale]

    body = build(counted, ((), "int32"), SCALAR, VECTOR)
    graph = build(
        lambda n, c, xs: ops.scan(
            n, c, xs, body=body, length=4, num_consts=0, num_carry=2, reverse=False
        ),
        ((), "int32"),
        SCALAR,
        STACK,
    )
    arrays = [np.array(1, np.int32), np.array(0.7), np.ones((4, 3))]
    check_graph(graph, arrays, order=2, modes=("rev", "fwd"))


def test_scan_whose_step_forgets_the_carry() -> None:
    body = build(lambda c, x: [ops.sine(x), ops.multiply(c, x)], VECTOR, VECTOR)
    graph = build(
        lambda c, xs: ops.scan(
            c, xs, body=body, length=4, num_consts=0, num_carry=1, reverse=False
        ),
        VECTOR,
        STACK,
    )
    check_graph(graph, point(graph), order=3, modes=("rev", "fwd"))


def test_scan_in_a_scan() -> None:
    inner = build(step, MATRIX, VECTOR, VECTOR)

    def outer_step(w: Value, xs: Value, c: Value) -> list[Value]:
        last, ys = ops.scan(w, c, xs, body=inner, length=4, num_consts=1, num_carry=1, reverse=True)
        return [last, total(ys)]

    outer = build(outer_step, MATRIX, STACK, VECTOR)
    graph = build(
        lambda w, xs, c: ops.scan(
            w, xs, c, body=outer, length=3, num_consts=2, num_carry=1, reverse=False
        ),
        MATRIX,
        STACK,
        VECTOR,
    )
    arrays = [0.3 * array for array in point(graph)]
    check_graph(graph, arrays, order=2, modes=("rev", "fwd"))


def test_case_in_a_scan() -> None:
    branches = (
        build(lambda c, x: ops.sine(ops.multiply(c, x)), VECTOR, VECTOR),
        build(lambda c, x: ops.add(c, x), VECTOR, VECTOR),
    )

    def choosing(n: Value, c: Value, x: Value) -> list[Value]:
        one = ops.constant(value=np.array(1, np.int32))
        return [ops.subtract(one, n), *ops.case(n, c, x, branches=branches)]

    body = build(choosing, ((), "int32"), VECTOR, VECTOR)
    graph = build(
        lambda n, c, xs: ops.scan(
            n, c, xs, body=body, length=4, num_consts=0, num_carry=2, reverse=False
        )[1],
        ((), "int32"),
        VECTOR,
        STACK,
    )
    arrays = [np.array(0, np.int32), *point(graph)[1:]]
    check_graph(graph, arrays, order=2, modes=("rev", "fwd"))


def test_scan_checks_its_operands() -> None:
    body = build(step, MATRIX, VECTOR, VECTOR)
    params = {"body": body, "num_consts": 1, "num_carry": 1, "reverse": False}
    with pytest.raises(ShapeError, match="needs"):
        build(lambda w, c, xs: ops.scan(w, c, xs, length=5, **params), MATRIX, VECTOR, STACK)
    wrong = build(lambda w, c, x: [total(c)], MATRIX, VECTOR, VECTOR)
    with pytest.raises(ShapeError, match="takes the carry"):
        build(
            lambda w, c, xs: ops.scan(w, c, xs, length=4, **{**params, "body": wrong}),
            MATRIX,
            VECTOR,
            STACK,
        )


def deep(x: Value, w: Value) -> Value:
    for _ in range(3):
        x = ops.tanh(matmul(x, w))
    return x


def checkpointed(prevent_cse: bool = True) -> Graph:
    body = build(deep, MATRIX, MATRIX)
    return build(
        lambda x, w: total(ops.checkpoint(x, w, body=body, prevent_cse=prevent_cse)[0]),
        MATRIX,
        MATRIX,
    )


@pytest.mark.parametrize("prevent_cse", [True, False])
def test_checkpoint_against_differences(prevent_cse: bool) -> None:
    graph = checkpointed(prevent_cse)
    check_graph(graph, point(graph), order=3, modes=("rev", "fwd"))


def test_checkpoint_keeps_its_operands_only() -> None:
    halves = pull_back(checkpointed(), [0, 1])
    assert halves.residuals == 0
    assert halves.inputs == (0, 1)
    plain = pull_back(build(lambda x, w: total(deep(x, w)), MATRIX, MATRIX), [0, 1])
    assert plain.residuals > 0


def test_checkpoint_holds_the_second_run_back() -> None:
    gradient = value_and_gradient(checkpointed(), [0])
    assert names(gradient).count("optimization_barrier") == 1
    assert "optimization_barrier" not in names(value_and_gradient(checkpointed(False), [0]))


def custom(x: Value, scale: Value) -> Value:
    """x * scale, whose rule gives the cotangent g * scale * (3 + x) to x, and none to scale."""

    def backward(closed: Value, scale: Value, x: Value, g: Value) -> Value:
        three = ops.constant(value=np.array(3.0))
        return ops.multiply(ops.multiply(g, scale), ops.add(three, x))

    return ops.custom_vjp_call(
        x,
        scale,
        body=build(lambda x, s: [ops.multiply(x, s)], SCALAR, SCALAR),
        forward=build(lambda x, s: [ops.multiply(x, s), s, x], SCALAR, SCALAR),
        backward=build(backward, SCALAR, SCALAR, SCALAR, SCALAR),
        differentiable=1,
    )[0]


def test_custom_vjp_uses_its_rule_and_can_be_differentiated_again() -> None:
    graph = build(custom, SCALAR, SCALAR)
    arrays = [np.array(2.0), np.array(5.0)]
    first = value_and_gradient(graph, [0])
    assert [float(v) for v in interpret(first, arrays)] == [10, 5 * (3 + 2)]
    second = value_and_gradient(first, [0], output=1)
    assert float(interpret(second, arrays)[2]) == 5


def test_custom_vjp_refuses_a_derivative_of_what_it_closes_over() -> None:
    graph = build(custom, SCALAR, SCALAR)
    with pytest.raises(NotDifferentiableError, match="closes over"):
        value_and_gradient(graph, [1])
