"""A kernel product from three naive lines, beside the ways to write it in jax.

exp(-|x_i - y_j|^2 / 2) @ v, d = 3, float32. Ours is the naive form with its (n, n, d) tensor, under
512 MB. Target: 5 times faster than jax.jit of the expanded form at n = 20,000.
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
from benchmarks.race import has_jax, print_race, race  # noqa: E402
from examples.problems import PROBLEMS, on_device  # noqa: E402

LIMIT = "512MB"
CHUNK = 100
Runs = dict[str, Callable[[], Any]]


def our_runs(inputs: tuple[Any, ...]) -> Runs:
    """Return our run."""
    program = tracer.compile(PROBLEMS["kernel"].program, memory_limit=LIMIT)
    arrays = on_device(inputs)
    return {f"tracer, naive, {LIMIT}": lambda: program(*arrays).block_until_ready()}


def jax_runs(inputs: tuple[Any, ...]) -> Runs:
    """Return jax's runs: unsplit in two forms, and split by hand."""
    import jax
    import jax.numpy as jnp

    def naive(x: Any, y: Any, v: Any) -> Any:
        return jnp.exp(-0.5 * ((x[:, None, :] - y[None, :, :]) ** 2).sum(-1)) @ v

    def expanded(x: Any, y: Any, v: Any) -> Any:
        squares = (x * x).sum(-1)[:, None] + (y * y).sum(-1)[None, :] - 2 * x @ y.T
        return jnp.exp(-0.5 * squares) @ v

    def by_hand(x: Any, y: Any, v: Any) -> Any:
        return jax.lax.map(lambda row: expanded(row[None], y, v)[0], x, batch_size=CHUNK)

    arrays = tuple(jnp.asarray(array) for array in inputs)
    forms = {
        "jax.jit, expanded": expanded,
        "jax.jit, naive": naive,
        f"jax.jit, expanded, lax.map batch_size={CHUNK}": by_hand,
    }
    return {name: _run(jax.jit(form), arrays) for name, form in forms.items()}


def _run(program: Callable[..., Any], arrays: tuple[Any, ...]) -> Callable[[], Any]:
    return lambda: program(*arrays).block_until_ready()


def main(*, n: int = 20_000, rounds: int = 5) -> None:
    """Check that all agree, time them side by side, print the table."""
    inputs = PROBLEMS["kernel"].inputs(n)
    runs = our_runs(inputs)
    ours = next(iter(runs))
    if has_jax("kernel"):
        runs.update(jax_runs(inputs))
    for name, run in runs.items():
        check = PROBLEMS["kernel"].check(inputs, np.asarray(run()))
        if not check.passed:
            raise SystemExit(f"{name}: {check}")
    print_race(f"kernel product, n = {n:,}, d = 3, float32", race(runs, rounds=rounds), ours=ours)


if __name__ == "__main__":
    main()
