"""Calls that fail in the middle go on from their last checkpoint, with the same result."""

from __future__ import annotations

import math
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.storage.files import points, stored
from tracer.storage.sources import RawFile

LIMIT = "30kB"


def _gram(x: Any) -> Any:
    return x.T @ x, x.mean(0)


def _steps(x: Any) -> Any:
    def step(_: Any, w: Any) -> Any:
        return w - 1e-4 * (x.T @ tnp.tanh(x @ w))

    return tracer.fori_loop(0, 6, step, tnp.ones(x.shape[1], x.dtype))


def _one_after_the_other(x: Any) -> Any:
    mean = x.mean(0)
    return mean, ((x - mean) ** 2).sum(0)


class _Failure(Exception):
    pass


@pytest.fixture(autouse=True)
def _as_often_as_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow disk does not make checkpoints rarer."""
    monkeypatch.setattr("tracer.storage.checkpoints._MOST_SHARE", math.inf)


@contextmanager
def _reads(monkeypatch: pytest.MonkeyPatch, fail_at: int | None = None) -> Iterator[list[Any]]:
    """Note the blocks that are read; one of them fails."""
    fill, found = RawFile.fill, list[Any]()

    def noted(self: RawFile, block: Any, starts: Any) -> None:
        found.append(starts)
        if len(found) - 1 == fail_at:
            raise _Failure
        fill(self, block, starts)

    with monkeypatch.context() as patched:
        patched.setattr(RawFile, "fill", noted)
        yield found


def _compiled(function: Callable[..., Any], folder: Path, seconds: float = 0.0) -> Any:
    return tracer.compile(
        function, memory_limit=LIMIT, checkpoint=folder / "kept", checkpoint_seconds=seconds
    )


@pytest.mark.xla
@pytest.mark.parametrize(
    ("function", "place"),
    [(_gram, 0.5), (_steps, 0.1), (_steps, 0.6), (_one_after_the_other, 0.2),
     (_one_after_the_other, 0.95)],
)  # fmt: skip
def test_a_call_goes_on_with_the_same_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, function: Any, place: float
) -> None:
    x = stored(tmp_path, points(6000))
    wanted = tracer.compile(function, memory_limit=LIMIT)(x)
    with _reads(monkeypatch) as all_reads:
        _compiled(function, tmp_path)(x)
    assert [*(tmp_path / "kept").iterdir()] == []
    fail_at = int(place * len(all_reads))
    with _reads(monkeypatch, fail_at), pytest.raises(_Failure):
        _compiled(function, tmp_path)(x)
    with _reads(monkeypatch) as more:
        found = _compiled(function, tmp_path)(x)
    tracer.tree.map(np.testing.assert_array_equal, found, wanted)
    # The trip that failed is computed again, with the block that was read ahead.
    assert len(more) <= len(all_reads) - fail_at + 3
    assert [*(tmp_path / "kept").iterdir()] == []


@pytest.mark.xla
def test_a_result_in_storage_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = stored(tmp_path, points(6000))
    for ending in ("npy", "zarr", "h5"):
        double = _compiled(lambda x: 2 * x, tmp_path).into(tmp_path / f"out.{ending}")
        with _reads(monkeypatch, 10), pytest.raises(_Failure):
            double(x)
        assert not (tmp_path / f"out.{ending}").exists()
        with _reads(monkeypatch) as reads:
            np.testing.assert_array_equal(double(x), 2 * np.asarray(x))
        assert reads[0] != (0, 0)
    names = {item.name for item in tmp_path.iterdir()}
    assert names == {"x.npy", "kept", "out.npy", "out.zarr", "out.h5"}


@pytest.mark.xla
def test_without_what_was_written_it_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = stored(tmp_path, points(6000))
    double = _compiled(lambda x: 2 * x, tmp_path).into(tmp_path / "out.npy")
    with _reads(monkeypatch, 10), pytest.raises(_Failure):
        double(x)
    (partial,) = tmp_path.glob("*.tracer-partial")
    partial.unlink()
    np.testing.assert_array_equal(double(x), 2 * np.asarray(x))


@pytest.mark.xla
def test_other_calls_do_not_go_on_from_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = stored(tmp_path, points(6000))
    scaled = _compiled(lambda x, c: (c * x).sum(0), tmp_path)
    with _reads(monkeypatch, 10), pytest.raises(_Failure):
        scaled(x, np.float32(2))
    other = stored(tmp_path, points(6000, seed=1), "y.npy")
    for array, factor in ((x, 3), (other, 2)):
        found = scaled(array, np.float32(factor))
        np.testing.assert_allclose(found, factor * np.asarray(array).sum(0), rtol=1e-3)
    # The file changes under the same name.
    again = stored(tmp_path, points(6000, seed=2))
    np.testing.assert_allclose(
        scaled(again, np.float32(2)), 2 * points(6000, seed=2).sum(0), rtol=1e-3
    )
    assert len([*(tmp_path / "kept").iterdir()]) == 1  # That of the call that failed.


@pytest.mark.xla
@pytest.mark.parametrize("damage", [b"", b"x", b'{"trips": [3]}\n'])
def test_a_damaged_checkpoint_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: bytes
) -> None:
    x = stored(tmp_path, points(6000))
    total = _compiled(lambda x: x.sum(0), tmp_path)
    with _reads(monkeypatch, 10), pytest.raises(_Failure):
        total(x)
    (path,) = (tmp_path / "kept").glob("*/loop-*")
    whole = bytearray(path.read_bytes())
    whole[-20] ^= 1  # an element, not the checksum
    path.write_bytes(damage or whole)
    with pytest.warns(UserWarning, match="is damaged, and not used"):
        found = total(x)
    np.testing.assert_allclose(found, points(6000).sum(0), rtol=1e-3)


@pytest.mark.xla
def test_a_checkpoint_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("no folder")
    with pytest.raises(tracer.StorageError, match="cannot write the checkpoint"):
        _compiled(lambda x: x.sum(0), tmp_path)(stored(tmp_path, points(6000)))


@pytest.mark.xla
def test_long_loops_in_memory_go_on_too(tmp_path: Path) -> None:
    calls: list[int] = []

    def watched(i: Any) -> None:
        calls.append(int(i))
        if len(calls) == 30:
            raise _Failure

    def total(n: Any) -> Any:
        def step(i: Any, sum: Any) -> Any:
            tracer.debug.callback(watched, i)
            return sum + i

        return tracer.fori_loop(0, n, step, 0.0)

    f = _compiled(total, tmp_path)
    with pytest.raises(_Failure):
        f(50)
    assert float(f(50)) == sum(range(50))
    assert calls[30:] == [*range(29, 50)]


@pytest.mark.xla
def test_it_is_not_kept_more_often_than_was_asked_for(tmp_path: Path) -> None:
    from tracer.storage import Run

    x = stored(tmp_path, points(6000))
    saved: list[int] = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Run, "save", lambda self, loop, inside, carry: saved.append(loop))
        _compiled(_gram, tmp_path, seconds=100)(x)
        assert saved == []
        _compiled(_gram, tmp_path)(x)
        assert len(saved) > 10


@pytest.mark.xla
def test_what_does_not_say_when_it_was_changed_is_refused(tmp_path: Path) -> None:
    from tests.storage.files import Watched

    with pytest.raises(tracer.StorageError, match="does not say when it was changed"):
        _compiled(lambda x: x.sum(0), tmp_path)(tracer.open(Watched(points())))


@pytest.mark.xla
def test_files_that_are_no_plain_rows_are_known_by_their_path(tmp_path: Path) -> None:
    for given in (np.asfortranarray(points()), points().astype(">f4")):
        found = _compiled(lambda x: x.sum(0), tmp_path)(stored(tmp_path, given))
        np.testing.assert_allclose(found, given.sum(0), rtol=1e-3)


@pytest.mark.xla
def test_values_of_python_functions_are_refused(tmp_path: Path) -> None:
    def asked(x: Any) -> Any:
        return x

    def program(x: Any) -> Any:
        return x + tracer.pure_callback(asked, tracer.ShapeDtype((), "float64"), 1.0)

    with pytest.raises(tracer.UnsupportedError, match="asked of pure_callback gives values"):
        _compiled(program, tmp_path)(1.0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"checkpoint": 3}, "checkpoint is the path of a folder"),
        ({"checkpoint": "a", "checkpoint_seconds": -1}, "a number of seconds from 0"),
        ({"checkpoint": "a", "checkpoint_seconds": "1"}, "a number of seconds from 0"),
    ],
)
def test_options_are_checked(options: Any, message: str) -> None:
    with pytest.raises(tracer.ArgumentError, match=message):
        tracer.compile(lambda x: x, **options)


_CALL = """
import sys, time
import numpy as np, tracer
from tracer.storage.sources import RawFile
fill, reads = RawFile.fill, []
def slow(self, block, starts):
    time.sleep(0.01)
    reads.append(starts)
    fill(self, block, starts)
RawFile.fill = slow
def standard(x):
    return (x - x.mean(0)) / x.std(0), x.T @ x
f = tracer.compile(standard, memory_limit="60kB", checkpoint=sys.argv[2], checkpoint_seconds=0.02)
x = tracer.open(sys.argv[1])
f.into(sys.argv[3], None).plan(x)
print("begins", flush=True)
_, gram = f.into(sys.argv[3], None)(x)
np.save(sys.argv[4], np.asarray(gram))
print("ended after", len(reads), flush=True)
"""


@pytest.mark.xla
@pytest.mark.process
@pytest.mark.parametrize("count", [2, pytest.param(10, marks=pytest.mark.sweep)])
def test_killed_at_random_moments(tmp_path: Path, count: int) -> None:
    x, chosen = points(20_000), random.Random(count)
    stored(tmp_path, x)
    names = ("x.npy", "kept", "out.npy", "gram.npy")
    arguments = [sys.executable, "-c", _CALL, *(str(tmp_path / name) for name in names)]
    for kills in range(count + 1):
        process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline() == "begins\n"
        if kills < count:
            time.sleep(chosen.uniform(0.0, 2.0 / count))
            os.kill(process.pid, signal.SIGKILL)
            process.communicate()
            assert not (tmp_path / "out.npy").exists()
    out, _ = process.communicate(timeout=60)
    assert "ended after" in out
    standard = tracer.compile(lambda x: ((x - x.mean(0)) / x.std(0), x.T @ x), memory_limit="60kB")
    wanted, gram = standard.into(tmp_path / "wanted.npy", None)(tracer.open(tmp_path / "x.npy"))
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), wanted)
    np.testing.assert_array_equal(np.load(tmp_path / "gram.npy"), gram)
    assert {item.name for item in tmp_path.iterdir()} == {*names, "wanted.npy"}


@pytest.mark.xla
def test_loops_of_small_kernels_are_kept(tmp_path: Path) -> None:
    """Without checkpoints they become one function, in which XLA can call no Python."""

    def f(x: Any) -> Any:
        def step(c: Any, i: Any) -> Any:
            return tnp.tanh(c * 1.01 + i), c.sum()

        return tracer.scan(step, x, tnp.arange(300, dtype="float32"))[1].sum()

    x = np.linspace(0, 1, 50, dtype="float32")
    kept = tracer.compile(f, checkpoint=tmp_path, checkpoint_seconds=0.0)
    np.testing.assert_allclose(kept(x), tracer.compile(f)(x), rtol=1e-5)
