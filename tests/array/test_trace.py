"""trace: nested arguments and results, leaves of every kind, sources, speed."""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tracer import tree
from tracer.array.trace import trace
from tracer.errors import DTypeError, TracingError

F32 = tracer.ShapeDtype((3,), "float32")


class Pair(NamedTuple):
    x: object
    y: object


@pytest.mark.xla
def test_leaves_of_every_kind():
    seen = []

    def function(*args):
        seen.extend(str(a.type) for a in args)
        return args[0]

    trace(
        function,
        [F32, tnp.ones(2), np.ones(2, "int8"), np.float32(1), 1, 1.5, True, 2j, np.ones(1, ">i4")],
    )
    assert (
        seen
        == (
            "float32[3] float64[2] int8[2] float32[] int64[] float64[] bool[] complex128[] int32[1]"
        ).split()
    )


def test_nested_arguments_and_results():
    def function(params, *, data):
        hidden = params["w"][0] + data.x
        return {"loss": hidden.sum(), "parts": [hidden, (params["w"][1], None)], "one": 1}

    traced = trace(function, [{"w": (F32, F32)}], {"data": Pair(F32, None)})
    assert traced.argument_types == (F32, F32, F32)
    assert [str(t) for t in traced.output_types] == [
        "float32[]",
        "int64[]",
        "float32[3]",
        "float32[3]",
    ]
    result = tree.unflatten(traced.out_tree, ["loss", "one", "hidden", "w1"])
    assert result == {"loss": "loss", "one": "one", "parts": ["hidden", ("w1", None)]}
    assert traced.graph.input_types == traced.argument_types


def test_numbers_and_numpy_arrays_can_be_returned():
    traced = trace(lambda: (np.ones(40, "float32"), 2, None), [])
    assert [str(t) for t in traced.output_types] == ["float32[40]", "int64[]"]


def test_arguments_that_are_no_arrays_are_named():
    with pytest.raises(DTypeError, match=r"args\[1\]\['mode'\] is of type builtins.str") as caught:
        trace(lambda x, y: x, [F32, {"mode": "fast"}])
    assert "static_argnums" in caught.value.mend
    with pytest.raises(DTypeError, match=r"kwargs\['y'\] is a NumPy array of dtype object"):
        trace(lambda x, y: x, [F32], {"y": np.array([None])})


def test_results_that_are_no_arrays_are_named():
    with pytest.raises(TracingError, match=r"result\['loss'\]\[0\] of type builtins.str"):
        trace(lambda x: {"loss": ["text", x]}, [F32])
    with pytest.raises(TracingError, match="no array and no number"):
        trace(lambda x: lambda: x, [F32])
    with pytest.raises(TracingError, match="ShapeDtype"):
        trace(lambda x: x.type, [F32])


def test_registered_classes_are_trees():
    class Layer:
        def __init__(self, weight, name):
            self.weight, self.name = weight, name

    tracer.register_pytree_node(
        Layer, lambda layer: ((layer.weight,), layer.name), lambda name, kids: Layer(kids[0], name)
    )
    traced = trace(lambda layer: Layer(layer.weight * 2, layer.name), [Layer(F32, "first")])
    layer = tree.unflatten(traced.out_tree, [1])
    assert (layer.weight, layer.name) == (1, "first")


def test_nodes_know_the_users_line():
    traced = trace(lambda x: tnp.exp(x[None] * 2.0).sum(), [F32])
    for node in traced.graph.nodes:
        assert node.source is not None
        assert node.source.file == __file__


def test_tracing_the_same_twice_gives_equal_graphs():
    def function(x):
        return tnp.where(x > 0, x, 2.0).mean()

    assert trace(function, [F32]).graph.fingerprint == trace(function, [F32]).graph.fingerprint


@pytest.mark.slow
def test_tracing_takes_time_in_proportion_to_the_ops():
    def seconds_of(repeats):
        def function(x, y):
            for _ in range(repeats):
                x = tnp.sin(x + y) * 2.0 - y
            return x

        found = []
        for _ in range(3):
            start = time.process_time()
            graph = trace(function, [F32, F32]).graph
            found.append(time.process_time() - start)
        assert len(graph.nodes) >= 4 * repeats
        return min(found)

    assert seconds_of(2500) < 30 * seconds_of(250)


def test_paths():
    paths, leaves, _ = tree.flatten_with_paths({"b": [1, (2,)], "a": Pair(3, None)})
    assert dict(zip(paths, leaves, strict=True)) == {"['a'].x": 3, "['b'][0]": 1, "['b'][1][0]": 2}


def test_tree_map():
    assert tree.map(lambda x, y: x + y, {"a": [1, None]}, {"a": [2, None]}) == {"a": [3, None]}
    assert tree.leaves(None) == []
    assert tree.structure((1, 2)) == tree.structure((3, 4))
