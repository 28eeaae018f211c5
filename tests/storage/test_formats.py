"""Parquet files, and files by URL."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import fsspec
import h5py
import numpy as np
import pyarrow as pa
import pytest
import zarr

import tracer
import tracer.numpy as tnp
from tests.storage.files import parquet, points
from tracer.storage.parquet import ParquetColumns

NAMES = ("b", "a", "c")


@pytest.mark.xla
@pytest.mark.parametrize("group", [1, 700, 5000])
def test_programs_of_columns(tmp_path: Path, group: int) -> None:
    x = points(3000 if group > 1 else 40, 3)
    opened = tracer.open(parquet(tmp_path, x, group))
    assert opened.shape == x.shape
    total = tracer.compile(lambda x: (x.mean(0), x.T @ tnp.tanh(x)), memory_limit="20kB")
    for found, wanted in zip(total(opened), (x.mean(0), x.T @ np.tanh(x)), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("dtype", ["float64", "int8", "uint32", "bool", "float16"])
def test_any_part_is_numpys(tmp_path: Path, dtype: str) -> None:
    x = np.arange(3000).reshape(1000, 3).astype(dtype)
    path = parquet(tmp_path, x, 130)
    rng = np.random.default_rng(0)
    several, one = tracer.open(path, NAMES), tracer.open(path, "c")
    picked = x[:, [1, 0, 2]]
    for _ in range(20):
        start, stop = sorted(rng.integers(0, 1001, 2))
        first, last = sorted(rng.integers(0, 4, 2))
        np.testing.assert_array_equal(
            several[start:stop, first:last], picked[start:stop, first:last]
        )
        np.testing.assert_array_equal(one[start:stop], x[start:stop, 2])
    places = rng.integers(0, 1000, 50)
    np.testing.assert_array_equal(several.rows(places), picked[places])
    np.testing.assert_array_equal(one.rows(places), x[places, 2])


def test_each_row_group_is_decoded_once_by_who_reads_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, made = points(3000, 3), list[int]()
    opened = tracer.open(parquet(tmp_path, x))
    made_before = ParquetColumns._file
    monkeypatch.setattr(
        ParquetColumns, "_file", lambda self: (made.append(1), made_before(self))[1]
    )
    for start in range(0, 3000, 250):
        np.testing.assert_array_equal(opened[start : start + 250], x[start : start + 250])
    assert len(made) == 1
    assert not opened._source._idle  # type: ignore[attr-defined]  # What ended has a row group.
    opened.rest()
    assert opened[2999:].shape == (1, 3)
    assert len(made) == 2


def test_empty_elements(tmp_path: Path) -> None:
    path = parquet(
        tmp_path, points(4, 3), f=pa.array([1.0, None, 3.0, 4.0]), i=pa.array([1, None, 3, 4])
    )
    np.testing.assert_array_equal(tracer.open(path, "f"), [1, np.nan, 3, 4])
    with pytest.raises(tracer.StorageError, match=r"column 'i'.*has empty elements"):
        np.asarray(tracer.open(path, "i"))


def test_refusals(tmp_path: Path) -> None:
    path = parquet(tmp_path, points(4, 3), words=["x"] * 4, d=np.arange(4.0))
    with pytest.raises(tracer.StorageError, match="several types: a float, b float"):
        tracer.open(path)
    with pytest.raises(tracer.StorageError, match="no column 'e'"):
        tracer.open(path, ["a", "e"])
    with pytest.raises(tracer.StorageError, match="named twice"):
        tracer.open(path, ["a", "a"])
    with pytest.raises(tracer.StorageError, match=r"'words'.*which is no number"):
        tracer.open(path, "words")
    opened = tracer.open(path, ["a", "b"])
    path.write_bytes(b"PAR1")
    with pytest.raises(tracer.StorageError, match="was changed after it was opened"):
        np.asarray(opened)
    with pytest.raises(tracer.StorageError, match="cannot be read as a parquet file"):
        tracer.open(path)


def test_a_damaged_page_is_an_error_with_its_row(tmp_path: Path) -> None:
    path = parquet(tmp_path, points(3000, 3))
    opened = tracer.open(path)
    stat = path.stat()
    with path.open("r+b") as file:
        file.seek(stat.st_size // 2)
        file.write(b"\xff" * 2000)
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    with pytest.raises(tracer.StorageError, match=r"cannot read .*x\.parquet at row"):
        np.asarray(opened)


# By URL.


@pytest.fixture
def remote() -> Any:
    """A file system in memory."""
    system = fsspec.filesystem("memory")
    yield system
    for name in system.ls("/", detail=False):
        system.rm(name, recursive=True)


@pytest.mark.xla
def test_numpys_format_by_url(remote: Any) -> None:
    x = points(3000, 3)
    with remote.open("/x.npy", "wb") as file:
        np.save(file, x)
    opened = tracer.open("memory://x.npy")
    total = tracer.compile(lambda x, i: (x.mean(0), x[i]), memory_limit="20kB")
    places = np.array([5, 2999, 5])
    for found, wanted in zip(total(opened, places), (x.mean(0), x[places]), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-6)
    with remote.open("/x.npy", "wb") as file:
        np.save(file, x[:100])
    with pytest.raises(tracer.StorageError, match="ends at byte"):
        total(opened, places)


def test_other_formats_by_url(remote: Any, tmp_path: Path) -> None:
    x = points(50, 3)
    remote.put(str(parquet(tmp_path, x)), "/x.parquet")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"] = x
    remote.put(str(tmp_path / "x.h5"), "/x.h5")
    zarr.save_array(tmp_path / "x.zarr", x)
    for url in ("memory://x.parquet", "memory://x.h5", f"file://{tmp_path}/x.zarr"):
        np.testing.assert_array_equal(tracer.open(url)[3:40], x[3:40])
    np.testing.assert_array_equal(tracer.open("memory://x.parquet", "b"), x[:, 1])


def test_urls_that_are_none(remote: Any) -> None:
    with pytest.raises(tracer.StorageError, match="there is no file"):
        tracer.open("memory://y.npy")
    with pytest.raises(tracer.StorageError, match="cannot be opened"):
        tracer.open("nowhere://y.npy")
    remote.pipe("/x.npy", b"no array")
    with pytest.raises(tracer.StorageError, match="cannot be read as NumPy's format"):
        tracer.open("memory://x.npy")
    remote.pipe("/x.txt", b"no array")
    with pytest.raises(tracer.StorageError, match="of no format"):
        tracer.open("memory://x.txt")


@pytest.mark.parametrize("name", ["header.npy", "cut.h5", "changed.h5"])
def test_damaged_files_are_storage_errors(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    if path.suffix == ".npy":
        np.save(path, np.ones(3))
        path.write_bytes(path.read_bytes().replace(b"{'descr'", b"{('descr"))
    else:
        with h5py.File(path, "w") as file:
            file["data"] = np.ones(3)
        content = path.read_bytes()
        is_cut = name == "cut.h5"
        path.write_bytes(content[:900] if is_cut else content.replace(b"SNOD", b"SNOX"))
    with pytest.raises(tracer.StorageError, match="cannot be read as"):
        tracer.open(path)
