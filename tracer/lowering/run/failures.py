"""Turn jaxlib's exceptions into the package's errors, with a way to fix them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tracer.errors import (
    ArgumentError,
    DeviceError,
    DonatedArrayError,
    DTypeError,
    ExecutionError,
    LoweringError,
    OutOfMemoryError,
    TracerError,
)
from tracer.lowering.devices.processes import process_count, process_index

_BYTES = re.compile(r"(\d+)\s*bytes")
_DONATED = re.compile(r"deleted|donate", re.IGNORECASE)
_GONE = re.compile(
    r"CUDA_ERROR_(NO_DEVICE|DEVICE_UNAVAILABLE|DEINITIALIZED|ECC_UNCORRECTABLE|LAUNCH_FAILED|"
    r"HARDWARE_STACK_ERROR|SYSTEM_NOT_READY)|\bUNAVAILABLE\b|device is (lost|gone|halted)",
    re.IGNORECASE,
)
"""What drivers say of a device that was lost."""
_ALONE = re.compile(r"Gloo|heartbeat|Connection (closed|reset)", re.IGNORECASE)
"""What the distributed runtime says of a process that was lost."""
_BAD_VALUE = re.compile(r"While setting option (\w+), (.*)")
_NO_OPTION = re.compile(r"No such compile option: '?([\w.]+)'?")


def execution_failure(error: Exception, buffers: Sequence[Any] = ()) -> TracerError:
    """Return our error for what XLA raised while it ran a program or moved data.

    Parameters
    ----------
    error : Exception
        What jaxlib raised.
    buffers : sequence of Buffer
        Its arguments.

    Returns
    -------
    TracerError
        To be raised from `error`.
    """
    text = first_line(error)
    if "RESOURCE_EXHAUSTED" in text or isinstance(error, MemoryError):
        found = _BYTES.search(str(error))
        size = f" ({found[1]} bytes could not be allocated)" if found else ""
        return OutOfMemoryError(
            f"the device ran out of memory{size}",
            mend="compile with memory_limit= below the device's free bytes, or free other arrays",
        )
    if _ALONE.search(text):
        return DeviceError(
            f"a process that works with this one is gone: {text}",
            mend="read the last messages of the other processes: the one that differs failed "
            "first; then start all of them again",
        )
    if _GONE.search(text):
        return DeviceError(
            f"the device is gone, or a process working with this one: {text}",
            mend="start the program again; check the device with the maker's tool (nvidia-smi, "
            "tpu-info), and the messages of the other processes",
        )
    if isinstance(error, TypeError):
        kinds = ", ".join(type(buffer).__name__ for buffer in buffers)
        return DTypeError(
            f"the program takes buffers, not ({kinds})", mend="copy arrays with to_device first"
        )
    gone = [position for position, buffer in enumerate(buffers) if buffer.is_deleted()]
    if gone or _DONATED.search(text):
        which = f"argument {gone[0]}" if gone else "an array"
        return DonatedArrayError(
            f"{which} was used after its memory had been given away",
            mend="use the array that the call returned, or do not donate this argument; "
            "pass a donated array only once",
        )
    return ExecutionError(
        f"XLA failed to run the program: {text}",
        mend="check the arguments' device and types; if they are right, report it as a bug",
    )


def absent(place: Any) -> DeviceError:
    """Return the error for running, or putting data, on a device or mesh that is not here."""
    if place.is_present:
        return DeviceError(
            f"{place} belongs to other processes: this one, {process_index()} of "
            f"{process_count()}, cannot put data or run programs there",
            mend="use the devices of this process ([d for d in tracer.devices() if d.is_local]), "
            "or a mesh that has some of them; the process of a device is device.process",
        )
    return DeviceError(
        f"{place} is not here: programs are compiled for it, and cannot run in this process",
        mend="read .plan(...), .stablehlo(...) and .hlo(...) of the compiled function; to run it, "
        f"compile with device='{place.platform}:0' on a machine that has one",
    )


def given_twice(position: int) -> DonatedArrayError:
    """Return the error for a buffer that is donated and an argument a second time."""
    return DonatedArrayError(
        f"argument {position} is donated, and the same memory is passed a second time (as another "
        "argument or as an array that the function captured), so it would be given away in use",
        mend="pass a copy in one of the two places (x.copy()), or do not donate it",
    )


def compile_failure(error: Exception) -> TracerError:
    """Return our error for what XLA raised while it compiled a program."""
    text = first_line(error)
    if option := _NO_OPTION.search(str(error)):
        return ArgumentError(
            f"XLA has no compile option {option[1]!r}",
            mend="check its full name for this jaxlib, such as xla_cpu_enable_fast_math",
        )
    if value := _BAD_VALUE.search(str(error)):
        return ArgumentError(
            f"XLA's compile option {value[1]!r} does not take this value: {value[2]}",
            mend="give a value of the option's type; those of enumerations by their full name",
        )
    if "RESOURCE_EXHAUSTED" in text:
        return OutOfMemoryError(
            f"the program does not fit on the device: {text}",
            mend="compile with memory_limit= below the device's free bytes",
        )
    return LoweringError(
        f"XLA refused the program: {text}",
        mend="convert the operands to a more common dtype; if it stays, report it as a bug",
    )


def first_line(error: Exception) -> str:
    """Return the first line of an error's message that says more than its kind."""
    lines = str(error).strip().splitlines()
    # Some messages only name the kind of error on their first line.
    return " ".join(lines[:2] if lines[0].endswith(":") else lines[:1]) if lines else ""
