"""What several processes do together. `test_processes.py` runs this file in each of them at once.

Every process runs the tests in the same order, and checks its own share.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from benchmarks.device_processes import CASES, run_case, training_step
from benchmarks.watches import HighWater
from tests.storage.files import Watched, points
from tracer import lowering
from tracer.errors import DeviceError, ExportError, ShapeError, UnsupportedError
from tracer.lowering.devices.agreement import exchange
from tracer.lowering.devices.processes import working_group
from tracer.sharding import Mesh, NamedSharding, PartitionSpec, local_parts

pytestmark = pytest.mark.xla

P = PartitionSpec
ADDRESS, COUNT, INDEX = os.environ["TRACER_TEST_PROCESS"].split()
tracer.distributed.initialize(
    ADDRESS, int(COUNT), int(INDEX), heartbeat_timeout=20, cpu_devices=2
)  # fmt: skip
INDEX_HERE, LAST = int(INDEX), int(COUNT) - 1
MESH = Mesh(tracer.devices("cpu"), "data")
OURS = Mesh(MESH.local, "data")
OTHERS = Mesh([device for device in MESH.flat if not device.is_local], "data")
THEIRS = OTHERS.flat[0]
CUT, WHOLE = NamedSharding(MESH, P("data")), NamedSharding(MESH, P())
VALUES = np.arange(4.0 * MESH.size)


def total(factor: float) -> Callable[..., Any]:
    return tracer.compile(
        lambda x: (factor * x).sum(), mesh=MESH, in_shardings=P("data"), out_shardings=P()
    )


TOTAL = total(1.0)


def agree(value: object) -> list[str]:
    """Return what all processes found."""
    return exchange(str(value), purpose="compare what the test found", among=MESH.processes)


# Values and memory.


@pytest.mark.parametrize("name", CASES)
def test_cases(name: str) -> None:
    found = run_case(name, MESH)
    assert found["difference"] < 1e-9
    assert found["collectives"]
    assert found["limit_bytes"] is None or found["counted_bytes"] <= found["limit_bytes"]
    del found["difference"]
    assert len(set(agree(found))) == 1


def test_a_process_takes_the_memory_of_its_devices_parts() -> None:
    watch = HighWater()
    if len({watch.works(), *(each == "True" for each in agree(watch.works()))}) > 1 or not (
        watch.works()
    ):
        pytest.skip("the kernel's high-water mark cannot be reset")
    function, make, _, limit = CASES["kernel product"]
    f = tracer.compile(function, mesh=MESH, memory_limit=limit)
    inputs = make()
    f(*inputs).block_until_ready()
    before = watch.baseline()
    watch.start()
    f(*inputs).block_until_ready()
    # All distances are 32 MB, of which a process would have 16 MB or 8 MB unsplit.
    assert watch.peak() - before <= len(MESH.local) * 3_000_000 + 1_000_000


def test_each_process_reads_its_part_of_an_array_in_storage() -> None:
    watched = Watched(points(4000 * MESH.size))
    compiled = tracer.compile(
        lambda x: (x.mean(0), x.T @ tnp.tanh(x)), mesh=MESH, memory_limit="40kB"
    )
    found = compiled(tracer.open(watched))
    wanted = tracer.compile(lambda x: (x.mean(0), x.T @ tnp.tanh(x)))(watched.array)
    for mine, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-4)
    rows = {i for part in watched.read for i in range(part[0].start, part[0].stop)}
    assert len(rows) <= 4000 * MESH.size * 0.6 + 1000
    assert len(set(agree([np.asarray(value).tolist() for value in found]))) == 1
    watched.read.clear()
    put = tracer.device_put(tracer.open(watched), CUT)
    assert watched.rows_read == 4000 * len(MESH.local)
    assert [part.shape for _, _, part in local_parts(put)] == [(4000, 5)] * len(MESH.local)


def test_an_array_in_storage_is_not_written_by_several_processes() -> None:
    f = tracer.compile(lambda x: x * 2, mesh=MESH)
    with pytest.raises(UnsupportedError, match="local_parts"):
        f.into(f"out{INDEX}.npy")


def test_data_parallel_training_is_that_of_one_device() -> None:
    layers, x, y = CASES["training step"][1]()
    step = tracer.compile(
        training_step,
        mesh=MESH,
        in_shardings=(P(), P("data"), P("data")),
        out_shardings=P(),
        donate_argnums=0,
    )
    alone = tracer.compile(training_step)
    parameters = tracer.device_put(layers, WHOLE)
    batch = tracer.device_put((x, y), CUT)
    losses = []
    for _ in range(4):
        parameters, loss = step(parameters, *batch)
        layers, expected = alone(layers, x, y)
        losses.append(float(loss))
        np.testing.assert_allclose(losses[-1], float(expected), rtol=1e-12)
    for found, wanted in zip(
        tracer.tree.leaves(parameters), tracer.tree.leaves(layers), strict=True
    ):
        np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)
    assert losses == sorted(losses, reverse=True)
    assert len(set(agree(losses))) == 1
    shares = {part.shape for _, _, part in local_parts(batch[0])}
    assert shares == {(len(x) // MESH.size, x.shape[1])}


def test_the_limit_auto_is_that_of_the_process_with_least() -> None:
    f = tracer.compile(lambda x: tnp.sin(x).sum(), mesh=MESH, memory_limit="auto")
    limit = f.plan(VALUES).limit_bytes
    assert limit is not None
    assert len(set(agree(limit))) == 1
    # All run on this machine, whose memory they share.
    room = lowering.free_bytes(OURS.flat[0]) * len(OURS.flat)
    assert limit * MESH.size < 1.5 * room
    assert float(f(VALUES)) == pytest.approx(np.sin(VALUES).sum())


# Devices and data of other processes.


@pytest.mark.parametrize(
    "use",
    [
        lambda: tnp.zeros(3, device=THEIRS),
        lambda: tnp.zeros(3, device=str(THEIRS)),
        lambda: tnp.zeros(3).to_device(THEIRS),
        lambda: tracer.device_put(np.ones(3), THEIRS),
        lambda: tracer.compile(lambda x: x + 1, device=THEIRS)(np.ones(3)),
        lambda: tracer.compile(lambda x: x + 1, device=THEIRS, memory_limit="auto")(np.ones(3)),
        lambda: tracer.device_put(VALUES, NamedSharding(OTHERS, P())),
        lambda: tracer.compile(lambda x: x + 1, mesh=OTHERS)(np.ones(3)),
        lambda: tracer.compile(lambda: tnp.ones(3), mesh=OTHERS)(),
        lambda: tracer.compile(lambda x: x + 1, mesh=OTHERS, memory_limit="auto")(np.ones(3)),
    ],
)
def test_what_is_another_process_is_refused(use: Callable[[], Any]) -> None:
    with pytest.raises(DeviceError, match="belongs to other processes: this one") as caught:
        use()
    assert "d.is_local" in caught.value.mend
    assert caught.value.where is not None
    assert caught.value.where.file == __file__


def test_programs_for_other_processes_can_be_looked_at() -> None:
    assert "sine" in tracer.compile(tnp.sin, device=THEIRS).stablehlo(np.ones(3))
    assert tracer.compile(tnp.sin, mesh=OTHERS).plan(VALUES).peak_bytes > 0


def test_arrays_in_parts_say_what_is_here() -> None:
    x = tracer.device_put(VALUES, CUT)
    first = 8 * INDEX_HERE
    here = f"[{first}:{first + 4}], [{first + 4}:{first + 8}]"
    text = f"Array(float64[{len(VALUES)}], PartitionSpec('data') on {MESH}, here: {here})"
    assert repr(x) == str(x) == f"{x}" == text
    assert repr(tracer.device_put(np.ones(2), WHOLE)) == "Array([1., 1.])"


@pytest.mark.parametrize(
    "read",
    [
        np.asarray,
        np.array,
        lambda x: x.tolist(),
        tracer.device_get,
        lambda x: x.to_device("cpu"),
    ],
)  # fmt: skip
def test_reading_arrays_in_parts_says_how_to_gather_them(read: Callable[[Any], Any]) -> None:
    x = tracer.device_put(VALUES, CUT)
    with pytest.raises(DeviceError, match="has parts in other processes") as caught:
        read(x)
    for way in ("NamedSharding(mesh, PartitionSpec())", "out_shardings", "local_parts"):
        assert way in caught.value.mend


def test_numbers_of_arrays_in_parts() -> None:
    x = tracer.device_put(VALUES, CUT)
    assert float(x.sum()) == VALUES.sum()
    assert float(x[len(VALUES) - 1]) == VALUES[-1]
    with pytest.raises(ShapeError):
        float(x)
    with pytest.raises(ExportError):
        np.from_dlpack(x)


def test_arrays_in_parts_are_gathered_cut_and_copied() -> None:
    x = tracer.device_put(VALUES, CUT)
    whole = x.to_device(WHOLE)
    np.testing.assert_array_equal(whole, VALUES)
    again = x.copy()
    x.delete()
    parts = local_parts(again)
    np.testing.assert_array_equal(np.concatenate([part for _, _, part in parts]),
                                  VALUES[8 * INDEX_HERE : 8 * INDEX_HERE + 8])  # fmt: skip
    assert repr(whole.to_device(CUT)) == repr(again)


# Processes that are out of step.


def refused(call: Callable[[], Any]) -> str:
    with pytest.raises(DeviceError) as caught:
        call()
    assert caught.value.where is not None
    assert caught.value.where.file == __file__
    return caught.value.what


def test_calls_in_another_order_are_refused_before_data_is_mixed_up() -> None:
    first, second = (total(2.0), total(3.0))[:: -1 if INDEX_HERE == LAST else 1]
    for call in (first, second):
        assert "do different things at the same point" in refused(lambda call=call: call(VALUES))
    assert float(TOTAL(VALUES)) == VALUES.sum()


def test_bad_input_that_one_process_meets_and_goes_on() -> None:
    if INDEX_HERE == 0:
        with pytest.raises(ShapeError):
            TOTAL(np.ones(len(VALUES) + 1))
    assert float(TOTAL(VALUES)) == VALUES.sum()


def test_arguments_of_other_shapes_are_refused() -> None:
    mine = VALUES if INDEX_HERE < LAST else VALUES[: MESH.size]
    assert f"float64[{len(mine)}]" in refused(lambda: TOTAL(mine))
    assert float(TOTAL(VALUES)) == VALUES.sum()


def test_other_programs_are_refused() -> None:
    f = tracer.compile(lambda x: x + INDEX_HERE, mesh=MESH)
    assert "run program" in refused(lambda: f(VALUES))


def test_eager_operations_out_of_step_are_refused() -> None:
    x = tracer.device_put(VALUES, CUT)
    assert "do different things" in refused(lambda: x * 2 if INDEX_HERE == LAST else x.sum())


def test_the_limit_auto_of_one_process_only_is_refused() -> None:
    f = tracer.compile(
        lambda x: tnp.cos(x).sum(), mesh=MESH, memory_limit="auto" if INDEX_HERE else "1MB"
    )
    assert "memory_limit='auto' for <lambda>" in refused(lambda: f(VALUES))


def test_limits_that_lead_to_other_programs_are_refused() -> None:
    function, make, _, limit = CASES["kernel product"]
    f = tracer.compile(function, mesh=MESH, memory_limit=limit if INDEX_HERE else "2GB")
    assert "do different things" in refused(lambda: f(*make()))


def test_what_one_process_does_with_its_own_devices_takes_no_others() -> None:
    for _ in range(INDEX_HERE):
        f = tracer.compile(lambda x: (x * 3).sum(), mesh=OURS, memory_limit="auto")
        assert float(f(VALUES)) == 3 * VALUES.sum()
    assert float(TOTAL(VALUES)) == VALUES.sum()


def test_what_was_said_is_forgotten() -> None:
    for _ in range(200):
        TOTAL(VALUES)
    agree("all are here")
    group = working_group()
    assert group is not None
    # Those of two blocks of 64, of 200 and more.
    assert len(group.client.key_value_dir_get("tracer/points/")) <= 140 * int(COUNT)
    agree("all have looked")
