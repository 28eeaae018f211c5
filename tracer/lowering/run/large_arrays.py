"""Memory for large arrays, in large pages.

glibc maps a block above 32 MiB for each call, and the system clears its pages, one after the other,
as they are first written: 20 ms for a result of 77 MB, of which the kernel takes 2. So a program
takes such results as one more input each, given away: XLA's memory, of a program that writes
nothing, for which the system is asked for large pages first (`madvise(2)`). 7 ms then. NumPy's
large arrays are copied into such memory too: 8 ms for 27. Nothing of the process is set, and what
is freed is freed as ever.
"""

from __future__ import annotations

import ctypes
import math
import time
from collections import Counter
from collections.abc import Collection, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from tracer.ir import Graph, ShapeDtype, Value
from tracer.lowering import shims
from tracer.lowering.cpu import host_allocator
from tracer.lowering.cpu.c_heap import LARGE_BLOCK_BYTES, LIBC
from tracer.lowering.devices.device import Device
from tracer.lowering.emit.blank import blank_module, bytes_of
from tracer.lowering.run import xla_options
from tracer.lowering.run.host_calls import raised_by_host
from tracer.lowering.settings import is_on
from tracer.lowering.shims import Buffer

SETTING = "large pages"
"""The row of the list of settings."""
_ASKED_FOR = Path("/sys/kernel/mm/transparent_hugepage/enabled")
_PAGE_BYTES = 1 << 21
_MADV_HUGEPAGE, _MADV_NOHUGEPAGE = 14, 15
# A large page that is at hand takes 0.09 ms here, one that the host gives first 4.7.
_SLOW_PAGE_SECONDS = 1e-3
_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.1, 60.0
_KEPT_PROGRAMS = 64


def large_results(graph: Graph, device: Device, taken: Collection[int]) -> tuple[int, ...]:
    """Return the positions of the results whose memory is made before a call.

    Parameters
    ----------
    graph : Graph
        The program.
    device : Device
        Where it runs.
    taken : collection of int
        Results that have an input's memory already.
    """
    large = [
        position
        for position, value in enumerate(graph.outputs)
        if position not in taken and value.type.nbytes > LARGE_BLOCK_BYTES
    ]
    if not large or not _are_used(device):
        return ()
    uses = Counter(value for node in graph.nodes for value in node.operands)
    uses.update(graph.outputs)
    return tuple([place for place in large if _is_written_anew(graph.outputs[place], uses)])


def _is_written_anew(result: Value, uses: Counter[Value]) -> bool:
    """Tell whether a result is written over nothing that is needed otherwise.

    A loop that begins with an argument changes a copy of it. In the result's memory, and nowhere
    else, unless that is memory which the program is given: then XLA copies once more, at the end.
    """
    value = result
    while uses[value] == 1:
        node = value.node
        if node.op is None:
            return False
        is_loop = "condition" in node.bodies
        if node.bodies and not is_loop:
            return False
        if node.op.calls_host and all(x.node.op is None for x in node.operands):
            return True  # It copies arguments itself.
        if not is_loop and (node.op.fusion not in ("opaque", "view") or not node.op.reuses):
            return True
        is_in_pairs = len(node.results) == len(node.operands)
        value = node.operands[value.index if is_in_pairs else node.op.reuses[0]]
    return False


def is_large(nbytes: int, device: Device) -> bool:
    """Tell whether an array of so many bytes is given large pages on a device."""
    return nbytes > LARGE_BLOCK_BYTES and _are_used(device)


def memory_for(types: Sequence[ShapeDtype], device: Device) -> list[Buffer]:
    """Return blocks of memory for results of some types, which nobody has written.

    Raises
    ------
    RuntimeError
        The device is out of memory.
    """
    return [_block(bytes_of(type), device) for type in types]


def copied(array: np.ndarray[Any, Any], device: Device) -> Buffer:
    """Copy a native-endian array into memory of its own.

    Raises
    ------
    RuntimeError
        The device is out of memory.
    """
    block = _block(ShapeDtype(array.shape, array.dtype), device)
    memory: Any = (ctypes.c_ubyte * array.nbytes).from_address(block.unsafe_buffer_pointer())
    np.copyto(np.frombuffer(memory, np.uint8).view(array.dtype).reshape(array.shape), array)
    return block


def _block(type: ShapeDtype, device: Device) -> Buffer:
    program, handlers = _program(type, device, device.raw)
    try:
        (block,) = program.execute_sharded([]).consume_with_handlers(handlers)
        # A client that does not wait runs it on another thread, which needs the interpreter's lock:
        # to ask for the place would wait for it with the lock held, forever.
        block.block_until_ready()
    except RuntimeError as error:
        raised = raised_by_host(error)
        if raised is None:
            raise
        raise raised from None
    first = block.unsafe_buffer_pointer()
    start = -(-first // _PAGE_BYTES) * _PAGE_BYTES
    _ask_for_large_pages(start, (first + type.nbytes) // _PAGE_BYTES * _PAGE_BYTES)
    return block


def _ask_for_large_pages(start: int, stop: int) -> None:
    """Ask for large pages from one address on, as far as the machine has them at hand.

    They are touched here, one by one, as they have to be anyhow. One that takes long is memory that
    the host of a virtual machine gives first, as it will all that follow, while small pages are at
    hand (180 ms for 77 MB, and 30). So the rest is small, and what is asked for next, for a while.
    """
    if start >= stop or _pause.is_on:
        return
    # Where the system refuses, pages are small: as they are without asking.
    LIBC.madvise(ctypes.c_void_p(start), ctypes.c_size_t(stop - start), _MADV_HUGEPAGE)
    for place in range(start, stop, _PAGE_BYTES):
        begun = time.perf_counter()
        ctypes.c_ubyte.from_address(place).value = 0
        if time.perf_counter() - begun > _SLOW_PAGE_SECONDS:
            rest = ctypes.c_size_t(stop - place)
            LIBC.madvise(ctypes.c_void_p(place), rest, _MADV_NOHUGEPAGE)
            _pause.begin()
            return
    _pause.end()


class _Pause:
    """No large pages are asked for: 0.1 s, and twice as long each time there are none again."""

    def __init__(self) -> None:
        self._until, self._seconds = -math.inf, _PAUSE_SECONDS

    @property
    def is_on(self) -> bool:
        return time.monotonic() < self._until

    def begin(self) -> None:
        self._until = time.monotonic() + self._seconds
        self._seconds = min(2 * self._seconds, _LONGEST_PAUSE_SECONDS)

    def end(self) -> None:
        self._until, self._seconds = -math.inf, _PAUSE_SECONDS


_pause = _Pause()


@lru_cache(maxsize=_KEPT_PROGRAMS)
def _program(type: ShapeDtype, device: Device, raw_device: Any) -> tuple[Any, list[Any]]:
    """Return the program that makes a block, and what makes Python's object of it.

    Devices of two clients may have one name.
    """
    module = blank_module(type)
    options = xla_options.compile_options({}, {}, [raw_device], is_partitioned=False)
    with module.context:
        places = shims.device_list(raw_device)
        raw = device.client.compile_and_load(module, places, options, [_write_nothing])
    return raw, [shims.result_handler(type.shape, type.dtype, device.sharding)]


def _write_nothing(_: Any, *__: Any) -> tuple[()]:
    return ()


def _are_used(device: Device) -> bool:
    is_here = device.platform == "cpu" and device.is_local and _are_given()
    return is_here and is_on(SETTING) and not host_allocator.is_tuned()


@cache
def _are_given() -> bool:
    """Tell whether the system gives large pages to those who ask: else all have them, or nobody."""
    try:
        return "[madvise]" in _ASKED_FOR.read_text()
    except OSError:
        return False


__all__ = ["SETTING", "copied", "is_large", "large_results", "memory_for"]
