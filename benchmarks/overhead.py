"""What a call costs besides the computing: small arrays, ours beside jax.

Target: at most 1.5 times jax.jit for a compiled function of two small arrays.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    sys.path[0] = str(ROOT)

import numpy as np  # noqa: E402 - after the path

import tracer  # noqa: E402
import tracer.numpy as tnp  # noqa: E402
from benchmarks.race import has_jax, print_race, race  # noqa: E402

Runs = dict[str, Callable[[], Any]]


def _add(x: Any, y: Any) -> Any:
    return x + y


def _several(x: Any, y: Any) -> Any:
    return {"sum": x + y, "difference": (x - y, x * y)}


def our_runs() -> dict[str, Runs]:
    """Return our runs by what they do."""
    x, y = tnp.ones((8,), dtype="float32"), tnp.ones((8,), dtype="float32")
    parameters = {f"w{i}": tnp.ones((8,), dtype="float32") for i in range(10)}
    one, several = tracer.compile(_add), tracer.compile(_several)
    nested = tracer.compile(_step)
    return {
        "compiled x + y": {"tracer": lambda: one(x, y)},
        "compiled, three results": {"tracer": lambda: several(x, y)},
        "compiled, dict of ten arrays": {"tracer": lambda: nested(parameters)},
        "eager x + y": {"tracer": lambda: x + y},
    }


def jax_runs() -> dict[str, Runs]:
    """Return jax's runs by what they do."""
    import jax
    import jax.numpy as jnp

    x, y = jnp.ones((8,), dtype="float32"), jnp.ones((8,), dtype="float32")
    parameters = {f"w{i}": jnp.ones((8,), dtype="float32") for i in range(10)}
    one, several, nested = jax.jit(_add), jax.jit(_several), jax.jit(_step)
    return {
        "compiled x + y": {"jax": lambda: one(x, y)},
        "compiled, three results": {"jax": lambda: several(x, y)},
        "compiled, dict of ten arrays": {"jax": lambda: nested(parameters)},
        "eager x + y": {"jax": lambda: x + y},
    }


def _step(parameters: dict[str, Any]) -> dict[str, Any]:
    return {name: 0.5 * value for name, value in parameters.items()}


def main(*, rounds: int = 100, calls: int = 200) -> None:
    """Print one table for each kind of call."""
    peers = jax_runs() if has_jax("overhead") else {}
    for what, ours in our_runs().items():
        runs = {**ours, **peers.get(what, {})}
        print_race(
            f"overhead: {what}, float32[8]", race(runs, rounds=rounds, calls=calls), ours="tracer"
        )


if __name__ == "__main__":
    np.seterr(all="raise")
    main()
