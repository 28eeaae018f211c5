"""Names of `jax.lax` that have no meaning here: why, and what to write instead."""

from __future__ import annotations

_DEVICES = (
    "is of programs for several devices, each of which runs its part",
    "place the arguments with tracer.sharding; the partition of the program follows from them",
)
_PROGRAM = ("is of JAX's own programs", "leave it out")

REFUSED: dict[str, tuple[str, str]] = {
    **dict.fromkeys(("pcast", "precv", "psend", "ragged_all_to_all"), _DEVICES),
    "with_sharding_constraint": (
        "says where a value inside of a program is",
        "place the arguments with tracer.sharding; the partition of the rest follows from them",
    ),
    "rng_uniform": (
        "makes numbers of XLA's own generator, which differ from call to call",
        "use tracer.random",
    ),
    **dict.fromkeys(
        ("after_all", "create_token", "composite", "dce_sink", "stage", "shape_as_value"), _PROGRAM
    ),
    "platform_dependent": (
        "chooses by the platform, which a program does not know",
        "write one form; the lowering chooses what the device needs",
    ),
}
"""Name to reason and mend."""
