"""The verifier: every broken graph here must be refused, each for its own reason."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import pytest

from tracer import ops
from tracer.errors import VerifyError
from tracer.ir import Builder, Graph, Node, ShapeDtype, Value, parse_graph, verify
from tracer.ir.verify import verify_same_signature

FLOAT3 = ShapeDtype((3,), "float32")
FLOAT4 = ShapeDtype((4,), "float32")
COUNTER = ShapeDtype((), "int32")


def add_graph() -> Graph:
    with Builder() as builder:
        x, y = builder.input(FLOAT3), builder.input(FLOAT3)
        return builder.finish([ops.multiply(ops.add(x, y), x)])


def refused(graph: Graph) -> VerifyError:
    with pytest.raises(VerifyError) as caught:
        verify(graph)
    assert "bug" in caught.value.mend
    return caught.value


def input_value() -> Value:
    return Node(None, (), {}, (FLOAT3,), None).results[0]


def negated(value: Value, types: tuple[ShapeDtype, ...] = (FLOAT3,), **params: Any) -> Value:
    return Node(ops.negate, (value,), params, types, None).results[0]


def test_accepts_what_builders_make() -> None:
    verify(add_graph())
    verify(parse_graph("graph() { return }"))
    verify(parse_graph("graph(%0: float32[3], %1: int8[]) { return %0, %0 }"))


def test_refusal_shows_the_user_line_and_the_text() -> None:
    graph = add_graph()
    add, multiply = graph.nodes
    graph.nodes = (multiply, add)
    error = refused(graph)
    assert "operand 0 of 'multiply'" in error.what
    assert error.where == multiply.source
    (note,) = error.__notes__
    assert "> %2: float32[3] = multiply(%3, %0)  # test_verify.py" in note


def test_value_of_another_graph() -> None:
    x = input_value()
    stranger = negated(input_value())
    graph = Graph([x], [negated(x)])
    graph.nodes[0].operands = (stranger,)
    assert "belongs to another graph" in refused(graph).what
    assert "negate(%undefined)" in refused(graph).__notes__[0]


def test_input_that_is_not_listed() -> None:
    x, y = input_value(), input_value()
    assert "belongs to another graph" in refused(Graph([y], [negated(x)])).what


def test_output_that_is_not_defined() -> None:
    x = input_value()
    graph = Graph([x], [negated(x)])
    graph.outputs = (*graph.outputs, negated(x))
    assert "output 1" in refused(graph).what


def test_inputs_that_are_not_distinct() -> None:
    x = input_value()
    assert "2 times" in refused(Graph([x, x], [negated(x)])).what


def test_input_that_is_computed() -> None:
    computed = negated(input_value())
    assert "input 0 is the result of 'negate'" in refused(Graph([computed], [computed])).what


def test_node_that_stands_twice() -> None:
    graph = add_graph()
    graph.nodes = (graph.nodes[0], *graph.nodes)
    assert "twice" in refused(graph).what


def test_stored_type_that_is_not_the_inferred_one() -> None:
    x = input_value()
    graph = Graph([x], [negated(x, types=(FLOAT4,))])
    assert "infers (float32[3]), but the node says (float32[4])" in refused(graph).what


def test_number_of_results() -> None:
    x = input_value()
    graph = Graph([x], [negated(x, types=(FLOAT3, FLOAT3))])
    assert "infers (float32[3]), but" in refused(graph).what


def test_operands_that_the_op_refuses() -> None:
    graph = add_graph()
    y = Node(None, (), {}, (FLOAT4,), None).results[0]
    graph.inputs = (graph.inputs[0], y)
    graph.nodes[0].operands = graph.inputs
    error = refused(graph)
    assert "'add' does not accept" in error.what
    assert error.__cause__ is not None


def test_unknown_parameter() -> None:
    x = input_value()
    assert "does not accept" in refused(Graph([x], [negated(x, axis=1)])).what


@pytest.mark.parametrize("value", [[1], {1: 2}, np.int64(1), np.float32(1), 1j, (1, [2]), b"x"])
def test_parameter_of_a_kind_that_cannot_be_one(value: Any) -> None:
    x = input_value()
    assert "is no parameter" in refused(Graph([x], [negated(x, axis=value)])).what


def test_edges_that_differ_from_the_operands() -> None:
    graph = add_graph()
    graph.dag.edges  # noqa: B018 - made before the operands change
    graph.nodes[0].operands = graph.nodes[0].operands[::-1]
    assert "differs from node.operands" in refused(graph).what


def test_edge_that_is_missing() -> None:
    graph = add_graph()
    dag = nx.MultiDiGraph(graph.dag)
    dag.remove_edge(graph.nodes[0], graph.nodes[1])
    graph.__dict__["dag"] = dag
    assert "operand 0 of 'multiply'" in refused(graph).what


def loop(condition: Graph, body: Graph) -> Graph:
    i, x = Node(None, (), {}, (COUNTER,), None).results[0], input_value()
    params = {"condition": condition, "body": body}
    node = Node(ops.while_, (i, x), params, (COUNTER, FLOAT3), None)
    return Graph([i, x], node.results)


CONDITION = "graph(%0: int32[], %1: float32[3]) { %2: bool[] = compare(%0, %0) {direction='LT'} \
return %2 }"
BODY = "graph(%0: int32[], %1: float32[3]) { %2: float32[3] = negate(%1) return %0, %2 }"


def test_bodies_are_verified() -> None:
    condition, body = parse_graph(CONDITION), parse_graph(BODY)
    verify(loop(condition, body))
    body.nodes[0].types = (FLOAT4,)
    error = refused(loop(condition, body))
    assert "'negate' infers" in error.what
    assert any("in body of 'while'" in note for note in error.__notes__)


def test_body_that_is_not_closed() -> None:
    outer = loop(parse_graph(CONDITION), parse_graph(BODY))
    body = outer.nodes[0].params["body"]
    body.nodes[0].operands = (outer.inputs[1],)
    assert "belongs to another graph" in refused(outer).what


def test_body_of_another_signature() -> None:
    body = parse_graph("graph(%0: int32[], %1: float32[3]) { return %0, %0 }")
    assert "'while' does not accept" in refused(loop(parse_graph(CONDITION), body)).what


def test_same_signature() -> None:
    before = parse_graph("graph(%0: float32[3]) { return %0 }")
    verify_same_signature(
        before, parse_graph(BODY.replace("%0: int32[], ", "").replace("%0, ", ""))
    )
    for text, what in [
        ("graph(%0: float32[4]) { return %0 }", "inputs changed from (float32[3]) to (float32[4])"),
        ("graph(%0: float32[3]) { return %0, %0 }", "outputs changed"),
        ("graph() { return }", "inputs changed"),
    ]:
        with pytest.raises(VerifyError) as caught:
            verify_same_signature(before, parse_graph(text))
        assert what in caught.value.what
