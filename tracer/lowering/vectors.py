"""How wide the vectors are that XLA:CPU computes with: its default is half of what is there."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from tracer.lowering import shims

_CPU_INFO = Path("/proc/cpuinfo")
_FAST_AT_FULL_WIDTH = "avx512_vbmi2"
"""What Intel's cores have from Ice Lake on, and AMD's from Zen 4 on.

Earlier cores with AVX-512 slow their clock for long vectors, and what runs next to them with it
(Downs, "Ice Lake AVX-512 downclocking", 2020).
"""


def vector_options(platform: str) -> dict[str, Any]:
    """Return the compile options that give programs the machine's full vectors, where they pay.

    XLA:CPU asks LLVM for vectors of 256 bits wherever there are 512. Each element's operations are
    the same ones for either width; docs/memory-model.md has what the wide ones gain.
    """
    if platform != "cpu" or not shims.LONG_VECTORS_ARE_SAFE:
        return {}
    if _FAST_AT_FULL_WIDTH not in cpu_features():
        return {}
    return {"xla_cpu_prefer_vector_width": 512}


@cache
def cpu_features() -> frozenset[str]:
    """Return the instruction sets that the machine says it has (Linux); none where it does not."""
    if not _CPU_INFO.exists():
        return frozenset()
    for line in _CPU_INFO.read_text(encoding="ascii", errors="replace").splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "flags":
            return frozenset(value.split())
    return frozenset()
