"""Which folder keeps compiled programs, if any: asked for by a call or by the environment."""

from __future__ import annotations

import os
from pathlib import Path

from tracer.compilation.options import from_environment
from tracer.compilation.stored.files import FileStore
from tracer.units import parse_bytes

_FOLDER_VARIABLE = "TRACER_CACHE_DIR"
_BYTES_VARIABLE = "TRACER_CACHE_BYTES"
DEFAULT_BYTES = 1 << 30

_store: FileStore | None = None


def set_cache_dir(path: str | os.PathLike[str] | None) -> None:
    """Keep compiled programs in a folder, where later processes find them.

    What was compiled before the call is not written. The environment does the same at import:
    `TRACER_CACHE_DIR`. The files take up to `TRACER_CACHE_BYTES` (1 GiB) together; what was used
    longest ago is removed first. docs/cache.md says what is kept and what a file depends on.

    Parameters
    ----------
    path : str or path or None
        The folder, which is made if it is not there; None: nothing is kept from now on. Its files
        hold machine code that is run: let nobody write to it whom you do not trust.

    Raises
    ------
    ArgumentError
        `TRACER_CACHE_BYTES` is no size.

    Examples
    --------
    >>> import tempfile, tracer, tracer.numpy as tnp
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tracer.set_cache_dir(folder)
    ...     y = tracer.compile(lambda x: tnp.exp(x).sum())(tnp.zeros(3))
    ...     tracer.set_cache_dir(None)
    """
    global _store
    _store = None if path is None else FileStore(Path(path).expanduser(), _most_bytes())


def use_folder_if_asked() -> None:
    """Keep compiled programs if the environment names a folder."""
    path = os.environ.get(_FOLDER_VARIABLE)
    if path:
        set_cache_dir(path)


def current_store() -> FileStore | None:
    """Return where compiled programs are kept, or None."""
    return _store


def _most_bytes() -> int:
    return from_environment(_BYTES_VARIABLE, parse_bytes) or DEFAULT_BYTES


__all__ = ["current_store", "set_cache_dir", "use_folder_if_asked"]
