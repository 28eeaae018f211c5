"""Nodes with an effect: kept, told apart, and left out where a graph is to do nothing."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from tracer import ops
from tracer.errors import ArgumentError
from tracer.ir import (
    Builder,
    Graph,
    HostFunction,
    ShapeDtype,
    Value,
    effects_of,
    host_function,
    interpret,
    keeps_order,
    parse_graph,
    print_graph,
    rebuild,
    verify,
    without_effects,
)

TYPE = ShapeDtype((3,), "float64")


def act(x: Value, function: HostFunction, *, ordered: bool = False) -> None:
    ops.debug_callback(x, function=function, ordered=ordered, batch=(), batched=())


def looping(seen: list[Any]) -> Graph:
    """Return a loop of three steps that shows its carry, and shows its result."""
    function = HostFunction(lambda x: seen.append(x.tolist()) or (), "f", ())
    with Builder() as builder:
        carry = builder.input(TYPE)
        act(carry, function)
        body = builder.finish([ops.add(carry, carry)])
    with Builder() as builder:
        x = builder.input(TYPE)
        counts = {"length": 3, "num_consts": 0, "num_carry": 1, "reverse": False}
        (y,) = ops.scan(x, body=body, **counts)
        act(y, function, ordered=True)
        return builder.finish([x])


def test_what_nothing_reads_is_kept_for_its_effect() -> None:
    seen: list[Any] = []
    graph = looping(seen)
    verify(graph)
    assert [node.name for node in graph.nodes] == ["scan", "debug_callback"]
    interpret(graph, [np.ones(3)])
    assert seen == [[1.0] * 3, [2.0] * 3, [4.0] * 3, [8.0] * 3]


def test_copies_keep_them() -> None:
    graph = looping([])
    copied = rebuild(graph, lambda builder, node, operands: builder.copy(node, operands))
    assert effects_of(copied) == effects_of(graph)
    assert copied.fingerprint == graph.fingerprint


def test_loops_and_branches_tell_effects_apart() -> None:
    graph = looping([])
    (inside, outside) = effects_of(graph).calls
    assert [inside[0], outside[0]] == [("body",), ()]
    assert effects_of(graph).ordered == (outside[1:],)
    expanded = rebuild(
        graph,
        lambda _, node, operands: (
            node.op.expand(*operands, **node.params) if node.op.expand is not None else None
        ),
    )
    assert [node.name for node in expanded.nodes if node.bodies] == ["while"]
    assert effects_of(expanded) == effects_of(graph)
    assert [keeps_order(node) for node in graph.nodes] == [False, True]


def test_a_graph_that_does_nothing() -> None:
    seen: list[Any] = []
    graph = looping(seen)
    quiet = without_effects(graph)
    verify(quiet)
    assert not quiet.has_effect
    assert not quiet.nodes
    assert without_effects(quiet) is quiet
    body = without_effects(next(iter(graph.nodes)).body_graphs[0])
    assert [node.name for node in body.nodes] == ["add"]


class TestHostFunction:
    def test_the_same_function_and_details_are_the_same(self) -> None:
        def f() -> tuple[()]:
            return ()

        def g() -> tuple[()]:
            return ()

        first = host_function(lambda: f, "f", f, 1, "a")
        assert host_function(lambda: f, "f", f, 1, "a") is first
        others = [
            host_function(lambda: f, "f", f, 1.0, "a"),
            host_function(lambda: f, "f", f, True, "a"),
            host_function(lambda: g, "g", g, 1, "a"),
            host_function(lambda: f, "f", f, [], "a"),
        ]
        assert len({id(one) for one in (first, *others)}) == 5
        assert len({repr(one) for one in (first, *others)}) == 5

    def test_methods_are_those_of_their_object(self) -> None:
        class Holder:
            def f(self) -> tuple[()]:
                return ()

        one, other = Holder(), Holder()
        first = host_function(lambda: one.f, "f", one.f)
        assert host_function(lambda: one.f, "f", one.f) is first
        assert host_function(lambda: other.f, "f", other.f) is not first

    def test_nothing_is_kept_that_nobody_holds(self) -> None:
        def f() -> tuple[()]:
            return ()

        number = repr(host_function(lambda: f, "f", f))
        assert repr(host_function(lambda: f, "f", f)) != number

    def test_the_text_of_a_graph_names_it_as_long_as_it_is_there(self) -> None:
        graph = looping([])
        text = print_graph(graph)
        assert parse_graph(text).fingerprint == graph.fingerprint
        with pytest.raises(ArgumentError, match="no Python function 10101010"):
            parse_graph(re.sub(r"python\(\d+", "python(10101010", text))
