"""Names of platforms in programs of JAX: only branches of the one that it uses here matter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax

from tracer.errors import UnsupportedError

LOWERED_FOR = ("cpu",)
"""What primitives without a rule are lowered for: there they are ops and calls that are known."""


def branch_of_platform(platforms: Sequence[Sequence[str] | None]) -> int:
    """Return the position of this platform's branch; None is for all others.

    Raises
    ------
    UnsupportedError
        There is none.
    """
    here = jax.default_backend()
    for position, names in enumerate(platforms):
        if names is None or here in names or (here == "gpu" and "cuda" in names):
            return position
    raise UnsupportedError(
        f"jax.lax.platform_dependent has no branch for {here}", mend="give it a default"
    )


def branches_here(params: Mapping[str, Any]) -> Sequence[Any]:
    """Return the branches of a `cond` that may run here."""
    platforms = params.get("branches_platforms")
    branches: Sequence[Any] = params["branches"]
    return branches if platforms is None else [branches[branch_of_platform(platforms)]]
