"""Blocks above 32 MiB stay from call to call too, and go back after a pause."""

from __future__ import annotations

import ctypes
import resource
import time
from collections.abc import Callable

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.lowering.test_allocator import elsewhere
from tracer.lowering import allocator, freed_blocks, large_blocks

MEGABYTE = 1 << 20
SHAPE = (2_500, 4_000)
RESULT = 40_000_000
CALLS = 40
PATIENCE = 30

pytestmark = pytest.mark.skipif(
    not allocator._HEAP._large.can_stay, reason="the C library does not count its blocks"
)


def warmed_up() -> tuple[Callable[[tracer.Array], tracer.Array], tracer.Array]:
    """Return a program whose result is a large block, after two calls, and its argument."""
    x = tnp.asarray(np.random.default_rng(0).random(SHAPE, np.float32))
    program = tracer.compile(tnp.exp)
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


def test_calls_in_a_row_use_the_same_pages_again() -> None:
    """Which hole glibc takes is chance for some calls."""
    (found,) = elsewhere(calls_with_new_pages)
    assert found <= CALLS * 3 // 4


def fallen_to(nbytes: float) -> float:
    """Return the resident megabytes once they are no more than that, or when patience ends."""
    end = time.monotonic() + PATIENCE
    while freed_blocks.resident_bytes() > nbytes and time.monotonic() < end:
        time.sleep(0.1)
    return freed_blocks.resident_bytes() / MEGABYTE


def after_pauses() -> tuple[float, ...]:
    """Return what is resident above the start: with two results, one, a view of it, and none."""
    program, x = warmed_up()
    time.sleep(2.5 * large_blocks.PAUSE_SECONDS)
    start = freed_blocks.resident_bytes()
    results = [program(x) for _ in range(2)]
    kept = freed_blocks.resident_bytes() - start
    results.pop()
    one = fallen_to(start + 1.5 * RESULT) - start / MEGABYTE
    view = np.asarray(results.pop())[:10]
    time.sleep(2.5 * large_blocks.PAUSE_SECONDS)
    viewed = (freed_blocks.resident_bytes() - start) / MEGABYTE
    assert view.base is not None
    del view
    none = fallen_to(start + RESULT / 2) - start / MEGABYTE
    return kept / MEGABYTE, one, viewed, none


def test_what_is_dropped_is_given_back_after_a_pause() -> None:
    kept, one, viewed, none = elsewhere(after_pauses)
    size = RESULT / MEGABYTE
    assert kept > 1.9 * size
    assert one < 1.2 * size
    assert 0.9 * size < viewed < 1.2 * size
    assert none < 0.2 * size


def of_numpy() -> tuple[float, float]:
    """Return the megabytes that an array of NumPy takes between calls, and leaves when dropped."""
    program, x = warmed_up()
    result = program(x)
    before = freed_blocks.resident_bytes()
    array = np.ones(64 * MEGABYTE, np.uint8)
    taken = freed_blocks.resident_bytes() - before
    del array
    left = freed_blocks.resident_bytes() - before
    del result
    return taken / MEGABYTE, left / MEGABYTE


def test_what_others_allocate_between_calls_goes_back_at_once() -> None:
    taken, left = elsewhere(of_numpy)
    assert taken > 32
    assert left < 8


@pytest.mark.parametrize(("free", "kept"), [(4.1, True), (3.9, False)])
def test_no_more_than_a_share_of_the_free_memory_is_kept(
    free: float, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    heap, size = allocator._Heap(), 64 * MEGABYTE
    heap._lean_bytes = 1 << 60
    monkeypatch.setattr(allocator, "free_host_bytes", lambda: free * size)
    assert heap._keeps_large(allocator.Needs(size, (size,), 0, size)) == kept
    small = allocator.Needs(size, (MEGABYTE,) * 64, 0, size)
    assert not heap._keeps_large(small)


def of_two_holes() -> tuple[float, float]:
    """Return the new megabytes in a hole without pages beside a larger one that has them."""
    size, more = 64 * MEGABYTE, 1 << 16
    with allocator._HEAP._large.kept():
        blocks = [freed_blocks.MALLOC(nbytes) for nbytes in (size + 112, more, size + more, more)]
        ctypes.memset(blocks[2], 1, size + more)
        freed_blocks.FREE(blocks[0])
        alone = freed_blocks.Places((size,))
        alone.release()
        freed_blocks.FREE(blocks[2])
        both = freed_blocks.Places((size,))
        both.free()
        taken = freed_blocks.MALLOC(size + 112)
        both.release()
        assert taken == blocks[2]
    return alone.new_bytes / MEGABYTE, both.new_bytes / MEGABYTE


def test_a_hole_without_pages_is_passed_over() -> None:
    """Else glibc would take it in every call, and the other one's pages would be given back."""
    alone, both = elsewhere(of_two_holes)
    assert alone > 60
    assert both < 1


def test_nobody_watches_a_heap_without_large_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_blocks, "PAUSE_SECONDS", 0.01)
    given_back: list[bool] = []
    blocks = large_blocks.LargeBlocks(lambda: given_back.append(True))
    with blocks.kept():
        watcher = blocks._watcher
        time.sleep(0.1)
        assert not given_back
    assert watcher is not None
    watcher.join(PATIENCE)
    assert blocks._watcher is None
    assert given_back == [True]
