"""Columns of a parquet file as an array in storage, read batch after batch."""

from __future__ import annotations

import bisect
import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from tracer.errors import StorageError
from tracer.ir.storage import AT_ONCE
from tracer.storage.sources import Array, Source, changed, imported, pick_by_runs

_MOST_CURSORS = 2
"""Kept between reads: each has about a row group in memory."""
_READ_BYTES = 1 << 18


class ParquetColumns(Source):
    """Columns of one dtype, or one column as an array with one axis.

    Rows are decoded in order. A read that goes on where an earlier one ended takes its decoder, so
    that each row group is decoded once by a program that reads from the beginning to the end.

    Parameters
    ----------
    name : str
        For errors.
    columns : str, sequence of str or None
        One column, several, or all.
    opened : callable
        Returns the file: a path, or an object that reads one. Each decoder has its own.
    version : tuple of int
        Other numbers once the file was changed.
    look : callable, optional
        Returns the version; asked at each read. None where that is dear.
    """

    def __init__(
        self,
        name: str,
        columns: str | Sequence[str] | None,
        opened: Callable[[], Any],
        version: tuple[int, ...],
        look: Callable[[], tuple[int, ...]] | None = None,
    ) -> None:
        self.name, self._opened, self.version, self._look = name, opened, version, look
        file = self._file()
        self._metadata, schema = file.metadata, file.schema_arrow
        self.columns = _chosen(name, schema.names, columns)
        self.dtype = _dtype(name, schema, self.columns)
        groups = map(self._metadata.row_group, range(self._metadata.num_row_groups))
        self._ends = [*itertools.accumulate(group.num_rows for group in groups)]
        rows = self._metadata.num_rows
        self.shape: tuple[int, ...] = (rows, len(self.columns))
        if isinstance(columns, str):
            self.shape = (rows,)
        self._lock = threading.Lock()
        self._idle: list[_Cursor] = []

    def _file(self) -> Any:
        pyarrow = imported("pyarrow.parquet", self.name)
        metadata = getattr(self, "_metadata", None)
        try:
            return pyarrow.parquet.ParquetFile(
                self._opened(),
                metadata=metadata,
                pre_buffer=False,
                buffer_size=_READ_BYTES,
                page_checksum_verification=True,
            )
        except (OSError, pyarrow.ArrowException) as error:
            raise StorageError(
                f"{self.name} cannot be read as a parquet file: {error}", mend="write it again"
            ) from error

    def fill(self, block: Array, starts: tuple[int, ...]) -> None:
        """Read a block, from these places on."""
        if self._look is not None and self._look() != self.version:
            raise changed(self.name)
        if not block.size:
            return
        first, columns = starts[0], self.columns
        if block.ndim > 1:
            columns = columns[starts[1] : starts[1] + block.shape[1]]
        cursor = self._at(first, columns)
        for part in cursor.read(len(block)):
            self._copy(part, columns, block.reshape(len(block), -1), cursor.row - first)
        if cursor.row < self.shape[0]:  # At the end it has its last row group for nobody.
            with self._lock:
                self._idle = [*self._idle, cursor][-_MOST_CURSORS:]

    def _copy(self, part: Any, names: Sequence[str], block: Array, end: int) -> None:
        for column, name in enumerate(names):
            values = part.column(name)
            if values.null_count and self.dtype.kind != "f":
                raise StorageError(
                    f"column {name!r} of {self.name} has empty elements, for "
                    f"which {self.dtype} has no number",
                    mend="fill them in, or store it as float64: there they are NaN",
                )
            block[end - part.num_rows : end, column] = values.to_numpy(zero_copy_only=False)

    def _at(self, row: int, columns: tuple[str, ...]) -> _Cursor:
        """Return a cursor that is at a row: an idle one, or a new one."""
        with self._lock:
            for cursor in self._idle:
                if (cursor.row, cursor.columns) == (row, columns):
                    self._idle.remove(cursor)
                    return cursor
        group = bisect.bisect_right(self._ends, row)
        before = self._ends[group - 1] if group else 0
        most = max(1, AT_ONCE // (self.dtype.itemsize * len(columns)))
        batches = self._file().iter_batches(
            batch_size=most,
            row_groups=range(group, len(self._ends)),
            columns=list(columns),
            use_threads=False,
        )
        cursor = _Cursor(self.name, batches, before, columns)
        for _ in cursor.read(row - before):
            pass
        return cursor

    def pick(self, block: Array, rows: Array) -> None:
        """Read these parts along the first axis; those of one row group together."""
        rest = (0,) * (block.ndim - 1)
        group = self._ends[0] if self._ends else 1
        pick_by_runs(block, rows, group, lambda part, first: self.fill(part, (first, *rest)))

    def rest(self) -> None:
        """Close what is kept for the next read."""
        with self._lock:
            self._idle.clear()


class _Cursor:
    """A decoder, and the row that it gives next."""

    def __init__(
        self, name: str, batches: Iterator[Any], row: int, columns: tuple[str, ...]
    ) -> None:
        self.name, self.row, self.columns = name, row, columns
        self._batches, self._left = batches, None

    def read(self, count: int) -> Iterator[Any]:
        """Yield parts of so many rows together; `row` is behind the part that was yielded."""
        pyarrow = imported("pyarrow", self.name)
        while count:
            try:
                part = next(self._batches) if self._left is None else self._left
            except (OSError, pyarrow.ArrowException, StopIteration) as error:
                raise StorageError(
                    f"cannot read {self.name} at row {self.row:,}: {error or 'it ends there'}",
                    mend="look at the file, or write it again",
                ) from error
            taken = min(count, part.num_rows)
            self._left = part.slice(taken) if taken < part.num_rows else None
            self.row, count = self.row + taken, count - taken
            yield part.slice(0, taken)


def _chosen(
    name: str, known: Sequence[str], columns: str | Sequence[str] | None
) -> tuple[str, ...]:
    wanted = tuple(known) if columns is None else columns
    wanted = (wanted,) if isinstance(wanted, str) else tuple(wanted)
    missing = [column for column in wanted if column not in known]
    if len(set(wanted)) < len(wanted):
        raise StorageError(
            f"a column of {name} is named twice: {', '.join(wanted)}", mend="name each once"
        )
    if missing or not wanted:
        raise StorageError(
            f"{name} has no column {missing[0]!r}" if missing else f"{name} has no columns",
            mend=f"it has {', '.join(known) or 'none'}",
        )
    return wanted


def _dtype(name: str, schema: Any, columns: Sequence[str]) -> np.dtype[Any]:
    """Return the one dtype of all columns.

    Raises
    ------
    StorageError
        They have several, or one of no numbers.
    """
    types = {column: schema.field(column).type for column in columns}
    if len(set(types.values())) > 1:
        listed = ", ".join(f"{column} {type}" for column, type in types.items())
        raise StorageError(
            f"the columns of {name} have several types: {listed}",
            mend="name those of one type, tracer.open(path, ['a', 'b']), or one, "
            "tracer.open(path, 'a')",
        )
    type = types[columns[0]]
    try:
        found: np.dtype[Any] = np.dtype(type.to_pandas_dtype())
    except (NotImplementedError, TypeError):
        found = np.dtype(object)
    if found.kind not in "biuf":
        raise StorageError(
            f"column {columns[0]!r} of {name} is of type {type}, which is no number",
            mend="name columns of numbers: tracer.open(path, ['a', 'b'])",
        )
    return found


__all__ = ["ParquetColumns"]
