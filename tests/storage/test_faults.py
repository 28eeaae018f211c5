"""Files that are cut short, changed or cannot be read: an error with the file and the place."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import zarr

import tracer
from tests.storage.files import Watched, points, stored

pytestmark = pytest.mark.xla
TOTAL = tracer.compile(lambda x: x.sum(0), memory_limit="30kB")


def test_a_file_that_is_cut_short(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", points())
    whole = (tmp_path / "x.npy").read_bytes()
    (tmp_path / "x.npy").write_bytes(whole[:-100])
    with pytest.raises(tracer.StorageError, match=r"x\.npy"):
        tracer.open(tmp_path / "x.npy")
    (tmp_path / "x.npy").write_bytes(whole[:10])
    with pytest.raises(tracer.StorageError, match="cannot be read as NumPy's format"):
        tracer.open(tmp_path / "x.npy")


def test_a_file_that_is_cut_or_written_to_after_it_was_opened(tmp_path: Path) -> None:
    opened = stored(tmp_path, points())
    TOTAL(opened)
    os.truncate(tmp_path / "x.npy", 5000)
    with pytest.raises(tracer.StorageError, match=r"x\.npy was changed after it was opened"):
        TOTAL(opened)


def _shorter(path: Path) -> None:
    np.save(path, np.asfortranarray(points(2000)))


def _touched(path: Path) -> None:
    os.utime(path, (1, 1))


def _resized_zarr(path: Path) -> None:
    zarr.open_array(path, mode="r+").resize((999, 5))


CHANGES: dict[str, tuple[str, Callable[[Path], Any]]] = {
    "shorter, by columns": ("x.npy", _shorter),
    "written hdf5": ("x.h5", _touched),
    "resized zarr": ("x.zarr", _resized_zarr),
    "removed zarr": ("x.zarr", shutil.rmtree),
}


@pytest.mark.parametrize("name", CHANGES)
def test_every_format_that_is_changed_after_it_was_opened(tmp_path: Path, name: str) -> None:
    """zarr takes chunks that are not there any more for zeros, a map of a shorter file is fatal."""
    file, change = CHANGES[name]
    x, path = points(), tmp_path / file
    if path.suffix == ".zarr":
        zarr.create_array(path, shape=x.shape, dtype=x.dtype, chunks=(1000, 5))[:] = x
    elif path.suffix == ".h5":
        h5py.File(path, "w").create_dataset("x", data=x).file.close()
    else:
        np.save(path, np.asfortranarray(x))
    opened = tracer.open(path)
    np.testing.assert_allclose(TOTAL(opened), x.sum(0), rtol=1e-4)
    change(path)
    with pytest.raises(tracer.StorageError, match="was changed after it was opened"):
        TOTAL(opened)


def test_an_error_of_the_device_says_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = points()
    opened, read = stored(tmp_path, x), os.preadv

    def failing(file: int, buffers: Any, position: int) -> int:
        if position > 20_000:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return read(file, buffers, position)

    with monkeypatch.context() as patched:
        patched.setattr(os, "preadv", failing)
        with pytest.raises(
            tracer.StorageError, match=r"x\.npy at byte [\d,]+: Input/output"
        ) as found:
            TOTAL(opened)
    assert found.value.where is not None
    assert found.value.where.file == __file__
    np.testing.assert_allclose(TOTAL(opened), x.sum(0), rtol=1e-4)


def test_a_storage_that_fails_or_lies() -> None:
    class Failing(Watched):
        def __getitem__(self, index: Any) -> Any:
            if index[0].start > 1000:
                raise RuntimeError("no such chunk")
            return super().__getitem__(index)

    with pytest.raises(tracer.StorageError, match=r"cannot read \[.*no such chunk"):
        TOTAL(tracer.open(Failing(points())))

    class Short(Watched):
        def __getitem__(self, index: Any) -> Any:
            return super().__getitem__(index)[:-1]

    with pytest.raises(tracer.StorageError, match="gave an array of shape"):
        TOTAL(tracer.open(Short(points())))


def test_short_reads_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = points()
    opened, read = stored(tmp_path, x), os.preadv

    def few(file: int, buffers: Any, position: int) -> int:
        return read(file, [buffers[0][:97]], position)

    monkeypatch.setattr(os, "preadv", few)
    np.testing.assert_allclose(TOTAL(opened), x.sum(0), rtol=1e-4)


def test_a_dataset_of_a_closed_file(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        dataset = file.create_dataset("x", data=points())
        opened = tracer.open(dataset)
    for given in (dataset, opened):
        with pytest.raises(tracer.StorageError, match=r"cannot (be )?read"):
            TOTAL(given)


@pytest.mark.parametrize("what", ["nothing.npy", 3, None, "x.txt"])
def test_what_cannot_be_opened(tmp_path: Path, what: Any) -> None:
    (tmp_path / "x.txt").write_text("1 2 3")
    path = tmp_path / what if isinstance(what, str) else what
    with pytest.raises(tracer.StorageError):
        tracer.open(path)
    (tmp_path / "folder.npy").mkdir(exist_ok=True)
    with pytest.raises(tracer.StorageError, match=r"folder\.npy cannot be read: Is a directory"):
        tracer.open(tmp_path / "folder.npy")
    np.savez(tmp_path / "several.npz", a=points(3))
    (tmp_path / "several.npz").rename(tmp_path / "several.npy")
    with pytest.raises(tracer.StorageError, match="archive of several arrays"):
        tracer.open(tmp_path / "several.npy")
    np.save(tmp_path / "names.npy", np.array(["a", "b"]))
    with pytest.raises(tracer.DTypeError):
        tracer.open(tmp_path / "names.npy")
