"""`tracer.open`: arrays in storage by their path, or by an object that can be sliced."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tracer.errors import StorageError
from tracer.storage import urls
from tracer.storage.parquet import ParquetColumns
from tracer.storage.sources import (
    ColumnFile,
    RawFile,
    Sliceable,
    Source,
    imported,
    readable,
    version_of,
)
from tracer.storage.stored import StoredArray


def open(  # noqa: A001 - as files are
    source: Any, dataset: str | Sequence[str] | None = None, *, direct: bool | None = None
) -> StoredArray:
    """Open an array in storage, for compiled functions.

    Parameters
    ----------
    source : str, path or array
        A `.npy` file, a zarr array (`.zarr`), an hdf5 file (`.h5`, `.hdf5`) or a parquet file
        (`.parquet`), by its path or a URL (`s3://...`, `https://...`: what fsspec knows); or an
        object with `shape`, `dtype` and slicing: `np.memmap`, an array of zarr, a dataset of h5py.
        Compiled functions take these as they are, and objects that no other protocol hands over.
    dataset : str or sequence of str, optional
        Which one of an hdf5 file or of a zarr group. Of a parquet file the columns: one by its
        name is an array with one axis, several or all (None) are the second axis.
    direct : bool, optional
        Whether large blocks of a `.npy` file or memmap are read past the system's page cache, in a
        tenth of the processor time. None: if the file has more bytes than memory is free, so that
        the cache could not keep it for the next call. Where the file system has no such reads,
        blocks are read as usual.

    Returns
    -------
    StoredArray
        It takes no memory. `x[a:b]` and `np.asarray(x)` read it.

    Raises
    ------
    StorageError
        There is no such file, it is cut short, or its format is not known.
    DTypeError
        Its elements are of no dtype that programs compute with.

    Examples
    --------
    >>> import numpy as np, tempfile, pathlib, tracer, tracer.numpy as tnp
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "points.npy"
    >>> np.save(path, np.arange(3000.0).reshape(1000, 3))
    >>> points = tracer.open(path)
    >>> mean = tracer.compile(lambda x: x.mean(0), memory_limit="10kB")
    >>> mean(points)
    Array([1498.5, 1499.5, 1500.5])
    """
    if isinstance(source, StoredArray):
        return source
    if isinstance(source, str) and "://" in source:
        return StoredArray(_of_url(source, dataset), (open, source, dataset))
    if isinstance(source, str | os.PathLike):
        path = Path(source).absolute()  # Some are opened again, by zarr even for each chunk.
        again = partial(open, direct=direct)
        return StoredArray(_of_path(path, dataset, direct), (again, path, dataset))
    if isinstance(source, np.memmap):
        return StoredArray(_of_memmap(source, direct))
    with readable(type(source).__name__, "an array", "give one of NumPy's dtypes, of an open file"):
        if all(hasattr(source, name) for name in ("shape", "dtype", "__getitem__")):
            return StoredArray(Sliceable(source, _name(source)))
    raise StorageError(
        f"cannot open {source!r} ({type(source).__name__})",
        mend="give a path, or an object with shape, dtype and slicing",
    )


def if_stored(leaf: Any) -> Any:
    """Return an argument of a call as a `StoredArray` if it is in storage, else as it is."""
    if isinstance(leaf, np.ndarray):
        return open(leaf) if isinstance(leaf, np.memmap) and leaf.ndim else leaf
    for module, name in (("zarr", "Array"), ("h5py", "Dataset")):
        kind = getattr(sys.modules.get(module), name, None)
        if kind is not None and isinstance(leaf, kind):
            return open(leaf)
    return open(leaf) if _can_only_be_sliced(leaf) else leaf


def _can_only_be_sliced(leaf: Any) -> bool:
    """Tell whether an argument is an array of a class of the user's that hands none over whole."""
    kind = type(leaf)
    if not hasattr(kind, "__getitem__") or any(hasattr(kind, name) for name in _WHOLE):
        return False
    return isinstance(getattr(leaf, "shape", None), tuple) and hasattr(leaf, "dtype")


_WHOLE = ("__array__", "__array_interface__", "__array_struct__", "__dlpack__")
"""The ways to hand over an array in memory; one that has any of them is converted by it."""


def _name(array: Any) -> str:
    return str(getattr(array, "name", None) or getattr(array, "path", None) or type(array).__name__)


Dataset = str | Sequence[str] | None


def _of_path(path: Path, dataset: Dataset, direct: bool | None) -> Source:
    if not path.exists():
        raise StorageError(f"there is no file {path}", mend="look at the path")
    ending = path.suffix.lower()
    if ending == ".npy":
        return _of_npy(path, direct)
    if ending == ".zarr":
        return _of_zarr(path, dataset)
    if ending in (".h5", ".hdf5"):
        return _of_hdf5(path, dataset)
    if ending in (".parquet", ".pq"):
        look = partial(version_of, path)
        return ParquetColumns(str(path), dataset, lambda: path, look(), look)
    raise _unknown(path, ending)


def _of_url(url: str, dataset: Dataset) -> Source:
    """Return what a URL has; parquet and hdf5 read through a file of fsspec's."""
    fsspec: Any = imported("fsspec", url)
    try:
        system, path = fsspec.core.url_to_fs(url)
    except (ValueError, ImportError) as error:
        raise StorageError(f"{url} cannot be opened: {error}", mend="look at the URL") from error
    ending = Path(path).suffix.lower()
    if ending == ".zarr":
        zarr = imported("zarr", url)
        with readable(url, "zarr"):
            found = _picked(zarr.open(url, mode="r"), url, dataset)
            return Sliceable(found, _named(url, dataset))
    version = urls.version_of(system, path)
    if ending == ".npy":
        return urls.RemoteFile(system, path, url, version)
    if ending in (".h5", ".hdf5"):
        h5py = imported("h5py", url)
        with readable(url, "hdf5"):
            found = _picked(h5py.File(system.open(path, "rb"), "r"), url, dataset)
            return Sliceable(found, _named(url, dataset))
    if ending in (".parquet", ".pq"):
        return ParquetColumns(url, dataset, lambda: system.open(path, "rb"), version)
    raise _unknown(url, ending)


def _unknown(place: str | Path, ending: str) -> StorageError:
    return StorageError(
        f"{place} is of no format that tracer.open knows by its ending {ending!r}",
        mend="give a .npy, .zarr, .h5 or .parquet file, or open it yourself and give the array",
    )


def _of_npy(path: Path, direct: bool | None) -> Source:
    with readable(path, "NumPy's format", "write it with np.save"):
        mapped = np.load(path, mmap_mode="r", allow_pickle=False)
    if not isinstance(mapped, np.ndarray):
        raise StorageError(
            f"{path} is an archive of several arrays, as np.savez writes them",
            mend="write each to a file of its own, with np.save",
        )
    if not isinstance(mapped, np.memmap) or not mapped.size:
        return Sliceable(mapped, str(path), path)
    return _file_of(mapped, path, direct)


def _of_memmap(array: np.memmap[Any, Any], direct: bool | None) -> Source:
    """Return a source that reads the file, if that has what the array shows; else the map."""
    is_whole = not isinstance(array.base, np.ndarray) and array.mode != "c"
    is_plain = array.flags.c_contiguous or array.flags.f_contiguous
    if is_whole and is_plain and array.size and _is_of_its_file(array):
        return _file_of(array, str(array.filename), direct)
    return Sliceable(array, str(array.filename))


def _file_of(
    array: np.memmap[Any, Any], path: str | os.PathLike[str], direct: bool | None
) -> Source:
    if array.flags.c_contiguous:
        return RawFile(path, array.offset, array.shape, array.dtype, direct)
    return ColumnFile(RawFile(path, array.offset, array.shape[::-1], array.dtype, direct))


def _is_of_its_file(array: np.memmap[Any, Any]) -> bool:
    """Tell whether the file of that name is the mapped one: another may have taken its place."""
    try:
        found = os.stat(str(array.filename))
        maps = Path("/proc/self/maps").read_text()
    except OSError:
        return False
    address = array.ctypes.data
    for line in maps.splitlines():
        pages, _, _, device, inode, *_ = line.split()
        first, last = (int(text, 16) for text in pages.split("-"))
        if first <= address < last:
            major, minor = (int(text, 16) for text in device.split(":"))
            return (os.makedev(major, minor), int(inode)) == (found.st_dev, found.st_ino)
    return False


def _of_zarr(path: Path, dataset: Dataset) -> Source:
    zarr = imported("zarr", path)
    with readable(path, "zarr"):
        found = _picked(zarr.open(str(path), mode="r"), path, dataset)
        return Sliceable(found, _named(path, dataset), path / found.path)


def _of_hdf5(path: Path, dataset: Dataset) -> Source:
    h5py = imported("h5py", path)
    with readable(path, "hdf5"):
        found = _picked(h5py.File(path, "r"), path, dataset)
        return Sliceable(found, _named(path, dataset), path)


def _named(path: Path | str, dataset: Dataset) -> str:
    return str(path) if dataset is None else f"{path}, {dataset!r}"


def _picked(found: Any, path: Path | str, dataset: Dataset) -> Any:
    """Return the array of a group: the named one, or the only one."""
    if dataset is not None:
        try:
            found = found[dataset]
        except KeyError as error:
            raise StorageError(
                f"{path} has no {dataset!r}", mend=f"it has {', '.join(sorted(found))}"
            ) from error
    named = _named(path, dataset)
    if hasattr(found, "shape"):
        if found.shape is None:  # hdf5 has such ones.
            raise StorageError(f"{named} is an empty dataset", mend="choose another one")
        return found
    names = sorted(found)
    if dataset is None and len(names) == 1 and hasattr(found[names[0]], "shape"):
        return found[names[0]]
    inside = [name if dataset is None else f"{dataset}/{name}" for name in names]
    raise StorageError(
        f"{named} is a group, {'of ' + ', '.join(inside) if inside else 'which is empty'}",
        mend="say which array, as in tracer.open(path, 'group/name')",
    )


__all__ = ["if_stored", "open"]
