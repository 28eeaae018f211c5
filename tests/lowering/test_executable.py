"""Compiled programs: results, donation, the cache, errors, threads."""

from __future__ import annotations

import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest

from tracer import lowering, ops
from tracer.errors import (
    ArgumentError,
    DeviceError,
    DonatedArrayError,
    DTypeError,
    ExecutionError,
    LoweringError,
)
from tracer.ir import SUPPORTED_DTYPES, Builder, Graph, ShapeDtype
from tracer.lowering.run import compiler
from tracer.lowering.run.program_cache import ProgramCache

VECTOR = ((1000,), "f4")


def put(value: float, size: int = 1000) -> Any:
    return lowering.to_device(np.full(size, value, np.float32))


def doubled(x: Any) -> Any:
    return [ops.add(x, x)]


@pytest.mark.xla
def test_result_has_the_values(run: Any, rng: Any) -> None:
    x = rng.standard_normal((3, 4))
    (result,) = run(doubled, x)
    np.testing.assert_array_equal(result, 2 * x)


@pytest.mark.xla
def test_no_outputs(graph: Any) -> None:
    executable = lowering.compile_graph(graph(lambda x: [], VECTOR))
    assert executable(put(1)) == []
    assert executable.memory.output_bytes == 0


@pytest.mark.xla
def test_no_inputs(run: Any) -> None:
    (result,) = run(lambda: [ops.iota(shape=(4,), dtype=np.dtype("i4"), dimension=0)])
    np.testing.assert_array_equal(result, np.arange(4))


@pytest.mark.xla
def test_outputs_that_are_inputs_are_copies(graph: Any) -> None:
    x = put(3)
    first, second = lowering.compile_graph(graph(lambda x: [x, x], VECTOR))(x)
    pointers = {buffer.unsafe_buffer_pointer() for buffer in (x, first, second)}
    assert len(pointers) == 3
    np.testing.assert_array_equal(lowering.to_host(second), lowering.to_host(x))


@pytest.mark.xla
@pytest.mark.parametrize("shape", [(0,), (3, 0), ()])
def test_empty_and_scalar_arrays(run: Any, shape: tuple[int, ...]) -> None:
    (result,) = run(doubled, np.ones(shape, np.float32))
    np.testing.assert_array_equal(result, 2 * np.ones(shape))


@pytest.mark.xla
def test_donated_memory_is_reused(graph: Any) -> None:
    executable = lowering.compile_graph(graph(doubled, VECTOR), donate=(0,), aliases={0: 0})
    x = put(3)
    pointer = x.unsafe_buffer_pointer()
    (result,) = executable(x)
    assert result.unsafe_buffer_pointer() == pointer
    assert x.is_deleted()
    assert (lowering.to_host(result) == 6).all()
    assert executable.memory.alias_bytes == 4000
    assert executable.memory.peak_bytes == 4000


@pytest.mark.xla
def test_using_a_donated_buffer_is_an_error(graph: Any) -> None:
    executable = lowering.compile_graph(graph(doubled, VECTOR), donate=(0,), aliases={0: 0})
    x = put(3)
    executable(x)
    with pytest.raises(DonatedArrayError, match="argument 0"):
        executable(x)


@pytest.mark.xla
def test_donating_one_buffer_twice_is_an_error(graph: Any) -> None:
    made = graph(lambda x, y: [ops.add(x, y)], VECTOR, VECTOR)
    x = put(3)
    with pytest.raises(DonatedArrayError, match="given away"):
        lowering.compile_graph(made, donate=(0,))(x, x)


@pytest.mark.xla
def test_a_donated_buffer_without_a_use_is_gone_too(graph: Any) -> None:
    made = graph(lambda x: [ops.reduce_add(x, axes=(0,))], VECTOR)
    x = put(3)
    (result,) = lowering.compile_graph(made, donate=(0,))(x)
    assert x.is_deleted()
    assert lowering.to_host(result) == 3000


@pytest.mark.xla
def test_donation_leaves_views_of_the_host_alone(graph: Any) -> None:
    x = put(3)
    view = lowering.to_host(x)
    (result,) = lowering.compile_graph(graph(doubled, VECTOR), donate=(0,), aliases={0: 0})(x)
    assert x.is_deleted()
    assert result.unsafe_buffer_pointer() != view.ctypes.data
    assert (view == 3).all()


@pytest.mark.xla
@pytest.mark.parametrize(
    "aliases", [{1: 0}, {0: 1}, {0: 0, 1: 0}, {2: 0}], ids=["size", "result", "twice", "kept"]
)
def test_aliases_that_cannot_be(graph: Any, aliases: Any) -> None:
    made = graph(lambda x, y, z: [ops.add(x, z)], VECTOR, ((7,), "f4"), VECTOR)
    with pytest.raises(ArgumentError, match="cannot have its memory"):
        lowering.compile_graph(made, donate=(0, 1), aliases=aliases)


@pytest.mark.xla
def test_aliases_are_what_xla_keeps(graph: Any) -> None:
    made = graph(lambda x, y: [ops.negate(y), ops.abs(x)], VECTOR, VECTOR)
    pairs = {0: 1, 1: 0}
    assert lowering.compile_graph(made, donate=(0, 1), aliases=pairs).aliases == pairs
    assert lowering.compile_graph(made, donate=(0, 1)).aliases == {}
    one = graph(doubled, VECTOR)
    assert lowering.compile_graph(one, donate=(0,), aliases={0: 0}).aliases == {0: 0}


@pytest.mark.xla
def test_donate_out_of_range(graph: Any) -> None:
    with pytest.raises(ArgumentError, match="donate"):
        lowering.compile_graph(graph(doubled, VECTOR), donate=(1,))


@pytest.mark.xla
def test_equal_graphs_share_an_executable(graph: Any) -> None:
    first, second = graph(doubled, VECTOR), graph(doubled, VECTOR)
    assert lowering.compile_graph(first) is lowering.compile_graph(second)
    assert lowering.compile_graph(first) is not lowering.compile_graph(first, donate=(0,))
    options = lowering.memory_optimized_options()
    assert lowering.compile_graph(first) is not lowering.compile_graph(first, options=options)


@pytest.mark.xla
def test_clearing_the_cache_compiles_again(graph: Any) -> None:
    made = graph(doubled, VECTOR)
    before = lowering.compile_graph(made)
    lowering.clear_cache()
    assert lowering.compile_graph(made) is not before


@pytest.mark.xla
def test_out_of_memory_names_the_bytes(graph: Any) -> None:
    shape = (1 << 20, 1 << 22)
    made = graph(lambda: [ops.iota(shape=shape, dtype=np.dtype("f4"), dimension=1)])
    executable = lowering.compile_graph(made)
    for wait in (lowering.to_host, lowering.block_until_ready):
        with pytest.raises(ExecutionError, match=rf"out of memory \({4 << 42} bytes"):
            wait(executable()[0])


@pytest.mark.xla
def test_wrong_arguments_raise_our_errors(graph: Any) -> None:
    executable = lowering.compile_graph(graph(doubled, VECTOR))
    with pytest.raises(ExecutionError, match="supplied 0"):
        executable()
    with pytest.raises(ExecutionError, match="expected parameter 0 of size 4000"):
        executable(put(1, size=3))
    with pytest.raises(DTypeError, match="ndarray"):
        executable(np.ones(1000, np.float32))


@pytest.mark.xla
def test_unknown_options_are_refused_by_name(graph: Any) -> None:
    made = graph(doubled, VECTOR)
    with pytest.raises(ArgumentError, match="'xla_nothing'"):
        lowering.compile_graph(made, options={"xla_nothing": 1})
    with pytest.raises(ArgumentError, match="'xla_cpu_prefer_vector_width'"):
        lowering.compile_graph(made, options={"xla_cpu_prefer_vector_width": "wide"})


@pytest.mark.xla
@pytest.mark.parametrize("name", ["gpu", "cpu:7", "banana"])
def test_unknown_devices_name_those_found(graph: Any, name: str) -> None:
    with pytest.raises(DeviceError, match="cpu:0") as caught:
        lowering.compile_graph(graph(doubled, VECTOR), device=name)
    assert "use one of cpu:0" in caught.value.mend


def test_devices_have_names_and_compare_by_them() -> None:
    first, *_ = lowering.devices()
    assert str(first) == "cpu:0"
    assert first == lowering.default_device() == lowering.find_device("cpu")
    assert hash(first) == hash(lowering.find_device("cpu:0"))


def test_free_bytes_are_within_the_machine() -> None:
    free = lowering.free_bytes()
    with open("/proc/meminfo", encoding="ascii") as file:
        total = 1024 * int(file.readline().split()[1])
    assert 0 < free <= total


def test_an_op_that_stablehlo_refuses_names_itself(graph: Any, monkeypatch: Any) -> None:
    made = graph(doubled, ((2,), "f4"))

    def bad(b: Any, types: Any, *operands: Any) -> Any:
        return b.concatenate(operands, 3)

    monkeypatch.setitem(made.nodes[0].op.__dict__, "lower", bad)
    with pytest.raises(LoweringError, match=r"add\(float32\[2\]") as caught:
        lowering.stablehlo(made)
    assert "test_executable.py" in str(caught.value)


def test_an_unknown_emitter_names_its_neighbours(graph: Any, monkeypatch: Any) -> None:
    made = graph(doubled, ((2,), "f4"))
    monkeypatch.setitem(
        made.nodes[0].op.__dict__, "lower", lambda b, types, *operands: b.adds(*operands)
    )
    with pytest.raises(LoweringError, match="'adds'") as caught:
        lowering.stablehlo(made)
    assert "add" in caught.value.mend


@pytest.mark.xla
def test_threads_compile_at_once(graph: Any) -> None:
    found: dict[int, Any] = {}

    def work(number: int) -> None:
        def build(x: Any) -> Any:
            for _ in range(number + 1):
                x = ops.add(x, x)
            return [x]

        executable = lowering.compile_graph(graph(build, VECTOR))
        found[number] = lowering.to_host(executable(put(1))[0])[0]

    threads = [threading.Thread(target=work, args=(i % 4,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {i: 2.0 ** (i + 1) for i in range(4)}


@pytest.mark.process
def test_jax_is_not_imported() -> None:
    code = (
        "import sys, numpy as np\n"
        "from tracer import lowering, ops\n"
        "from tracer.ir import Builder, ShapeDtype\n"
        "with Builder() as b:\n"
        "    x = b.input(ShapeDtype((2, 2), 'float32'))\n"
        "    g = b.finish([ops.cholesky(x)])\n"
        "out = lowering.compile_graph(g)(lowering.to_device(np.eye(2, dtype='float32')))\n"
        "assert (lowering.to_host(out[0]) == np.eye(2)).all()\n"
        "assert 'jax' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.xla
@pytest.mark.parametrize("dtype", SUPPORTED_DTYPES, ids=SUPPORTED_DTYPES.values())
def test_constants_of_every_dtype(run: Any, dtype: Any) -> None:
    values = [
        np.array([0, 1, 0, 1, 1, 0, 1, 0, 1, 1, 0]).astype(dtype),
        np.ones((2, 3), dtype),
        np.ones((), dtype),
        np.ones((0, 2), dtype),
        np.arange(20).reshape(4, 5).astype(dtype).T,
    ]
    for value, found in zip(
        values, run(lambda: [ops.constant(value=v) for v in values]), strict=True
    ):
        assert found.dtype == dtype
        np.testing.assert_array_equal(found.astype("c16"), value.astype("c16"))


@pytest.mark.xla
def test_uniform_constants_are_one_element_in_the_module(graph: Any) -> None:
    made = graph(lambda: [ops.constant(value=np.full((1000, 1000), -0.0, np.float32))])
    assert len(lowering.stablehlo(made)) < 1000
    (result,) = lowering.compile_graph(made)()
    assert np.signbit(lowering.to_host(result)).all()


@pytest.mark.xla
def test_zeros_of_both_signs_are_not_uniform(run: Any) -> None:
    value = np.array([0.0, -0.0, np.nan, 0.0], np.float32)
    (result,) = run(lambda: [ops.constant(value=value)])
    np.testing.assert_array_equal(np.signbit(result), np.signbit(value))


@pytest.mark.xla
def test_hlo_maps_back_to_nodes(graph: Any) -> None:
    made = graph(lambda x: [ops.sine(ops.add(x, x))], VECTOR)
    assert 'op_name="sine.1"' in lowering.compile_graph(made).hlo()
    assert lowering.node_path("sine.1") == (1,)
    assert lowering.node_path("while.5/body/add.2") == (5, "body", 2)
    assert lowering.node_path("something else") == ()
    assert lowering.node_path("") == ()


@pytest.mark.xla
def test_the_cache_keeps_the_programs_asked_for_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as go into its bytes."""

    def program(size: int) -> Graph:
        with Builder() as builder:
            x = builder.input(ShapeDtype((size,), "float32"))
            return builder.finish([ops.add(x, x)])

    cache = ProgramCache[Any, lowering.Executable]()
    monkeypatch.setattr(compiler, "_CACHE", cache)
    first = lowering.compile_graph(program(1))
    lowering.bound_cache(5 * first.held_bytes // 2)
    lowering.compile_graph(program(2))
    assert lowering.compile_graph(program(1)) is first
    lowering.compile_graph(program(3))  # the second one goes
    assert len(cache) == 2
    assert lowering.compile_graph(program(1)) is first
    assert 0 < cache.nbytes <= cache.most_bytes
    lowering.bound_cache(0)
    assert (len(cache), cache.nbytes) == (0, 0)
    assert lowering.compile_graph(program(1)) is not first
    assert len(cache) == 0


@pytest.mark.xla
def test_a_program_holds_more_for_more_kernels_and_for_constants() -> None:
    def program(count: int, constant: int) -> lowering.Executable:
        with Builder() as builder:
            x = y = builder.input(ShapeDtype((constant,), "float32"))
            for _ in range(count):
                y = ops.tanh(y)
            numbers = ops.constant(value=np.arange(constant, dtype=np.float32) ** 2)
            return lowering.compile_graph(builder.finish([ops.add(y, numbers), x]))

    small, many, large = program(1, 100), program(20, 100), program(1, 100_000)
    assert 200_000 < small.held_bytes < many.held_bytes
    assert large.held_bytes > 400_000
