"""Programs are compiled for a TPU v5e and an H100 that are not here, and keep their limits there.

Each compiles in a process of its own with a time limit: some programs keep libtpu busy for ever.
Needs the wheels of the extras `tpu` and `cuda13`; without them the tests are skipped.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from benchmarks.device_programs import PROGRAMS, ROOT, compiled, last_line_of
from tracer.errors import DeviceError
from tracer.lowering.devices import plugins

pytestmark = [pytest.mark.xla, pytest.mark.process]
TARGETS = {"tpu": "tpu:v5e", "gpu": "cuda:h100"}
SECONDS = 300
REFUSED = {
    (
        "tpu",
        "InfoNCE gradient",
    ): "libtpu 0.0.51 runs out of its own scoped memory at the padding of "
    "a diagonal's gradient, after 40 s for each program that the planner tries",
}
LONGER = {("tpu", "convolution gradient"): 1800}
"""libtpu takes four minutes and more for each of its programs, of which several are tried."""
QUICK = ["kernel product", "nearest neighbours", "SGPR gradient", "attention"]


def require(platform: str) -> str:
    """Return the target of a platform; skip without its compiler."""
    try:
        plugins.plugin_of(platform)
    except DeviceError as error:
        pytest.skip(f"no compiler for {TARGETS[platform]}: {error.what}; {error.mend}")
    return TARGETS[platform]


@pytest.mark.parametrize("name", QUICK)
@pytest.mark.parametrize("platform", TARGETS)
def test_limits_are_kept(platform: str, name: str) -> None:
    found = compiled(name, require(platform), seconds=SECONDS)
    assert "failed" not in found, found
    assert found["counted_bytes"] <= found["limit_bytes"] < found["as_written_bytes"]
    assert found["loops"]


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in QUICK])
@pytest.mark.parametrize("platform", TARGETS)
def test_limits_of_the_other_programs_are_kept(platform: str, name: str) -> None:
    target = require(platform)
    if (platform, name) in REFUSED:
        pytest.skip(REFUSED[platform, name])
    found = compiled(name, target, seconds=LONGER.get((platform, name), SECONDS))
    assert "failed" not in found, found
    assert found["counted_bytes"] <= found["limit_bytes"]


@pytest.mark.parametrize("machine", ["tpu:v5e:2x4", "cuda:h100:8"])
def test_limits_are_kept_on_each_of_eight(machine: str) -> None:
    require("tpu" if machine.startswith("tpu") else "gpu")
    command = [sys.executable, "-m", "benchmarks.device_processes", "--mesh", machine]
    found = last_line_of([*command, "kernel product"], SECONDS)
    assert "failed" not in found, found
    assert found["counted_bytes"] <= found["limit_bytes"]


def in_process(body: str, platform: str) -> str:
    """Run statements on `device`, the target, in a new process; return what they print."""
    code = (
        "import numpy as np, tracer, tracer.numpy as tnp\n"
        "from tracer import ShapeDtype\n"
        f"device = {require(platform)!r}\n{body}"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=SECONDS
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.parametrize("platform", TARGETS)
def test_a_call_says_why_it_cannot_run(platform: str) -> None:
    output = in_process(
        """
f = tracer.compile(lambda x: tnp.sin(x) + 1, device=device)
types = ShapeDtype((1000,), "float32")
assert "stablehlo.sine" in f.stablehlo(types)
assert "HloModule" in f.hlo(types)
assert f.plan(types).compiled_bytes >= 8000
for call in (
    lambda: f(np.ones(1000, np.float32)),
    lambda: f(tnp.ones(1000, dtype="float32", device="cpu:0")),
    lambda: tnp.ones(3, device=device),
    lambda: tracer.set_default_device(device),
):
    try:
        call()
    except tracer.DeviceError as error:
        print(error.what)
""",
        platform,
    )
    lines = output.splitlines()
    assert len(lines) == 4
    assert all("is not here" in line for line in lines[:3])
    assert "cannot be the default device" in lines[3]


@pytest.mark.parametrize("platform", TARGETS)
def test_limits_of_the_device_itself(platform: str) -> None:
    """Without a limit, and with "auto", what is too large for the device is split until it fits."""
    output = in_process(
        """
x = ShapeDtype((300_000, 2), "float32")
def product(x):
    return tnp.exp(-((x[:, None] - x[None, :]) ** 2).sum(-1)) @ x
plan = tracer.compile(product, device=device, memory_limit="auto").plan(x)
print(plan.compiled_bytes <= plan.limit_bytes, plan.limit_bytes > 10e9, len(plan.loops) > 0)
""",
        platform,
    )
    assert output.split() == ["True", "True", "True"]


@pytest.mark.parametrize("platform", TARGETS)
def test_limits_that_cannot_be_met(platform: str) -> None:
    output = in_process(
        """
try:
    tracer.compile(lambda x: x @ x, device=device, memory_limit=1000).plan(
        ShapeDtype((100, 100), "float32"))
except tracer.MemoryLimitError as error:
    print(error.minimum_bytes > 1000)
""",
        platform,
    )
    assert output.split() == ["True"]


@pytest.mark.parametrize("platform", TARGETS)
def test_compiling_leaves_the_environment_alone(platform: str) -> None:
    output = in_process(
        """
import os
before = dict(os.environ)
tracer.compile(lambda x: tnp.sin(x) + 1, device=device).plan(ShapeDtype((1000,), "float32"))
print(dict(os.environ) == before)
""",
        platform,
    )
    assert output.split() == ["True"]


SOLVE = "lambda a: tnp.linalg.solve(a, a)"
CHOLESKY = "lambda a: tnp.linalg.cholesky(a @ a.T)"
TRIANGULAR = "lambda a: tracer.scipy.linalg.solve_triangular(a, a, lower=True)"


@pytest.mark.parametrize(
    ("platform", "dtype", "program"),
    [
        *(
            (platform, "float32", program)
            for platform in TARGETS
            for program in (
                SOLVE, CHOLESKY, TRIANGULAR, "tnp.linalg.qr", "tnp.linalg.eigh", "tnp.linalg.det",
                "lambda a: tnp.fft.fft(a)", "lambda a: tnp.sort(a)", "lambda a: tnp.top_k(a, 3)",
                "lambda a: tnp.cumsum(a, 0)", "lambda a: a[tnp.argmax(a, 0)]",
            )
        ),
        ("tpu", "float64", CHOLESKY),
        ("tpu", "float64", TRIANGULAR),
        ("tpu", "float64", "lambda a: tnp.sin(a) @ a"),
        ("tpu", "complex64", CHOLESKY),
        ("gpu", "float64", SOLVE),
        ("gpu", "float64", "tnp.linalg.svd"),
        ("gpu", "float32", "lambda a: tnp.linalg.svd(a[:20], full_matrices=False)"),
        ("gpu", "float32", "lambda a: tnp.linalg.svd(a[:, :20], compute_uv=False)"),
        ("gpu", "complex128", "tnp.linalg.eigh"),
    ],
)  # fmt: skip
def test_what_the_compilers_accept(platform: str, dtype: str, program: str) -> None:
    body = f"""
plan = tracer.compile({program}, device=device).plan(ShapeDtype((40, 40), {dtype!r}))
print(plan.compiled_bytes > 0)
"""
    assert in_process(body, platform).split() == ["True"]


@pytest.mark.parametrize(
    ("platform", "dtype", "program", "text"),
    [
        ("tpu", "float64", SOLVE, "lu of float64 does not run on a TPU"),
        ("tpu", "float64", "tnp.linalg.eigh", "eigh of float64 does not run on a TPU"),
        ("tpu", "float32", "tnp.linalg.svd", "there is no svd on a TPU"),
        ("tpu", "float32", "tnp.linalg.eig", "there is no eig on a TPU"),
        ("tpu", "complex128", "tnp.fft.fft", "no Fourier transform of complex128 on a TPU"),
        ("gpu", "float32", "tnp.linalg.eig", "there is no eig on a GPU"),
    ],
)
def test_what_they_do_not_is_refused_by_name(
    platform: str, dtype: str, program: str, text: str
) -> None:
    body = f"""
try:
    tracer.compile({program}, device=device).plan(ShapeDtype((8, 8), {dtype!r}))
except tracer.LoweringError as error:
    print(error)
"""
    assert text in in_process(body, platform)
