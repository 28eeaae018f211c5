"""The first promise, tested: a compiled program runs inside its `memory_limit`.

A limit is a promise about the whole program: arguments, results, temporaries, loop carries and
library scratch, at the peak. The planner's model and XLA's own count are both wrong in places (see
benchmarks/measure.py), so the tests in this folder believe neither: each program runs in a fresh
process, and its resident memory above the baseline, plus the arguments that were there before, must
not exceed the limit. Nothing here imports tracer: the checker shares no code with what it checks.

A test is a function that a child process calls, and one line::

    # tests/memory/programs.py
    def kernel_product(n, limit):
        load_libraries()                 # of XLA: they are not the program
        x = tnp.asarray(...)
        f = tracer.compile(predict, memory_limit=limit)
        f.plan(x, y, v)                  # compile now: compilation is set-up, not the program
        return lambda: f(x, y, v).block_until_ready()

    # tests/memory/test_kernels.py
    def test_kernel_product():
        runs_within(f"{PROGRAMS}:kernel_product", limit_bytes=64_000_000,
                    argument_bytes=3 * 4 * 20_000, arguments={"n": 20_000, "limit": 64_000_000})

`must_be_split_bytes` is how a test shows that it can fail: the size of the tensor that the program
would hold if it were not split must be larger than the limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

from benchmarks.measure import Measurement, measure

TUNED = {"TRACER_TUNE_HOST_ALLOCATOR": "1"}
"""Asks for `tracer.tune_host_allocator`: with it resident memory keeps the limit, too.

Without it the count keeps the limit, and glibc's heaps keep freed memory besides
(`test_untuned.py`). From jaxlib 0.11 on what is cut off of aligned blocks must not stay in the
caches of threads (docs/devices.md), which only the environment can switch off."""
if tuple(map(int, version("jaxlib").split(".")[:2])) >= (0, 11):
    TUNED["GLIBC_TUNABLES"] = "glibc.malloc.tcache_count=0"
NOISE_BYTES = 1_000_000
"""What may be measured beyond the program. With jaxlib 0.10.2 on 2 cores a program of 4 x 4 numbers
adds 16 kB when another small program ran before it in set-up, and 9 MB when it is the first to run
(libraries that load lazily): hence `benchmarks.warm_up` in the example."""


def runs_within(
    target: str,
    *,
    limit_bytes: int,
    argument_bytes: int,
    must_be_split_bytes: int | None = None,
    arguments: Mapping[str, Any] | None = None,
    repeats: int = 1,
    timeout: float = 300,
) -> Measurement:
    """Assert that a program's measured memory stays within its limit, with a tuned heap (`TUNED`).

    Parameters
    ----------
    target : str
        "file.py:function", as `benchmarks.measure.measure` takes it.
    limit_bytes : int
        The promise.
    argument_bytes : int
        Bytes of the program's arguments; they are resident before the baseline is read.
    must_be_split_bytes : int, optional
        The largest tensor of the unsplit program.
    arguments : mapping, optional
        Keywords for the function.
    repeats : int
        Runs after the first: a leak from run to run counts.
    timeout : float
        Seconds.

    Returns
    -------
    Measurement
        For further checks, of time for one.

    Raises
    ------
    AssertionError
        The program did not run, took more than the limit, or the test could not fail.
    """
    _assert_can_fail(limit_bytes, must_be_split_bytes)
    measurement = measure(
        target, arguments=arguments, repeats=repeats, timeout=timeout, environment=TUNED
    )
    assert measurement.fits, f"{target}: {measurement.status}: {measurement.reason}"
    assert measurement.peak_bytes is not None
    total = measurement.peak_bytes + argument_bytes
    assert total <= limit_bytes + NOISE_BYTES, (
        f"{target} took {total} bytes, {argument_bytes} of them arguments; the limit was "
        f"{limit_bytes} ({measurement.method} measurement)"
    )
    return measurement


def _assert_can_fail(limit_bytes: int, must_be_split_bytes: int | None) -> None:
    assert limit_bytes >= 10 * NOISE_BYTES, "the limit drowns in noise: take a larger one"
    if must_be_split_bytes is not None:
        assert must_be_split_bytes > limit_bytes + NOISE_BYTES, "fits unsplit: proves nothing"


__all__ = ["NOISE_BYTES", "TUNED", "runs_within"]
