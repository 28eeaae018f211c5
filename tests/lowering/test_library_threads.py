"""Threads of the library that has LAPACK."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import tracer
from tracer.lowering.cpu import library_threads
from tracer.lowering.cpu.library_threads import largest_call, one_thread
from tracer.scipy.linalg import solve_triangular

M, N = 30, 200


class FakeLibrary:
    """Counts threads and remembers what it was told."""

    def __init__(self) -> None:
        self.threads = 6
        self.told: list[int] = []

    def scipy_openblas_get_num_threads(self) -> int:
        return self.threads

    def scipy_openblas_set_num_threads(self, count: int) -> None:
        self.threads = count
        self.told.append(count)


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeLibrary]:
    fake = FakeLibrary()
    monkeypatch.setattr(library_threads, "_openblas", lambda: fake)
    yield fake
    assert fake.threads == 6


def solve(factor: tracer.Array, right: tracer.Array) -> tracer.Array:
    return solve_triangular(factor, right, lower=True)


def arrays() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return np.tril(rng.standard_normal((M, M))) + 9 * np.eye(M), rng.standard_normal((M, N))


def test_the_largest_call_is_counted() -> None:
    assert largest_call(tracer.compile(solve).hlo(*arrays())) == M * M * N
    assert largest_call(tracer.compile(lambda x: x @ x.T).hlo(arrays()[1])) == 0


def test_small_calls_take_one_thread(library: FakeLibrary) -> None:
    factor, right = arrays()
    program = tracer.compile(solve)
    for _ in range(2):
        np.testing.assert_allclose(factor @ np.asarray(program(factor, right)), right, atol=1e-12)
    assert library.told == [1, 6, 1, 6]


def test_large_calls_take_all_threads(
    library: FakeLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    factor, right = arrays()
    few = right[:, 1:]  # a program that has not run yet: each reads its calls once
    monkeypatch.setattr(library_threads, "LARGE_CALL", M * M * (N - 1))
    tracer.compile(solve)(factor, few)
    assert library.told == []


def test_programs_without_calls_leave_the_library_alone(library: FakeLibrary) -> None:
    tracer.compile(lambda x: x @ x.T)(arrays()[1])
    assert library.told == []


def test_the_last_of_several_runs_gives_the_threads_back(library: FakeLibrary) -> None:
    with one_thread():
        with one_thread():
            assert library.threads == 1
        assert library.threads == 1
    assert library.threads == 6


def test_threads_come_back_after_a_failure(library: FakeLibrary) -> None:
    with pytest.raises(ValueError, match="stop"), one_thread():
        raise ValueError("stop")
    assert library.threads == 6


def test_without_a_library_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library_threads, "_openblas", lambda: None)
    factor, right = arrays()
    found = np.asarray(tracer.compile(solve)(factor, right))
    np.testing.assert_allclose(factor @ found, right, atol=1e-12)


def test_the_wheels_of_scipy_have_the_library() -> None:
    library = library_threads._openblas()
    if library is None:
        pytest.skip("SciPy has another library here")
    before = library.scipy_openblas_get_num_threads()
    with one_thread():
        assert library.scipy_openblas_get_num_threads() == 1
    assert library.scipy_openblas_get_num_threads() == before
