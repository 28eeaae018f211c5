"""Arrays that lie in other parts on eight CPU devices than a program takes.

`test_eight_devices.py` runs this in a process that has the devices.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.devices.eight import BACKWARDS, DEVICES, GRID, LINE, TURNED, P, on
from tracer import lowering
from tracer.errors import DeviceError, DonatedArrayError, MemoryLimitError, ShapeError
from tracer.sharding import Mesh, NamedSharding, local_parts

pytestmark = pytest.mark.xla


def assert_close(found: Any, wanted: Any, tolerance: float = 1e-9) -> None:
    pairs = zip(tracer.tree.leaves(found), tracer.tree.leaves(wanted), strict=True)
    for got, want in pairs:
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def product(x: Any, y: Any, v: Any) -> Any:
    return tnp.exp(-((x[:, None, :] - y[None, :, :]) ** 2).sum(-1)) @ v


def points() -> list[Any]:
    rng = np.random.default_rng(5)
    return [rng.standard_normal(shape) for shape in ((512, 8), (512, 8), (512, 16))]


OTHERWISE = [
    on(LINE), on(LINE, None, "x"), on(GRID, "a"), on(GRID, ("a", "b")), on(GRID, ("b", "a")),
    on(TURNED, "a", "b"), on(BACKWARDS, "x"), on(BACKWARDS),
]  # fmt: skip


@pytest.mark.parametrize("mesh", [LINE, GRID], ids=["line", "grid"])
@pytest.mark.parametrize("place", OTHERWISE, ids=str)
def test_arrays_are_moved_at_the_call(mesh: Mesh, place: NamedSharding) -> None:
    f = tracer.compile(product, mesh=mesh)
    arrays = points()
    given = [tracer.device_put(each, place) for each in arrays]
    assert_close(f(*given), product(*map(tnp.asarray, arrays)))
    assert all(array.device == place for array in given)
    assert_close(given, arrays, 0)


@pytest.mark.parametrize("source", [on(LINE, "x"), *OTHERWISE], ids=str)
@pytest.mark.parametrize("target", [on(LINE, "x"), *OTHERWISE], ids=str)
def test_arrays_move_from_parts_to_parts(source: NamedSharding, target: NamedSharding) -> None:
    x = np.arange(16 * 32).reshape(16, 32)
    before = tracer.device_put(x, source)
    after = tracer.device_put(before, target)
    assert after.device == target
    for device, index, part in local_parts(after):
        assert device in target.mesh.flat
        np.testing.assert_array_equal(part, x[index])
    np.testing.assert_array_equal(after + 1, x + 1)
    np.testing.assert_array_equal(before, x)


def test_parts_move_between_the_devices_and_not_through_the_host(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = tracer.device_put(np.arange(64.0), on(LINE, "x"))
    monkeypatch.setattr(lowering, "get_sharded", None)
    moved = [x.to_device(on(LINE)), x.to_device(on(GRID, "b"))]
    monkeypatch.undo()
    for array in moved:
        np.testing.assert_array_equal(array, np.arange(64.0))


def test_an_axis_that_a_mesh_does_not_cut_is_refused_by_name() -> None:
    x = tracer.device_put(np.ones((16, 9)), on(LINE, "x"))
    with pytest.raises(ShapeError, match=r"(?s)axis 1 of shape .* pad the axis to 16"):
        x.to_device(on(LINE, None, "x"))


@pytest.mark.parametrize("place", [on(LINE, "x"), on(GRID, ("a", "b"))], ids=str)
def test_the_same_parts_under_other_names_are_taken_as_they_are(place: NamedSharding) -> None:
    f = tracer.compile(tnp.sin, mesh=LINE, in_shardings=P("x"))
    x = np.arange(16.0)
    assert_close(f(tracer.device_put(x, place)), np.sin(x), 1e-12)


@pytest.mark.parametrize("place", [on(LINE), on(GRID, "a"), on(GRID, ("b", "a"))], ids=str)
def test_what_the_user_said_is_not_moved(place: NamedSharding) -> None:
    f = tracer.compile(tnp.sin, mesh=LINE, in_shardings=P("x"))
    with pytest.raises(DeviceError, match="in_shardings of sin take argument 0") as caught:
        f(tracer.device_put(np.arange(16.0), place))
    assert caught.value.where is not None
    assert caught.value.where.file == __file__
    # The advice works.
    moved = tracer.device_put(np.arange(16.0), place).to_device(on(LINE, "x"))
    assert_close(f(moved), np.sin(np.arange(16.0)), 1e-12)


def test_arrays_on_devices_of_elsewhere_are_refused() -> None:
    half = Mesh(DEVICES[:4], "x")
    x = tracer.device_put(np.arange(16.0), on(half, "x"))
    with pytest.raises(DeviceError, match=r"(?s)argument 0\['w'\], .*with mesh=x.device.mesh"):
        tracer.compile(lambda p: tnp.sin(p["w"]), mesh=LINE)({"w": x})
    with pytest.raises(DeviceError, match="compile with device='cpu:6'"):
        tracer.compile(tnp.sin, mesh=half)(tnp.ones(16, device="cpu:6"))
    assert_close(tracer.compile(tnp.sin, mesh=x.device.mesh)(x), np.sin(np.arange(16.0)))


def test_a_program_of_one_device_says_how_to_take_parts() -> None:
    x = tracer.device_put(np.arange(16.0), on(LINE, "x"))
    with pytest.raises(DeviceError, match="compiled for cpu:2") as caught:
        tracer.compile(tnp.sin, device="cpu:2")(x)
    assert "compile with mesh=x.device.mesh" in caught.value.mend
    assert "device=" not in caught.value.mend
    for place in (x.device, LINE):
        with pytest.raises(DeviceError, match="is no device") as caught:
            tracer.compile(tnp.sin, device=place)(x)
        assert "mesh=" in caught.value.mend


def test_donated_arrays_that_are_moved_are_gone() -> None:
    f = tracer.compile(product, mesh=LINE, donate_argnums=0)
    arrays = points()
    x = tracer.device_put(arrays[0], on(GRID, None, "b"))
    memory = x._buffer
    assert_close(f(x, *arrays[1:]), product(*map(tnp.asarray, arrays)))
    assert memory.is_deleted(), "it is kept beside the copy"
    with pytest.raises(DonatedArrayError, match="the call of product"):
        x.sum()


def test_donated_arrays_that_are_moved_are_given_once() -> None:
    f = tracer.compile(lambda x, y: x + y, mesh=LINE, donate_argnums=0)
    x = tracer.device_put(np.ones((512, 512)), on(LINE))
    with pytest.raises(DonatedArrayError, match="argument 1 is the same array"):
        f(x, x)
    assert_close(x, np.ones((512, 512)))


def test_a_limit_holds_for_what_is_moved_too() -> None:
    arrays = points()
    limit = tracer.compile(product, mesh=LINE).plan(*arrays).compiled_bytes
    f = tracer.compile(product, mesh=LINE, memory_limit=limit)
    given = [tracer.device_put(each, on(LINE, None, "x")) for each in arrays]
    with pytest.raises(MemoryLimitError, match="and its copy") as caught:
        f(*given)
    found = caught.value.minimum_bytes
    assert limit < found <= limit + 2 * sum(array.nbytes for array in arrays)
    with pytest.raises(MemoryLimitError):
        tracer.compile(product, mesh=LINE, memory_limit=found - 1)(*given)
    wanted = product(*map(tnp.asarray, arrays))
    assert_close(tracer.compile(product, mesh=LINE, memory_limit=found)(*given), wanted)
    assert_close(f(*arrays), wanted)
