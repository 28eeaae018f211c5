"""Files of bytes in a folder that processes share, bounded in bytes.

A file is written whole or not at all, and read only if its checksum is right. What was used longest
ago goes first; the time of the last use is the file's time of modification.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import time
import warnings
from contextlib import suppress
from pathlib import Path

from tracer.errors import CacheWarning

_MAGIC = b"tracer cache 1\n"
_DIGEST = 32
_ENDING = ".program"
_UNFINISHED = ".unfinished"
# A process that was stopped leaves its unfinished file; no write takes so long.
_ABANDONED_SECONDS = 3600


class FileStore:
    """A folder of files by key.

    Parameters
    ----------
    folder : Path
        Made when the first file is written, for its owner alone: it holds machine code.
    most_bytes : int
        What all files together may take. A file that alone takes more is not written.
    """

    def __init__(self, folder: Path, most_bytes: int) -> None:
        self.folder, self.most_bytes = folder, most_bytes

    def read(self, key: str) -> bytes | None:
        """Return what was written under a key; None, with a warning, if the file is damaged."""
        file = self._file(key)
        try:
            content = file.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            self.warn(f"{file} cannot be read ({error}): the program is compiled again")
            return None
        start = len(_MAGIC) + _DIGEST
        if content[:start] != _MAGIC + _digest(key, content[start:]):
            self.warn(f"{file} is damaged: the program is compiled again, and the file rewritten")
            return None
        # A folder may be another user's, who lets this process read only.
        with suppress(OSError):
            os.utime(file)
        return content[start:]

    def write(self, key: str, content: bytes) -> None:
        """Write a file, and remove those used longest ago that are too many then."""
        whole = b"".join((_MAGIC, _digest(key, content), content))
        if len(whole) > self.most_bytes:
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._make_room(len(whole), self._file(key))
            self._write_whole(self._file(key), whole)
        except OSError as error:
            self.warn(f"nothing can be written to {self.folder} ({error}): programs are not kept")

    def _write_whole(self, file: Path, whole: bytes) -> None:
        # Its name is known before it is there: an interrupt within `tempfile` leaves it, and open.
        unfinished = self.folder / f"{secrets.token_hex(8)}{_UNFINISHED}"
        try:
            with open(unfinished, "xb") as written:
                os.fchmod(written.fileno(), 0o600)
                written.write(whole)
            os.replace(unfinished, file)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise

    def _make_room(self, nbytes: int, replaced: Path) -> None:
        """Remove files until there is room for one more, in place of an old one if it is there."""
        files = []
        for entry in os.scandir(self.folder):
            # Another process may have removed it meanwhile.
            with suppress(FileNotFoundError):
                files.append((entry.stat().st_mtime_ns, entry.stat().st_size, entry.path))
        abandoned = time.time_ns() - _ABANDONED_SECONDS * 10**9
        kept = []
        for item in sorted(files):
            if item[2].endswith(_ENDING) and item[2] != str(replaced):
                kept.append(item)
            elif item[2].endswith(_UNFINISHED) and item[0] < abandoned:
                _remove(item[2])
        total = sum(size for _, size, _ in kept)
        for _, size, path in kept:
            if total + nbytes <= self.most_bytes:
                break
            _remove(path)
            total -= size

    def _file(self, key: str) -> Path:
        return self.folder / f"{key}{_ENDING}"

    def warn(self, text: str) -> None:
        """Warn of the folder or of a file in it."""
        warnings.warn(text, CacheWarning, stacklevel=2)


def _remove(path: str) -> None:
    # Another process may have been faster.
    with suppress(FileNotFoundError):
        os.unlink(path)


def _digest(key: str, content: bytes) -> bytes:
    """Return the checksum, by which a file under another's name is damaged as well."""
    return hashlib.sha256(key.encode() + content).digest()


__all__ = ["FileStore"]
