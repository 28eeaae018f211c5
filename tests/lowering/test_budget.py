"""`tracer.memory_budget`: what all programs of a process share."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tracer.lowering.run.budget import ASKED, _array_bytes

pytestmark = pytest.mark.xla
MB = 1_000_000


@pytest.fixture(autouse=True)
def _no_budget_after() -> Iterator[None]:
    yield
    tracer.memory_budget(None)


def budget_beside_arrays(nbytes: int, **options: Any) -> None:
    """Set a budget of so many bytes beside the arrays that other tests left."""
    tracer.memory_budget(_array_bytes() + nbytes, **options)


@tracer.compile
def pairs(x: Any) -> Any:
    """8 MB for 1,000 points: sorting stores them."""
    return tnp.sort(x[:, None] * x, 0)[5].sum()


@pytest.fixture
def x() -> Any:
    return tnp.asarray(np.linspace(0, 1, 1000))


def test_what_does_not_fit_is_refused_and_what_does_is_run(x: Any) -> None:
    wanted, needed = float(pairs(x)), pairs.plan(x).compiled_bytes
    budget_beside_arrays(needed // 2)
    with pytest.raises(tracer.MemoryBudgetError, match="nothing runs that could leave") as found:
        pairs(x)
    assert found.value.needed_bytes == needed - x.nbytes
    assert found.value.where is not None
    assert found.value.where.file == __file__
    budget_beside_arrays(needed)
    for _ in range(20):
        assert float(pairs(x)) == wanted
    tracer.memory_budget(None)
    assert float(pairs(x)) == wanted


def test_arrays_count_until_they_are_dropped() -> None:
    budget_beside_arrays(10 * MB)
    held = [tnp.ones(MB // 8) + i for i in range(8)]
    with pytest.raises(tracer.MemoryBudgetError):
        held += [tnp.ones(MB // 8) + i for i in range(4)]
    with pytest.raises(tracer.MemoryBudgetError):
        tnp.asarray(np.ones(8 * MB // 8))
    held.clear()
    assert tnp.asarray(np.ones(8 * MB // 8)).shape == (MB,)


def test_arrays_in_cycles_are_nobodys() -> None:
    budget_beside_arrays(15 * MB)
    for _ in range(10):
        cycle: list[Any] = [tnp.zeros(4 * MB // 8) + 1]
        cycle.append(cycle)


def test_donated_arguments_count_once(x: Any) -> None:
    step = tracer.compile(lambda x: x + 1, donate_argnums=0)
    large = tnp.zeros(4 * MB // 8)
    budget_beside_arrays(MB)
    for _ in range(5):
        large = step(large)
    assert float(large[0]) == 5


class Held:
    """A call that runs until it is let go."""

    def __init__(self, nbytes: int) -> None:
        self.go, self.begun = threading.Event(), threading.Event()

        def held(x: Any) -> Any:
            self.begun.set()
            assert self.go.wait(60)
            return np.float64(0)

        def function(x: Any) -> Any:
            large = tnp.sort(x * tnp.ones(nbytes // 8))
            pause = tracer.pure_callback(held, tracer.ShapeDtype((), "float64"), large[0])
            return large.sum() + pause

        self.compiled = tracer.compile(function)
        self.compiled.plan(1.0)
        self.thread = threading.Thread(target=self.compiled, args=(1.0,))

    def __enter__(self) -> Held:
        self.thread.start()
        assert self.begun.wait(60)
        return self

    def __exit__(self, *_: object) -> None:
        self.go.set()
        self.thread.join()


def test_a_call_waits_for_others_and_no_longer_than_is_said(x: Any) -> None:
    wanted, needed = float(pairs(x)), pairs.plan(x).compiled_bytes
    held = Held(needed)
    budget_beside_arrays(held.compiled.plan(1.0).compiled_bytes + needed // 2, timeout=0.2)
    with held, pytest.raises(tracer.MemoryBudgetError, match=r"none was left in 0\.2 s"):
        pairs(x)
    held = Held(needed)
    budget_beside_arrays(held.compiled.plan(1.0).compiled_bytes + needed // 2, timeout=60)
    with held, ThreadPoolExecutor() as pool:
        waiting = pool.submit(pairs, x)
        assert not waiting.done()
        held.go.set()
        assert float(waiting.result(60)) == wanted


def test_calls_are_admitted_in_their_order(x: Any) -> None:
    """A small call does not pass a large one that waits."""
    needed = pairs.plan(x).compiled_bytes
    small = tracer.compile(lambda x: tnp.sort(x)[0])
    small(x)
    held = Held(needed)
    budget_beside_arrays(held.compiled.plan(1.0).compiled_bytes + needed // 2)
    with held, ThreadPoolExecutor() as pool:
        large = pool.submit(pairs, x)
        while not ASKED.budget._waiting:
            pass
        later = pool.submit(small, x)  # It would fit.
        assert not wait([large, later], timeout=0.5).done
        held.go.set()
        assert wait([large, later], timeout=60).not_done == set()


def test_limits_that_are_none_are_refused() -> None:
    for limit in ("8 apples", -1, 0, "1e400GB", float("nan")):
        with pytest.raises(tracer.ArgumentError):
            tracer.memory_budget(limit)


THREADS = """
import threading, numpy as np, tracer, tracer.numpy as tnp
from benchmarks.watches import Sampler
f = tracer.compile(lambda x: abs(tnp.fft.fft(x * tnp.ones(1 << 22))).sum())
x = tnp.asarray(2.0)
wanted = float(f(x))
need = f.plan(x).compiled_bytes
def work():
    for _ in range(2):
        assert float(f(x)) == wanted
def peak_of_eight_threads():
    watch = Sampler()
    before = watch.baseline()
    watch.start()
    threads = [threading.Thread(target=work) for _ in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    found = watch.peak() - before
    watch.stop()
    return found / need
tracer.memory_budget(int(2.2 * need) + 1_000_000, timeout=300)
peak_of_eight_threads()
print(peak_of_eight_threads())
tracer.memory_budget(None)
print(peak_of_eight_threads())
"""


@pytest.mark.process
def test_eight_threads_stay_within_the_budget_by_resident_memory() -> None:
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", THREADS], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    within, without = map(float, done.stdout.split())
    assert within < 2.3 < without
