"""In a control group with little memory "auto" follows it, and what fits is not killed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tracer.target.control_groups import groups_of

pytestmark = pytest.mark.process
ROOT = Path(__file__).parent.parent.parent
MEMORY = 600_000_000
PROGRAM = """
import numpy as np, tracer, tracer.numpy as tnp

def kernel(x, y):
    return tnp.exp(-((x[:, None] - y[None]) ** 2))

@tracer.compile(memory_limit="auto")
def both(x, y):
    return kernel(x, x), kernel(x, y) @ kernel(y, x[:5])

x, y = np.linspace(0, 1, 5_000), np.linspace(0, 1, 20_000)  # results of 200 MB, 800 MB between
plan = both.plan(x, y)
print(plan.limit_bytes, plan.baseline_peak_bytes)
matrix, product = both(x, y)
np.testing.assert_allclose(matrix[17], np.exp(-(x[17] - x) ** 2), rtol=1e-12)
wanted = np.exp(-(x[17] - y) ** 2) @ np.exp(-(y[:, None] - x[:5]) ** 2)
np.testing.assert_allclose(product[17], wanted, rtol=1e-10)
"""
GREEDY = "import numpy as np; np.ones(100_000_000).sum()"


@pytest.fixture
def group() -> Iterator[Path]:
    """Make a group inside of ours, of version 2 or 1."""
    for parent in groups_of("memory"):
        folder = parent.folder / f"tracer-test-{os.getpid()}"
        file = "memory.max" if parent.is_unified else "memory.limit_in_bytes"
        try:
            folder.mkdir()
        except OSError:
            continue
        try:
            (folder / file).write_text(str(MEMORY))
        except OSError:  # version 2 without the controller of memory, or not ours to change
            folder.rmdir()
            continue
        yield folder
        folder.rmdir()
        return
    pytest.skip("no control groups may be made here")


def ran(group: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Return what a program does inside of the group."""
    script = f'echo $$ > {group}/cgroup.procs && exec "$@"'
    return subprocess.run(
        ["sh", "-c", script, "sh", sys.executable, "-c", code],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def test_auto_follows_it_and_the_program_ends(group: Path) -> None:
    done = ran(group, PROGRAM)
    assert done.returncode == 0, (done.returncode, done.stderr[-2000:])
    limit, as_written = map(int, done.stdout.split())
    assert limit < MEMORY < as_written
    assert ran(group, GREEDY).returncode == -9  # or the group is none
