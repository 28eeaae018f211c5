"""Programs on eight CPU devices. `test_eight_devices.py` runs this in a process that has them."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as run_settings
from hypothesis import strategies as st

import tracer
import tracer.numpy as tnp
from benchmarks.device_processes import CASES, collectives, run_case, training_step
from benchmarks.device_programs import PROGRAMS, inputs_of
from tests.devices.eight import DEVICES, GRID, LINE, P, on
from tracer.errors import (
    ArgumentError,
    DeviceError,
    DonatedArrayError,
    ExportError,
    MemoryLimitError,
    ShapeError,
)
from tracer.sharding import Mesh, NamedSharding, PartitionSpec, local_parts, make_mesh

pytestmark = pytest.mark.xla


def distances(x: Any, y: Any) -> Any:
    return tnp.exp(-((x[:, None, :] - y[None, :, :]) ** 2).sum(-1))


def product(x: Any, y: Any, v: Any) -> Any:
    return distances(x, y) @ v


def points(n: int = 512) -> list[Any]:
    rng = np.random.default_rng(5)
    return [rng.standard_normal(shape).astype(np.float32) for shape in ((n, 3), (n, 3), (n, 2))]


# One device of several.


def test_errors_of_shardings_name_the_users_line() -> None:
    with pytest.raises(ArgumentError) as caught:
        NamedSharding(LINE, P("y"))
    assert caught.value.where is not None
    assert caught.value.where.file == __file__


def test_there_are_eight() -> None:
    assert [str(device) for device in DEVICES] == [f"cpu:{i}" for i in range(8)]
    assert str(tracer.default_device()) == "cpu:0"


def test_arrays_stay_on_their_device() -> None:
    x = tnp.arange(5.0, device="cpu:3")
    assert str(x.device) == "cpu:3"
    y = x * 2 + 1
    assert str(y.device) == "cpu:3"
    assert str(y.sum().device) == "cpu:3"
    assert str(y.to_device("cpu:1").device) == "cpu:1"
    np.testing.assert_array_equal(y.to_device(DEVICES[1]), np.arange(5.0) * 2 + 1)


def test_a_program_runs_where_it_is_told() -> None:
    f = tracer.compile(lambda x: tnp.sin(x) + 1, device="cpu:5")
    assert str(f(np.ones(3)).device) == "cpu:5"
    with pytest.raises(DeviceError, match=r"compiled for cpu:5.* is on cpu:2"):
        f(tnp.ones(3, device="cpu:2"))


def test_arrays_of_two_devices_are_not_mixed() -> None:
    x, y = tnp.ones(3, device="cpu:1"), tnp.ones(3, device="cpu:2")
    with pytest.raises(DeviceError, match=r"different devices: cpu:1, cpu:2"):
        x + y


def test_the_default_device_can_be_another_one() -> None:
    tracer.set_default_device("cpu:4")
    try:
        assert str(tnp.zeros(3).device) == "cpu:4"
        assert str(tnp.asarray(np.ones(2)).device) == "cpu:4"
        assert str(tracer.compile(tnp.sin)(np.ones(2)).device) == "cpu:4"
    finally:
        tracer.set_default_device(None)
    assert str(tnp.zeros(3).device) == "cpu:0"


# Meshes and arrays on them.


@pytest.mark.parametrize(
    ("mesh", "parts", "shape"),
    [
        (LINE, ("x",), (2, 6)),
        (LINE, (None, "x"), (16, 1)),
        (LINE, (), (16, 8)),
        (GRID, ("a", "b"), (4, 4)),
        (GRID, ("b",), (8, 8)),
        (GRID, (("a", "b"),), (2, 8)),
        (GRID, (("b", "a"), None), (2, 8)),
        (GRID, (None, "a"), (16, 2)),
    ],
)
def test_arrays_lie_in_parts(mesh: Mesh, parts: Any, shape: Any) -> None:
    size = (16, 6) if shape == (2, 6) else (16, 8)
    x = np.arange(np.prod(size), dtype=np.float32).reshape(size)
    placed = tracer.device_put(x, on(mesh, *parts))
    assert placed.device == on(mesh, *parts)
    np.testing.assert_array_equal(placed, x)
    for device, index, part in local_parts(placed):
        assert part.shape == shape
        assert device in mesh.flat
        np.testing.assert_array_equal(part, x[index])
    assert sum(part.nbytes for _, _, part in local_parts(placed)) >= x.nbytes


def test_parts_are_private_copies() -> None:
    x = np.zeros(8)
    placed = tracer.device_put(x, on(LINE, "x"))
    x[:] = 1
    np.testing.assert_array_equal(placed, np.zeros(8))


@pytest.mark.parametrize("dtype", ["bool", "int8", "float64", "complex64", "bfloat16"])
def test_every_dtype_lies_in_parts(dtype: str) -> None:
    x = tnp.arange(16).astype(dtype)
    np.testing.assert_array_equal(
        np.asarray(tracer.device_put(x, on(LINE, "x"))).astype(complex),
        np.asarray(x).astype(complex),
    )


def test_containers_are_put_as_one() -> None:
    made = tracer.device_put({"a": np.ones(8), "b": [np.zeros(16)]}, on(LINE, "x"))
    assert made["b"][0].device == on(LINE, "x")
    made = tracer.device_put([np.ones(8), np.zeros(3)], [on(LINE, "x"), "cpu:2"])
    assert str(made[1].device) == "cpu:2"


def test_arrays_come_back_to_one_device() -> None:
    x = tracer.device_put(np.arange(8.0), on(LINE, "x")).to_device("cpu:0")
    assert str(x.device) == "cpu:0"
    np.testing.assert_array_equal(x, np.arange(8.0))


def test_operators_work_on_parts() -> None:
    x = tracer.device_put(np.arange(16.0), on(LINE, "x"))
    y = tnp.sin(x) * 2 + x
    assert y.device == on(LINE, "x")
    np.testing.assert_allclose(y, np.sin(np.arange(16.0)) * 2 + np.arange(16.0))
    assert float(x.sum()) == 120.0
    with pytest.raises(DeviceError, match="different devices"):
        x + tnp.ones(16, device="cpu:1")


def test_a_mesh_is_compared_by_its_devices() -> None:
    assert Mesh(DEVICES, "x") == LINE
    assert Mesh(DEVICES[::-1], "x") != LINE
    assert hash(Mesh(DEVICES, "x")) == hash(LINE)
    assert on(LINE, "x").is_fully_addressable
    assert on(LINE, "x", None) == on(LINE, ["x"])
    assert pickle.loads(pickle.dumps(on(GRID, "a"))) == on(GRID, "a")
    assert str(Mesh(DEVICES[::-1], "x")) != str(LINE)


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: on(LINE, "y"), ArgumentError, "names the axis 'y'"),
        (lambda: on(GRID, "a", "a"), ArgumentError, "cuts along 'a' twice"),
        (lambda: Mesh(DEVICES, ("a", "b")), ArgumentError, "its own name"),
        (lambda: Mesh([DEVICES[0], DEVICES[0]], "x"), ArgumentError, "each once"),
        (lambda: make_mesh((16,), ("x",)), DeviceError, "takes 16 devices, there are 8"),
        (lambda: Mesh(["cpu:0", "cpu:12"], "x"), DeviceError, "cpu:12"),
        (
            lambda: tracer.device_put(np.ones((4, 6)), on(GRID, None, "a")),
            ShapeError,
            "pad the axis to 8 elements",
        ),
        (lambda: tracer.device_put(np.ones(8), on(LINE, None, "x")), ShapeError, "for 2 axes"),
        (
            lambda: tracer.device_put(np.ones(8), on(LINE, "x")).__dlpack__(),
            ExportError,
            "spread over devices",
        ),
        (lambda: tracer.compile(tnp.sin, in_shardings=P("x")), ArgumentError, "need a mesh"),
        (lambda: tracer.compile(tnp.sin, mesh=4), ArgumentError, "not int"),
        (lambda: tracer.compile(tnp.sin, mesh=LINE, device="cpu:0"), ArgumentError, "together"),
    ],
)
def test_bad_input_is_refused(make: Callable[[], Any], error: Any, text: str) -> None:
    with pytest.raises(error) as caught:
        make()
    assert text in str(caught.value)


# Programs whose arguments and results the user places.


@pytest.mark.parametrize("placed", [P("a", "b"), P(None, "a"), P(("a", "b")), P()])
def test_shardings_of_arguments_and_results(placed: PartitionSpec) -> None:
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((64, 32)), rng.standard_normal((32, 16))
    f = tracer.compile(
        lambda x, w: (x @ w, x.sum()),
        mesh=GRID,
        in_shardings=(placed, None),
        out_shardings=(P("a"), P()),
    )
    made, total = f(x, w)
    assert made.device == on(GRID, "a")
    np.testing.assert_allclose(made, x @ w, rtol=1e-12)
    np.testing.assert_allclose(total, x.sum(), rtol=1e-12)
    assert "sdy.sharding" in f.stablehlo(x, w)


def test_xla_chooses_how_results_lie() -> None:
    f = tracer.compile(lambda x: (tnp.sin(x), x.sum(0)), in_shardings=on(GRID, "a", "b"))
    sine, total = f(np.ones((8, 4)))
    assert sine.device == on(GRID, "a", "b")
    np.testing.assert_array_equal(total, np.full(4, 8.0))


def test_contracted_axes_are_reduced_over_devices() -> None:
    x, y = np.ones((16, 64)), np.ones((64, 8))
    f = tracer.compile(
        lambda x, y: x @ y, mesh=LINE, in_shardings=(P(None, "x"), P("x")), out_shardings=P()
    )
    np.testing.assert_array_equal(f(x, y), np.full((16, 8), 64.0))
    assert collectives(f.hlo(x, y)) == ["all-reduce"]


def test_containers_of_shardings() -> None:
    layers, x, y = CASES["training step"][1]()
    like = tracer.tree.map(lambda _: None, layers)
    some = [(P(None, "x"), P("x")) for _ in like[:-1]]
    f = tracer.compile(
        training_step, mesh=LINE, in_shardings=([*some, None], P("x"), P("x")), out_shardings=P()
    )
    wanted = tracer.compile(training_step)(layers, x, y)
    pairs = zip(tracer.tree.leaves(f(layers, x, y)), tracer.tree.leaves(wanted), strict=True)
    for got, want in pairs:
        np.testing.assert_allclose(got, want, rtol=1e-9)


def test_wrong_containers_are_refused() -> None:
    f = tracer.compile(lambda x, y: x + y, mesh=LINE, in_shardings=(P("x"),))
    with pytest.raises(ArgumentError, match="a tuple of 1 where the arrays are a tuple of 2"):
        f.plan(np.ones(8), np.ones(8))


def test_axes_that_cannot_be_cut_are_refused_by_name() -> None:
    f = tracer.compile(tnp.sin, mesh=LINE, in_shardings=(P("x"),))
    with pytest.raises(ShapeError, match="has 9 elements"):
        f.plan(np.ones(9))


def test_arrays_that_lie_otherwise_are_refused() -> None:
    f = tracer.compile(tnp.sin, mesh=LINE, in_shardings=(P("x"),))
    x = np.arange(8.0)
    np.testing.assert_allclose(f(tracer.device_put(x, on(LINE, "x"))), np.sin(x))
    np.testing.assert_allclose(f(tnp.asarray(x)), np.sin(x))
    with pytest.raises(DeviceError, match="device_put"):
        f(tracer.device_put(x, on(LINE)))


def test_donated_parts_are_taken_over() -> None:
    f = tracer.compile(lambda x: x + 1, mesh=LINE, in_shardings=(P("x"),), donate_argnums=0)
    x = tracer.device_put(np.zeros(1 << 13), on(LINE, "x"))
    plan = f.plan(x)
    assert plan.compiled_bytes < 1.5 * (1 << 13)  # a part is 2^13 bytes
    np.testing.assert_array_equal(f(x), np.ones(1 << 13))
    with pytest.raises(DonatedArrayError):
        x.sum()


def test_captured_arrays_are_whole_on_every_device() -> None:
    weights = tnp.arange(8.0)
    f = tracer.compile(lambda x: x * weights, mesh=LINE, in_shardings=(P(None, "x"),))
    np.testing.assert_array_equal(f(np.ones((4, 8))), np.ones((4, 8)) * np.arange(8.0))


def test_many_calls_in_a_row_do_not_wait_for_ever() -> None:
    f = tracer.compile(lambda x: x - x.mean(), mesh=LINE, in_shardings=(P("x"),))
    x = tracer.device_put(np.arange(64.0), on(LINE, "x"))
    for _ in range(100):
        x = f(x)
    np.testing.assert_allclose(np.asarray(x).mean(), 0, atol=1e-12)


# Programs that the planner spreads.


@pytest.mark.parametrize("name", CASES)
def test_spread_programs_compute_the_same(name: str) -> None:
    found = run_case(name, Mesh(DEVICES[:4], "data"))
    assert found["difference"] < 1e-9
    assert found["limit_bytes"] is None or found["counted_bytes"] <= found["limit_bytes"]


@pytest.mark.parametrize(
    "name",
    [
        "kernel gradient",
        "nearest neighbours",
        "attention",
        "cross-entropy gradient",
        "recurrent gradient",
    ],
)
def test_each_device_keeps_half_of_the_limit_of_one(name: str) -> None:
    program = PROGRAMS[name]
    limit = int(program.limit.removesuffix("MB")) * 500_000
    f = tracer.compile(program.function, mesh=LINE, memory_limit=limit)
    inputs = inputs_of(name)
    plan = f.plan(*inputs)
    assert plan.compiled_bytes <= limit
    wanted = tracer.compile(program.function, memory_limit=2 * limit)(*inputs)
    pairs = zip(tracer.tree.leaves(f(*inputs)), tracer.tree.leaves(wanted), strict=True)
    for got, want in pairs:
        want = np.asarray(want)
        np.testing.assert_allclose(got, want, rtol=1e-3, atol=1e-4 * np.abs(want).max())


def test_the_plan_says_what_is_spread() -> None:
    arrays = points()
    f = tracer.compile(product, mesh=LINE)
    plan = f.plan(*arrays)
    assert plan.devices[0] == str(LINE)
    assert "axis of 512" in plan.devices[1]
    assert "8 devices, 64 on each" in str(plan)
    assert plan.to_dict()["devices"] == list(plan.devices)
    result = f(*arrays)
    assert result.device == on(LINE, "x")
    wanted = product(*map(tnp.asarray, arrays))
    np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-4)


def test_predictions_know_how_the_user_wants_results() -> None:
    arrays = points()
    in_parts = tracer.compile(product, mesh=LINE).plan(*arrays)
    whole = tracer.compile(product, mesh=LINE, out_shardings=P()).plan(*arrays)
    assert whole.output_bytes == 8 * in_parts.output_bytes
    assert whole.peak_bytes >= in_parts.peak_bytes + 7 * in_parts.output_bytes


def test_a_loop_runs_inside_of_each_part() -> None:
    arrays = points(2048)
    f = tracer.compile(product, mesh=LINE, memory_limit="300kB")
    plan = f.plan(*arrays)
    assert plan.compiled_bytes <= 300_000
    assert plan.loops
    text = f.stablehlo(*arrays)
    inside = text.split("sdy.manual_computation")[1]
    assert "stablehlo.while" in inside
    wanted = product(*map(tnp.asarray, arrays))
    np.testing.assert_allclose(f(*arrays), wanted, rtol=1e-4, atol=1e-4)


def test_spreading_can_be_switched_off() -> None:
    f = tracer.compile(product, mesh=LINE, passes="-shard")
    arrays = points()
    assert "manual_computation" not in f.stablehlo(*arrays)
    assert "nothing" in f.plan(*arrays).devices[1]


def test_a_program_that_cannot_be_spread_says_why() -> None:
    x = np.random.default_rng(0).standard_normal(4096)
    f = tracer.compile(lambda x: tnp.cumsum(tnp.sin(x)), mesh=LINE)
    np.testing.assert_allclose(f(x), np.cumsum(np.sin(x)), rtol=1e-12, atol=1e-12)
    assert "one after the other" in f.plan(x).devices[1]


def test_a_grid_is_spread_over_all_its_devices() -> None:
    arrays = points()
    f = tracer.compile(product, mesh=GRID)
    wanted = product(*map(tnp.asarray, arrays))
    np.testing.assert_allclose(f(*arrays), wanted, rtol=1e-4, atol=1e-4)
    assert f(*arrays).device == on(GRID, ("a", "b"))


def test_placed_programs_are_split_where_the_limit_asks_for_it() -> None:
    arrays = points(2048)
    f = tracer.compile(product, mesh=LINE, in_shardings=(P("x"), None, None), memory_limit="300kB")
    assert f.plan(*arrays).compiled_bytes <= 300_000
    wanted = product(*map(tnp.asarray, arrays))
    np.testing.assert_allclose(f(*arrays), wanted, rtol=1e-4, atol=1e-4)


def test_limits_that_cannot_be_met_say_for_each_device() -> None:
    f = tracer.compile(product, mesh=LINE, memory_limit="20kB")
    with pytest.raises(MemoryLimitError, match=r"on each of Mesh") as caught:
        f.plan(*points(2048))
    assert caught.value.minimum_bytes > 20_000


def test_a_mesh_of_one_device() -> None:
    one = Mesh(DEVICES[2:3], "x")
    arrays = points()
    f = tracer.compile(product, mesh=one, memory_limit="1MB")
    wanted = product(*map(tnp.asarray, arrays))
    np.testing.assert_allclose(f(*arrays), wanted, rtol=1e-4, atol=1e-4)


def test_decompositions_run_on_whole_matrices() -> None:
    x = np.random.default_rng(0).standard_normal((64, 256))

    def program(x: Any) -> Any:
        return tnp.linalg.eigh(tnp.tanh(x) @ tnp.tanh(x).T)[0]

    f = tracer.compile(program, mesh=LINE, memory_limit="1MB")
    np.testing.assert_allclose(f(x), program(tnp.asarray(x)), rtol=1e-9)


def test_batches_of_decompositions_are_spread() -> None:
    x = np.random.default_rng(0).standard_normal((64, 24, 24))

    def program(x: Any) -> Any:
        return tnp.linalg.cholesky(x @ tnp.swapaxes(x, 1, 2) + tnp.eye(24))

    f = tracer.compile(program, mesh=LINE)
    np.testing.assert_allclose(f(x), program(tnp.asarray(x)), rtol=1e-9)
    assert re.search(r"lapack_dpotrf_ffi", f.hlo(x))
    assert collectives(f.hlo(x)) == []


@run_settings(max_examples=15, deadline=None)
@given(
    st.sampled_from([8, 24, 40]),
    st.integers(1, 5),
    st.sampled_from([(), ("x",), (None, "x")]),
    st.sampled_from(["sum", "max", "softmax", "transpose"]),
)
def test_random_shardings_do_not_change_values(n: int, m: int, parts: Any, kind: str) -> None:
    x = np.random.default_rng(n + m).standard_normal((n, 8 * m))
    functions: dict[str, Callable[[Any], Any]] = {
        "sum": lambda x: tnp.tanh(x @ x.T).sum(1),
        "max": lambda x: (x * 2).max(0),
        "softmax": lambda x: tracer.nn.softmax(x @ x.T, axis=-1) @ x,
        "transpose": lambda x: tnp.sin(x).T,
    }
    program = functions[kind]
    wanted = np.asarray(program(tnp.asarray(x)))
    placed = tracer.compile(program, mesh=LINE, in_shardings=(P(*parts),))
    np.testing.assert_allclose(placed(x), wanted, rtol=1e-9, atol=1e-12)
    spread = tracer.compile(program, mesh=LINE)
    np.testing.assert_allclose(spread(x), wanted, rtol=1e-9, atol=1e-12)
