"""Which arrays in storage are taken, by whom, and what is said to others."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import zarr

import tracer
import tracer.numpy as tnp
from tests.storage.files import Watched, parquet, points, stored

MEAN = tracer.compile(lambda x: x.mean(0), memory_limit="100kB")


def _memmap(folder: Path, array: Any, **options: Any) -> np.memmap[Any, Any]:
    array.tofile(folder / "raw")
    return np.memmap(folder / "raw", array.dtype, "r", **options)


def _zarr(folder: Path, array: Any) -> Any:
    made = zarr.create_array(
        str(folder / "x.zarr"), shape=array.shape, dtype=array.dtype, chunks=(70, 2)
    )
    made[:] = array
    return made


def _hdf5(folder: Path, array: Any) -> Any:
    return h5py.File(folder / "x.h5", "w").create_dataset("points", data=array)


SOURCES = {
    "npy": lambda folder, x: stored(folder, x),
    "memmap": lambda folder, x: _memmap(folder, x, shape=x.shape),
    "memmap behind a header": lambda folder, x: _memmap(
        folder, np.concatenate([x[:2], x]), shape=x.shape, offset=2 * x[0].nbytes
    ),
    "part of a memmap": lambda folder, x: _memmap(
        folder, np.concatenate([x[:2], x]), shape=(len(x) + 2, x.shape[1])
    )[2:],
    "memmap by columns": lambda folder, x: _memmap(
        folder, np.ascontiguousarray(x.T), shape=x.shape, order="F"
    ),
    "turned memmap": lambda folder, x: (
        _memmap(folder, np.ascontiguousarray(x.T), shape=x.shape[::-1]).T
    ),
    "other byte order": lambda folder, x: stored(folder, x.astype(">f4")),
    "npy by columns": lambda folder, x: stored(folder, np.asfortranarray(x)),
    "zarr": _zarr,
    "hdf5": _hdf5,
    "anything that can be sliced": lambda _, x: tracer.open(Watched(x)),
}


@pytest.mark.xla
@pytest.mark.parametrize("kind", SOURCES)
def test_every_kind_is_read(tmp_path: Path, kind: str) -> None:
    x = points(2000, 6)
    given = SOURCES[kind](tmp_path, x)
    np.testing.assert_allclose(MEAN(given), x.mean(0), rtol=1e-5, atol=1e-6)
    plan = tracer.compile(lambda x: x.mean(0), memory_limit="20kB").plan(given)
    assert any("reads argument 0" in note for note in plan.notes)


@pytest.mark.xla
def test_a_memmap_has_what_it_shows_and_not_what_its_file_has(tmp_path: Path) -> None:
    """Private changes are in no file, and another file may have taken the place of the mapped."""
    x = points(2000, 6)
    x.tofile(tmp_path / "private")
    private = np.memmap(tmp_path / "private", x.dtype, "c", shape=x.shape)
    private[:1000] = 7
    np.testing.assert_allclose(MEAN(private), np.asarray(private).mean(0), rtol=1e-5)
    shared = np.memmap(tmp_path / "private", x.dtype, "r+", shape=x.shape)
    shared[:100] = 3
    np.testing.assert_allclose(MEAN(shared), np.asarray(shared).mean(0), rtol=1e-5)
    mapped = _memmap(tmp_path, x, shape=x.shape)
    (x * 2).tofile(tmp_path / "other")
    (tmp_path / "other").rename(tmp_path / "raw")
    np.testing.assert_allclose(MEAN(mapped), x.mean(0), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", ">i2", ">c8"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_any_part_of_a_file_of_any_order(tmp_path: Path, dtype: str, order: Any) -> None:
    """Without a map: its pages would be resident, and it ends the process if the file is cut."""
    rng = np.random.default_rng(0)
    for shape in ((70,), (60, 7), (12, 1, 5, 6)):
        x = np.asarray(rng.integers(-900, 900, shape), dtype, order)
        opened = stored(tmp_path, x)
        for _ in range(20):
            ends = [sorted(rng.integers(0, size + 1, 2)) for size in shape]
            part = tuple(slice(*pair) for pair in ends)
            np.testing.assert_array_equal(opened[part], x[part])
        places = rng.integers(0, shape[0], 9)
        np.testing.assert_array_equal(opened.rows(places), x[places])
        assert opened[:].dtype.isnative
    assert str(tmp_path) not in Path("/proc/self/maps").read_text()


@pytest.mark.parametrize("ending", ["zarr", "h5"])
def test_files_are_opened_by_their_names(tmp_path: Path, ending: str) -> None:
    x = points(200)
    if ending == "zarr":
        _zarr(tmp_path, x)
    else:
        _hdf5(tmp_path, x).file.close()
    opened = tracer.open(tmp_path / f"x.{ending}")
    assert repr(opened).startswith("StoredArray(float32[200,5]")
    np.testing.assert_array_equal(opened, x)
    if ending == "h5":
        assert tracer.open(tmp_path / "x.h5", "points").shape == x.shape
        with pytest.raises(tracer.StorageError, match="it has points"):
            tracer.open(tmp_path / "x.h5", "others")


def test_pages_of_a_map_are_not_kept(tmp_path: Path) -> None:
    """They count as resident, and nobody but the limit knows of one."""
    x = points(300_000, 6)
    mapped = _memmap(tmp_path, x, shape=x.shape)
    opened = tracer.open(mapped[::-2])
    np.testing.assert_array_equal(opened, x[::-2])
    lines = iter(Path("/proc/self/smaps").read_text().splitlines())
    for line in lines:
        if line.endswith(str(tmp_path / "raw")):
            assert next(row for row in lines if row.startswith("Rss:")).split()[1] == "0"
    shared = np.memmap(tmp_path / "raw", x.dtype, "r+", shape=x.shape)
    private = np.memmap(tmp_path / "raw", x.dtype, "c", shape=x.shape)
    for changed in (shared, private):
        changed[7] = 8
        half = tracer.open(changed[::7])
        np.testing.assert_array_equal(half[:2], half[:2])
        np.testing.assert_array_equal(changed[7], 8)


def test_datasets_of_hdf5_are_read_into_the_block(tmp_path: Path) -> None:
    """Not into an array of their own, which the heap keeps."""
    x = points(100)

    class Direct(Watched):
        def read_direct(self, block: Any, index: Any) -> None:
            block[...] = self.array[index]

    watched = Direct(x)
    np.testing.assert_array_equal(tracer.open(watched)[3:50, 1:4], x[3:50, 1:4])
    assert not watched.read
    for dtype in ("bool", ">i4", "complex64", "float16"):
        made = (10 * x).astype(dtype)
        file = h5py.File(tmp_path / f"{dtype[-2:]}.h5", "w")
        kept = file.create_dataset("x", data=made, chunks=(7, 3), compression="gzip")
        np.testing.assert_array_equal(tracer.open(kept)[3:50, 1:4], made[3:50, 1:4])
        np.testing.assert_array_equal(tracer.open(kept).rows(np.array([4, 2])), made[[4, 2]])


def test_which_array_of_a_file_is_said(tmp_path: Path) -> None:
    path = tmp_path / "x.h5"

    def refused(match: str, *names: str) -> None:
        with pytest.raises(tracer.StorageError, match=match):
            tracer.open(path, *names)

    h5py.File(path, "w").close()
    refused("is a group, which is empty")
    with h5py.File(path, "w") as file:
        file["g/a"] = file["g/b"] = np.ones(3)
    refused("is a group, of g\n")
    refused(r"'g' is a group, of g/a, g/b", "g")
    with h5py.File(path, "r+") as file:
        file["e"] = h5py.Empty("f4")
    refused("is a group, of e, g")
    refused("'e' is an empty dataset", "e")
    assert tracer.open(path, "g/b").shape == (3,)


@pytest.mark.xla
@pytest.mark.parametrize("ending", ["npy", "zarr", "h5", "parquet"])
def test_a_relative_path_is_that_of_the_folder_it_was_opened_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str
) -> None:
    """zarr opens each chunk by its path, and takes one that is not there for zeros."""
    x = points(2000, 3)
    if ending == "npy":
        np.save(tmp_path / "x.npy", np.asfortranarray(x))
    elif ending == "parquet":
        parquet(tmp_path, x)
    else:
        _zarr(tmp_path, x) if ending == "zarr" else _hdf5(tmp_path, x).file.close()
    monkeypatch.chdir(tmp_path)
    opened = tracer.open(f"x.{ending}")
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    np.testing.assert_allclose(MEAN(opened), x.mean(0), rtol=1e-5, atol=1e-6)
    assert opened.identity[-1] == tracer.open(tmp_path / f"x.{ending}").identity[-1]


@pytest.mark.parametrize("dtype", ["float64", "float16", "int32", "uint8", "bool", "complex64"])
def test_dtypes(tmp_path: Path, dtype: str) -> None:
    x = (10 * points(50)).astype(dtype)
    assert stored(tmp_path, x).dtype == np.dtype(dtype)
    np.testing.assert_array_equal(tnp.asarray(stored(tmp_path, x)), x)


def test_reading_a_part(tmp_path: Path) -> None:
    x = points(40).reshape(40, 5, 1)
    opened = stored(tmp_path, x)
    for index in (3, -1, slice(4, 9), (slice(None), 2), (..., 0), (5, slice(1, 3), 0), ()):
        np.testing.assert_array_equal(opened[index], x[index])
    assert (len(opened), opened.ndim, opened.size, opened.nbytes) == (40, 3, 200, 800)
    for wrong in (40, -41, (0, 0, 0, 0), slice(None, None, 2), [1, 2], True, None, 0.5):
        with pytest.raises(tracer.ArrayIndexError):
            opened[wrong]
    with pytest.raises(tracer.ArgumentError, match="is a copy"):
        np.asarray(opened, copy=False)
    with pytest.raises(tracer.DTypeError, match="0-d"):
        len(stored(tmp_path, np.array(3.0), "number.npy"))


@pytest.mark.xla
def test_eager_functions_refuse_it(tmp_path: Path) -> None:
    opened = stored(tmp_path, points(10))
    ours = (tnp.exp, tnp.sum, lambda x: tnp.ones(5) + x, lambda x: x * 2, tnp.linalg.inv)
    for use in (*ours, np.exp, np.sum, lambda x: np.ones(5, x.dtype) * x, lambda x: -x, abs):
        with pytest.raises(tracer.ArgumentError, match="is in storage") as caught:
            use(opened)
        assert "compiled function" in str(caught.value)


def test_it_cannot_be_closed_over(tmp_path: Path) -> None:
    opened = stored(tmp_path, points(10))
    with pytest.raises(tracer.ArgumentError, match="give it to a compiled function"):
        tracer.compile(lambda w: w @ opened)(np.ones(10, np.float32))
    with pytest.raises(tracer.TracingError, match="outermost"):
        tracer.compile(lambda w: MEAN(opened) + w)(np.float32(0))


def test_it_cannot_be_written_to(tmp_path: Path) -> None:
    def write(x: Any) -> Any:
        x[0] = 0
        return x.sum()

    with pytest.raises(tracer.TracingError, match="writes into an argument that is in storage"):
        tracer.compile(write)(stored(tmp_path, points(10)))


@pytest.mark.xla
def test_memmaps_are_copied_where_programs_cannot_read(tmp_path: Path) -> None:
    """Where shardings are stated, and in functions that are traced: as every array of NumPy's."""
    x = points(100, 4)
    mapped = _memmap(tmp_path, x, shape=x.shape)
    mesh = tracer.sharding.make_mesh((1,), ("data",))
    spread = tracer.sharding.PartitionSpec("data")
    total = tracer.compile(lambda x: x.sum(0), mesh=mesh, in_shardings=spread)
    np.testing.assert_allclose(total(mapped), x.sum(0), rtol=1e-5)
    outer = tracer.compile(lambda w: MEAN(mapped) * w)
    np.testing.assert_allclose(outer(np.float32(2)), 2 * x.mean(0), rtol=1e-5)
    with pytest.raises(tracer.UnsupportedError, match="in_shardings are for arrays in memory"):
        total(tracer.open(mapped))
    read = tracer.compile(lambda x: x.sum(0), mesh=mesh)
    np.testing.assert_allclose(read(mapped), x.sum(0), rtol=1e-5)


@pytest.mark.xla
def test_donating_it_means_nothing(tmp_path: Path) -> None:
    x = points(100)
    opened = stored(tmp_path, x)
    total = tracer.compile(lambda x: x.sum(), donate_argnums=0)
    assert total(opened) == total(opened) == pytest.approx(x.sum(), abs=1e-3)


@pytest.mark.xla
def test_objects_of_ones_own_are_read_in_blocks() -> None:
    x = points(20_000)
    own = Watched(x)
    np.testing.assert_allclose(MEAN(own), x.mean(0), rtol=1e-5)
    assert own.rows_read == len(x)
    assert max(index[0].stop - index[0].start for index in own.read) < len(x)


@pytest.mark.xla
def test_objects_that_hand_over_an_array_do_so() -> None:
    class Whole(Watched):
        def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
            return np.array(self.array, dtype)

    own = Whole(points(100))
    np.testing.assert_allclose(MEAN(own), own.array.mean(0), rtol=1e-5)
    assert not own.read


@pytest.mark.xla
def test_places_may_be_beyond_31_bits() -> None:
    class Long:
        shape, dtype = (2**31 + 4096, 1024), np.dtype(np.uint8)

        def __getitem__(self, index: Any) -> Any:
            return np.zeros((index[0].stop - index[0].start, 1024), np.uint8)

    compiled = tracer.compile(lambda x: x.max(0), memory_limit="4MB")
    reads = [
        node
        for outer in compiled.graph(tracer.open(Long())).nodes
        for body in outer.body_graphs
        for node in body.nodes
        if node.name == "read_stored"
    ]
    assert reads
    for node in reads:
        assert [str(type.dtype) for type in node.operand_types] == ["int32", "int64", "int64"]


@pytest.mark.xla
def test_types_of_it_are_planned_with(tmp_path: Path) -> None:
    x = points(100)
    pair = {"a": stored(tmp_path, x), "b": x}
    found = tracer.compile(lambda pair, scale: (pair["a"] - pair["b"]).sum() * scale)(pair, 2.0)
    assert found == 0


@pytest.mark.xla
def test_threads_that_read_with_one_program_get_their_own_numbers(tmp_path: Path) -> None:
    """Blocks are read into memory that is used again: not before the program has copied it."""
    total = tracer.compile(lambda x: x.sum(0), memory_limit="60kB")
    arrays = [np.full((20_000, 5), value, np.float32) for value in range(4)]
    opened = [stored(tmp_path, x, f"{i}.npy") for i, x in enumerate(arrays)]
    shared = stored(tmp_path, points(20_000), "shared.npy")
    total(opened[0])
    expected, wrong = np.asarray(total(shared)), []

    def run(i: int) -> None:
        for _ in range(10):
            if not np.array_equal(total(opened[i]), np.full(5, 20_000.0 * i, np.float32)):
                wrong.append(i)
            if not np.array_equal(total(shared), expected):
                wrong.append(-1)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.xla
@pytest.mark.parametrize("ending", ["zarr", "h5"])
def test_chunks_above_the_limit_are_refused_by_name(tmp_path: Path, ending: str) -> None:
    """They are decompressed whole, so no limit below them can be kept."""
    x, path = points(5000, 8), tmp_path / f"x.{ending}"
    if ending == "zarr":
        zarr.create_array(path, data=x, chunks=(2500, 8))
    else:
        with h5py.File(path, "w") as file:
            file.create_dataset("x", data=x, chunks=(2500, 8), compression="gzip")
    opened = tracer.open(path)
    total = tracer.compile(lambda x: x.sum(0), memory_limit="60kB")
    for call in (total, total.plan):
        with pytest.raises(tracer.StorageError, match=r"chunks of 80 kB, above memory_limit 60 kB"):
            call(opened)
    wider = tracer.compile(lambda x: x.sum(0), memory_limit="90kB")
    np.testing.assert_allclose(wider(opened), x.sum(0), rtol=1e-3, atol=1e-3)
