"""Direct reads and writes: between device and the program's memory, past the system's page cache.

They take a tenth of the processor time of those through the cache, which stores each page and
copies it. Offset, length and address have to be those of pages: what is around a block in its first
and last page is read with it, and what a block has of such a page is written through the cache.
https://man7.org/linux/man-pages/man2/open.2.html, O_DIRECT.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from tracer.ir.storage import PAGE
from tracer.storage.ahead import SPARE, Array

LEAST_DIRECT = 1 << 18
"""Bytes of a block from which on they are faster: the cache reads on behind what is asked for."""


class _DirectFile:
    """A file that is open past the page cache, where the file system has that.

    Parameters
    ----------
    path : Path
        The file.
    file : int
        Its descriptor: if the path has become another file's, it is not opened.
    flags : int
        Of `os.open`, for reads or writes.
    """

    def __init__(self, path: Path, file: int, flags: int) -> None:
        self._file: int | None = None
        try:
            found = os.open(path, flags | os.O_DIRECT | os.O_CLOEXEC)
        except (OSError, AttributeError):  # Some file systems and systems have none.
            return
        if os.path.sameopenfile(found, file):
            self._file = found
        else:
            os.close(found)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    __del__ = close


class DirectReads(_DirectFile):
    """A file that is read past the page cache; see `_DirectFile`."""

    def __init__(self, path: Path, file: int) -> None:
        super().__init__(path, file, os.O_RDONLY)

    def read(self, pages: Array, position: int, nbytes: int) -> int | None:
        """Read bytes of the file into memory; return where in the memory the first of them is.

        None where they cannot be read so, and where the file ends before they do.

        Parameters
        ----------
        pages : ndarray
            Of bytes, from the beginning of a page on, `SPARE` more than are asked for.
        position, nbytes : int
            Of the file.
        """
        if self._file is None or pages.nbytes < nbytes + SPARE:
            return None
        before = position % PAGE
        wanted, done = before + nbytes, 0
        view = pages.data[: -(-wanted // PAGE) * PAGE]
        while done < wanted:
            if done % PAGE:
                return None  # A read that ended within a page cannot go on.
            try:
                count = os.preadv(self._file, [view[done:]], position - before + done)
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
                return None  # The device has other pages.
            if count == 0:
                return None
            done += count
        return before


class DirectWrites(_DirectFile):
    """A file that is written past the page cache; see `_DirectFile`.

    4 GB took 0.95 s and 0.04 s of processor time here, through the cache 1.3 to 11 s and 0.6 to 10.
    """

    def __init__(self, path: Path, file: int) -> None:
        super().__init__(path, file, os.O_WRONLY)

    def write(self, pages: memoryview, position: int) -> int:
        """Write whole pages; return how many bytes were written, which is for others to go on with.

        Parameters
        ----------
        pages : memoryview
            Of bytes, from the beginning of a page of memory on.
        position : int
            Of the file, the beginning of a page.
        """
        wanted, done = len(pages) // PAGE * PAGE, 0
        while self._file is not None and done < wanted:
            try:
                done += os.pwrite(self._file, pages[done:wanted], position + done)
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
                break  # The device has other pages.
        return done


__all__ = ["LEAST_DIRECT", "DirectReads", "DirectWrites"]
