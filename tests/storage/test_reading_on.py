"""A thread that reads on: every block once, in order, whatever waits for what."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tracer
from tracer.errors import StorageError
from tracer.storage.ahead import following_blocks

BLOCK = 20_000
"""Rows of a block of float64, 160 kB: read ahead."""


class Slow:
    """An array that takes its time, and notes which rows were read, on which thread."""

    def __init__(self, rows: int, delays: Any, breaks_at: int | None = None) -> None:
        self.array = np.arange(float(rows))
        self.shape, self.dtype = self.array.shape, self.array.dtype
        self.read, self.delays, self.breaks_at = list[tuple[int, str]](), delays, breaks_at
        self.held = dict[int, threading.Event]()
        """Of blocks that are not read before something has happened."""

    def __getitem__(self, index: Any) -> Any:
        first = index[0].start
        self.read.append((first, threading.current_thread().name))
        time.sleep(next(self.delays))
        if first // BLOCK in self.held:
            assert self.held[first // BLOCK].wait(60)
        if self.breaks_at is not None and first >= self.breaks_at:
            raise OSError(5, "broken")
        return self.array[index]


class Reader:
    """A place in a program."""

    devices = 1


class _Delays:
    """Now and then two milliseconds; threads may ask together."""

    def __init__(self, seed: int) -> None:
        self.rng, self.lock = np.random.default_rng(seed), threading.Lock()

    def __next__(self) -> float:
        with self.lock:
            return float(self.rng.choice([0.0, 0.0, 0.002]))


@pytest.mark.parametrize("seed", range(12))
def test_each_block_is_read_once_and_is_the_right_one(seed: int) -> None:
    slow, waits = Slow(12 * BLOCK + 7, _Delays(seed)), _Delays(100 + seed)
    stored, reader = tracer.open(slow), Reader()
    for _ in range(2):  # as two loops of a program
        for first in range(0, 12 * BLOCK, BLOCK):
            block = stored.read((first,), (BLOCK,), reader)
            np.testing.assert_array_equal(block, slow.array[first : first + BLOCK])
            time.sleep(next(waits))
            del block  # copied
            time.sleep(next(waits))
    assert sorted(first for first, _ in slow.read) == sorted(2 * list(range(0, 12 * BLOCK, BLOCK)))
    assert len({name for _, name in slow.read}) == 2


def _await(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def _reads() -> bool:
    return any(thread.name == "tracer-storage" for thread in threading.enumerate())


def _places(slow: Slow) -> list[int]:
    return [first // BLOCK for first, _ in slow.read]


def test_it_is_two_blocks_ahead_and_no_more() -> None:
    slow, reader = Slow(12 * BLOCK, itertools.repeat(0.0)), Reader()
    slow.held[2] = threading.Event()
    stored = tracer.open(slow)
    stored.read((0,), (BLOCK,), reader)
    _await(lambda: not _reads())
    assert _places(slow) == [0, 1]  # the first step may be the only one
    stored.read((BLOCK,), (BLOCK,), reader)
    slow.held[2].set()  # the block before is copied
    _await(lambda: not _reads())
    assert _places(slow) == [0, 1, 2, 3]


def test_blocks_that_are_kept_stop_it_and_are_not_written_over() -> None:
    slow, reader = Slow(9 * BLOCK, itertools.repeat(0.0)), Reader()
    stored = tracer.open(slow)
    kept = [stored.read((first,), (BLOCK,), reader) for first in range(0, 9 * BLOCK, BLOCK)]
    np.testing.assert_array_equal(np.concatenate(kept), slow.array)


@pytest.mark.parametrize("seed", range(6))
def test_jumps(seed: int) -> None:
    rng, slow = np.random.default_rng(seed), Slow(40 * BLOCK, _Delays(seed))
    stored, reader = tracer.open(slow), Reader()
    first = 0
    for _ in range(40):
        block = stored.read((first,), (BLOCK,), reader)
        np.testing.assert_array_equal(block, slow.array[first : first + BLOCK])
        del block
        first = first + BLOCK if rng.random() < 0.7 else int(rng.integers(30)) * BLOCK
        first = min(first, 39 * BLOCK)


def _reading_the_third() -> tuple[Slow, tracer.StoredArray, Reader]:
    """Two blocks are read, and the one after them waits for `slow.held[2]`."""
    slow, reader = Slow(40 * BLOCK, itertools.repeat(0.0)), Reader()
    slow.held[2] = threading.Event()
    stored = tracer.open(slow)
    for place in (0, 1):
        stored.read((place * BLOCK,), (BLOCK,), reader)
        _await(lambda place=place: place + 1 in _places(slow))
    return slow, stored, reader


def test_after_a_jump_it_reads_on_there() -> None:
    slow, stored, reader = _reading_the_third()
    stored.read((20 * BLOCK,), (BLOCK,), reader)
    slow.held[2].set()
    _await(lambda: not _reads())
    assert 3 not in _places(slow)
    for place in (21, 22):
        stored.read((place * BLOCK,), (BLOCK,), reader)
        _await(lambda place=place: place + 1 in _places(slow))


def test_an_error_comes_with_its_block() -> None:
    slow, reader = Slow(20 * BLOCK, itertools.repeat(0.0), breaks_at=4 * BLOCK), Reader()
    stored = tracer.open(slow)
    for place in range(4):
        found = stored.read((place * BLOCK,), (BLOCK,), reader)
        np.testing.assert_array_equal(found, slow.array[place * BLOCK : (place + 1) * BLOCK])
        del found
        _await(lambda place=place: place + 1 in _places(slow))
    with pytest.raises(StorageError, match="broken"):
        stored.read((4 * BLOCK,), (BLOCK,), reader)
    assert 5 not in _places(slow)
    slow.breaks_at = None
    for place in range(4, 8):
        found = stored.read((place * BLOCK,), (BLOCK,), reader)
        np.testing.assert_array_equal(found, slow.array[place * BLOCK : (place + 1) * BLOCK])
        del found
        _await(lambda place=place: place + 1 in _places(slow))


def test_nothing_is_read_after_the_call() -> None:
    slow, stored, _ = _reading_the_third()
    stored.rest()
    slow.held[2].set()
    _await(lambda: not _reads())
    assert _places(slow) == [0, 1, 2]


def test_threads_end_with_the_call() -> None:
    slow, reader = Slow(30 * BLOCK, itertools.repeat(0.0)), Reader()
    stored = tracer.open(slow)
    for first in (0, BLOCK, 2 * BLOCK):
        stored.read((first,), (BLOCK,), reader)
    stored.rest()
    _await(lambda: not _reads())


def test_one_block_is_read_on_after_a_first_and_all_after_a_second() -> None:
    assert list(following_blocks((0,), None, (2,), (10,))) == [(2,)]
    assert list(following_blocks((2,), (0,), (2,), (10,))) == [(4,), (6,), (8,)]
    assert list(following_blocks((8,), (6,), (2,), (10,))) == []
