"""Blocks above 32 MiB stay from call to call too, and go back after a pause.

Where `tracer.tune_host_allocator` asks for it, as the measured processes do (`elsewhere`).
"""

from __future__ import annotations

import ctypes
import math
import os
import resource
import threading
import time
import warnings
from functools import cache
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from benchmarks.watches import mapped_bytes
from tests.lowering.test_allocator import elsewhere
from tracer.lowering.cpu import allocator, c_heap, freed_blocks, large_blocks

MEGABYTE = 1 << 20
SHAPE = (2_500, 4_000)
RESULT = 40_000_000
CALLS = 40
PATIENCE = 30

pytestmark = pytest.mark.skipif(not c_heap.COUNTS, reason="the C library does not count its blocks")


@cache
def compiled() -> tuple[Any, tracer.Array]:
    """Return a program whose result is a large block, and its argument."""
    x = tnp.asarray(np.random.default_rng(0).random(SHAPE, np.float32))
    return tracer.compile(tnp.exp), x


def warmed_up() -> tuple[Any, tracer.Array]:
    """Return the same after two calls."""
    program, x = compiled()
    for _ in range(2):
        program(x).block_until_ready()
    return program, x


def new_pages() -> int:
    """Return the new pages of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt


def calls_with_new_pages() -> tuple[int]:
    """Return how many of the calls in a row had new pages for more than half of the result."""
    program, x = warmed_up()
    found = 0
    for _ in range(CALLS):
        before = new_pages()
        program(x).block_until_ready()
        found += new_pages() - before > RESULT // resource.getpagesize() // 2
    return (found,)


def calls_with_limited_addresses(times: float) -> tuple[int]:
    """Return the same where the address space may grow by so many results."""
    program, x = compiled()
    program.plan(x)
    limit = int(mapped_bytes() + times * RESULT)
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
    return calls_with_new_pages()


@pytest.mark.process
def test_calls_in_a_row_use_the_same_pages_again() -> None:
    """Which hole glibc takes is chance for some calls."""
    (found,) = elsewhere(calls_with_new_pages)
    assert found <= CALLS // 2


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize(("times", "kept"), [(5, True), (2.5, False)])
def test_a_tight_address_space_keeps_nothing(times: float, kept: bool) -> None:
    """What is kept is still there to be used: it counts as room."""
    (found,) = elsewhere(calls_with_limited_addresses, times)
    assert (found <= CALLS // 2) == kept


def fallen_to(nbytes: float) -> float:
    """Return the resident megabytes once they are no more than that, or when patience ends."""
    end = time.monotonic() + PATIENCE
    while c_heap.resident_bytes() > nbytes and time.monotonic() < end:
        time.sleep(0.1)
    return c_heap.resident_bytes() / MEGABYTE


def after_pauses() -> tuple[float, ...]:
    """Return what is resident above the start when results are dropped one by one."""
    program, x = warmed_up()
    time.sleep(2.5 * large_blocks.PAUSE_SECONDS)
    start = c_heap.resident_bytes()
    results = [program(x) for _ in range(3)]
    results.pop(1)
    at_once = (c_heap.resident_bytes() - start) / MEGABYTE
    two = fallen_to(start + 2.5 * RESULT) - start / MEGABYTE
    view = np.asarray(results.pop())[:10]
    time.sleep(2.5 * large_blocks.PAUSE_SECONDS)
    one = (c_heap.resident_bytes() - start) / MEGABYTE
    results.clear()
    time.sleep(2.5 * large_blocks.PAUSE_SECONDS)
    viewed = (c_heap.resident_bytes() - start) / MEGABYTE
    assert view.base is not None
    del view
    return at_once, two, one, viewed, fallen_to(start + RESULT / 2) - start / MEGABYTE


@pytest.mark.process
def test_what_is_dropped_is_given_back_after_a_pause() -> None:
    """However long after the last call, and also where NumPy reads a result without a copy."""
    size = RESULT / MEGABYTE
    at_once, two, one, viewed, none = (found / size for found in elsewhere(after_pauses))
    assert at_once > 2.8
    assert two < 2.2
    assert one > 1.8  # the view reads one of them
    assert 0.9 < viewed < 1.2
    assert none < 0.2


def beside_others() -> tuple[float, ...]:
    """Return what results leave that are dropped when arrays of NumPy took and left their holes."""
    small = tracer.compile(tnp.exp)
    small(tnp.zeros((1 << 18,))).block_until_ready()
    data = [np.ones(8 * MEGABYTE, np.uint8) for _ in range(18)]
    program, x = warmed_up()
    start = c_heap.resident_bytes() - sum(map(len, data))
    results = [program(x) for _ in range(4)]
    del results[:2]
    fallen_to(start + sum(map(len, data)) + 2.5 * RESULT)
    data = [np.ones(30 * MEGABYTE, np.uint8) for _ in range(2)]
    results.clear()
    held = sum(map(len, data))
    left = fallen_to(start + held + RESULT / 2) - (start + held) / MEGABYTE
    data.clear()
    return left, fallen_to(start + RESULT / 2) - start / MEGABYTE


@pytest.mark.process
def test_results_are_given_back_whatever_others_take_and_leave() -> None:
    left, nothing = elsewhere(beside_others)
    assert left < RESULT / MEGABYTE / 2
    assert nothing < RESULT / MEGABYTE / 2


def of_numpy() -> tuple[float, float]:
    """Return the megabytes that an array of NumPy takes between calls, and leaves when dropped."""
    program, x = warmed_up()
    result = program(x)
    before = c_heap.resident_bytes()
    array = np.ones(64 * MEGABYTE, np.uint8)
    taken = c_heap.resident_bytes() - before
    del array
    left = c_heap.resident_bytes() - before
    del result
    return taken / MEGABYTE, left / MEGABYTE


@pytest.mark.process
def test_what_others_map_between_calls_goes_back_at_once() -> None:
    taken, left = elsewhere(of_numpy)
    assert taken > 32
    assert left < 8


@pytest.mark.parametrize(("free", "kept"), [(3.1, True), (2.9, False)])
def test_no_more_than_a_share_of_the_free_memory_is_kept(
    free: float, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    heap, size = allocator._Heap(), 64 * MEGABYTE
    heap._lean_bytes = 1 << 60
    monkeypatch.setattr(c_heap, "usage", c_heap.Usage)
    monkeypatch.setattr(c_heap, "address_room", lambda: math.inf)
    monkeypatch.setattr(allocator, "free_bytes", lambda: free * size)
    assert heap._keeps_large(allocator.Needs(size, (size,), 0, size)) == kept
    small = allocator.Needs(size, (MEGABYTE,) * 64, 0, size)
    assert not heap._keeps_large(small)
    monkeypatch.setattr(c_heap, "address_room", lambda: 2.9 * size)
    assert not heap._keeps_large(allocator.Needs(size, (size,), 0, size))
    monkeypatch.setattr(c_heap, "usage", lambda: c_heap.Usage(freed_bytes=size))
    assert heap._keeps_large(allocator.Needs(size, (size,), 0, size)) == kept


def of_two_holes() -> tuple[float, float]:
    """Return the new megabytes in a hole without pages beside a larger one that has them."""
    size, more = 64 * MEGABYTE, 1 << 16
    with allocator._HEAP._large.kept():
        blocks = [c_heap.MALLOC(nbytes) for nbytes in (size + 112, more, size + more, more)]
        ctypes.memset(blocks[2], 1, size + more)
        c_heap.FREE(blocks[0])
        alone = freed_blocks.Places((size,))
        alone.release()
        c_heap.FREE(blocks[2])
        both = freed_blocks.Places((size,))
        both.free()
        taken = c_heap.MALLOC(size + 112)
        both.release()
        assert taken == blocks[2]
    return alone.new_bytes / MEGABYTE, both.new_bytes / MEGABYTE


@pytest.mark.process
def test_a_hole_without_pages_is_passed_over() -> None:
    """Else glibc would take it in every call, and the other one's pages would be given back."""
    alone, both = elsewhere(of_two_holes)
    assert alone > 60
    assert both < 1


def a_limit_after_none() -> tuple[float, float]:
    """Return the megabytes above the start before and after a program with a limit runs."""
    program, x = warmed_up()
    y = tnp.ones((1 << 20,), np.float32)
    limited = tracer.compile(lambda y: tnp.tanh(y) + 1, memory_limit="40MB")
    limited(y).block_until_ready()
    start = c_heap.resident_bytes()
    results = [program(x) for _ in range(4)]
    del results
    before = c_heap.resident_bytes() - start
    limited(y).block_until_ready()
    return before / MEGABYTE, (c_heap.resident_bytes() - start) / MEGABYTE


@pytest.mark.process
def test_a_program_with_a_limit_does_not_run_beside_what_others_left() -> None:
    before, after = elsewhere(a_limit_after_none)
    assert before > 100
    assert after < 20


def without_threads() -> tuple[float, float]:
    """Return what is left at once where no thread can be started, and the result's first value."""

    def no_thread(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    threading.Thread.start = no_thread  # type: ignore[method-assign]
    program, x = warmed_up()
    start = c_heap.resident_bytes()
    result = program(x)
    value = float(np.asarray(result)[0, 0] / np.exp(np.asarray(x)[0, 0]))
    del result
    return (c_heap.resident_bytes() - start) / MEGABYTE, value


@pytest.mark.process
def test_where_no_thread_can_be_started_nothing_is_kept() -> None:
    left, value = elsewhere(without_threads)
    assert left < 8
    assert value == pytest.approx(1, rel=1e-6)


def in_a_fork() -> tuple[int]:
    """Return the exit status of a child that is forked while locks of the heap are held."""
    heap = allocator._HEAP
    with heap._large.kept(), heap._lock, heap._large._lock:
        with warnings.catch_warnings():
            # Python 3.12 says that threads are not copied.
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            large = allocator._HEAP._large
            fresh = allocator._HEAP._lock.acquire(timeout=5) and large._lock.acquire(timeout=5)
            os._exit(0 if fresh and large._watcher is None and not large._running else 1)
        _, status = os.waitpid(child, 0)
    return (os.waitstatus_to_exitcode(status),)


@pytest.mark.process
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_process_begins_anew() -> None:
    """Its parent's threads are gone, and locks that they held would never be released."""
    assert elsewhere(in_a_fork) == [0]


def test_an_interrupted_look_holds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    size = 64 * MEGABYTE
    seen: list[int | None] = []

    def interrupted(address: int | None, nbytes: int) -> int:
        seen.append(address)
        if len(seen) == 2:
            raise KeyboardInterrupt
        return nbytes

    monkeypatch.setattr(freed_blocks, "_absent_bytes", interrupted)
    held = c_heap.usage()
    with pytest.raises(KeyboardInterrupt):
        freed_blocks.Places((size, size))
    now = c_heap.usage()
    assert seen[0] is not None
    assert now.used_bytes + now.mapped_bytes < held.used_bytes + held.mapped_bytes + size // 2
