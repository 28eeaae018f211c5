"""Pytrees: JAX's functions of them, dataclasses, and what is refused."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tracer import tree

NESTED = {"b": (1, [2, None]), "a": 3}


@tree.register_dataclass
@dataclasses.dataclass(frozen=True)
class Line:
    slope: Any
    shift: Any
    degree: int = dataclasses.field(default=1, metadata={"static": True})


def test_paths_lead_to_leaves() -> None:
    assert tree.leaves_with_path(NESTED) == [(("a",), 3), (("b", 0), 1), (("b", 1, 0), 2)]
    assert tree.map_with_path(lambda path, x: (len(path), x), {"a": 1, "b": [2]}) == {
        "a": (1, 1),
        "b": [(2, 2)],
    }
    pairs, structure = tree.flatten_with_path(Line(1, (2, 3)))
    assert pairs == [(("slope",), 1), (("shift", 0), 2), (("shift", 1), 3)]
    assert tree.unflatten(structure, [4, 5, 6]) == Line(4, (5, 6))


def test_what_is_a_leaf_can_be_said() -> None:
    def is_pair(x: Any) -> bool:
        return isinstance(x, tuple)

    assert tree.leaves({"a": (1, 2), "b": 3}, is_leaf=is_pair) == [(1, 2), 3]
    assert tree.map(len, {"a": (1, 2), "b": (3,)}, is_leaf=is_pair) == {"a": 2, "b": 1}
    assert tree.flatten([(1, 2)], is_pair)[1] == tree.structure([0])


def test_leaves_are_combined() -> None:
    assert tree.reduce(lambda a, b: a * b, NESTED) == 6
    assert tree.reduce(lambda a, b: a + [b], NESTED, []) == [3, 1, 2]
    assert tree.all({"a": True, "b": (1, 2)})
    assert not tree.all([True, 0])


def test_trees_are_turned_inside_out() -> None:
    rows = [{"a": 1, "b": 2}, {"a": 3, "b": 4}, {"a": 5, "b": 6}]
    outer, inner = tree.structure([0, 0, 0]), tree.structure({"a": 0, "b": 0})
    assert tree.transpose(outer, inner, rows) == {"a": [1, 3, 5], "b": [2, 4, 6]}


@pytest.mark.xla
def test_a_tree_is_one_vector_and_comes_back() -> None:
    parameters = {"w": tnp.ones((2, 3), "float32"), "b": np.arange(2), "c": 0.5}
    vector, unravel = tree.ravel(parameters)
    np.testing.assert_array_equal(vector, [0, 1, 0.5, 1, 1, 1, 1, 1, 1])
    back = unravel(vector)
    assert [leaf.dtype for leaf in tree.leaves(back)] == ["int64", "float64", "float32"]
    assert tree.structure(back) == tree.structure(parameters)

    def loss(vector: Any) -> Any:
        found = unravel(vector)
        return (found["w"] ** 2).sum() + 3 * found["c"]

    slopes = tracer.compile(tracer.grad(loss))(vector)
    np.testing.assert_array_equal(slopes, [0, 0, 3, 2, 2, 2, 2, 2, 2])
    assert tree.ravel({})[0].size == 0


@pytest.mark.xla
def test_dataclasses_are_arguments_results_carries_and_gradients() -> None:
    def value(line: Line, x: Any) -> Any:
        return (line.slope * x**line.degree + line.shift).sum()

    x = np.arange(3.0)
    line = Line(np.float64(2), np.ones(3), 2)
    found = tracer.compile(tracer.grad(value))(line, x)
    assert isinstance(found, Line)
    assert found.degree == 2
    np.testing.assert_array_equal(found.slope, 5)
    np.testing.assert_array_equal(found.shift, np.ones(3))
    # Static fields belong to the program.
    compiled = tracer.compile(value)
    assert float(compiled(line, x)) == 13
    assert float(compiled(dataclasses.replace(line, degree=1), x)) == 9
    last = tracer.fori_loop(0, 3, lambda _, c: dataclasses.replace(c, slope=c.slope + 1), line)
    assert float(last.slope) == 5


def test_fields_are_named_once() -> None:
    @dataclasses.dataclass
    class Pair:
        x: Any
        y: Any

    for data, meta in ((["x"], []), (["x", "y"], ["y"]), (["x"], ["z"])):
        with pytest.raises(tracer.ArgumentError, match="are not its fields x, y"):
            tree.register_dataclass(Pair, data, meta)
    tree.register_dataclass(Pair, ["x"], ["y"])
    assert tree.leaves(Pair(1, 2)) == [1]
    with pytest.raises(tracer.ArgumentError, match="takes a dataclass"):
        tree.register_dataclass(int)


def test_a_container_of_itself_is_refused() -> None:
    cycle: list[Any] = [1.0]
    cycle.append(cycle)
    with pytest.raises(tracer.ArgumentError, match="does it contain itself"):
        tracer.compile(lambda x: x).plan(cycle)


@pytest.mark.xla
def test_masks_are_not_dropped() -> None:
    masked = np.ma.array([1.0, 2.0], mask=[False, True])
    with pytest.raises(tracer.DTypeError, match="masked array"):
        tnp.asarray(masked)
    with pytest.raises(tracer.DTypeError, match="masked array"):
        tracer.compile(lambda x: x + 1).plan(masked)
    whole = np.ma.array([1.0, 2.0])
    assert tracer.compile(lambda x: x + 1).graph(whole).input_types[0].shape == (2,)


@pytest.mark.xla
@pytest.mark.parametrize(
    "make",
    [
        lambda x: tnp.broadcast_to(x, (2**33, 2**33)),
        lambda x: tnp.broadcast_to(x[:0], (2**40, 2**40, 0)),
        lambda x: tnp.pad(x, (2**61, 2**61)),
        lambda x: tnp.zeros((2**31, 2**31, 2)),
        lambda x: x[0] * tnp.arange(2**62, dtype="int8"),
        lambda x: x[0] * tnp.arange(0, 1e300),
        lambda x: x[0] * tnp.linspace(0, 1, 2**62),
        lambda x: tnp.vander(x, 2**62),
        lambda x: tracer.scan(lambda c, _: (c, None), x[0], None, length=2**70)[0],
        lambda x: tracer.image.resize(x[None], (2**40, 2**40), "linear"),
    ],
)
def test_more_elements_than_can_be_counted_are_refused(make: Any) -> None:
    x = np.ones(1)
    for call in (lambda: make(tnp.asarray(x)), lambda: tracer.compile(make).plan(x)):
        with pytest.raises(tracer.ShapeError, match="larger than any memory"):
            call()


def test_a_dataclass_that_is_no_container_is_refused_with_the_way_to_make_it_one() -> None:
    @dataclasses.dataclass(frozen=True)
    class Line:
        slope: float

    wanted = r"put @tracer\.tree\.register_dataclass above class Line"
    for call in (tracer.compile(lambda line: line.slope), tracer.grad(lambda line: line.slope)):
        with pytest.raises(tracer.DTypeError, match=wanted):
            call(Line(2.0))
    assert tracer.tree.leaves({"a": Line(2.0)}) == [Line(2.0)]


@pytest.mark.parametrize("name", ["named_scope", "ensure_compile_time_eval", "disable_jit", "jit"])
def test_names_of_jaxs_say_what_to_write(name: str) -> None:
    with pytest.raises(tracer.MissingNameError, match=name):
        getattr(tracer, name)


def test_numbers_that_nothing_holds_are_refused() -> None:
    with pytest.raises(tracer.ShapeError, match="an array of 65 axes"):
        tnp.ones((1,) * 65)
    with pytest.raises(tracer.RangeError, match="the bound 1180591620717411303424"):
        tracer.fori_loop(0, 2**70, lambda i, s: s + 1, 0)
    for ends in ((0, np.inf), (np.nan, 1)):
        with pytest.raises(tracer.ArgumentError, match="never ends"):
            tnp.arange(*ends)


@pytest.mark.xla
def test_a_range_of_numpys_narrow_integers() -> None:
    ends = np.uint8(3), np.uint8(1), np.int8(-1)
    for found in (tnp.arange(*ends), tracer.compile(lambda: tnp.arange(*ends))()):
        np.testing.assert_array_equal(found, [3, 2])  # NumPy's own wraps, warns and is empty
        assert found.dtype == np.int16


def test_a_prefix_is_broadcast_into_a_tree() -> None:
    full = {"a": (0, [0, 0]), "b": 0}
    assert tree.broadcast({"a": (1, 2), "b": 3}, full) == {"a": (1, [2, 2]), "b": 3}
    assert tree.broadcast(5, full) == {"a": (5, [5, 5]), "b": 5}
    pair = lambda x: isinstance(x, list)
    assert tree.broadcast({"a": [7], "b": 3}, full, pair) == {"a": ([7], [[7], [7]]), "b": 3}
    with pytest.raises(ValueError, match="arity"):
        tree.broadcast({"a": (1, 2, 3), "b": 3}, full)


def test_leaves_are_combined_pair_by_pair() -> None:
    depth = lambda a, b: (a[0] + b[0], max(a[1], b[1]) + 1)
    leaves = [(letter, 0) for letter in "abcdefg"]
    found = tree.reduce_associative(depth, leaves, is_leaf=lambda x: isinstance(x, tuple))
    assert found == ("abcdefg", 3)
    assert tree.reduce_associative(max, (), identity=-1) == -1
    assert tree.reduce_associative(max, (), identity=None) is None
    with pytest.raises(tracer.ArgumentError, match="no leaves"):
        tree.reduce_associative(max, [None])


def test_static_fields_are_of_the_program() -> None:
    @tree.register_dataclass
    @dataclasses.dataclass
    class Line:
        slope: float
        name: str = tree.static(default="line", metadata={"unit": "m"})

    assert tree.leaves(Line(2.0)) == [2.0]
    assert tree.map(lambda x: 2 * x, Line(2.0, "other")) == Line(4.0, "other")
    assert dataclasses.fields(Line)[1].metadata == {"unit": "m", "static": True}
