"""Freed blocks stay in the heap from call to call where a limit has room for them only."""

from __future__ import annotations

import ctypes
import math
import resource
from collections.abc import Iterator

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tracer.lowering import allocator

LIBC = allocator._LIBC
pytestmark = pytest.mark.skipif(not hasattr(LIBC, "malloc_trim"), reason="not glibc")
PAGE = resource.getpagesize()
MEGABYTE = 1 << 20
CALLS = 6
WIDTH = 1024  # Each square is 4 MiB.


@pytest.fixture(autouse=True)
def _lean_heap() -> Iterator[None]:
    allocator._HEAP.give_back()
    yield
    allocator._HEAP.give_back()


def running_sums(x: tracer.Array) -> tracer.Array:
    """Store two squares: running sums are a library's for XLA."""
    return tnp.cumsum(tnp.sort(x, axis=1), axis=0).max()


def faults_of(limit: int | None) -> tuple[float, int]:
    """Return new pages and the bytes that a call allocates, of calls that were warmed up."""
    program = tracer.compile(running_sums, memory_limit=limit, split="never")
    x = tnp.asarray(np.random.default_rng(0).normal(size=(WIDTH, WIDTH)).astype(np.float32))
    for _ in range(3):
        program(x).block_until_ready()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(CALLS):
        program(x).block_until_ready()
    after = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    plan = program.plan(x)
    return (after - before) / CALLS, plan.compiled_bytes - plan.argument_bytes


@pytest.mark.parametrize("limit", [None, 100_000_000])
def test_calls_in_a_row_use_the_same_pages_again(limit: int | None) -> None:
    faults, allocated = faults_of(limit)
    assert allocated >= WIDTH * WIDTH * 4
    assert faults < allocated / PAGE / 4


def test_a_tight_limit_gives_blocks_back_between_calls() -> None:
    _, allocated = faults_of(None)
    argument = WIDTH * WIDTH * 4
    faults, _ = faults_of(argument + allocated + MEGABYTE)
    assert not allocator._HEAP.keeps
    assert faults > allocated / PAGE / 2


def test_blocks_beyond_the_room_are_given_back() -> None:
    heap = allocator._HEAP
    LIBC.malloc.restype, LIBC.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    heap.keep(math.inf)
    size = 2 * MEGABYTE
    blocks = [LIBC.malloc(size) for _ in range(8)]
    for block in blocks:
        ctypes.memset(block, 1, size)
    full = allocator._resident_bytes()
    for block in blocks:
        LIBC.free(block)
    heap.keep(math.inf)
    assert allocator._resident_bytes() > full - 4 * MEGABYTE
    heap.keep(8 * MEGABYTE)
    assert allocator._resident_bytes() < full - 8 * MEGABYTE


def test_a_program_without_a_known_limit_leaves_the_heap_as_it_is() -> None:
    for keeps in (True, False):
        if keeps:
            allocator._HEAP.keep(math.inf)
        else:
            allocator._HEAP.give_back()
        with allocator.heap_for(8 * MEGABYTE, 0, None):
            assert allocator._HEAP.keeps == keeps


def test_equal_programs_under_two_limits_keep_to_their_own() -> None:
    executable = tracer.lowering.compile_graph(
        tracer.compile(running_sums).graph(tnp.zeros((WIDTH, WIDTH), np.float32))
    )
    roomy, tight = executable.with_limit(None), executable.with_limit(executable.memory.peak_bytes)
    assert (roomy._room, tight._room, executable._room) == (math.inf, 0, None)
