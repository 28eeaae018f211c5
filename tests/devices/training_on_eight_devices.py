"""Training loops on eight CPU devices: results are the next call's arguments.

`test_eight_devices.py` runs this in a process that has the devices.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from benchmarks.device_processes import collectives
from tracer import lowering
from tracer.errors import DeviceError, DonatedArrayError, MemoryLimitError, ShapeError
from tracer.numpy.array import Array
from tracer.sharding import Mesh, NamedSharding, PartitionSpec, local_parts, make_mesh

P = PartitionSpec
DEVICES = tracer.devices("cpu")
LINE = Mesh(DEVICES, "x")
GRID = make_mesh((4, 2), ("a", "b"))
TURNED = make_mesh((2, 4), ("a", "b"))
BACKWARDS = Mesh(DEVICES[::-1], "x")
STEPS = 5


def on(mesh: Mesh, *parts: Any) -> NamedSharding:
    return NamedSharding(mesh, P(*parts))


# Loops with the mesh alone.


def loss_of(w: Any, b: Any, x: Any, y: Any) -> Any:
    return ((tnp.tanh(x @ w + b) - y) ** 2).mean()


def descend(w: Any, b: Any, x: Any, y: Any) -> Any:
    slopes = tracer.grad(loss_of, argnums=(0, 1))(w, b, x, y)
    return w - 0.1 * slopes[0], b - 0.1 * slopes[1]


def descend_with_loss(w: Any, b: Any, x: Any, y: Any) -> Any:
    loss, slopes = tracer.value_and_grad(loss_of, argnums=(0, 1))(w, b, x, y)
    return loss, w - 0.1 * slopes[0], b - 0.1 * slopes[1]


def data() -> list[Any]:
    rng = np.random.default_rng(0)
    shapes = (16, 2048), (2048,), (64, 16), (64, 2048)
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def layers(*sizes: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(1)
    return [
        {"w": rng.standard_normal((m, n)) / m**0.5, "b": np.zeros(n)} for m, n in pairwise(sizes)
    ]


def network_loss(parameters: Any, x: Any, y: Any) -> Any:
    for layer in parameters[:-1]:
        x = tnp.tanh(x @ layer["w"] + layer["b"])
    return ((x @ parameters[-1]["w"] + parameters[-1]["b"] - y) ** 2).mean()


def adam(parameters: Any, state: Any, x: Any, y: Any) -> Any:
    """Return the parameters and the state after a step of Adam, and the loss."""
    loss, slopes = tracer.value_and_grad(network_loss)(parameters, x, y)
    each = tracer.tree.map
    count = state["count"] + 1
    first = each(lambda m, g: 0.9 * m + 0.1 * g, state["first"], slopes)
    second = each(lambda v, g: 0.99 * v + 0.01 * g * g, state["second"], slopes)
    rate = 0.01 * tnp.sqrt(1 - 0.99**count) / (1 - 0.9**count)
    parameters = each(
        lambda w, m, v: w - rate * m / (tnp.sqrt(v) + 1e-8), parameters, first, second
    )
    return parameters, {"count": count, "first": first, "second": second}, loss


def adam_data() -> list[Any]:
    rng = np.random.default_rng(2)
    parameters = layers(16, 256, 256, 8)
    zeros = [tracer.tree.map(np.zeros_like, parameters) for _ in range(2)]
    state = {"count": np.array(0.0), "first": zeros[0], "second": zeros[1]}
    return [parameters, state, rng.standard_normal((128, 16)), rng.standard_normal((128, 8))]


def assert_close(found: Any, wanted: Any, tolerance: float = 1e-4) -> None:
    pairs = zip(tracer.tree.leaves(found), tracer.tree.leaves(wanted), strict=True)
    for got, want in pairs:
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


def trained(step: Callable[..., Any], arrays: list[Any], feed: Callable[..., Any]) -> list[Any]:
    """Return the arguments of the call after some steps; `feed` makes them of a call's results."""
    for _ in range(STEPS):
        arrays = feed(step(*arrays), arrays)
    return arrays


LOOPS: dict[str, tuple[Any, Any, Any, tuple[int, ...]]] = {
    "descent": (descend, data, lambda new, old: [*new, *old[2:]], (0, 1)),
    "descent with its loss": (
        descend_with_loss, data, lambda new, old: [*new[1:], *old[2:]], (0, 1),
    ),
    "adam": (adam, adam_data, lambda new, old: [*new[:2], *old[2:]], (0, 1)),
}  # fmt: skip
"""A step, its first arguments, the next ones of its results, and those that can be donated."""


@pytest.mark.parametrize("mesh", [LINE, GRID], ids=["line", "grid"])
@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("donates", [False, True], ids=["", "donated"])
def test_training_takes_its_own_results(name: str, mesh: Mesh, donates: bool) -> None:
    function, make, feed, donated = LOOPS[name]
    numbers = donated if donates else ()
    step = tracer.compile(function, mesh=mesh, donate_argnums=numbers)
    wanted = trained(tracer.compile(function), make(), feed)
    found = trained(step, make(), feed)
    assert_close(found, wanted)
    assert "axis of" in step.plan(*make()).devices[1], "nothing was spread"


@pytest.mark.parametrize("name", LOOPS)
def test_nothing_moves_between_the_steps(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    function, make, feed, donated = LOOPS[name]
    step = tracer.compile(function, mesh=LINE, donate_argnums=donated)
    first = make()
    arrays = feed(step(*first), first)

    def refuse(*_: Any) -> None:
        raise AssertionError("an array is moved")

    monkeypatch.setattr(Array, "to_device", refuse)
    for _ in range(2):
        arrays = feed(step(*arrays), arrays)
    leaves = tracer.tree.leaves(arrays[:2])
    assert any(not leaf.device.is_fully_replicated for leaf in leaves)
    # Every donated array's memory is taken over by the one that it returns as.
    donors = sum(len(tracer.tree.leaves(first[i])) for i in donated)
    assert len(re.findall("may-alias|must-alias", step.hlo(*first))) == donors


def test_state_that_is_read_whole_is_stored_in_parts() -> None:
    """Weights of which each device reads all, to multiply, and updates its part."""
    step = tracer.compile(descend, mesh=LINE, donate_argnums=(0, 1))
    arrays = data()
    w, _ = step(*arrays)
    assert w.device == on(LINE, "x")
    plan = step.plan(*arrays)
    parts = sum(array.nbytes for array in (arrays[0], *arrays[2:])) // 8 + arrays[1].nbytes
    assert plan.argument_bytes == parts
    assert plan.compiled_bytes < 0.3 * plan.baseline_peak_bytes


def test_training_keeps_a_limit_on_each_device() -> None:
    limit = tracer.compile(adam, mesh=LINE).plan(*adam_data()).compiled_bytes * 3 // 4
    step = tracer.compile(adam, mesh=LINE, memory_limit=limit, donate_argnums=(0, 1))
    feed = LOOPS["adam"][2]
    assert_close(trained(step, adam_data(), feed), trained(tracer.compile(adam), adam_data(), feed))
    assert step.plan(*adam_data()).compiled_bytes <= limit


# A recurrence that leaves a whole result beside its parts.


def recurrent(w: Any, xs: Any) -> Any:
    """Return the last state of each sequence, and the weights that changed on the way."""

    def body(carry: Any, x: Any) -> Any:
        state, w = carry
        return (tnp.tanh(state @ w + x), w * 0.9), None

    start = tnp.zeros(xs.shape[1:], dtype=xs.dtype)
    (state, last), _ = tracer.scan(body, (start, w), xs)
    return state * last.sum(), last


def test_a_loop_leaves_whole_results_on_every_device() -> None:
    rng = np.random.default_rng(3)
    w, xs = rng.standard_normal((32, 32)) / 8, rng.standard_normal((20, 64, 32))
    f = tracer.compile(recurrent, mesh=LINE)
    state, last = f(w, xs)
    assert_close((state, last), tracer.compile(recurrent)(w, xs), 1e-9)
    assert state.device == on(LINE, "x")
    assert last.device == on(LINE)
    for _, _, part in local_parts(last):
        np.testing.assert_array_equal(part, np.asarray(last))
    plan = f.plan(w, xs)
    assert "through 1 loop" in plan.devices[1]
    assert collectives(f.hlo(w, xs)) == []
    assert plan.compiled_bytes < tracer.compile(recurrent).plan(w, xs).compiled_bytes / 4


# Arrays that lie in other parts than the program takes.


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
    assert_close(f(*given), product(*map(tnp.asarray, arrays)), 1e-9)
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
    f = tracer.compile(descend, mesh=LINE, donate_argnums=0)
    arrays = data()
    w = tracer.device_put(arrays[0], on(GRID, None, "b"))
    assert_close(f(w, *arrays[1:]), tracer.compile(descend)(*arrays))
    with pytest.raises(DonatedArrayError, match="the call of descend"):
        w.sum()


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
    with pytest.raises(MemoryLimitError, match="beside its copy") as caught:
        f(*given)
    found = caught.value.minimum_bytes
    assert limit < found <= limit + 2 * sum(array.nbytes for array in arrays)
    with pytest.raises(MemoryLimitError):
        tracer.compile(product, mesh=LINE, memory_limit=found - 1)(*given)
    wanted = product(*map(tnp.asarray, arrays))
    assert_close(tracer.compile(product, mesh=LINE, memory_limit=found)(*given), wanted, 1e-9)
    assert_close(f(*arrays), wanted, 1e-9)
