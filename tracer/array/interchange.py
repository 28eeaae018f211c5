"""Share memory with other libraries: what `__dlpack__` may be asked for.

References
----------
https://data-apis.org/array-api/2024.12/API_specification/generated/array_api.array.__dlpack__.html
"""

from __future__ import annotations

from typing import Any, Literal

from tracer.errors import ArgumentError, ExportError

_HOST = 1
_DEVICE_CODES = {"cpu": _HOST, "gpu": 2, "cuda": 2, "rocm": 10}
"""DLDeviceType of dlpack.h by the name of a platform."""


def device_code(device: Any) -> tuple[int, int]:
    """Return the DLPack code of a device and its number."""
    if hasattr(device, "mesh"):
        raise ExportError(
            f"an array spread over devices, {device}, cannot be shared through DLPack",
            mend="bring it to one device first: x.to_device('cpu:0')",
        )
    return _DEVICE_CODES.get(device.platform, _HOST), device.id


def refuse_stream(stream: Any) -> None:
    """Raise `ArgumentError` for `stream=`: no copy of ours runs on a stream of the caller."""
    if stream is not None:
        raise ArgumentError(
            f"stream {stream!r} is not known here",
            mend="leave stream out: copies are finished before they are returned",
        )


def exported_memory(
    device: Any, dl_device: tuple[int, int] | None, copy: bool | None
) -> Literal["shared", "copied", "host"]:
    """Say which memory a capsule of a concrete array holds.

    Parameters
    ----------
    device : Device
        Where the array is.
    dl_device : pair of int, optional
        Where the data is wanted: where it is, or on the host.
    copy : bool, optional
        Whether the capsule must, or must not, have its own memory.

    Returns
    -------
    str
        The memory of the array, that of a copy on the same device, or that of a copy on the host.

    Raises
    ------
    ExportError
        The device is neither of the two, or `copy` is False and the data has to be copied.
    """
    here = device_code(device)
    wanted = here if dl_device is None else (int(dl_device[0]), int(dl_device[1]))
    if wanted == here:
        return "copied" if copy else "shared"
    if wanted[0] != _HOST or copy is False:
        raise ExportError(
            f"the array is on DLPack device {here} and cannot be shared with {wanted}"
            + (" without a copy" if copy is False else ""),
            mend="move it there first with to_device, or ask for the host, dl_device=(1, 0)",
        )
    return "host"
