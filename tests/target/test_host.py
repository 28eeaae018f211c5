"""What is read from the machine: cores and memory of nested control groups, caches, threads."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tracer import target
from tracer.target import (
    DEFAULT_TARGET,
    Kernels,
    Target,
    accelerator,
    host_target,
    usable_bytes,
    usable_cores,
)
from tracer.target import free_bytes as free_memory
from tracer.target import memory as memory_of_host
from tracer.target.host import cache_bytes, host_kernels

MIB = 1 << 20
HERE = len(os.sched_getaffinity(0))


def tree(root: Path, files: dict[str, str]) -> Path:
    """Write files below a folder that stands for the root of the file system."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n", encoding="ascii")
    return root


def unified(path: str, limits: dict[str, str]) -> dict[str, str]:
    """Return the files of version 2: this process' group, and limits by file below the mount."""
    return {"proc/self/cgroup": f"0::{path}"} | {
        f"sys/fs/cgroup/{name}": text for name, text in limits.items()
    }


@pytest.mark.parametrize(
    ("sizes", "cores", "wanted"),
    [
        (("48K", "2048K", "491520K"), 2, 32 * MIB),  # a virtual machine tells of a whole socket's
        (("48K", "2048K", "491520K"), 1, 16 * MIB),
        (("32K", "512K", "32768K"), 8, 32 * MIB),
        (("32K", "8M"), 4, 8 * MIB),
        ((), 4, 32 * MIB),
    ],
)
def test_the_cache_is_the_share_of_the_cores_that_are_used(
    sizes: tuple[str, ...], cores: int, wanted: int, tmp_path: Path
) -> None:
    folder = "sys/devices/system/cpu/cpu0/cache"
    tree(tmp_path, {f"{folder}/index{i}/size": size for i, size in enumerate(sizes)})
    assert cache_bytes(cores, tmp_path) == wanted


ZEN_4 = "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel name\t: AMD EPYC"


@pytest.mark.parametrize(
    ("processor", "found", "is_slow"),
    [
        (ZEN_4, ["X86_V3", "X86_V4"], True),
        (ZEN_4, ["AVX2", "AVX512F", "AVX512_SKX"], True),  # NumPy 2.0's names
        (ZEN_4, ["X86_V3"], False),  # NPY_DISABLE_CPU_FEATURES, or Zen 3
        (ZEN_4.replace("25", "26"), ["X86_V3", "X86_V4"], False),  # Zen 5
        (ZEN_4.replace("AuthenticAMD", "GenuineIntel"), ["X86_V3", "X86_V4"], False),
        ("processor\t: 0\nFeatures\t: fp asimd", ["ASIMD"], False),
        (None, ["X86_V4"], False),
    ],
)
def test_more_is_counted_where_numpy_sorts_slowly(
    processor: str | None,
    found: list[str],
    is_slow: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tree(tmp_path, {} if processor is None else {"proc/cpuinfo": f"{processor}\n\nprocessor\t: 1"})
    monkeypatch.setattr(
        "numpy.show_config", lambda mode: {"SIMD Extensions": {"baseline": [], "found": found}}
    )
    counted = host_kernels(tmp_path).counted_steps
    assert (counted > Kernels().counted_steps) == is_slow


@pytest.mark.parametrize(
    ("flags", "goes"),
    [("fpu avx512f amx_tile amx_int8", True), ("fpu avx512f avx512_vbmi2", False), ("", False)],
)
def test_products_go_to_eigen_on_processors_where_it_was_timed(
    flags: str, goes: bool, tmp_path: Path
) -> None:
    tree(tmp_path, {"proc/cpuinfo": f"processor\t: 0\nflags\t\t: {flags}\n"})
    kernels = host_kernels(tmp_path)
    assert (kernels.eigen is not None) == goes
    assert kernels.summed_product == (24 if goes else 8)


V2_NESTED = {
    "memory.max": "max",
    "a/memory.max": str(64 * MIB),
    "a/b/memory.max": str(128 * MIB),
    "a/b/c/memory.max": "max",
}


@pytest.mark.parametrize(
    ("files", "wanted"),
    [
        ({}, None),
        (unified("/", {"memory.max": "max"}), None),
        (unified("/", {"memory.max": str(32 * MIB)}), 32 * MIB),
        (unified("/a/b/c", V2_NESTED), 64 * MIB),  # the one in the middle is the least
        (unified("/a/b/gone", V2_NESTED), 64 * MIB),
        (unified("/docker/of/the/host", {"memory.max": str(16 * MIB)}), 16 * MIB),
        (unified("/../../elsewhere", V2_NESTED | {"memory.max": str(48 * MIB)}), 48 * MIB),
        (
            {
                "proc/self/cgroup": "4:memory:/a/b\n0::/",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
                "sys/fs/cgroup/memory/a/memory.limit_in_bytes": str(96 * MIB),
                "sys/fs/cgroup/memory/a/b/memory.limit_in_bytes": str(112 * MIB),
            },
            96 * MIB,
        ),
        (
            {  # version 2 beside version 1
                "proc/self/cgroup": "4:memory:/\n0::/a",
                "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
                "sys/fs/cgroup/unified/a/memory.max": str(80 * MIB),
                "sys/fs/cgroup/unified/memory.max": "max",
            },
            80 * MIB,
        ),
    ],
)
def test_memory_is_the_least_of_nested_groups(
    files: dict[str, str], wanted: int | None, tmp_path: Path
) -> None:
    installed = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert usable_bytes(tree(tmp_path, files)) == (installed if wanted is None else wanted)


def test_free_memory_is_what_the_tightest_group_leaves(tmp_path: Path) -> None:
    files = unified(
        "/a/b",
        {
            "a/memory.max": str(64 * MIB),
            "a/memory.current": str(60 * MIB),
            "a/memory.stat": f"anon {40 * MIB}\ninactive_file {6 * MIB}",
            "a/b/memory.max": str(32 * MIB),
            "a/b/memory.current": str(8 * MIB),
            "a/b/memory.stat": "inactive_file 0",
        },
    )
    meminfo = {"proc/meminfo": f"MemTotal: 9 kB\nMemAvailable: {MIB} kB"}
    assert free_memory(tree(tmp_path / "v2", files | meminfo)) == 10 * MIB
    older = {
        "proc/self/cgroup": "4:memory:/a",
        "sys/fs/cgroup/memory/a/memory.limit_in_bytes": str(64 * MIB),
        "sys/fs/cgroup/memory/a/memory.usage_in_bytes": str(63 * MIB),
        "sys/fs/cgroup/memory/a/memory.stat": f"inactive_file 0\ntotal_inactive_file {2 * MIB}",
    }
    assert free_memory(tree(tmp_path / "v1", older | meminfo)) == 3 * MIB
    assert free_memory(tree(tmp_path / "none", {"proc/meminfo": "MemAvailable: 5 kB"})) == 5120


@pytest.mark.parametrize(
    ("files", "wanted"),
    [
        ({}, None),
        (unified("/a", {"a/cpu.max": "max 100000"}), None),
        (unified("/a", {"a/cpu.max": "50000 100000"}), 1),
        (unified("/a/b", {"a/cpu.max": "100000 100000", "a/b/cpu.max": "max 100000"}), 1),
        (unified("/a", {"a/cpu.max": "6400000 100000"}), None),
        (
            {
                "proc/self/cgroup": "1:cpu,cpuacct:/a",
                "sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us": "20000",
                "sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us": "50000",
            },
            1,
        ),
        (
            {
                "proc/self/cgroup": "1:cpu:/",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
            },
            None,
        ),
    ],
)
def test_cores_are_the_least_of_affinity_and_quotas(
    files: dict[str, str], wanted: int | None, tmp_path: Path
) -> None:
    assert usable_cores(tree(tmp_path, files)) == (HERE if wanted is None else wanted)


def test_quotas_are_rounded_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)))
    tree(tmp_path, unified("/", {"cpu.max": "250000 100000"}))
    assert usable_cores(tmp_path) == 3


def test_xla_s_threads_follow_the_affinity_and_no_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NPROC", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)))
    monkeypatch.setattr("tracer.target.cores.groups_of", lambda *_: ())
    monkeypatch.setattr("tracer.target.host.usable_cores", lambda: 3)
    found = host_target()
    assert (found.cores, found.packing.threads) == (3, 16)
    monkeypatch.setenv("NPROC", "5")
    assert host_target().packing.threads == target.xla_threads() == 5


@pytest.mark.parametrize("platform", ["gpu", "tpu"])
def test_nothing_is_packed_on_devices(platform: str) -> None:
    found = accelerator(platform, "unknown")
    assert found.platform == platform
    assert not found.storage.packs
    assert found.prices.packing_rate == math.inf
    assert found.prices.memory_rate > Target().prices.memory_rate
    assert found.memory_bytes > 1 << 30


@pytest.mark.parametrize(
    ("kind", "name"), [("NVIDIA H100 80GB HBM3", "h100"), ("TPU v5 lite", "v5e")]
)
def test_devices_are_known_by_what_their_maker_calls_them(kind: str, name: str) -> None:
    assert accelerator("gpu" if "H100" in kind else "tpu", kind).name == name


def test_a_container_has_less_memory_than_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_of_host, "groups_of", lambda *_: ())
    whole = usable_bytes()
    monkeypatch.undo()
    assert host_target().memory_bytes == usable_bytes() <= whole


def parts_of(record: Any) -> Iterator[Any]:
    """Yield the values of a record, and of the records in it."""
    for field in dataclasses.fields(record):
        value = getattr(record, field.name)
        yield value
        if dataclasses.is_dataclass(value):
            yield from parts_of(value)


@pytest.mark.parametrize("record", [host_target(), DEFAULT_TARGET, accelerator("gpu", "h100")])
def test_records_have_one_text_in_every_process(record: Target) -> None:
    """It is in the key of stored programs: a set's order changes with the hashes of its names."""
    assert not [part for part in parts_of(record) if isinstance(part, set | frozenset)]
