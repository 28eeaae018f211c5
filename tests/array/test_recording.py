"""Recordings: what is captured, what escapes, and that everything is recorded."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.numpy.oracle import assert_same, interpreted
from tracer.array.dispatch import apply_graph, compound
from tracer.array.recording import TracedArray, current_recording, recorded
from tracer.array.trace import trace
from tracer.errors import DTypeError, TracingError

F32 = tracer.ShapeDtype((3,), "float32")


def _names(graph):
    return [node.name for node in graph.nodes]


def test_everything_is_recorded():
    def function():
        big = tnp.zeros((10**5, 10**5))  # 80 GB, were it allocated
        return big.sum()

    graph = trace(function, []).graph
    assert _names(graph) == ["constant", "broadcast_in_dim", "reduce_add"]


def test_recorded_eye_and_arange_hold_no_data():
    graph = trace(lambda: tnp.eye(10**5) @ tnp.arange(10.0**5), []).graph
    assert all(node.types[0].size <= 1 for node in graph.nodes if node.name == "constant")


@pytest.mark.xla
def test_captured_arrays_become_inputs_once():
    weights = tnp.asarray(np.arange(100.0))
    same_buffer = weights._snapshot()
    traced = trace(lambda x: x * weights + weights.sum() + same_buffer, [tnp.ones(100)])
    assert len(traced.captured) == 1
    assert len(traced.graph.inputs) == 2
    assert_same(traced.captured[0], np.arange(100.0))


@pytest.mark.xla
def test_small_arrays_become_constants():
    small = tnp.asarray([1.0, 2.0, 3.0])
    traced = trace(lambda x: x * small + small, [tnp.ones(3)])
    assert traced.captured == ()
    assert _names(traced.graph).count("constant") == 1


def test_python_numbers_are_one_constant_each():
    traced = trace(lambda x: (x * 2.0 + 2.0) * 2.0 - 0.0 + -0.0, [F32])
    constants = [n.params["value"] for n in traced.graph.nodes if n.name == "constant"]
    assert sorted(str(float(c)) for c in constants) == ["-0.0", "0.0", "2.0"]


@pytest.mark.xla
def test_arrays_of_numpy_can_be_captured():
    host = np.arange(100.0)
    traced = trace(lambda x: x + host, [tnp.ones(100)])
    host[0] = 99
    assert_same(traced.captured[0][0], np.float64(0))


@pytest.mark.xla
def test_captured_arrays_are_snapshots():
    weights = tnp.asarray(np.zeros(100))
    traced = trace(lambda x: x + weights, [tnp.ones(100)])
    weights[0] = 5
    assert float(traced.captured[0][0]) == 0


def test_nested_recordings_capture_from_the_enclosing_one():
    def outer(x):
        y = x * 2
        inner = trace(lambda z: z + y, [F32])
        assert inner.captured[0].value is y.value
        return apply_graph(inner.graph, [x, *inner.captured])[0]

    graph = trace(outer, [F32]).graph
    assert sorted(_names(graph)) == sorted(["constant", "broadcast_in_dim", "multiply", "add"])


@pytest.mark.xla
def test_applying_a_graph_eagerly():
    traced = trace(lambda x: [x + 1, x.sum()], [F32])
    results = apply_graph(traced.graph, [tnp.ones(3, "float32")])
    assert_same(results[0], np.full(3, 2, np.float32))
    assert_same(results[1], np.float32(3))


leaked: list[TracedArray] = []


@pytest.mark.xla
def test_escaped_arrays_say_where_they_were_made():
    def leaky(x):
        leaked.append(x * 3)  # the line that the error names
        return x

    leaked.clear()
    trace(leaky, [F32])
    for use in (
        lambda: leaked[0] + 1,
        lambda: tnp.exp(leaked[0]),
        lambda: trace(lambda: leaked[0] + 1, []),
        lambda: leaked[0].__setitem__(0, 1),
        lambda: leaked[0]._buffer,
    ):
        with pytest.raises(TracingError, match="escaped from the function") as caught:
            use()
        text = str(caught.value)
        assert "test_recording.py" in text
        assert "the line that the error names" in text
        assert "return it from the traced function" in caught.value.mend


@pytest.mark.xla
def test_the_stack_is_restored_after_an_error():
    with pytest.raises(ZeroDivisionError):
        trace(lambda x: 1 / 0, [F32])
    assert current_recording() is None
    assert_same(tnp.ones(2) + 1, np.full(2, 2.0))


@pytest.mark.xla
def test_threads_record_on_their_own():
    results = []

    def work():
        results.append(current_recording())
        results.append(float(tnp.ones(3).sum()))

    def in_a_recording(_):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()

    recorded(in_a_recording)
    assert results == [None, 3.0]


NEEDS_DATA = {
    "if": (lambda x: 1 if x[0] > 0 else 2, r"bool\(\)", "tracer.cond"),
    "and": (lambda x: x.sum() and True, r"bool\(\)", "& and |"),
    "while": (lambda x: [0 for _ in iter(lambda: bool(x[0]), False)], r"bool\(\)", "while_loop"),
    "int": (lambda x: int(x[0]), r"int\(\)", "static_argnums"),
    "float": (lambda x: float(x[0]), r"float\(\)", "tracer.numpy"),
    "complex": (lambda x: complex(x[0]), r"complex\(\)", "tracer.numpy"),
    "range": (lambda x: range(x.astype(int)[0]), "an index", "fori_loop"),
    "item": (lambda x: x[0].item(), r"item\(\)", "outside"),
    "tolist": (lambda x: x.tolist(), r"tolist\(\)", "outside"),
    "numpy": (lambda x: np.sin(np.asarray(x)), "NumPy array", "tracer.numpy"),
    "table": (lambda x: np.arange(4.0)[x > 0], "NumPy array", "tracer.numpy.asarray(table)[index]"),
    "in": (lambda x: 3 in x, r"bool\(\)", "where"),
    "format": (lambda x: f"{x[0]:.2f}", r"format\(\)", "outside"),
    "to_device": (lambda x: x.to_device("cpu:0"), r"to_device\(\)", "outside"),
    "dlpack": (lambda x: x.__dlpack__(), "__dlpack__", "outside"),
    "pickle": (lambda x: x.__reduce__(), "pickling", "outside"),
}


@pytest.mark.parametrize("name", NEEDS_DATA)
def test_what_needs_data_is_refused_with_a_mend(name):
    function, purpose, mend = NEEDS_DATA[name]
    with pytest.raises(TracingError, match=purpose) as caught:
        trace(function, [F32])
    text = str(caught.value)
    assert mend in caught.value.mend
    assert "made at" in text
    assert "float32" in text or "bool[" in text or "int64[" in text
    assert caught.value.where.file == __file__
    assert isinstance(caught.value, TypeError)


def test_the_device_of_a_traced_array_is_the_programs():
    def like(x):
        assert x.device is None
        assert x.to_device(x.device) is x
        ones = tnp.ones(x.shape, x.dtype, device=x.device)
        return x + ones * tnp.arange(3, dtype=x.dtype, device=x.device)

    values = np.arange(3, dtype="float32")
    (result,) = interpreted(like, values)
    assert_same(result, 2 * values)


def test_traced_arrays_print_their_type_and_origin():
    seen = []
    trace(lambda x: seen.append(repr(x + 1)) or x, [F32])
    assert seen[0].startswith("TracedArray(float32[3], made at test_recording.py:")
    assert "seen.append" in seen[0]


def test_traced_arrays_have_a_length_and_can_be_iterated():
    graph = trace(lambda x: [len(x) * part for part in x], [F32]).graph
    assert len(graph.outputs) == 3
    with pytest.raises(DTypeError, match="0-d"):
        trace(lambda x: list(x.sum()), [F32])


@pytest.mark.xla
def test_assignment_inside_a_trace_changes_the_traced_array_only():
    argument = tnp.ones(3, "float32")

    def function(x):
        alias = x
        x[0] = 5
        return alias

    graph = trace(function, [argument]).graph
    assert "dynamic_update_slice" in _names(graph)
    assert_same(argument, np.ones(3, np.float32))


@pytest.mark.xla
def test_assignment_to_arrays_from_outside_is_refused():
    outside = tnp.zeros(30)

    def function(x):
        outside[0] = x[0]

    with pytest.raises(TracingError, match="made outside of the traced function") as caught:
        trace(function, [tnp.ones(3)])
    assert ".at[index].set" in caught.value.mend

    def copied(x):
        mine = tnp.array(outside)
        mine[0] = x[0]
        return mine

    assert trace(copied, [tnp.ones(3)]).output_types[0].shape == (30,)

    def nested(x):
        trace(lambda: x.__setitem__(0, 1), [])

    with pytest.raises(TracingError, match="an enclosing function made"):
        trace(nested, [tnp.ones(3)])


@pytest.mark.xla
def test_host_data_made_inside_a_trace_belongs_to_it():
    def function(x):
        buffer = tnp.array(np.zeros(40))
        buffer[3] = x[0]
        return buffer

    assert trace(function, [tnp.ones(3)]).output_types[0].shape == (40,)


@pytest.mark.xla
@pytest.mark.parametrize("size", [4, 40])
def test_compound_functions_keep_what_they_make_of_numpy(size):
    """Longer arrays were inputs of the program, and nobody gave them."""
    table = np.arange(size, dtype="float64")

    @compound
    def weighted(x):
        return tracer.fori_loop(0, 2, lambda _, x: x * tnp.asarray(table), x)

    np.testing.assert_array_equal(weighted(tnp.ones(size)), table**2)
