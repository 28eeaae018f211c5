"""Results that go to storage: complete or not there."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.storage.files import points, stored
from tracer.storage import Run, Sink, partial_path
from tracer.storage.targets import Result

pytestmark = pytest.mark.xla
OUTER = tracer.compile(lambda x, y: tnp.exp(x[:, None] * y), memory_limit="60kB")
X, Y = np.linspace(-1, 1, 300), np.linspace(0, 1, 200)
EXPECTED = np.exp(X[:, None] * Y)


@pytest.mark.parametrize("ending", ["npy", "zarr", "h5"])
def test_a_result_larger_than_the_limit(tmp_path: Path, ending: str) -> None:
    if ending != "npy":
        pytest.importorskip({"zarr": "zarr", "h5": "h5py"}[ending])
    path = tmp_path / f"out.{ending}"
    found = OUTER.into(path)(X, Y)
    assert found.nbytes > 60_000 >= OUTER.into(path).plan(X, Y).compiled_bytes
    np.testing.assert_allclose(found, EXPECTED, rtol=1e-12)
    assert [item.name for item in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("ending", ["npy", "zarr", "h5"])
def test_all_is_on_the_disk_before_it_has_its_name_and_then_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    pytest.importorskip({"npy": "numpy", "zarr": "zarr", "h5": "h5py"}[ending])
    path, real, synced = tmp_path / f"out.{ending}", os.fsync, list[tuple[Path, bool]]()

    def watched(file: int) -> None:
        synced.append((Path(os.readlink(f"/proc/self/fd/{file}")), path.exists()))
        real(file)

    monkeypatch.setattr(os, "fsync", watched)
    OUTER.into(path)(X, Y)
    partial = partial_path(path, None)
    files = [path, *path.rglob("*")]
    assert {partial / found.relative_to(path) for found in files} <= {
        found for found, is_named in synced if not is_named
    }
    assert synced[-1] == (tmp_path, True)


def test_stored_in_and_stored_out(tmp_path: Path) -> None:
    x = points()
    standard = tracer.compile(lambda x: (x - x.mean(0)) / x.std(0), memory_limit="40kB")
    found = standard.into(tmp_path / "out.npy")(stored(tmp_path, x))
    wanted = (x - x.mean(0, dtype=np.float64)) / x.std(0, dtype=np.float64)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_a_gradient_with_respect_to_what_is_stored(tmp_path: Path) -> None:
    x, w = points(), points(1)[0]
    gradient = tracer.compile(tracer.grad(lambda x, w: tnp.tanh(x @ w).sum()), memory_limit="40kB")
    found = gradient.into(tmp_path / "g.npy")(stored(tmp_path, x), w)
    np.testing.assert_allclose(found, (1 - np.tanh(x @ w) ** 2)[:, None] * w, rtol=1e-4, atol=1e-6)


def test_some_results_stay_in_memory(tmp_path: Path) -> None:
    both = tracer.compile(
        lambda x, *, scale: {"a": x * scale, "b": x.sum()}, static_argnames="scale"
    )
    found = both.into(tmp_path / "a.npy", None)(X, scale=3.0)
    np.testing.assert_array_equal(found["a"], X * 3)
    assert isinstance(found["b"], tracer.Array)
    values = 2.5, np.arange(3), True, X[:2]
    names = [tmp_path / f"value{i}.npy" for i in range(len(values))]
    stored_values = tracer.compile(lambda x: (*values[:-1], x)).into(*names)(X[:2])
    for name, value, one in zip(names, values, stored_values, strict=True):
        np.testing.assert_array_equal(one, value)
        assert np.load(name).dtype == np.asarray(value).dtype
    for shape in ((), (0, 3), (1, 1)):
        path = tmp_path / f"{len(shape)}{sum(shape)}.npy"
        ones = tracer.compile(lambda x: x + 1).into(path)(np.zeros(shape))
        np.testing.assert_array_equal(ones, np.ones(shape))


def test_paths_are_checked(tmp_path: Path) -> None:
    OUTER.into(tmp_path / "out.npy")(X, Y)
    before = (tmp_path / "out.npy").read_bytes()
    with pytest.raises(tracer.StorageError, match="exists"):
        OUTER.into(tmp_path / "out.npy")(X, Y)
    assert (tmp_path / "out.npy").read_bytes() == before
    with pytest.raises(tracer.StorageError, match="no ending"):
        OUTER.into(tmp_path / "out.csv")(X, Y)
    with pytest.raises(tracer.StorageError, match="No such file"):
        OUTER.into(tmp_path / "none" / "out.npy")(X, Y)
    with pytest.raises(tracer.ArgumentError, match="2 paths, and the function has 1"):
        OUTER.into(tmp_path / "a.npy", tmp_path / "b.npy")(X, Y)
    with pytest.raises(tracer.ArgumentError, match="for several results"):
        OUTER.into(tmp_path / "a.npy", tmp_path / "b" / ".." / "a.npy")
    with pytest.raises(tracer.StorageError, match="no ending"):
        OUTER.into(".")(X, Y)
    short = tracer.compile(lambda x: x.astype("bfloat16"))
    for ending in ("npy", "zarr", "h5"):
        with pytest.raises(tracer.DTypeError, match="cannot hold bfloat16"):
            short.into(tmp_path / f"short.{ending}")(X)
    assert [item.name for item in tmp_path.iterdir()] == ["out.npy"]
    for wrong in ((), (None,), (3,)):
        with pytest.raises(tracer.ArgumentError, match="into takes"):
            OUTER.into(*wrong)


@pytest.mark.parametrize("ending", ["npy", "h5"])
@pytest.mark.parametrize("call", ["posix_fallocate", "pwrite", "fsync"])
def test_a_full_disk_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, ending: str
) -> None:
    path = tmp_path / f"out.{ending}"

    def full(*_: Any) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patched:
        patched.setattr(os, call, full)
        with pytest.raises(tracer.StorageError, match="No space left"):
            OUTER.into(path)(X, Y)
    assert [*tmp_path.iterdir()] == []
    np.testing.assert_allclose(OUTER.into(path)(X, Y), EXPECTED, rtol=1e-12)


def test_an_error_of_the_program_leaves_nothing(tmp_path: Path) -> None:
    def check(x: Any) -> Any:
        raise ValueError("no")

    failing = tracer.compile(
        lambda x: x + tracer.pure_callback(check, tracer.ShapeDtype((), "float64"), x[0])
    )
    with pytest.raises(ValueError, match="no"):
        failing.into(tmp_path / "out.npy")(X)
    assert [*tmp_path.iterdir()] == []


def test_two_calls_do_not_write_to_one_path(tmp_path: Path) -> None:
    first = Sink(tmp_path / "out.npy", tracer.ShapeDtype((3,), "float64"))
    with pytest.raises(tracer.StorageError, match="another call, or another process"):
        Sink(tmp_path / "out.npy", tracer.ShapeDtype((3,), "float64"))
    first.give_up()
    assert [*tmp_path.iterdir()] == []


def test_a_file_that_others_make_meanwhile_stays(tmp_path: Path) -> None:
    path, type = tmp_path / "out.npy", tracer.ShapeDtype((3,), "float64")
    result = Result(path, type.shape, type.dtype)
    path.write_text("made before it began")
    with pytest.raises(tracer.StorageError, match="exists"):
        result.begin()
    path.unlink()
    sink = Sink(path, type)
    sink.write((0,), np.ones(3))
    path.write_text("made since")
    with pytest.raises(tracer.StorageError, match="exists"):
        sink.finish()
    sink.give_up()
    assert path.read_text() == "made since"
    assert [*tmp_path.iterdir()] == [path]


@pytest.mark.parametrize("ending", ["npy", "zarr", "h5"])
def test_what_was_written_before_the_first_checkpoint_is_written_anew(
    tmp_path: Path, ending: str
) -> None:
    """A process that was killed leaves an hdf5 file that cannot be opened."""
    (tmp_path / "kept").mkdir()
    run = Run("key", tmp_path / "kept", seconds=60)
    path = tmp_path / f"out.{ending}"
    partial_path(path, run).write_bytes(b"cut short")
    sink = Sink(path, tracer.ShapeDtype((3,), "float64"), run)
    sink.write((0,), np.ones(3))
    sink.finish()
    np.testing.assert_array_equal(tracer.open(path), np.ones(3))


_SLOW = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # A shell's background ignores it.
import numpy as np, tracer, tracer.numpy as tnp
class Slow:
    shape, dtype = (200, 1000), np.dtype("float64")
    def __getitem__(self, index):
        time.sleep(0.02)
        return np.ones(self.shape)[index]
double = tracer.compile(lambda x: x * 2, memory_limit="60kB")
double.into(sys.argv[2]).plan(tracer.open(Slow()))
print("begins", flush=True)
try:
    double.into(sys.argv[1])(tracer.open(Slow()))
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def _begun(folder: Path) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-c", _SLOW, str(folder / "out.npy"), str(folder / "no.npy")]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "begins\n"
    deadline = time.monotonic() + 30
    while not (folder / "out.npy.tracer-partial").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    return process


@pytest.mark.process
def test_a_killed_process_leaves_no_result_and_the_next_one_writes_it(tmp_path: Path) -> None:
    process = _begun(tmp_path)
    time.sleep(0.1)
    process.kill()
    process.communicate()
    assert not (tmp_path / "out.npy").exists()
    found = tracer.compile(lambda x: x + 1).into(tmp_path / "out.npy")(X)
    np.testing.assert_array_equal(found, X + 1)
    assert [item.name for item in tmp_path.iterdir()] == ["out.npy"]


@pytest.mark.process
def test_ctrl_c_ends_a_call_soon_and_leaves_nothing(tmp_path: Path) -> None:
    process = _begun(tmp_path)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert "interrupted" in out
    assert [*tmp_path.iterdir()] == []
