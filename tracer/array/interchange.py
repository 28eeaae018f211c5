"""Handing memory to other libraries: what `__dlpack__` may be asked for.

References
----------
https://data-apis.org/array-api/2024.12/API_specification/generated/array_api.array.__dlpack__.html
"""

from __future__ import annotations

from typing import Any

from tracer.array.base import ArrayBase
from tracer.array.evaluation import get_evaluator
from tracer.errors import ArgumentError, ExportError

_HOST = 1
_DEVICE_CODES = {"cpu": _HOST, "gpu": 2, "cuda": 2, "rocm": 10}
"""DLDeviceType of dlpack.h by the name of a platform."""


def device_code(device: Any) -> tuple[int, int]:
    """Return the DLPack code of a device and its number."""
    if hasattr(device, "mesh"):
        raise ExportError(
            f"an array that lies in parts, {device}, cannot be shared through DLPack",
            mend="bring it to one device first: x.to_device('cpu:0')",
        )
    return _DEVICE_CODES.get(device.platform, _HOST), device.id


def refuse_stream(stream: Any) -> None:
    """Raise `ArgumentError` for `stream=`: no copy of ours runs on a stream of the caller."""
    if stream is not None:
        raise ArgumentError(
            f"stream {stream!r} is not known here", mend="leave stream out: copies are awaited"
        )


def export(
    array: ArrayBase,
    stream: Any,
    max_version: tuple[int, int] | None,
    dl_device: tuple[int, int] | None,
    copy: bool | None,
) -> Any:
    """Return a DLPack capsule of a concrete array.

    Parameters
    ----------
    array : Array
        Concrete.
    stream : int, optional
        The data is awaited in any case, so that every stream may read it at once.
    max_version : pair of int, optional
        The capsule is a versioned one where NumPy makes it (a copy on the host), else version 0,
        which every consumer has to take.
    dl_device : pair of int, optional
        Where the data is wanted: where it is, or on the host.
    copy : bool, optional
        Whether the capsule must, or must not, have memory of its own.

    Raises
    ------
    ExportError
        The device is neither of the two, or `copy` is False and the data has to be copied.
    """
    del stream
    array.block_until_ready()
    here = device_code(array.device)
    wanted = here if dl_device is None else (int(dl_device[0]), int(dl_device[1]))
    if wanted == here and not copy:
        return get_evaluator().to_dlpack(array)
    if wanted == here:
        return get_evaluator().to_dlpack(array.copy())  # type: ignore[attr-defined]
    if wanted[0] != _HOST or copy is False:
        raise ExportError(
            f"the array is on DLPack device {here} and cannot be shared with {wanted}"
            + (" without a copy" if copy is False else ""),
            mend="move it there first with to_device, or ask for the host, dl_device=(1, 0)",
        )
    host = array._host("__dlpack__()").copy()
    return host.__dlpack__(max_version=max_version, copy=False)
