"""The process is left alone unless `tracer.tune_host_allocator` is asked for, and again afterwards.

Each program runs in a fresh process. What mallopt set cannot be read back, so calls into the C
library are noted where ctypes looks them up.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import tracer
from tracer.errors import ArgumentError, DeviceError
from tracer.lowering.cpu import c_heap, host_allocator

DEFAULTS = [
    ["mallopt", -4, 65536], ["mallopt", -3, 131072], ["mallopt", -1, 131072], ["mallopt", -8, 0],
]  # fmt: skip
"""glibc's own: mapped blocks, the two thresholds, heaps."""

pytestmark = [
    pytest.mark.xla,
    pytest.mark.process,
    pytest.mark.skipif(not c_heap.IS_GLIBC, reason="not glibc"),
]

NOTE = """
import ctypes, json, sys
notes = []

class Noted(ctypes.CDLL):
    def __getattribute__(self, name):
        if name not in ("mallopt", "malloc_trim"):
            return super().__getattribute__(name)
        found = self[name]
        return lambda *given: (notes.append([name, *given]), found(*given))[1]

ctypes.CDLL = Noted
"""
USE = """
import numpy as np

def use():
    rng = np.random.default_rng(0)
    small, large = np.eye(64) * 2, rng.random((2_500, 4_000), np.float32)
    solve = tracer.scipy.linalg.solve_triangular
    tracer.compile(tracer.grad(lambda a: solve(a, a, lower=True).sum()))(small)
    tracer.compile(lambda x: tracer.numpy.exp(x - x.T) @ x, memory_limit="60MB")(large[:, :2_500])
    for _ in range(2):
        tracer.compile(tracer.numpy.exp)(large)
    return tracer.numpy.exp(tracer.numpy.asarray(small)) @ small
"""
STATE = """
import atexit, gc, os, signal, sys, threading, warnings
import jaxlib.lapack, jaxlib.xla_client, jaxlib.mlir.dialects.stablehlo
import ml_dtypes, networkx, numpy, opt_einsum, optree, threadpoolctl
import scipy.linalg, scipy.special

def state():
    return dict(
        environment=dict(os.environ),
        collection=gc.get_threshold(),
        filters=[repr(one) for one in warnings.filters],
        hooks=[atexit._ncallbacks(), repr(sys.excepthook), repr(signal.getsignal(signal.SIGINT))],
        threads=sorted(one.name for one in threading.enumerate()),
        recursion=sys.getrecursionlimit(),
        errors=numpy.geterr(),
        blas=sorted((one.filepath, one.num_threads) for one in
                    threadpoolctl.ThreadpoolController().lib_controllers),
    )
"""


def told(script: str, **environment: str) -> Any:
    """Return what a process prints last, as JSON; its log must be empty."""
    variables = {
        name: value
        for name, value in os.environ.items()
        if name
        not in ("KMP_DUPLICATE_LIB_OK", "TF_CPP_MIN_LOG_LEVEL", "TRACER_TUNE_HOST_ALLOCATOR")
    }
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env={**variables, **environment},
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == "", "XLA's log, or a warning"
    return json.loads(done.stdout.splitlines()[-1])


def test_importing_compiling_and_calling_change_nothing() -> None:
    """Some of the modules that tracer needs have hooks at exit: they are imported before."""
    found = told(
        f"{NOTE}{STATE}before = state()\nimport tracer\nimported = state()\n"
        f"{USE}use()\nprint(json.dumps([notes, before, imported, state()]))",
        TF_CPP_MIN_LOG_LEVEL="3",
    )
    notes, before, imported, used = found
    assert notes == []
    assert imported == before
    assert used == before


def test_the_notes_are_taken_and_the_state_can_change() -> None:
    """What the test above looks at does change where it is asked for."""
    notes, before, used = told(
        f"{NOTE}{STATE}before = state()\nimport tracer\ntracer.tune_host_allocator()\n"
        f"{USE}use()\nprint(json.dumps([notes, before, state()]))",
        TF_CPP_MIN_LOG_LEVEL="3",
    )
    assert ["mallopt", -8, 1] in notes
    assert ["mallopt", -4, 0] in notes
    assert used["threads"] == sorted([*before["threads"], "tracer-heap"])


def test_no_variable_is_left_behind_and_the_log_is_quiet() -> None:
    """`told` sees to the log: without a level XLA would print two lines for its client."""
    before, after = told(
        "import json, os\nbefore = dict(os.environ)\n"
        f"import tracer\n{USE}use()\nprint(json.dumps([before, dict(os.environ)]))"
    )
    assert after == before


def test_a_log_level_of_the_users_stays() -> None:
    said = told(
        "import json, os, tracer\nprint(json.dumps(os.environ['TF_CPP_MIN_LOG_LEVEL']))",
        TF_CPP_MIN_LOG_LEVEL="2",
    )
    assert said == "2"


def test_undoing_sets_the_defaults_and_ends_the_thread() -> None:
    notes, later, before, used = told(
        f"{NOTE}{STATE}import tracer\nbefore = state()\n"
        f"{USE}with tracer.tune_host_allocator() as tuned:\n    use()\n"
        "known = list(notes)\ntuned.undo()\nuse()\n"
        "print(json.dumps([known, notes[len(known):], before, state()]))",
        TF_CPP_MIN_LOG_LEVEL="3",
    )
    assert notes[-5:] == [*DEFAULTS, ["malloc_trim", 0]]
    assert later == []
    assert used == before


def test_undoing_while_a_program_runs_leaves_the_defaults() -> None:
    """The heap of a call that has begun is not set again when the call ends."""
    notes = told(
        f"{NOTE}import tracer\n{USE}"
        "from tracer.lowering.cpu import allocator\n"
        "tuned = tracer.tune_host_allocator()\n"
        "large = allocator.Needs(1 << 26, (1 << 26,), 0, 1 << 26)\n"
        "packing = allocator.Needs(1 << 23, (), 1 << 22, 1 << 23)\n"
        "with allocator.heap_for(packing, None), allocator.heap_for(large, 1e9):\n"
        "    tuned.undo()\n"
        "use()\nprint(json.dumps(notes))"
    )
    last = {number: value for _, number, value in (note for note in notes if len(note) == 3)}
    assert last == {number: value for _, number, value in DEFAULTS}


def test_the_environment_asks_for_the_same() -> None:
    by_hand, by_variable = (
        told(f"{NOTE}import tracer\n{asked}\nprint(json.dumps(notes))", **environment)
        for asked, environment in (
            ("tracer.tune_host_allocator()", {}),
            ("", {"TRACER_TUNE_HOST_ALLOCATOR": "1"}),
        )
    )
    assert by_hand == by_variable
    assert by_hand
    assert told(f"{NOTE}import tracer\nprint(len(notes))", TRACER_TUNE_HOST_ALLOCATOR="0") == 0


def test_asking_twice_is_asking_once() -> None:
    once, twice, is_same = told(
        f"{NOTE}import tracer\nfirst = tracer.tune_host_allocator()\nonce = len(notes)\n"
        "second = tracer.tune_host_allocator()\n"
        "print(json.dumps([once, len(notes), first is second]))"
    )
    assert once == twice
    assert is_same


def test_another_answer_in_the_environment_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRACER_TUNE_HOST_ALLOCATOR", "yes")
    with pytest.raises(ArgumentError, match="TRACER_TUNE_HOST_ALLOCATOR is 'yes'"):
        host_allocator.tune_if_asked()


def test_another_c_library_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(c_heap, "IS_GLIBC", False)
    with pytest.raises(DeviceError, match="not glibc"):
        tracer.tune_host_allocator()
    assert not host_allocator.is_tuned()


def test_one_file_speaks_to_the_heap() -> None:
    found = {
        file.name
        for file in Path(tracer.__file__).parent.rglob("*.py")
        if re.search(r"\b(mallopt|malloc_trim)\(", file.read_text())
    }
    assert found == {"c_heap.py"}
