"""Arrays in files for the tests, and arrays in storage that only exist in Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py  # noqa: F401 - here, since importing it for the first time starts a process
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import tracer


def points(rows: int = 3000, features: int = 5, dtype: str = "float32", seed: int = 0) -> Any:
    """Return random points."""
    return np.random.default_rng(seed).standard_normal((rows, features)).astype(dtype)


def stored(folder: Path, array: Any, name: str = "x.npy", **options: Any) -> tracer.StoredArray:
    """Write an array to a file of NumPy's format, and open it."""
    np.save(folder / name, array)
    return tracer.open(folder / name, **options)


def parquet(folder: Path, array: Any, group: int = 700, **others: Any) -> Path:
    """Write columns a, b and c, and others, in row groups of so many rows."""
    columns = {name: array[:, i] for i, name in enumerate("abc")}
    pq.write_table(pa.table({**columns, **others}), folder / "x.parquet", row_group_size=group)
    return folder / "x.parquet"


class Watched:
    """An array that can be sliced, and notes the blocks that are read."""

    def __init__(self, array: Any) -> None:
        self.array, self.read = array, list[tuple[slice, ...]]()
        self.shape, self.dtype = array.shape, array.dtype

    def __getitem__(self, index: Any) -> Any:
        self.read.append(index)
        return self.array[index]

    @property
    def rows_read(self) -> int:
        """How many rows were read, all reads together."""
        return sum(index[0].stop - index[0].start for index in self.read)
