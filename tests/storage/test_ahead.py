"""Reading ahead: which block is next, and whose memory it is."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from tracer.storage.ahead import Buffers, begun, following_block


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
    first = buffers.take((4,), np.dtype("float32"))
    view = buffers.lent(first, is_last=False)
    second = buffers.take((4,), np.dtype("float32"))
    assert second is not first
    del view
    gc.collect()
    assert buffers.take((4,), np.dtype("float32")) is first


def test_after_the_last_block_none_is_kept() -> None:
    buffers = Buffers()
    first = buffers.take((4,), np.dtype("float32"))
    view = buffers.lent(first, is_last=True)
    del view
    assert buffers._free == []


def test_errors_wait_for_who_needs_the_result() -> None:
    future = begun(lambda: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        future.result()
