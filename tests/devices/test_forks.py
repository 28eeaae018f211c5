"""Processes that are forked: before XLA has started they work, afterwards they say what to do."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

pytestmark = pytest.mark.process
_START = """
import multiprocessing, numpy as np, tracer, tracer.numpy as tnp

def far(x):
    return tnp.exp(-abs(x[:, None] - x)).sum(1)

compiled = tracer.compile(far, memory_limit="1MB")
"""


def ran(script: str) -> list[str]:
    """Return what a script prints, line by line."""
    text = textwrap.dedent(_START) + textwrap.dedent(script)
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", text],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.splitlines()


def test_workers_forked_before_the_first_array_compute() -> None:
    """As servers do that import the program, fork, and serve."""
    lines = ran("""
        with multiprocessing.get_context("fork").Pool(2) as pool:
            found = pool.map(compiled, [np.arange(3.0), np.arange(4.0)])
        print(np.allclose(found[1], compiled(np.arange(4.0))))
    """)
    assert lines == ["True"]


def test_after_it_values_are_read_and_all_else_is_refused() -> None:
    lines = ran("""
        import os
        x = tnp.arange(5.0)
        compiled(x)

        def attempt(work):
            try:
                return np.asarray(work()).tolist()
            except tracer.errors.DeviceError as error:
                return "spawn" in error.mend and "forked" in error.what

        child = os.fork()
        if child == 0:
            tried = [lambda: x, lambda: x + 1, lambda: compiled(x), lambda: compiled(tnp.ones(3)),
                     lambda: tnp.asarray(np.ones(3)), lambda: tracer.compile(tnp.sin)(x)]
            print([attempt(work) for work in tried], flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        print(float(compiled(x)[0]) > 1)
    """)
    assert lines == ["[[0.0, 1.0, 2.0, 3.0, 4.0], True, True, True, True, True]", "True"]


def test_a_forked_pool_hands_the_error_to_the_parent() -> None:
    lines = ran("""
        compiled(np.arange(3.0))
        with multiprocessing.get_context("fork").Pool(1) as pool:
            try:
                pool.apply(compiled, (np.arange(3.0),))
            except tracer.errors.DeviceError as error:
                print(error.what)
    """)
    assert lines[0].startswith("this process was forked")
