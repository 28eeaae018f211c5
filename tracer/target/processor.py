"""What Linux says about the processor."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from tracer.target.control_groups import ROOT

_PROCESSORS = "proc/cpuinfo"


@cache
def said_of_processor(root: Path = ROOT) -> dict[str, str]:
    """Return what Linux says about the first processor, by name; nothing on other systems."""
    file = root / _PROCESSORS
    if not file.exists():
        return {}
    first, _, _ = file.read_text(encoding="ascii", errors="replace").partition("\n\n")
    lines = (line.partition(":") for line in first.splitlines())
    return {name.strip(): value.strip() for name, _, value in lines}


def features_of(said: Mapping[str, str]) -> frozenset[str]:
    """Return the instruction sets that a processor is said to have; none if that is not known."""
    return frozenset(said.get("flags", "").split())


__all__ = ["features_of", "said_of_processor"]
