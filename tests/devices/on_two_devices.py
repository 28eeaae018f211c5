"""Eager functions follow their arrays. `test_two_devices.py` runs this where there are two."""

from __future__ import annotations

import pickle
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.devices.following_calls import HOST, METHODS, Call, calls
from tests.sampling import one_in
from tracer import tree
from tracer.array.array import Array
from tracer.errors import ArgumentError, DeviceError
from tracer.sharding import Mesh, NamedSharding, PartitionSpec, local_parts

pytestmark = pytest.mark.xla

CALLS = dict(calls())
MESH = Mesh(tracer.devices("cpu"), "x")
CUT = NamedSharding(MESH, PartitionSpec("x"))
IN_PARTS = (
    *METHODS,
    *"""
    numpy.append numpy.array_equal numpy.average numpy.bincount numpy.concatenate numpy.delete
    numpy.diff numpy.full_like numpy.geomspace numpy.gradient numpy.histogram numpy.insert
    numpy.isin numpy.ix_ numpy.linspace numpy.matmul numpy.mean numpy.meshgrid numpy.nonzero
    numpy.ones_like numpy.percentile numpy.polyval numpy.put numpy.resize numpy.sort numpy.take
    numpy.unique numpy.where numpy.zeros_like linalg.inv linalg.matrix_power fft.fft nn.conv
    nn.softmax random.uniform scipy.linalg.cho_solve scipy.special.logsumexp
    """.split(),
)
"""All of `CALLS` pass; these stand for them, as programs for a mesh take long to compile."""


def run(call: Call, place: Any) -> list[Any]:
    given = {name: tracer.device_put(array, place) for name, array in HOST.items()}
    return tree.leaves(call(SimpleNamespace(**given)))


def places(leaves: list[Any]) -> set[Any]:
    return {leaf.device for leaf in leaves if isinstance(leaf, Array)}


@pytest.mark.parametrize("name", one_in(3, CALLS))
def test_results_lie_where_the_arrays_are(name: str) -> None:
    here, there = run(CALLS[name], "cpu:0"), run(CALLS[name], "cpu:1")
    assert {str(place) for place in places(there)} == {"cpu:1"}
    for one, other in zip(here, there, strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other))


@pytest.mark.parametrize("name", IN_PARTS)
def test_results_of_arrays_in_parts_lie_on_the_mesh(name: str) -> None:
    here, there = run(CALLS[name], "cpu:0"), run(CALLS[name], CUT)
    assert {place.mesh for place in places(there)} == {MESH}
    for one, other in zip(here, there, strict=True):
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), rtol=1e-9, atol=1e-12)


def test_arrays_of_two_named_devices_are_not_mixed() -> None:
    here, there = tnp.ones(3, device="cpu:0"), tnp.ones(3, device="cpu:1")
    made = [here + 1, here + tnp.ones(3), tnp.zeros_like(here), tnp.ones(3).to_device("cpu:0")]
    for array in (here, *made):
        with pytest.raises(DeviceError, match=r"different devices: cpu:0, cpu:1"):
            array + there
    with pytest.raises(DeviceError, match=r"different devices: cpu:0, cpu:1"):
        there[here > 0] = here


def test_arrays_that_nobody_placed_follow() -> None:
    there = tnp.ones(3, device="cpu:1")
    made = tnp.arange(3) * 2.0
    assert str((made + there).device) == "cpu:1"
    assert str((there - made).device) == "cpu:1"
    assert str(made.device) == "cpu:0"
    assert made.device == tracer.devices()[0] == tracer.default_device()


def test_arrays_on_what_was_the_default_device_stay_there() -> None:
    before = tnp.ones(3)
    tracer.set_default_device("cpu:1")
    try:
        assert str((before + 1).device) == "cpu:0"
        assert str((before + tnp.ones(3)).device) == "cpu:0"
    finally:
        tracer.set_default_device(None)
    assert str((before + tnp.ones(3, device="cpu:1")).device) == "cpu:1"


def test_transformed_functions_follow() -> None:
    x, weights = tnp.arange(1.0, 41.0, device="cpu:1"), tnp.arange(40.0)
    gradient = tracer.grad(lambda x: (tnp.sin(x) * weights).sum())(x)
    assert str(gradient.device) == "cpu:1"
    assert str(tracer.vmap(lambda x: x + np.ones(2))(x).device) == "cpu:1"
    total, each = tracer.scan(lambda c, v: (c + v, c * v), tnp.zeros(()), x)
    assert {str(total.device), str(each.device)} == {"cpu:1"}


def test_an_error_forgets_the_place() -> None:
    with pytest.raises(ArgumentError):
        tnp.linalg.matrix_power(tnp.ones((2, 2), device="cpu:1"), "two")
    assert str(tnp.asarray([1.0]).device) == "cpu:0"


def test_likenesses_lie_in_the_same_parts() -> None:
    x = tracer.device_put(np.arange(8.0), CUT)
    for made in (tnp.zeros_like(x), tnp.full_like(x, 2, int), tnp.ones(8, device=CUT)):
        assert made.device == CUT
        assert [part.shape for _, _, part in local_parts(made)] == [(4,), (4,)]
    assert tnp.zeros_like(x, shape=(3,)).device == NamedSharding(MESH, PartitionSpec())


def test_a_named_device_of_its_own_shares_the_memory() -> None:
    x = tnp.ones(100)
    named = x.to_device("cpu:0")
    assert named._buffer is x._buffer
    assert x.copy()._buffer is not x._buffer


def test_compiled_functions_close_over_arrays_of_their_device() -> None:
    x, made = np.ones(100), tnp.arange(100.0)
    there, cut = tnp.arange(100.0, device="cpu:1"), tracer.device_put(made, CUT)
    for device in ("cpu:0", "cpu:1"):
        np.testing.assert_array_equal(tracer.compile(lambda x: x + made, device=device)(x)[-1], 100)
    assert float(tracer.compile(lambda x: x + there, device="cpu:1")(x)[-1]) == 100
    for options in ({"device": "cpu:0"}, {"mesh": MESH}):
        with pytest.raises(DeviceError, match=r"closes over an array.* was put on cpu:1"):
            tracer.compile(lambda x: x + there, **options)(x)
    with pytest.raises(DeviceError, match="closes over an array"):
        tracer.compile(lambda x: x + cut)(x)
    for options in ({}, {"in_shardings": PartitionSpec("x")}):
        for array in (made, cut):
            f = tracer.compile(lambda x, array=array: x + array, mesh=MESH, **options)
            np.testing.assert_array_equal(f(x), np.arange(100.0) + 1)


def test_places_of_several_arrays() -> None:
    there = tnp.ones(4, device="cpu:1")
    a, b = tracer.device_put([there, np.ones(4)], [None, CUT])
    assert (a is there, b.device) == (True, CUT)
    a, (b, c) = tracer.device_put([there, (there, there)], ["cpu:0", None])
    assert [str(array.device) for array in (a, b, c)] == ["cpu:0", "cpu:1", "cpu:1"]
    with pytest.raises(DeviceError, match="not nested as the arrays"):
        tracer.device_put([there, there], ["cpu:0", "cpu:1", "cpu:1"])


def test_pickled_arrays_come_back_to_the_default_device() -> None:
    x = tnp.arange(3, device="cpu:1")
    again = pickle.loads(pickle.dumps(x))
    assert str(again.device) == "cpu:0"
    np.testing.assert_array_equal(again, x)


def test_a_program_on_a_mesh_is_checked_beside_the_one_as_written() -> None:
    def scaled(x: Any, rate: Any) -> Any:
        return tnp.exp(-((x[:, None] - x) ** 2)).sum(1) * rate, rate * 2

    f = tracer.compile(scaled, mesh=MESH, donate_argnums=0)
    x = tracer.device_put(np.linspace(0, 1, 64, dtype="float32"), CUT)
    found = f.check(x, 0.5)
    assert found, str(found)
    assert not x.is_deleted()
    result, rate = f(x.copy(), 0.5)
    assert (result.dtype, rate.weak_type, float(rate)) == ("float32", True, 1.0)
    assert f(x, rate)[0].dtype == "float32"
