"""Direct reads: the same values, which files, and what happens where there are none."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tracer
from tests.storage.files import points, stored
from tracer.errors import StorageError
from tracer.ir.storage import PAGE
from tracer.storage import direct, sources
from tracer.storage.ahead import SPARE, space
from tracer.storage.direct import LEAST_DIRECT, DirectReads
from tracer.storage.sources import RawFile

LIMIT = "2MB"
ROWS = 60_001


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What direct reads returned."""
    found, usual = list[Any](), DirectReads.read

    def noted(self: DirectReads, pages: Any, position: int, nbytes: int) -> int | None:
        found.append(usual(self, pages, position, nbytes))
        return found[-1]

    monkeypatch.setattr(DirectReads, "read", noted)
    return found


def _require_direct(folder: Path) -> None:
    (folder / "tried").write_bytes(bytes(PAGE))
    try:
        os.close(os.open(folder / "tried", os.O_RDONLY | os.O_DIRECT))
    except OSError:
        pytest.skip("the file system of the tests has no direct reads")


@pytest.mark.xla
@pytest.mark.parametrize("features", [1, 3, 20, 1024])
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_blocks_are_the_same(tmp_path: Path, read: list[Any], features: int, dtype: str) -> None:
    _require_direct(tmp_path)
    rows = max(ROWS, (4 << 20) // features) if features < 1024 else 4001
    x = (points(rows, features) * 9).astype(dtype)
    f = tracer.compile(lambda x: (x * x).sum(0), memory_limit=LIMIT)
    np.testing.assert_array_equal(f(stored(tmp_path, x, direct=True)), f(stored(tmp_path, x)))
    assert sum(place is not None for place in read) >= 3


@pytest.mark.parametrize("start", [0, 1, 127, 4000])
def test_every_byte_is_where_it_belongs(tmp_path: Path, start: int) -> None:
    _require_direct(tmp_path)
    whole = np.random.default_rng(0).integers(0, 256, (3 * LEAST_DIRECT + 77,), np.uint8)
    (tmp_path / "x").write_bytes(b"x" * start + whole.tobytes())
    file = RawFile(tmp_path / "x", start, whole.shape, np.uint8, direct=True)
    for first in (0, 1, PAGE - start, LEAST_DIRECT, whole.size - LEAST_DIRECT - 1):
        count = LEAST_DIRECT + 1
        memory = space((count + SPARE,), np.dtype(np.uint8))
        block = file.fill_within(memory, (first,), (count,))
        assert np.shares_memory(block, memory)
        assert (block.ctypes.data - start - first) % PAGE == 0
        np.testing.assert_array_equal(block, whole[first : first + count])


def test_files_that_memory_cannot_keep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _require_direct(tmp_path)
    x = points(1000)
    np.save(tmp_path / "x.npy", x)

    def is_direct(**options: Any) -> bool:
        return tracer.open(tmp_path / "x.npy", **options)._source._direct is not None

    assert not is_direct()
    assert is_direct(direct=True)
    monkeypatch.setattr(sources, "free_bytes", lambda: x.nbytes)
    assert is_direct()
    assert not is_direct(direct=False)
    assert tracer.open(np.load(tmp_path / "x.npy", mmap_mode="r"))._source._direct is not None


def test_numbers_that_lie_across_their_own_size(tmp_path: Path) -> None:
    """A memmap may begin at any byte: such blocks would be no arrays of their dtype."""
    (tmp_path / "x").write_bytes(bytes(4001))
    assert RawFile(tmp_path / "x", 1, (1000,), "float32", direct=True)._direct is None


def test_parts_of_several_rows_are_read_as_usual(tmp_path: Path, read: list[Any]) -> None:
    """They are no piece of the file."""
    x = points(4, 400_000)
    source: Any = stored(tmp_path, x, direct=True)._source
    memory = space((2 * 4 * 100_000 + SPARE,), np.dtype(np.uint8))
    found = source.fill_within(memory, (1, 5), (2, 100_000))
    np.testing.assert_array_equal(found, x[1:3, 5:100_005])
    assert not read


@pytest.mark.xla
def test_without_direct_reads_it_reads_as_usual(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = points(ROWS, 20)
    f = tracer.compile(lambda x: x.sum(0), memory_limit=LIMIT)
    wanted = f(stored(tmp_path, x))
    refused = OSError(errno.EINVAL, "Invalid argument")
    usual = os.preadv

    def of_other_pages(file: int, views: list[Any], position: int) -> int:
        if position % PAGE == 0:
            raise refused
        return usual(file, views, position)

    with monkeypatch.context() as patched:
        patched.setattr(direct.os, "preadv", of_other_pages)
        np.testing.assert_array_equal(f(stored(tmp_path, x, direct=True)), wanted)
    monkeypatch.delattr(direct.os, "O_DIRECT")
    np.testing.assert_array_equal(f(stored(tmp_path, x, direct=True)), wanted)


@pytest.mark.xla
def test_errors_name_file_and_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _require_direct(tmp_path)
    x = points(ROWS, 20)
    f = tracer.compile(lambda x: x.sum(0), memory_limit=LIMIT)
    f(stored(tmp_path, x, "other.npy"))
    opened = stored(tmp_path, x, direct=True)

    def broken(file: int, views: list[Any], position: int) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched:
        patched.setattr(direct.os, "preadv", broken)
        with pytest.raises(StorageError) as raised:
            f(opened)
    assert "x.npy at byte" in str(raised.value)
    assert "Input/output error" in str(raised.value)
    np.testing.assert_array_equal(f(opened), f(stored(tmp_path, x, "other.npy")))


def test_a_file_that_ends_early(tmp_path: Path) -> None:
    _require_direct(tmp_path)
    opened = stored(tmp_path, points(ROWS, 20), direct=True)
    source: Any = opened._source
    os.truncate(tmp_path / "x.npy", 2_000_000)
    source.version = source._stat()  # as if it were cut short while it is read
    memory = space((4_000_000 + SPARE,), np.dtype(np.uint8))
    with pytest.raises(StorageError, match="ends at byte 2,000,000"):
        source.fill_within(memory, (0, 0), (50_000, 20))


def test_another_file_of_the_same_name_is_not_read(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.zeros((1000, 20)))
    with open(tmp_path / "x.npy", "rb") as file:
        assert DirectReads(tmp_path / "x.npy", file.fileno())._file is not None
        os.rename(tmp_path / "x.npy", tmp_path / "old.npy")
        np.save(tmp_path / "x.npy", np.ones((1000, 20)))
        assert DirectReads(tmp_path / "x.npy", file.fileno())._file is None


@pytest.mark.parametrize("short", [PAGE, 2 * PAGE, 5000])
def test_reads_that_end_early_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, short: int
) -> None:
    """As after a signal: at the end of a page directly, else through the cache."""
    _require_direct(tmp_path)
    x = np.random.default_rng(0).integers(0, 256, (1 << 20,), np.uint8)
    source: Any = stored(tmp_path, x, direct=True)._source
    usual, calls = os.preadv, list[int]()

    def cut(file: int, views: list[Any], position: int) -> int:
        calls.append(file)
        is_first = file == source._direct._file and len(calls) == 1
        return (
            min(short, usual(file, views, position)) if is_first else usual(file, views, position)
        )

    monkeypatch.setattr(direct.os, "preadv", cut)
    memory = space((900_000 + SPARE,), np.dtype(np.uint8))
    found = source.fill_within(memory, (77,), (900_000,))
    np.testing.assert_array_equal(found, x[77:900_077])
    is_direct = [file == source._direct._file for file in calls]
    assert is_direct == ([True, True] if short % PAGE == 0 else [True, False])
