"""Large results have memory that is made before the call: values, counts, and what is asked for."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tracer.array.trace import trace
from tracer.ir import ShapeDtype
from tracer.lowering import settings
from tracer.lowering.devices.registry import default_device
from tracer.lowering.run import large_arrays
from tracer.lowering.run.compiler import clear_cache
from tracer.lowering.run.large_arrays import SETTING, memory_for
from tracer.lowering.run.large_arrays import large_results as chosen

SHAPE = (3000, 3000)
"""36 MB of float32, little above the least."""


@pytest.fixture(autouse=True)
def _as_if_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """Large pages may be given to all here, or to nobody: the programs are the same."""
    monkeypatch.setattr(large_arrays, "_are_given", lambda: True)


@pytest.fixture
def for_all(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Take every result, of whatever size, so that small programs show it."""
    monkeypatch.setattr(large_arrays, "LARGE_BLOCK_BYTES", 0)
    clear_cache()
    yield
    clear_cache()


def positions(function: Callable[..., Any], *shapes: tuple[int, ...]) -> tuple[int, ...]:
    graph = trace(function, [ShapeDtype(shape, "float32") for shape in shapes]).graph
    return chosen(graph, default_device(), ())


def test_results_of_more_than_glibc_keeps_are_chosen() -> None:
    assert positions(lambda x: (x + 1, x.sum(), x * 2), SHAPE) == (0, 2)
    assert positions(lambda x: x + 1, (1 << 20, 8)) == ()
    assert positions(lambda x: x + 1, (1 << 20, 9)) == (0,)


def test_arguments_that_come_back_and_a_result_twice_are_not() -> None:
    def program(x: Any, y: Any) -> Any:
        z = x + y
        return x, z, z, y

    assert positions(program, SHAPE, SHAPE) == ()


def test_results_with_an_argument_s_memory_are_not() -> None:
    graph = trace(lambda x: (x + 1, x + 2), [ShapeDtype(SHAPE, "float32")]).graph
    assert chosen(graph, default_device(), {1}) == (0,)


@pytest.mark.parametrize("way", ["setting", "tuned", "system"])
def test_none_are_chosen_where_it_is_off(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if way == "setting":
        with settings.without(SETTING):
            assert positions(lambda x: x + 1, SHAPE) == ()
        return
    name = "_are_given" if way == "system" else "host_allocator.is_tuned"
    target = f"tracer.lowering.run.large_arrays.{name}"
    monkeypatch.setattr(target, lambda: way == "tuned")
    assert positions(lambda x: x + 1, SHAPE) == ()


def _both(x: Any, y: Any) -> Any:
    return (x > y), (x + 1j * y), x.astype("float16"), tnp.sort(x, axis=0), x.T @ y


def _loop(x: Any, y: Any) -> Any:
    return tracer.fori_loop(0, 3, lambda i, c: (c[0] * 0.5 + c[1], c[1] - c[0]), (x, y))


def _stacked(x: Any, y: Any) -> Any:
    return tracer.scan(lambda c, row: (c + row, c * row), tnp.zeros(x.shape[1]), x)


def _same_memory(x: Any, y: Any) -> Any:
    z = x * y
    return z, z.reshape(-1), z.T, x, x.reshape(-1), tnp.zeros(3), z


def _leaves(results: Any) -> tuple[Any, ...]:
    return results if isinstance(results, tuple) else (results,)


# And whether a result has memory that is made before the call.
PROGRAMS: dict[str, tuple[Callable[..., Any], bool]] = {
    "both": (_both, True),
    "loop": (_loop, False),
    "stacked": (_stacked, False),
    "same memory": (_same_memory, True),
    "softmax": (lambda x, y: tracer.nn.softmax(x, 1), True),
    "sum": (lambda x, y: x + y, True),
    "products": (lambda x, y: tracer.nn.relu(x @ y.T), True),
    "kernel": (lambda x, y: tnp.exp(-((x[:, None, :3] - y[None, :, :3]) ** 2).sum(-1)), True),
    "loop over a copy": (
        lambda x, y: tracer.fori_loop(0, 4, lambda i, x: x.at[i].set(y[i]), x),
        False,
    ),
    "loop over a value": (
        lambda x, y: tracer.fori_loop(0, 4, lambda i, x: x.at[i].set(y[i]), tnp.sin(x)),
        True,
    ),
    "update": (lambda x, y: x.at[3].set(y[0]), False),
    "update of a value": (lambda x, y: (x * y).at[3].set(y[0]), True),
    "update of a value that is a result": (
        lambda x, y: (lambda z: (z, z.at[3].set(y[0])))(x * y),
        False,
    ),
    "scatter": (lambda x, y: x.at[np.arange(9) * 3].add(y[:9]), False),
    "branch": (lambda x, y: tracer.cond(x[0, 0] > 0, lambda x: x, lambda x: x * 2, x), False),
    "sorted": (lambda x, y: tnp.sort(x, 0), True),
    "a value sorted": (lambda x, y: tnp.sort(x * y, 0), True),
    "sorted twice": (lambda x, y: (tnp.sort(x, 1), tnp.sort(x, 0)), True),
    "numbers": (lambda x, y: tnp.cumsum((x > y).astype("int32"), 1), True),
    "made by Python": (
        lambda x, y: tracer.pure_callback(
            lambda: np.ones((320, 240), np.float32), tracer.ShapeDtype((320, 240), "float32")
        ),
        True,
    ),
    "running": (lambda x, y: tnp.cumsum(x, 0), False),
    "padded": (lambda x, y: tnp.pad(x, 1), True),
    "gradient": (
        tracer.grad(lambda x, y: tracer.fori_loop(0, 3, lambda i, c: tnp.sin(c * y), x).sum()),
        False,
    ),
}


@pytest.mark.xla
@pytest.mark.usefixtures("for_all")
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_counts_are_as_without(name: str) -> None:
    """A result that begins as a copy of an argument would be copied once more."""
    program, is_made_before = PROGRAMS[name]
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal((320, 240), np.float32) for _ in range(2))
    function = tracer.compile(program)
    found, plan = function(x, y), function.plan(x, y)
    with settings.without(SETTING):
        plain = tracer.compile(program)
        wanted, other = plain(x, y), plain.plan(x, y)
        assert "input_output_alias" not in plain.hlo(x, y)
    assert ("input_output_alias" in function.hlo(x, y)) == is_made_before
    for got, expected in zip(_leaves(found), _leaves(wanted), strict=True):
        np.testing.assert_array_equal(np.asarray(got), np.asarray(expected), strict=True)
    assert plan.compiled_bytes == other.compiled_bytes
    assert plan.argument_bytes == other.argument_bytes
    assert plan.aliases.aliases == other.aliases.aliases == ()
    assert plan.aliases.copied_bytes == other.aliases.copied_bytes


@pytest.mark.xla
@pytest.mark.usefixtures("for_all")
def test_a_donated_argument_is_written_over_as_ever() -> None:
    function = tracer.compile(lambda x, y: (x + y, x - y), donate_argnums=0)
    x, y = tnp.ones((50, 60)), tnp.full((50, 60), 3.0)
    first, second = function(x, y)
    np.testing.assert_array_equal(np.asarray(first), 4.0)
    np.testing.assert_array_equal(np.asarray(second), -2.0)
    assert x.is_deleted()
    (alias,) = function.plan(tnp.ones((50, 60)), y).aliases.aliases
    assert alias.argument == "argument 0"


@pytest.mark.xla
@pytest.mark.usefixtures("for_all")
def test_each_call_s_results_are_its_own() -> None:
    function = tracer.compile(lambda x: x * 2)
    found = [function(np.full((40, 50), number, np.float32)) for number in range(5)]
    for number, result in enumerate(found):
        np.testing.assert_array_equal(np.asarray(result), 2 * number)


@pytest.mark.xla
@pytest.mark.usefixtures("for_all")
def test_a_program_in_a_folder_takes_its_results_memory_too(tmp_path: Path) -> None:
    x = np.arange(6000, dtype=np.float32).reshape(60, 100)
    tracer.set_cache_dir(tmp_path)
    try:
        for _ in range(2):
            clear_cache()
            found = tracer.compile(lambda x: (x + 1, x * 2))(x)
            np.testing.assert_array_equal(np.asarray(found[1]), 2 * x)
    finally:
        tracer.set_cache_dir(None)


@pytest.mark.xla
def test_an_interrupt_while_memory_is_made_comes_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> tuple[()]:
        raise KeyboardInterrupt

    monkeypatch.setattr(large_arrays, "_write_nothing", interrupted)
    large_arrays._program.cache_clear()
    try:
        with pytest.raises(KeyboardInterrupt):
            memory_for([ShapeDtype((77,), "float32")], default_device())
    finally:
        large_arrays._program.cache_clear()


@pytest.mark.xla
@pytest.mark.usefixtures("for_all")
@pytest.mark.parametrize("dtype", ["float32", "bool", "complex64", "bfloat16", "int8", "float16"])
@pytest.mark.parametrize("layout", ["plain", "transposed", "strided", "read only"])
def test_numpy_s_arrays_are_copied_as_they_are(dtype: str, layout: str) -> None:
    x = (np.arange(60 * 40).reshape(60, 40) % 7).astype(tnp.dtype(dtype))
    x = {"transposed": x.T, "strided": x[::2, ::-3]}.get(layout, x)
    x.flags.writeable = layout != "read only"
    wanted = x.copy()
    found = tnp.asarray(x)
    if layout != "read only":
        x[...] = 0
    np.testing.assert_array_equal(np.asarray(found), wanted, strict=True)
    np.testing.assert_array_equal(np.asarray(found + found), wanted + wanted)


@pytest.mark.xla
def test_the_system_gives_large_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    if "[madvise]" not in large_arrays._ASKED_FOR.read_text():
        pytest.skip("the system has no large pages for those who ask")
    clear_cache()
    monkeypatch.setattr(large_arrays, "_SLOW_PAGE_SECONDS", np.inf)
    large_arrays._pause.end()
    result = tracer.compile(lambda x: x + 1)(np.zeros(SHAPE, np.float32))
    start = np.asarray(result).ctypes.data
    assert _large_page_bytes(start) >= 30 << 20


@pytest.mark.xla
def test_no_more_are_asked_for_where_one_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host of a virtual machine gives each large page anew: small ones are at hand."""
    asked = []
    monkeypatch.setattr(large_arrays, "_SLOW_PAGE_SECONDS", -1.0)
    monkeypatch.setattr(
        large_arrays, "LIBC", SimpleNamespace(madvise=lambda *_: asked.append(_[2]))
    )
    clock = [100.0]
    monkeypatch.setattr(large_arrays.time, "monotonic", lambda: clock[0])
    large_arrays._pause.end()
    try:
        steps = ((0, [14, 15]), (0.05, []), (0.06, [14, 15]), (0.15, []), (0.06, [14, 15]))
        for seconds, wanted in steps:
            clock[0] += seconds
            asked.clear()
            memory_for([ShapeDtype(SHAPE, "float32")], default_device())
            assert asked == wanted
    finally:
        large_arrays._pause.end()


def _large_page_bytes(start: int) -> int:
    """Return how much of the mapping with an address is in large pages."""
    is_inside, total = False, 0
    for line in Path("/proc/self/smaps").read_text().splitlines():
        span = re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line)
        if span:
            first, last = (int(part, 16) for part in span.groups())
            is_inside = first < start + (20 << 20) and last > start
        elif is_inside and line.startswith("AnonHugePages:"):
            total += int(line.split()[1]) << 10
    return total
