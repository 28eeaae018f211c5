"""Results that are written past the page cache."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tracer
from tests.storage.files import points
from tracer.ir.storage import PAGE
from tracer.storage import Sink, direct, targets

LARGE = 1 << 19


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the bytes that are written directly, of results however small."""
    found: list[int] = []
    write = direct.DirectWrites.write

    def counted(self: Any, *args: Any) -> int:
        found.append(write(self, *args))
        return found[-1]

    monkeypatch.setattr(targets, "_LEAST_PAST_CACHE", 0)
    monkeypatch.setattr(direct.DirectWrites, "write", counted)
    return found


def _store(path: Path, array: np.ndarray[Any, Any], rows: int) -> None:
    sink = Sink(path, tracer.ShapeDtype(array.shape, array.dtype))
    for start in range(0, len(array), rows):
        sink.write((start, 0), array[start : start + rows])
    sink.finish()


def _load(path: Path) -> np.ndarray[Any, Any]:
    if path.suffix == ".npy":
        return np.load(path)
    h5py = pytest.importorskip("h5py")
    with h5py.File(path) as file:
        return np.array(file["data"])


@pytest.mark.parametrize("ending", [".npy", ".h5"])
@pytest.mark.parametrize("dtype", ["float32", "int8", "complex128", "bool"])
@pytest.mark.parametrize(("columns", "rows"), [(4096, 256), (37, 50_001), (1001, 700), (3, 10)])
def test_blocks_wherever_they_begin_in_a_page(
    tmp_path: Path, written: list[int], dtype: str, columns: int, rows: int, ending: str
) -> None:
    array = np.random.default_rng(0).integers(0, 2, (3 * rows + 5, columns)).astype(dtype)
    _store(tmp_path / f"out{ending}", array, rows)
    np.testing.assert_array_equal(_load(tmp_path / f"out{ending}"), array)
    block = rows * columns * array.itemsize
    is_direct = block >= direct.LEAST_DIRECT + PAGE and _has_direct(tmp_path)
    assert sum(written) >= (3 * (block - 2 * PAGE) if is_direct else 0)
    assert all(count % PAGE == 0 for count in written)


def _has_direct(folder: Path) -> bool:
    path = folder / "probe"
    path.write_bytes(b"")
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_DIRECT))
    except (OSError, AttributeError):
        return False
    return True


def test_a_device_that_has_none(
    tmp_path: Path, written: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.pwrite

    def refused(file: int, data: Any, position: int) -> int:
        if fcntl.fcntl(file, fcntl.F_GETFL) & os.O_DIRECT:
            raise OSError(errno.EINVAL, "Invalid argument")
        return real(file, data, position)

    monkeypatch.setattr(os, "pwrite", refused)
    array = points(3000, 300)
    _store(tmp_path / "out.npy", array, 1000)
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), array)
    assert sum(written) == 0


def test_a_write_that_ends_within_a_page(
    tmp_path: Path, written: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    real, lengths = os.pwrite, iter([PAGE, 1000])
    monkeypatch.setattr(
        os, "pwrite", lambda file, data, at: real(file, data[: next(lengths, None)], at)
    )
    array = points(3000, 300)
    _store(tmp_path / "out.npy", array, 1000)
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), array)


def test_elements_begin_with_a_page_and_numpy_reads_the_header(tmp_path: Path) -> None:
    array = points(LARGE // 8, 2)
    _store(tmp_path / "out.npy", array, len(array))
    mapped = np.load(tmp_path / "out.npy", mmap_mode="r")
    assert mapped.offset == PAGE
    np.testing.assert_array_equal(mapped, array)
    np.testing.assert_array_equal(tracer.open(tmp_path / "out.npy")[:], array)


def test_a_disk_that_is_full_meanwhile(
    tmp_path: Path, written: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    sink = Sink(tmp_path / "out.npy", tracer.ShapeDtype((3000, 300), "float32"))
    sink.write((0, 0), points(1000, 300))
    with pytest.raises(tracer.StorageError, match="No space left"):
        sink.write((1000, 0), points(1000, 300))
    sink.give_up()
    assert [*tmp_path.iterdir()] == []
