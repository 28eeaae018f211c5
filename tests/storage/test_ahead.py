"""Reading ahead: which block is next, and whose memory it is."""

from __future__ import annotations

import gc
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tests.storage.files import points, stored
from tracer.ir.storage import LARGE_PAGE
from tracer.storage.ahead import Block, Buffers, Work, following_block, space


def test_the_block_after_the_first_is_beside_it() -> None:
    assert following_block((0, 0), None, (10, 4), (30, 4)) == (10, 0)
    assert following_block((0, 0), (20, 0), (10, 4), (30, 4)) == (10, 0)


def test_steps_go_on_to_the_end() -> None:
    assert following_block((10, 0), (0, 0), (10, 4), (30, 4)) == (20, 0)
    assert following_block((20, 0), (10, 0), (10, 4), (30, 4)) is None
    assert following_block((20, 0), (10, 0), (10, 4), (39, 4)) is None
    assert following_block((2, 6), (2, 3), (1, 3), (5, 9)) is None


def test_what_is_read_whole_has_no_next() -> None:
    assert following_block((0, 0), None, (30, 4), (30, 4)) is None
    assert following_block((), None, (), ()) is None


def test_memory_is_used_again_once_what_was_lent_is_dropped() -> None:
    buffers = Buffers()
    first = buffers.take(16)
    view = buffers.lent(Block(first, first), is_last=False)
    second = buffers.take(16)
    assert second is not first
    del view
    gc.collect()
    assert buffers.take(16) is first


def test_after_the_last_block_none_is_kept() -> None:
    buffers = Buffers()
    first = buffers.take(16)
    view = buffers.lent(Block(first, first), is_last=True)
    del view
    assert buffers._free == []


def test_errors_wait_for_who_needs_the_result() -> None:
    work = Work(lambda: 1 // 0)
    work.begin()
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            work.wait()


def test_work_that_was_given_up_never_begins() -> None:
    done: list[int] = []
    work = Work(lambda: done.append(1))
    work.give_up()
    work.begin()
    work.wait()
    assert done == []


@pytest.mark.xla
def test_of_urls_small_blocks_are_read_ahead_too() -> None:
    """Their answers take longer than a thread."""
    x, read = points(4000, 4), list[str]()
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    with memory.open("/ahead.npy", "wb") as file:
        np.save(file, x)
    opened = tracer.open("memory://ahead.npy")
    source: Any = opened._source
    fill = source.fill

    def noted(block: Any, starts: Any) -> None:
        read.append(threading.current_thread().name)
        fill(block, starts)

    source.fill = noted
    f = tracer.compile(lambda x: x.sum(0), memory_limit="40kB")
    np.testing.assert_allclose(f(opened), x.sum(0), rtol=1e-4)
    assert read.count("tracer-storage") >= len(read) - 1 > 3


def _in_large_pages() -> int:
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("AnonHugePages"))


def test_blocks_are_in_large_pages_and_no_page_more() -> None:
    setting = Path("/sys/kernel/mm/transparent_hugepage/enabled")
    if not setting.exists() or "[never]" in setting.read_text():
        pytest.skip("the system has no large pages")
    nbytes = 2 * LARGE_PAGE + 12_345
    before = _in_large_pages()
    block = space((nbytes,), np.dtype(np.uint8))
    block[:] = 1
    assert block.ctypes.data % LARGE_PAGE == 0
    assert _in_large_pages() - before == 2 * LARGE_PAGE


@pytest.mark.xla
def test_whole_large_pages_are_read(tmp_path: Path) -> None:
    x = stored(tmp_path, points(610_007, 32))
    for limit, pages in ((40_000_000, 2), (10_000_000, 0.84)):  # within the limit all the same
        plan = tracer.compile(lambda x: x.T @ x, memory_limit=limit).plan(x)
        (loop,) = plan.loops
        assert loop.chunk * 32 * 4 / LARGE_PAGE == pytest.approx(pages, rel=0.01)
        assert plan.compiled_bytes <= limit


@pytest.mark.xla
def test_large_pages_are_not_given_up_for_trips_that_divide(tmp_path: Path) -> None:
    x = stored(tmp_path, points(30 * 25_000, 32))
    (loop,) = tracer.compile(lambda x: x.T @ x, memory_limit="40MB").plan(x).loops
    assert loop.chunk * 32 * 4 == 2 * LARGE_PAGE


@pytest.mark.xla
def test_a_trip_that_mostly_computes_is_not_made_larger(tmp_path: Path) -> None:
    """Pages would make its trips outgrow the caches, and reading is little of it."""
    x = stored(tmp_path, points(610_007, 32))
    centres = points(100, 32)

    def f(x: Any, centres: Any) -> Any:
        near = tnp.exp(-((x[:, None] - centres) ** 2).sum(-1))
        return near.T @ near

    (loop,) = tracer.compile(f, memory_limit="80MB").plan(x, centres).loops
    assert 0.5 * LARGE_PAGE < loop.chunk * 32 * 4 < 0.95 * LARGE_PAGE  # it would be one page
