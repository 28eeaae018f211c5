"""Processes that are given little: an error that says what is missing, or right numbers."""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PROGRAM = """
import numpy as np, tracer, tracer.numpy as tnp
f = tracer.compile(lambda x: tnp.exp(x[:, None] - x[None]).sum(1), memory_limit=LIMIT)
x = np.linspace(0, 1, 2000)
np.testing.assert_allclose(f(x), np.exp(x[:, None] - x[None]).sum(1), rtol=1e-12)
tnp.linalg.cholesky(tnp.eye(20))
print(f.plan(x).limit_bytes)
"""
pytestmark = [pytest.mark.process, pytest.mark.xla]


def told(
    limit: str = "'4MB'",
    *,
    limits: dict[int, int] | None = None,
    wrapped: tuple[str, ...] = (),
    before: str = "",
    **environment: str,
) -> subprocess.CompletedProcess[str]:
    """Return what a process did that has so little."""

    def limited() -> None:
        for kind, most in (limits or {}).items():
            resource.setrlimit(kind, (most, most))

    code = before + PROGRAM.replace("LIMIT", limit)
    return subprocess.run(
        [*wrapped, sys.executable, "-c", code],
        cwd=ROOT, env={**os.environ, "NPROC": "2", **environment}, preexec_fn=limited,
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip


def test_too_little_address_space_is_said() -> None:
    """XLA ended the process: no memory for a thread's stack."""
    done = told(limits={resource.RLIMIT_AS: 1 << 30})
    assert done.returncode == 1, done.stderr
    error = done.stderr.splitlines()
    assert any("DeviceError" in line and "ulimit -v" in line for line in error), done.stderr


def test_auto_is_within_the_address_space() -> None:
    most = 3 << 30
    done = told("'auto'", limits={resource.RLIMIT_AS: most})
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < most


@pytest.mark.slow
@pytest.mark.parametrize(
    "environment",
    [{"HOME": ""}, {"HOME": "/nonexistent", "TMPDIR": "/nonexistent"}, {"LC_ALL": "C", "PATH": ""}],
    ids=lambda environment: " ".join(environment),
)
def test_without_folders(environment: dict[str, str]) -> None:
    done = told(**environment)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", [resource.RLIMIT_NOFILE, resource.RLIMIT_STACK, resource.RLIMIT_FSIZE]
)
def test_with_few_files_a_small_stack_and_nothing_to_write(kind: int) -> None:
    most = {resource.RLIMIT_NOFILE: 24, resource.RLIMIT_STACK: 1 << 18, resource.RLIMIT_FSIZE: 0}
    done = told(limits={kind: most[kind]})
    assert done.returncode == 0, done.stderr


def _without(folder: str) -> tuple[str, ...]:
    script = f'umount -l {folder}; exec "$@"'
    return ("unshare", "--mount", "sh", "-c", script, "sh")


@pytest.mark.parametrize("folder", ["/proc", "/sys"])
def test_without_the_systems_folders(folder: str) -> None:
    wrapped = _without(folder)
    probe = {"/proc": "/proc/self", "/sys": "/sys/kernel"}[folder]
    tried = subprocess.run([*wrapped, "test", "!", "-e", probe], capture_output=True)
    if tried.returncode:
        pytest.skip("no mounts may be made here")
    done = told(wrapped=wrapped)
    assert done.returncode == 0, done.stderr


def test_on_one_core() -> None:
    done = told(wrapped=("taskset", "--cpu-list", str(min(os.sched_getaffinity(0)))))
    assert done.returncode == 0, done.stderr


def test_another_user_in_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root becomes another user")
    tried = subprocess.run(
        ["setpriv", "--reuid=65534", "--clear-groups", sys.executable, "-c", "import tracer"],
        capture_output=True, text=True, cwd=ROOT,
    )  # fmt: skip
    if tried.returncode:
        pytest.skip("another user may not read this folder")
    done = told(wrapped=("setpriv", "--reuid=65534", "--clear-groups"))
    assert done.returncode == 0, done.stderr


DENIED = """
import ctypes, errno, struct

ALLOWED, REFUSED = 0x7FFF0000, 0x00050000 | errno.EPERM
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06  # of the kernel's packet filters (linux/filter.h)

def deny(*calls):
    # Filter of system calls by their number: each is compared, the last but one allows the rest.
    steps = [(LOAD, 0, 0, 0)]
    steps += [(EQUAL, len(calls) - i, 0, call) for i, call in enumerate(calls)]
    steps += [(RETURN, 0, 0, ALLOWED), (RETURN, 0, 0, REFUSED)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    size_and_place = struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code))
    program = ctypes.create_string_buffer(size_and_place)
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0  # no new privileges, or only root may
    assert libc.prctl(22, 2, ctypes.byref(program), 0, 0) == 0

deny(27, 28, 221)  # mincore, madvise, fadvise64
import os, tempfile
import numpy as np
try:
    os.posix_fadvise(0, 0, 0, os.POSIX_FADV_DONTNEED)
except PermissionError:
    print("denied")
import tracer
tracer.tune_host_allocator()
with tempfile.TemporaryDirectory() as folder:
    x = np.linspace(0, 1, 2_000_000).reshape(-1, 4)
    np.save(folder + "/x.npy", x)
    for direct in (True, False):
        gram = tracer.compile(lambda x: x.T @ x, memory_limit="4MB")
        stored = tracer.open(folder + "/x.npy", direct=direct)
        np.testing.assert_allclose(gram(stored), x.T @ x)
        rows = np.random.default_rng(0).integers(0, len(x), (10, 300))
        batches = tracer.compile(lambda x, rows: tracer.map(lambda row: x[row].sum(0), rows),
                                 memory_limit="1MB")
        np.testing.assert_allclose(batches(stored, rows), x[rows].sum(1))
"""


@pytest.mark.skipif(
    platform.machine() != "x86_64", reason="the filter has the call numbers of x86-64"
)
def test_without_calls_that_sandboxes_deny() -> None:
    """As seccomp profiles do: what pages are resident, and advice on memory and files."""
    done = told(before=DENIED)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("denied")
