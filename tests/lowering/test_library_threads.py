"""Threads of the library that has LAPACK."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import numpy as np
import pytest
import threadpoolctl

import tracer
from tests.interrupted.moments import DROPPED, at_every_call
from tracer.lowering.cpu import host_allocator, library_threads
from tracer.lowering.cpu.library_threads import largest_call, one_thread
from tracer.scipy.linalg import solve_triangular

M, N = 30, 200


class FakeLibrary:
    """Counts threads and remembers what it was told, like a controller of threadpoolctl."""

    def __init__(self) -> None:
        self.num_threads = 6
        self.told: list[int] = []

    def set_num_threads(self, count: int) -> None:
        self.num_threads = count
        self.told.append(count)


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeLibrary]:
    """Stand in for BLAS, with the switch on; small programs leave the heap alone all the same."""
    fake = FakeLibrary()
    monkeypatch.setattr(library_threads, "_libraries", lambda: (fake,))
    monkeypatch.setattr(host_allocator._TUNED, "is_on", True)
    yield fake
    assert fake.num_threads == 6


def solve(factor: tracer.Array, right: tracer.Array) -> tracer.Array:
    return solve_triangular(factor, right, lower=True)


def arrays() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return np.tril(rng.standard_normal((M, M))) + 9 * np.eye(M), rng.standard_normal((M, N))


@pytest.mark.xla
def test_the_largest_call_is_counted() -> None:
    assert largest_call(tracer.compile(solve).hlo(*arrays())) == M * M * N
    assert largest_call(tracer.compile(lambda x: x @ x.T).hlo(arrays()[1])) == 0


@pytest.mark.xla
def test_small_calls_take_one_thread(library: FakeLibrary) -> None:
    factor, right = arrays()
    program = tracer.compile(solve)
    for _ in range(2):
        np.testing.assert_allclose(factor @ np.asarray(program(factor, right)), right, atol=1e-12)
    assert library.told == [1, 6, 1, 6]


@pytest.mark.xla
def test_large_calls_take_all_threads(
    library: FakeLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    factor, right = arrays()
    few = right[:, 1:]  # a program that has not run yet: each reads its calls once
    monkeypatch.setattr(library_threads, "LARGE_CALL", M * M * (N - 1))
    tracer.compile(solve)(factor, few)
    assert library.told == []


@pytest.mark.xla
def test_programs_without_calls_leave_the_library_alone(library: FakeLibrary) -> None:
    tracer.compile(lambda x: x @ x.T)(arrays()[1])
    assert library.told == []


def test_the_last_of_several_runs_gives_the_threads_back(library: FakeLibrary) -> None:
    with one_thread():
        with one_thread():
            assert library.num_threads == 1
        assert library.num_threads == 1
    assert library.num_threads == 6


def test_threads_come_back_after_a_failure(library: FakeLibrary) -> None:
    with pytest.raises(ValueError, match="stop"), one_thread():
        raise ValueError("stop")
    assert library.num_threads == 6


@pytest.mark.xla
def test_nobody_asked_and_threads_stay(
    library: FakeLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_allocator._TUNED, "is_on", False)
    tracer.compile(solve)(*arrays())
    assert library.told == []


@pytest.mark.xla
def test_without_a_library_nothing_happens(
    library: FakeLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library_threads, "_libraries", tuple)
    factor, right = arrays()
    found = np.asarray(tracer.compile(solve)(factor, right))
    np.testing.assert_allclose(factor @ found, right, atol=1e-12)
    assert library.told == []


@pytest.mark.xla
def test_the_library_of_scipys_wheels_is_found_and_numpys_left_alone() -> None:
    tracer.compile(solve)(*arrays())  # LAPACK is loaded
    found = library_threads._libraries()
    assert found
    before = [one.num_threads for one in found]
    numpys = [
        one
        for one in threadpoolctl.ThreadpoolController().lib_controllers
        if "numpy.libs" in one.filepath
    ]
    as_ever = [one.num_threads for one in numpys]
    with one_thread():
        assert [one.num_threads for one in found] == [1] * len(found)
        assert [one.num_threads for one in numpys] == as_ever
    assert [one.num_threads for one in found] == before


@DROPPED
def test_after_an_interrupt_the_next_program_gives_all_threads_back(library: FakeLibrary) -> None:
    def run() -> None:
        with one_thread():
            assert library.num_threads == 1

    def after() -> None:
        gc.collect()
        assert not library_threads._running
        run()
        assert library.num_threads == 6

    assert at_every_call(run, after) > 5
