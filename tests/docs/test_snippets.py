"""Every Python block of the pages for users runs, in order, as a reader would run it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ARRAYS = """
import numpy as np
import tracer
import tracer.numpy as tnp
x, y, v = np.ones((50, 3), "float32"), np.ones((40, 3), "float32"), np.ones(40, "float32")
"""
"""What a page takes as given that does not begin with its own imports."""
PAGES = {
    "README.md": ARRAYS,
    "docs/start.md": "",
    "docs/cache.md": "",
    "docs/fuzzing.md": "",
    "docs/debugging.md": "",
}


def test_pages_have_what_is_run() -> None:
    for page in PAGES:
        assert BLOCK.search((ROOT / page).read_text()), page


@pytest.mark.process
@pytest.mark.xla
@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_blocks_run(page: str, tmp_path: Path) -> None:
    blocks = BLOCK.findall((ROOT / page).read_text())
    script = tmp_path / "page.py"
    script.write_text("\n".join((PAGES[page], *blocks)))
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr[-2000:]
