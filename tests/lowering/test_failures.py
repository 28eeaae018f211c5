"""A call that fails in the middle: the function and all arrays are usable after it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tracer
import tracer.numpy as tnp
from tracer.errors import DeviceError, DonatedArrayError, ExecutionError, OutOfMemoryError

ROOT = Path(__file__).parent.parent.parent


def failing(x: Any, y: Any) -> Any:
    """A loop that calls the host and is given a negative number at its third trip."""

    def look(value: Any) -> None:
        if value < 0:
            raise LookupError(float(value))

    def step(i: Any, c: Any) -> Any:
        tracer.debug.callback(look, c[i])
        return c + y

    return tracer.fori_loop(0, 3, step, x)


@pytest.mark.xla
@pytest.mark.parametrize("donated", [(), (0,)])
def test_an_exception_of_a_callback(donated: tuple[int, ...]) -> None:
    compiled = tracer.compile(failing, donate_argnums=donated)
    x, y = tnp.arange(3.0), tnp.ones(3)
    wanted = compiled(tnp.arange(3.0), y)
    bad, other = tnp.array([1.0, 1.0, -9.0]), tnp.ones(1000)
    with pytest.raises(LookupError, match=r"-7.0") as caught:
        compiled(bad, y)
    if donated:
        assert bad.is_deleted()
        assert any("argument 0" in note for note in caught.value.__notes__)
        with pytest.raises(DonatedArrayError):
            bad + 1
    else:
        assert bad.tolist() == [1.0, 1.0, -9.0]
    assert y.tolist() == [1.0] * 3
    assert float(other.sum()) == 1000
    np.testing.assert_array_equal(compiled(x, y), wanted)


@pytest.mark.xla
@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("INTERNAL: CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure", DeviceError),
        ("RESOURCE_EXHAUSTED: Out of memory allocating 80000000 bytes.", OutOfMemoryError),
        ("INTERNAL: a surprise", ExecutionError),
    ],
)
@pytest.mark.parametrize("donated", [(), (0,)])
def test_a_device_that_fails(
    text: str, kind: type[Exception], donated: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """XLA raises, once with the donated buffers taken, once before."""
    from tracer.lowering.run.executable import Executable

    compiled = tracer.compile(lambda x, y: x + y, donate_argnums=donated)
    x, y = tnp.arange(3.0), tnp.ones(3)
    assert compiled(tnp.arange(3.0), y).tolist() == [1.0, 2.0, 3.0]

    def fail(self: Any, *_: Any) -> Any:
        raise RuntimeError(text)

    with monkeypatch.context() as patch:
        patch.setattr(Executable, "_execute", property(lambda self: fail), raising=False)
        with pytest.raises(kind):
            compiled(x, y)
    assert compiled(x, y).tolist() == [1.0, 2.0, 3.0]
    assert y.tolist() == [1.0] * 3


NO_MEMORY = """
import resource, numpy as np, tracer, tracer.numpy as tnp
from pathlib import Path

def small(x):
    return (x[:, None] * x).sum(1)

def large(n):
    return tnp.sort(tnp.ones(n).at[0].set(3.0) * 2)

compiled = tracer.compile(large, static_argnums=0, donate_argnums=())
kept, x = tnp.arange(1000.0), np.arange(300.0)
quick = tracer.compile(small, memory_limit="1MB")
quick(x), compiled(1000)
mapped = int(next(line for line in Path("/proc/self/status").read_text().splitlines()
                  if line.startswith("VmSize")).split()[1]) << 10
room = 300 << 20
resource.setrlimit(resource.RLIMIT_AS, (mapped + room, -1))
for _ in range(3):
    try:
        compiled(80_000_000).block_until_ready()
    except tracer.errors.OutOfMemoryError as error:
        print(type(error).__name__, bool(error.mend), flush=True)
    np.testing.assert_array_equal(quick(x), (x[:, None] * x).sum(1))
    assert float(kept.sum()) == 499500
resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
print(float(compiled(80_000_000)[-1]))
"""


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_system_has_no_memory_in_the_middle() -> None:
    done = subprocess.run(
        [sys.executable, "-c", NO_MEMORY],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.splitlines() == ["OutOfMemoryError True"] * 3 + ["6.0"]
