"""How wide XLA:CPU's vectors are: its default is half of what the processor may have."""

from __future__ import annotations

from typing import Any

from tracer.lowering import shims
from tracer.lowering.cpu.vector_check import vectors_are_right
from tracer.lowering.devices.registry import devices
from tracer.target import features_of, said_of_processor

_OPTIONS = {"xla_cpu_prefer_vector_width": 512}
_FAST_AT_FULL_WIDTH = "avx512_vbmi2"
"""What Intel's cores have from Ice Lake on, and AMD's from Zen 4 on.

Earlier cores with AVX-512 slow their clock for long vectors, and what runs next to them with it
(Downs, "Ice Lake AVX-512 downclocking", 2020).
"""


def vector_options(platform: str) -> dict[str, Any]:
    """Return the compile options that give programs the machine's full vectors, where they pay.

    XLA:CPU asks LLVM for vectors of 256 bits wherever there are 512. Each element's operations are
    the same ones for either width; docs/memory-model.md has what the wide ones gain. XLA is tested
    with its own width, so the first program that a machine compiles is a check of its functions.
    """
    return dict(_OPTIONS) if _are_fast(platform) and _are_right() else {}


def vector_notes(platform: str) -> tuple[str, ...]:
    """Return the plan's note for a machine whose full vectors are wrong, and so are not used."""
    if not _are_fast(platform) or _are_right():
        return ()
    return ("compiled for XLA's own width of vectors: wider ones compute wrong values here",)


def _are_fast(platform: str) -> bool:
    is_here = platform == "cpu" and shims.LONG_VECTORS_ARE_SAFE
    return is_here and _FAST_AT_FULL_WIDTH in cpu_features()


def _are_right() -> bool:
    device = next(device for device in devices("cpu") if device.is_local)
    return vectors_are_right(_OPTIONS, f"{cpu_model()} {sorted(cpu_features())}", device)


def cpu_features() -> frozenset[str]:
    """Return the instruction sets that the machine says it has (Linux); none if it does not."""
    return features_of(said_of_processor())


def cpu_model() -> str:
    """Return the maker's name for the processor (Linux); empty if the machine does not say."""
    said = said_of_processor()
    return " ".join(
        said.get(name, "") for name in ("model name", "cpu family", "model", "stepping")
    )
