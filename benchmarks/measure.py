"""Measure time and resident memory of a program in a fresh process.

Why not the compiler's own count: XLA's `temp_size_in_bytes` knows its buffers only. Scratch inside
library calls is in no count: attention on the CPU backend reports 0 bytes while the process grows
by 4.2 GB (8 heads, S = 8192, float32), and LAPACK and Eigen workspaces are missing too. What the
user runs out of is resident memory, so that is what is measured here.

Why a fresh process: the high-water mark of a process never falls, freed memory stays with malloc,
and a peer's leftovers would hide ours. The child imports, makes its inputs and compiles; then the
heap is trimmed, the baseline is read, the high-water mark is reset, and only then the program runs.

From the command line (JSON on standard output)::

    python -m benchmarks.measure benchmarks/smoke.py:unsplit --argument n=4000 --repeats 5

A target is `file.py:function` or `package.module:function`. The function takes the arguments as
keywords, and returns `run`: a callable without arguments that computes everything, waits for it and
returns the results, which stay alive while the memory is measured. Two attributes of it are used if
they are there: `report()`, called when all is measured, returns JSON values for the caller (some of
the results, say); `device_bytes()` returns the bytes in use and the highest so far of a device with
memory of its own, which are measured then instead of resident memory.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import dataclasses
import gc
import importlib
import importlib.util
import json
import math
import os
import resource
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.unavailable import Unavailable
from benchmarks.watches import DeviceCounter, HighWater, Sampler, Watch, mapped_bytes

ROOT = Path(__file__).resolve().parent.parent
_NO_MEMORY = (
    "RESOURCE_EXHAUSTED",
    "out of memory",
    "Cannot allocate memory",
    "bad_alloc",
    "YNNPACK operation failed",  # XLA's library for products says no more than that.
)


@dataclasses.dataclass(frozen=True)
class Measurement:
    """What one program took.

    Attributes
    ----------
    status : str
        "ok"; "does not fit" (out of memory, over the cap, or killed for it); "timed out"; "failed";
        "skipped" (something that it needs is not here: `benchmarks.unavailable`).
    seconds, fastest, slowest : float or None
        Median and spread of the repeats, without the first run.
    first_seconds : float or None
        The first run, which warms up.
    peak_bytes : int or None
        Highest resident memory during all runs, which follow one another at once, above the
        baseline. What one run leaves behind for the next (leaks, memory that malloc or a thread
        gives back late) counts: that is what a training loop needs.
    first_peak_bytes : int or None
        The same for the first run alone.
    baseline_bytes : int or None
        Resident memory after set-up: interpreter, libraries, inputs, compiled program.
    method : str
        "high-water" (exact, /proc/self/clear_refs) or "sampled" (a thread that may miss a spike).
    reason : str
        Why the status is not "ok".
    report : JSON value
        What the program's `report` returned.
    """

    status: str
    seconds: float | None = None
    fastest: float | None = None
    slowest: float | None = None
    first_seconds: float | None = None
    peak_bytes: int | None = None
    first_peak_bytes: int | None = None
    baseline_bytes: int | None = None
    method: str = ""
    reason: str = ""
    report: Any = None

    @property
    def fits(self) -> bool:
        """Whether the program ran."""
        return self.status == "ok"


def measure(
    target: str,
    *,
    arguments: Mapping[str, Any] | None = None,
    repeats: int = 3,
    enough_seconds: float | None = None,
    cap_bytes: int | None = None,
    timeout: float = 600,
    environment: Mapping[str, str] | None = None,
    python: str = sys.executable,
    trimmed: bool = True,
) -> Measurement:
    """Run a program in a fresh process and measure it.

    Parameters
    ----------
    target : str
        "file.py:function" or "package.module:function"; see the top of this file.
    arguments : mapping of str to JSON values, optional
        Keywords for the function.
    repeats : int
        Timed runs after the first one.
    enough_seconds : float, optional
        No further run begins after this time.
    cap_bytes : int, optional
        Address space that the runs may add to what set-up has mapped (RLIMIT_AS). Coarse: thread
        stacks and malloc's reserves count too.
    timeout : float
        Seconds for set-up and all runs.
    environment : mapping of str to str, optional
        Added to this process's environment.
    python : str
        The interpreter: a peer may live in another environment.
    trimmed : bool
        Give the memory that set-up freed back to the system first. Otherwise the program may use
        it again, as it does outside of measurements, and only what it adds is measured.

    Returns
    -------
    Measurement
        Never an exception for what the program does: crashes and overruns are a status.
    """
    order = {
        "target": target,
        "arguments": dict(arguments or {}),
        "repeats": repeats,
        "enough_seconds": enough_seconds,
        "cap_bytes": cap_bytes,
        "trimmed": trimmed,
    }
    try:
        done = subprocess.run(
            [python, "-m", "benchmarks.measure", "--child", json.dumps(order)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=timeout,
            env={**os.environ, **(environment or {})},
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Measurement("timed out", reason=f"more than {timeout} s")
    if done.returncode == 0:
        return Measurement(**json.loads(done.stdout))
    return _from_crash(done.returncode, done.stderr, capped=cap_bytes is not None)


def _from_crash(code: int, log: str, *, capped: bool) -> Measurement:
    last = log.strip().splitlines()[-1] if log.strip() else ""
    if code > 0:
        return Measurement("failed", reason=f"exit status {code}: {last}")
    name = signal.Signals(-code).name
    # Without a cap only the kernel's out-of-memory killer sends SIGKILL; under a cap a failed
    # allocation inside a C++ library ends in abort or in a null pointer.
    for_memory = code == -signal.SIGKILL or capped or any(text in log for text in _NO_MEMORY)
    return Measurement("does not fit" if for_memory else "failed", reason=f"{name}: {last}")


def _child(order: Mapping[str, Any]) -> Measurement:
    build = _load(order["target"])
    try:
        run = build(**order["arguments"])
        if order["trimmed"]:
            gc.collect()
            _trim_heap()
        return _measure_here(run, order["repeats"], order["enough_seconds"], order["cap_bytes"])
    except Unavailable as error:
        return Measurement("skipped", reason=str(error))
    except Exception as error:
        if not isinstance(error, MemoryError) and not any(t in str(error) for t in _NO_MEMORY):
            raise
        return Measurement("does not fit", reason=f"{type(error).__name__}: {error}")


def _measure_here(
    run: Callable[[], Any], repeats: int, enough_seconds: float | None, cap_bytes: int | None
) -> Measurement:
    watch = _watch_for(run)
    baseline = watch.baseline()
    with address_space(cap_bytes):
        watch.start()
        seconds = [_seconds(run)]
        first_peak = watch.peak()
        while len(seconds) <= repeats and sum(seconds) < (enough_seconds or math.inf):
            seconds.append(_seconds(run))
        peak = watch.peak()
        watch.stop()
    warm = seconds[1:] or seconds
    report: Callable[[], Any] = getattr(run, "report", lambda: None)
    return Measurement(
        "ok",
        seconds=statistics.median(warm),
        fastest=min(warm),
        slowest=max(warm),
        first_seconds=seconds[0],
        peak_bytes=max(peak - baseline, 0),
        first_peak_bytes=max(first_peak - baseline, 0),
        baseline_bytes=baseline,
        method=watch.method,
        report=report(),
    )


def _watch_for(run: Callable[[], Any]) -> Watch:
    if hasattr(run, "device_bytes"):
        return DeviceCounter(run.device_bytes)
    return HighWater() if HighWater.works() else Sampler()


@contextlib.contextmanager
def address_space(cap_bytes: int | None) -> Iterator[None]:
    """Let this process add no more address space than this, for a while; None: as much as it can.

    Used by measurements, and by programs whose set-up runs what may not fit.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    if cap_bytes is not None:
        limit = mapped_bytes() + cap_bytes
        resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _seconds(run: Callable[[], Any]) -> float:
    start = time.perf_counter()
    results = run()
    seconds = time.perf_counter() - start
    # Only now: the results are part of what a run takes.
    del results
    return seconds


def _trim_heap() -> None:
    """Give freed memory back to the system, or the program would reuse it and look smaller."""
    library = ctypes.CDLL(None)
    if hasattr(library, "malloc_trim"):
        library.malloc_trim(0)


def _load(target: str) -> Callable[..., Callable[[], Any]]:
    place, _, name = target.rpartition(":")
    if not place.endswith(".py"):
        return getattr(importlib.import_module(place), name)  # type: ignore[no-any-return]
    spec = importlib.util.spec_from_file_location(Path(place).stem, place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return getattr(module, name)  # type: ignore[no-any-return]


def _argument(text: str) -> tuple[str, Any]:
    key, _, value = text.partition("=")
    try:
        return key, json.loads(value)
    except json.JSONDecodeError:
        return key, value


def _serve(order: str) -> None:
    """Be the child: only the measurement goes to standard output, whatever the program prints."""
    answer = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    measurement = _child(json.loads(order))
    json.dump(dataclasses.asdict(measurement), answer)
    answer.close()
    # No clean-up of libraries under a memory cap: it can hang or crash, and all is said.
    os._exit(0)


def main() -> None:
    """Measure one target and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("target", help="file.py:function or package.module:function")
    parser.add_argument("--argument", action="append", default=[], metavar="NAME=JSON")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--cap-bytes", type=int)
    parser.add_argument("--timeout", type=float, default=600)
    options = vars(parser.parse_args())
    arguments = dict(map(_argument, options.pop("argument")))
    print(json.dumps(dataclasses.asdict(measure(arguments=arguments, **options))))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        _serve(sys.argv[2])
    else:
        main()
