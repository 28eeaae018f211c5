"""Programs in a folder: values, plans and graphs are those of a program that was made."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tracer import lowering
from tracer.array.trace import trace
from tracer.compilation import program
from tracer.compilation.eager import EagerProgram
from tracer.compilation.stored import folder
from tracer.compilation.stored.record import Sources, graph_from, graph_text, plain, restored
from tracer.errors import Source

pytestmark = pytest.mark.xla
X = np.linspace(-2, 3, 300, dtype=np.float32)
SQUARE = X[:36].reshape(6, 6) @ X[:36].reshape(6, 6).T + 6 * np.eye(6, dtype=np.float32)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Keep programs in a folder, and forget those of other tests."""
    for name in ("TRACER_MEMORY_LIMIT", "TRACER_FLAGS", "TRACER_CACHE_BYTES"):
        monkeypatch.delenv(name, raising=False)
    lowering.clear_cache()
    tracer.set_cache_dir(tmp_path)
    yield tmp_path
    tracer.set_cache_dir(None)


def loss(x: Any) -> Any:
    return (tnp.exp(-((x[:, None] - x) ** 2)) @ tnp.sin(x)).sum()


def recurrent(x: Any) -> Any:
    def step(carry: Any, item: Any) -> Any:
        carry = tnp.tanh(carry * 0.9 + item)
        return carry, carry

    return tracer.scan(step, tnp.zeros(100, "float32"), x.reshape(3, 100))[1].sum()


PROGRAMS: dict[str, tuple[Callable[..., Any], str | None]] = {
    "kernel": (loss, None),
    "kernel under a limit": (loss, "60kB"),
    "gradient under a limit": (tracer.grad(loss), "60kB"),
    "sort": (lambda x: tnp.sort(x[:90]), None),
    "transform by scipy": (
        lambda x: (
            tnp.fft.fft(tnp.outer(tnp.cos(tnp.arange(2048, dtype="float32")), x[:256]), axis=0)[
                5
            ].real
        ),
        None,
    ),
    "sort by numpy": (lambda x: (tnp.sort(x), tnp.argsort(x.astype("float64"))), None),
    "median": (lambda x: tnp.median(x.reshape(3, 100), axis=1), "1MB"),
    "extremes": (lambda x: (x.max(), x.argmin(), tnp.where(x > 0, x, -tnp.inf).max()), None),
    "cholesky": (lambda x: tnp.linalg.cholesky(x[:36].reshape(6, 6) + 9 * tnp.eye(6)), None),
    "scan": (recurrent, None),
    "gradient of a scan": (tracer.grad(recurrent), "20kB"),
    "loop": (lambda x: tracer.fori_loop(0, 5, lambda i, y: y * 0.5 + i, x), None),
    "branch": (lambda x: tracer.cond(x[0] > 0, tnp.sin, tnp.cos, x), None),
    "random": (lambda x: x + tracer.random.normal(tracer.random.key(3), (300,)), None),
    "integers and bools": (lambda x: ((x * 9).astype("int8"), x > 1, x.astype("complex64")), None),
    "fft": (lambda x: tnp.fft.rfft(x), None),
}


def made_of(f: Callable[..., Any], limit: Any, *args: Any, **options: Any) -> tuple[Any, Any]:
    """Return a compiled function and its results."""
    compiled = tracer.compile(f, memory_limit=limit, **options)
    return compiled, tracer.tree.leaves(compiled(*args))


def found_of(f: Callable[..., Any], limit: Any, *args: Any, **options: Any) -> tuple[Any, Any]:
    """Return the same where it may not be planned and compiled again."""
    with mock.patch.object(program, "make", side_effect=AssertionError("it is planned again")):
        return made_of(f, limit, *args, **options)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_that_was_found_is_the_one_that_was_made(name: str) -> None:
    f, limit = PROGRAMS[name]
    made, expected = made_of(f, limit, X)
    found, results = found_of(f, limit, X)
    for ours, theirs in zip(results, expected, strict=True):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        np.testing.assert_array_equal(np.asarray(ours), np.asarray(theirs))
    ours, theirs = found.plan(X), made.plan(X)
    assert ours == theirs
    assert found.graph(X).fingerprint == made.graph(X).fingerprint
    assert str(found.graph(X)) == str(made.graph(X))
    assert found.hlo(X) == made.hlo(X)
    assert ours.aliases == theirs.aliases
    assert bool(found.check(X))


def test_the_smallest_limit_is_found_by_planning() -> None:
    made = made_of(loss, "60kB", X)[0].plan(X).minimum_bytes
    assert found_of(loss, "60kB", X)[0].plan(X).minimum_bytes == made


def test_donated_and_written_arguments_and_captured_arrays() -> None:
    numbers = tnp.arange(300, dtype="float32")

    def f(x: Any, y: Any) -> Any:
        y[0] = 7
        return x + numbers

    for way in (made_of, found_of):
        x, y = tnp.asarray(X), tnp.zeros(300)
        compiled, (result,) = way(f, None, x, y, donate_argnums=0)
        np.testing.assert_array_equal(np.asarray(result), X + np.arange(300, dtype=np.float32))
        assert float(y[0]) == 7
        assert x.is_deleted()
        assert compiled.plan(x, y).aliases.aliases


def test_other_values_that_the_function_closes_over_are_another_program(cache: Path) -> None:
    def times(factor: Any) -> Callable[[Any], Any]:
        return lambda x: x * factor

    for factor in (2.0, 3.0, np.float32(2.5), tnp.asarray(4.0)):
        ((result),) = made_of(times(factor), None, X)[1]
        np.testing.assert_allclose(np.asarray(result), X * np.float32(factor), rtol=1e-6)
    large = [tnp.asarray(X) * k for k in (1, 2)]
    ((one),) = made_of(times(large[0]), None, X)[1]
    ((two),) = found_of(times(large[1]), None, X)[1]  # it is an input
    np.testing.assert_array_equal(np.asarray(two), 2 * np.asarray(one))


def test_a_donated_argument_that_is_not_used_is_told_again() -> None:
    for way in (made_of, found_of):
        with pytest.warns(tracer.DonationWarning, match="no result takes over"):
            way(lambda x: x.sum(), None, tnp.asarray(X), donate_argnums=0)


def test_operations_outside_of_compiled_functions_are_kept(cache: Path) -> None:
    x = tnp.asarray(X)
    before = {*cache.iterdir()}
    made = tnp.cosh(x) - 3
    assert {*cache.iterdir()} != before
    lowering.clear_cache()
    graph = trace(tnp.cosh, (x,), {}, writes="back").graph
    device = lowering.default_device()
    with mock.patch.object(lowering, "compile_graph", side_effect=AssertionError):
        found = EagerProgram(graph, device)
        for file in cache.iterdir():
            file.unlink()
        again = EagerProgram(graph, device)  # in memory
    for run in (found, again):
        np.testing.assert_array_equal(np.asarray(run(x)[0]) - 3, np.asarray(made))


def test_a_line_says_that_a_program_was_found(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="tracer")
    made_of(loss, None, X)
    found_of(loss, None, X)
    made, found = (record.getMessage() for record in caplog.records if record.name == "tracer")
    assert made.startswith("compiled loss")
    assert found.startswith("found loss")
    assert "; first call; read in " in found


def test_programs_with_rules_of_their_own_are_kept() -> None:
    @tracer.custom_jvp
    def cube(x: Any) -> Any:
        return x**3

    cube.defjvp(lambda x, dx: (cube(x[0]), 3 * x[0] ** 2 * dx[0]))
    for f in (lambda x: cube(x).sum(), tracer.grad(lambda x: cube(x).sum())):
        _, expected = made_of(f, "1MB", X)
        _, results = found_of(f, "1MB", X)
        np.testing.assert_array_equal(np.asarray(results[0]), np.asarray(expected[0]))


def test_a_program_that_ran_before_and_has_a_sort_is_not_kept(
    cache: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="tracer")
    tracer.set_cache_dir(None)
    few = X[:90]  # NumPy sorts more.
    made_of(tnp.sort, "1MB", few)
    tracer.set_cache_dir(cache)
    np.testing.assert_array_equal(made_of(tnp.sort, "1MB", few)[1][0], np.sort(few))
    assert any("is not kept" in record.getMessage() for record in caplog.records)


def test_a_program_that_calls_python_is_not_kept(cache: Path) -> None:
    seen = []

    def f(x: Any) -> Any:
        tracer.debug.callback(seen.append, x)
        return x * 2

    for _ in range(2):
        compiled, _ = made_of(f, None, X)
    assert len(seen) == 2
    assert list(cache.iterdir()) == []
    (note,) = compiled.plan(X).notes
    assert note.startswith("calls Python while it runs")


def test_a_program_that_reads_storage_is_not_kept(cache: Path) -> None:
    np.save(cache / "x.npy", X)
    for _ in range(2):
        doubled = tracer.compile(lambda x: x * 2)
        np.testing.assert_array_equal(doubled(tracer.open(cache / "x.npy")), 2 * X)
        # A program from a file would call what is not there, and end the process.
        assert [file.name for file in cache.iterdir()] == ["x.npy"]


def test_a_damaged_file_is_made_again(cache: Path) -> None:
    _, expected = made_of(loss, None, X)
    for file in cache.iterdir():
        file.write_bytes(file.read_bytes()[:-7])
    with pytest.warns(tracer.CacheWarning, match="damaged"):
        _, results = made_of(loss, None, X)
    np.testing.assert_array_equal(np.asarray(results[0]), np.asarray(expected[0]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found_of(loss, None, X)


def test_a_file_of_something_else_under_the_right_name_is_made_again(cache: Path) -> None:
    made_of(loss, None, X)
    store = folder.current_store()
    assert store is not None
    for content in (b"", b"\x02" + 7 * b"\0" + b"{}", b"\xff" * 50):
        for file in cache.iterdir():
            store.write(file.stem, content)
        with pytest.warns(tracer.CacheWarning, match="cannot be read"):
            made_of(loss, None, X)
        found_of(loss, None, X)


@pytest.mark.parametrize("text", [b"", b"g", b"(%0", b"\xff"])
def test_a_graph_that_cannot_be_read_is_named_where_it_is_needed(cache: Path, text: bytes) -> None:
    right = made_of(loss, None, X)[1]
    store = folder.current_store()
    assert store is not None
    (file,) = cache.iterdir()
    content = store.read(file.stem)
    assert content is not None
    start = 8 + int.from_bytes(content[:8], "little")
    size = json.loads(content[8:start])["graph_bytes"]
    store.write(file.stem, content[:start] + text.ljust(size) + content[start + size :])
    found, value = found_of(loss, None, X)
    assert value[0].tolist() == right[0].tolist()
    with pytest.raises(tracer.StorageError, match="the graph of a program that was kept"):
        found.graph(X)


def test_the_bound_in_bytes_holds(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACER_CACHE_BYTES", "60kB")
    tracer.set_cache_dir(cache)
    for size in range(1, 9):
        made_of(loss, None, X[:size])
        assert sum(file.stat().st_size for file in cache.iterdir()) <= 60_000
    found_of(loss, None, X[:8])
    monkeypatch.setenv("TRACER_CACHE_BYTES", "much")
    with pytest.raises(tracer.ArgumentError, match="TRACER_CACHE_BYTES"):
        tracer.set_cache_dir(cache)


def test_nothing_is_kept_unless_asked(cache: Path) -> None:
    tracer.set_cache_dir(None)
    made_of(loss, None, X[:5])
    assert folder.current_store() is None
    assert [*cache.iterdir()] == []


def test_a_record_names_the_lines_of_this_process(tmp_path: Path) -> None:
    ours = Source(str(tmp_path / "a" / "model.py"), 3, "f")
    theirs = Source("/elsewhere/model.py", 3, "f")
    sources = Sources()
    content = plain((theirs, None, (theirs, 2.5, "x")), sources)
    read = Sources([list(line) for line in sources.lines], [ours])
    assert restored(content, read) == (ours, None, (ours, 2.5, "x"))
    assert restored(content, Sources(sources.lines)) == (theirs, None, (theirs, 2.5, "x"))
    with pytest.raises(tracer.VerifyError, match="a plan has object in it"):
        plain(object(), sources)


def test_a_graph_keeps_its_lines() -> None:
    graph = tracer.compile(loss, memory_limit="60kB").graph(X)
    sources = Sources()
    written = graph_text(graph, sources)
    assert written is not None
    assert str(graph_from(*written, sources)) == str(graph)


SCRIPT = """
import numpy, tracer, tracer.numpy as tnp
from tracer.compilation import program
from tracer.lowering.run import compiler
counts = []
for module, name in ((program, "make"), (compiler, "_compile")):
    def counted(*args, _name=name, _f=getattr(module, name)):
        counts.append(_name)
        return _f(*args)
    setattr(module, name, counted)
x = tnp.linspace(-2, 3, 300)
f = tracer.compile(tracer.grad(lambda x: (tnp.sort(tnp.exp(x[:, None] - x).sum(1)) ** 2).sum()),
                   memory_limit="200kB")
print(counts.count("make"), counts.count("_compile"), float(f(x).sum()).hex())
print(counts.count("make"), counts.count("_compile"), f.plan(x).peak_bytes)
"""


def start(folder: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "TRACER_CACHE_DIR": str(folder)}
    command = [sys.executable, "-W", "error", "-c", SCRIPT]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def lines_of(process: subprocess.Popen[str]) -> list[list[str]]:
    text, _ = process.communicate(timeout=300)
    assert process.returncode == 0
    return [line.split() for line in text.splitlines()]


@pytest.mark.process
def test_a_second_process_plans_and_compiles_nothing(cache: Path) -> None:
    first, second = lines_of(start(cache)), lines_of(start(cache))
    assert int(first[1][0]) == 1
    assert int(first[1][1]) > 1
    assert second[1][:2] == ["0", "0"]
    assert [line[2] for line in first] == [line[2] for line in second]


@pytest.mark.process
def test_processes_that_start_together_share_a_folder(cache: Path) -> None:
    together = [start(cache) for _ in range(2)]
    first, second = map(lines_of, together)
    assert [line[2] for line in first] == [line[2] for line in second]
    assert all(file.suffix == ".program" for file in cache.iterdir())
    assert lines_of(start(cache))[1][:2] == ["0", "0"]
