"""One machine speaks for several: programs are run as on one with fewer instructions."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
INSTRUCTION_SETS = ("AVX2", "SSE4_2")


def told_with(instructions: str, module: str, *arguments: str) -> str:
    """Return what a module prints on a machine with fewer instructions, which this one plays.

    XLA reads its flags once, so it takes a process of its own.
    """
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_max_isa={instructions}"
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        env={**os.environ, "XLA_FLAGS": flags},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
