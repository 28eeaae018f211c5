"""What `import tracer` loads: it shall take no longer than jax's."""

from __future__ import annotations

import subprocess
import sys

import pytest

LATER = ("networkx", "scipy", "jax", "torch", "argparse", "unittest", "matplotlib", "rich")
CODE = f"""
import sys, tracer
loaded = sorted(name for name in {LATER!r} if name in sys.modules)
assert not loaded, loaded
x = tracer.numpy.ones(3) + 1
loaded = sorted(name for name in {LATER!r} if name in sys.modules)
assert not loaded, loaded
"""


@pytest.mark.process
def test_packages_that_few_programs_need_are_loaded_later() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
