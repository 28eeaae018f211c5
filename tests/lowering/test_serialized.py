"""Executables as bytes, and back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tracer import lowering, ops
from tracer.ir import Builder, Graph, ShapeDtype

pytestmark = pytest.mark.xla
X = np.linspace(3, -2, 50, dtype=np.float32)


def program(f: Callable[..., Any], count: int = 1) -> Graph:
    with Builder() as builder:
        inputs = [builder.input(ShapeDtype((50,), "float32")) for _ in range(count)]
        results = f(*inputs)
        return builder.finish(results if isinstance(results, tuple) else [results])


def compiled(f: Callable[..., Any], count: int = 1, **options: Any) -> lowering.Executable:
    lowering.clear_cache()
    return lowering.compile_graph(program(f, count), **options)


def again(made: lowering.Executable) -> lowering.Executable:
    content = lowering.serialize(made)
    assert content is not None
    read = lowering.deserialize(content, made.device)
    assert read is not None
    return read


def run(execute: lowering.Executable, *arrays: Any) -> list[Any]:
    buffers = [lowering.to_device(array, execute.device) for array in arrays]
    return [lowering.to_host(buffer) for buffer in execute(*buffers)]


def test_values_types_and_bytes_are_the_same() -> None:
    made = compiled(lambda x: (ops.exponential(x), ops.reduce_add(x, axes=(0,))))
    read = again(made)
    for ours, theirs in zip(run(made, X), run(read, X), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert (read.input_types, read.output_types) == (made.input_types, made.output_types)
    assert (read.memory, read.counts, read.notes) == (made.memory, made.counts, made.notes)
    assert read.hlo() == made.hlo()


def test_routines_of_numpy_are_called_again() -> None:
    made = compiled(lambda x: (ops.numpy_sort(x, dimension=0), ops.numpy_argsort(x)))
    found = run(again(made), X)
    np.testing.assert_array_equal(found[0], np.sort(X))
    np.testing.assert_array_equal(found[1], np.argsort(X))


def test_donated_memory_is_taken_over() -> None:
    made = compiled(lambda x, y: ops.add(x, y), 2, donate=(0,), aliases={0: 0})
    read = again(made)
    assert read.aliases == made.aliases == {0: 0}
    x, y = (lowering.to_device(X, read.device) for _ in "xy")
    place = x.unsafe_buffer_pointer()
    (result,) = read(x, y)
    assert x.is_deleted()
    assert result.unsafe_buffer_pointer() == place
    np.testing.assert_array_equal(lowering.to_host(result), X + X)


def test_a_sort_is_written_before_its_first_run_only() -> None:
    made = compiled(lambda x: ops.sort(x, dimension=0, num_keys=1, is_stable=True))
    read = again(made)
    np.testing.assert_array_equal(run(read, X)[0], np.sort(X))
    run(made, X)
    assert lowering.serialize(made) is None


def test_lanes_are_written_with_all_their_parts() -> None:
    lanes = [program(lambda x: ops.exponential(x)), program(lambda x: ops.negate(x))]
    join = program(lambda x, y: ops.concatenate(x, y, dimension=0), 2)
    made = lowering.compile_lanes(lanes, join)
    read = again(made)
    np.testing.assert_array_equal(run(read, X)[0], run(made, X)[0])
    assert read.memory == made.memory


@pytest.mark.parametrize(
    "content", [b"", b"\0" * 8, b"x" * 200, (3).to_bytes(8, "little") + b"[1]"]
)
def test_other_bytes_are_refused(content: bytes) -> None:
    assert lowering.deserialize(content, lowering.default_device()) is None


def test_only_programs_of_a_cpu_of_a_lonely_process_are_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    device = lowering.default_device()
    assert lowering.can_be_serialized(device)
    assert not lowering.can_be_serialized(replace(device, platform="gpu"))
    assert not lowering.can_be_serialized(replace(device, machine="cpu:other"))
    monkeypatch.setattr("tracer.lowering.run.serialized.process_count", lambda: 2)
    assert not lowering.can_be_serialized(device)
