"""A disk that is really full: what writes says so, leaves nothing that looks complete, goes on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.process, pytest.mark.xla]
ROOT = Path(__file__).parent.parent.parent
PROGRAM = """
import shutil, sys, warnings, numpy as np, tracer, tracer.numpy as tnp
from pathlib import Path

warnings.simplefilter("error")
warnings.simplefilter("always", tracer.errors.CacheWarning)
folder = Path(sys.argv[1])
compiled = tracer.compile(lambda x: tnp.exp(x[:, None] - x), memory_limit="4MB")
few = tracer.compile(lambda x: tnp.exp(x[:, None] - x), memory_limit="100kB")  # HDF5 keeps such
kept = tracer.compile(lambda x: tnp.exp(x[:, None] - x), memory_limit="4MB",
                      checkpoint=folder / "kept", checkpoint_seconds=0)
x = np.random.default_rng(0).random(1000)  # 8 MB of results, which zarr cannot compress
wanted = np.exp(x[:, None] - x)

def refused(path, work):
    try:
        work()
    except OSError as error:
        print(path.suffix, "No space left" in str(error), type(error).__name__)

for ending in (".npy", ".zarr", ".h5"):
    path = folder / f"out{ending}"
    refused(path, lambda: compiled.into(path)(x))
    refused(path, lambda: few.into(path)(x))
    assert not [*folder.iterdir()], [*folder.iterdir()]
    refused(path, lambda: kept.into(path)(x))
    assert not path.exists(), path
    for left in folder.iterdir():  # what the call with checkpoints would go on from
        assert left.name == "kept" or left.name.endswith(".tracer-partial"), left
        shutil.rmtree(left) if left.is_dir() else left.unlink()
page = folder / "plan.html"
(folder / "filler").write_bytes(b"0" * 1_040_000)
page.write_text("an older one")
refused(page, lambda: compiled.plan(x[:500]).save(page))
print(page.read_text())

tracer.set_cache_dir(folder / "cache")
with warnings.catch_warnings(record=True) as caught:
    f = tracer.compile(lambda x: sum(tnp.sin(x * i) for i in range(200)))
    np.testing.assert_allclose(f(x), sum(np.sin(x * i) for i in range(200)), rtol=1e-9, atol=1e-9)
print(*{type(warning.message).__name__ for warning in caught})
assert not list(folder.glob("cache/*.program"))
(folder / "filler").unlink()
np.testing.assert_allclose(compiled.into(folder / "small.npy")(x[:200]), wanted[:200, :200])
"""
SCRIPT = 'mount -t tmpfs -o size=1m none "$0" && exec "$@"'


def test_every_writer(tmp_path: Path) -> None:
    wrapped = ["unshare", "--mount", "sh", "-c", SCRIPT, str(tmp_path)]
    if subprocess.run([*wrapped, "true"], capture_output=True).returncode:
        pytest.skip("no mounts may be made here")
    done = subprocess.run(
        [*wrapped, sys.executable, "-c", PROGRAM, str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines() == [
        f"{ending} True StorageError" for ending in (".npy", ".zarr", ".h5") for _ in range(3)
    ] + [".html True OSError", "an older one", "CacheWarning"]
