"""No platform's name and no core count stand outside of target/ and lowering/."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import tracer
from tests.source_trees import nodes_of

PACKAGE = Path(tracer.__file__).parent
ROOMS = {"target", "lowering"}
"""What a machine is, and what speaks to it, are these two rooms' to know."""
PLATFORMS = {"cpu", "gpu", "tpu", "cuda", "rocm"}
COUNTS = {"cpu_count", "process_cpu_count", "sched_getaffinity"}
ALLOWED = {
    "array/interchange.py": "DLPack's device codes have the names of platforms (dlpack.h)",
    "jax/platforms.py": "the names of branches in a program of JAX",
    "torch/guards.py": "the kind of device whose automatic casts torch is asked about",
}


def named(package: Path) -> Iterator[tuple[str, str]]:
    """Yield (file, name) for each platform and core count that a file names in its code."""
    for path in sorted(package.rglob("*.py")):
        inside = path.relative_to(package)
        if inside.parts[0] in ROOMS:
            continue
        for node in nodes_of(path):
            if isinstance(node, ast.Constant) and node.value in PLATFORMS:
                yield inside.as_posix(), str(node.value)
            name = getattr(node, "attr", getattr(node, "name", getattr(node, "id", None)))
            if name in COUNTS:
                yield inside.as_posix(), str(name)


def counts_in_lowering(package: Path) -> Iterator[str]:
    """Yield the files of lowering/ that count cores, which target/ does."""
    for path in (package / "lowering").rglob("*.py"):
        if any(name in path.read_text(encoding="utf-8") for name in COUNTS):
            yield path.relative_to(package).as_posix()


def test_no_platform_and_no_core_count_is_named() -> None:
    assert {file for file, _ in named(PACKAGE)} == set(ALLOWED)
    assert list(counts_in_lowering(PACKAGE)) == []


@pytest.mark.parametrize(
    "code",
    [
        'if b.platform == "cpu":\n    pass',
        "import os\nn = os.cpu_count()",
        "from os import sched_getaffinity",
        "from os import cpu_count\nn = cpu_count()",
    ],
)
def test_what_is_named_is_found(code: str, tmp_path: Path) -> None:
    file = tmp_path / "ops" / "x.py"
    file.parent.mkdir()
    file.write_text(code + "\n", encoding="utf-8")
    assert {found for found, _ in named(tmp_path)} == {"ops/x.py"}
