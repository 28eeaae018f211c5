"""A test that compiles or starts processes without saying so is found, and nothing else is."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SUITE = '''
import subprocess, sys
import numpy as np
import pytest
import tracer
import tracer.numpy as tnp
from tracer.array.trace import trace

double = tracer.compile(lambda x: x + x)

def start():
    subprocess.run([sys.executable, "-c", ""], check=True)

def example():
    """
    >>> float(tnp.cos(np.zeros(1))[0])
    1.0
    """

@pytest.fixture
def four():
    return double(np.full(1, 2.0))

def test_plain(): assert trace(tnp.sin, (np.ones(3),)).graph.nodes
def test_bad_compiles(): double(np.ones(3))
def test_bad_runs_what_is_compiled(): double(np.ones(3))
def test_bad_eager(): tnp.sin(np.ones(3))
def test_bad_fixture(four): assert four
def test_bad_starts(): start()
@pytest.mark.xla
def test_xla(): double(np.ones(3))
@pytest.mark.xla
def test_bad_xla_starts(): double(np.ones(3)), start()
@pytest.mark.process
def test_starts(): start()
@pytest.mark.process
def test_bad_starts_and_compiles(): double(np.ones(3)), start()
'''


@pytest.mark.process
def test_what_markers_do_not_say_fails(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(SUITE)
    command = [sys.executable, "-m", "pytest", "--rootdir", str(tmp_path), "-c", "/dev/null"]
    command += ["-rA", "--doctest-modules", "-p", "tests.tiers", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "PASSED"))]
    assert len(lines) == 11, done.stdout + done.stderr
    for line in lines:
        assert line.startswith("FAILED" if "test_bad" in line else "PASSED"), line
    assert "starts a process: mark it (or its module) with @pytest.mark.process" in done.stdout
    assert "test_bad_compiles compiles or runs a program with XLA" in done.stdout
