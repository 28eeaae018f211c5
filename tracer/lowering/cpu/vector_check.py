"""Check whether this machine computes right values with vectors wider than XLA's default.

XLA's own tests run at its default width, and a function of its library was wrong at 512 bits (see
`functions`). So the first program that a machine compiles for a CPU is a check: each function that
XLA has kernels for, and the sum of all, compared with NumPy. The verdict is kept in the user's
cache folder, for this machine, this jaxlib and these flags.

A function needs a loop of its own. With several in one loop LLVM may choose narrower vectors, and
their sum is right; on Zen 4 it does so for the faulty function and any other. In the sum of all, a
call finds registers in use.
"""

from __future__ import annotations

import hashlib
import os
import platform
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np

from tracer.errors import WideVectorsWarning
from tracer.ir import Builder, Graph, Op, ShapeDtype, registry
from tracer.lowering import shims
from tracer.lowering.devices.device import Device
from tracer.lowering.emit.module import lower_graph
from tracer.lowering.run import xla_options
from tracer.lowering.run.executable import Executable
from tracer.lowering.run.transfer import to_device, to_host

Array = np.ndarray[Any, Any]
_DTYPES: tuple[np.dtype[Any], ...] = (np.dtype(np.float32), np.dtype(np.float64))
_SIZE = 64
"""With fewer, loops are not made of vectors of 512 bits."""
_TOLERANCE = 64
"""In units of the sum of the sizes: NumPy's and XLA's functions are a few units apart each."""
_RIGHT, _WRONG = "right", "wrong"
_LOCK = threading.Lock()
_KNOWN: dict[str, bool] = {}


def vectors_are_right(options: dict[str, Any], machine: str, device: Device) -> bool:
    """Tell whether functions have right values in programs compiled with some options.

    The first time on a machine this takes about half a second.

    Parameters
    ----------
    options : dict
        XLA's options that ask for wide vectors.
    machine : str
        What identifies the machine: the processor and its instruction sets.
    device : Device
        A CPU of this process.
    """
    key = _key(options, machine)
    with _LOCK:
        if key not in _KNOWN:
            _KNOWN[key] = _remembered(key, lambda: _find_out(options, device))
        return _KNOWN[key]


def _find_out(options: dict[str, Any], device: Device) -> bool:
    """Run the check and return what is wrong."""
    wrong = wrong_values(functions(), options, device)
    if not wrong:
        return True
    warnings.warn(
        f"on this machine jaxlib {'.'.join(map(str, shims.VERSION))} computes wrong values with "
        f"{options} ({', '.join(wrong)}): programs are compiled for vectors of XLA's own width, "
        "which are right, and take up to twice as long\n"
        "  mend:  report it with the name of the processor, and try another version of jaxlib",
        WideVectorsWarning,
        stacklevel=2,
    )
    return False


def functions() -> list[Op]:
    """Return the functions that XLA computes with vectors, in one dtype at least."""
    return [op for _, op in sorted(registry().items()) if op.vectors]


def _operands(count: int, dtype: np.dtype[Any]) -> list[Array]:
    """Return numbers in the domains of nearly all functions."""
    operands = (np.linspace(0.05, 0.95, _SIZE), np.linspace(1.9, 0.3, _SIZE))
    return [x.astype(dtype) for x in operands[:count]]


def wrong_values(chosen: Sequence[Op], options: dict[str, Any], device: Device) -> list[str]:
    """Return what differs from NumPy: functions with their dtypes, and the sum of all."""
    buffers = [to_device(x, device) for dtype in _DTYPES for x in 2 * _operands(2, dtype)]
    found = [to_host(x) for x in _executable(chosen, options, device)(*buffers)]
    expected = [row for dtype in _DTYPES for row in _expected(chosen, dtype)]
    return [
        name
        for (name, terms), values in zip(expected, found, strict=True)
        if not _is_right(terms, values)
    ]


def _in_vectors(chosen: Sequence[Op], dtype: np.dtype[Any]) -> list[Op]:
    """Return the functions that are computed in vectors of a dtype.

    A loop with one of the others has no vectors, or narrower ones, and hides faults.
    """
    return [op for op in chosen if dtype.name in op.vectors]


def _expected(chosen: Sequence[Op], dtype: np.dtype[Any]) -> Iterator[tuple[str, Array]]:
    """Yield a name and the terms of each result, in the order of `_functions_and_sum`."""
    x, y = _operands(2, dtype)
    ops = _in_vectors(chosen, dtype)
    terms = np.stack([op.evaluate(*(x, y)[: len(op.reuses)]) for op in ops])
    for op, values in zip(ops, terms, strict=True):
        yield f"{op.name} of {dtype}", values[None]
    yield f"sum of {dtype}", terms


def _is_right(terms: Array, values: Array) -> bool:
    limit = _TOLERANCE * np.finfo(terms.dtype).eps * np.abs(terms).sum(0, dtype=np.float64)
    return bool((np.abs(values - terms.sum(0, dtype=np.float64)) <= limit).all())


def _executable(chosen: Sequence[Op], options: dict[str, Any], device: Device) -> Executable:
    """Compile the check without the cache of programs, which needs the options it checks."""
    graph = _functions_and_sum(chosen)
    module = lower_graph(graph, device.platform)
    every = {**xla_options.default_options(device.platform), **options}
    given = xla_options.compile_options(every, {}, [device.raw], is_partitioned=False)
    with module.context:
        raw = device.client.compile_and_load(module, shims.device_list(device.raw), given)
    return Executable(raw, graph, device, (), {})


def _functions_and_sum(chosen: Sequence[Op]) -> Graph:
    """Return a program of each function for itself, and the sum of all, for each dtype.

    The sum has operands of its own, or XLA would add up the results that it has.
    """
    add: Callable[..., Any] = registry()["add"]
    with Builder() as builder:
        results = []
        for dtype in _DTYPES:
            alone, summed = (
                [op(*operands[: len(op.reuses)]) for op in _in_vectors(chosen, dtype)]
                for operands in (_inputs(builder, dtype), _inputs(builder, dtype))
            )
            results += [*alone, reduce(add, summed)]
        return builder.finish(results)


def _inputs(builder: Builder, dtype: np.dtype[Any]) -> list[Any]:
    return [builder.input(ShapeDtype((_SIZE,), dtype)) for _ in "xy"]


def _key(options: dict[str, Any], machine: str) -> str:
    """Return a name for what the outcome depends on."""
    flags = os.environ.get("XLA_FLAGS", "")
    facts = (shims.VERSION, sorted(options.items()), machine, platform.machine(), flags)
    return hashlib.blake2b(repr(facts).encode(), digest_size=12).hexdigest()


def _remembered(key: str, find_out: Callable[[], bool]) -> bool:
    """Return the verdict from the cache folder, or find out and keep it there if possible."""
    file = _folder() / f"wide-vectors-{key}.txt"
    try:
        kept = file.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        kept = ""
    if kept in (_RIGHT, _WRONG):
        return kept == _RIGHT
    found = find_out()
    _keep(file, _RIGHT if found else _WRONG)
    return found


def _keep(file: Path, text: str) -> None:
    """Write a file that others see whole or not at all; skip it if it cannot be written."""
    unfinished = file.with_name(f"{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_text(text, encoding="ascii")
        os.replace(unfinished, file)
    except OSError:
        return  # a folder that is read-only: the next process finds out again
    finally:
        with suppress(OSError):
            unfinished.unlink()


def _folder() -> Path:
    """Return the folder of the user's cache, as freedesktop.org names it."""
    chosen = os.environ.get("XDG_CACHE_HOME", "")
    return Path(chosen) / "tracer" if chosen else Path("~/.cache/tracer").expanduser()
