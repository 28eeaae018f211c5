"""The k largest elements of long rows, and the places of extremes, beside jax.

python -m benchmarks.largest [--rounds N]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np

import tracer
import tracer.numpy as tnp
from benchmarks.race import has_jax, print_race, race

Program = Callable[[Any], Any]
TITLES = {
    "top_k": ((1_000, 100_000), "the 10 largest of 1,000 rows of 100,000, float32"),
    "rows": ((4_000, 4_000), "argmax of the rows of 4,000 x 4,000, float32"),
    "columns": ((4_000, 4_000), "argmin of the columns of 4,000 x 4,000, float32"),
    "both": ((4_000, 4_000), "min and argmin of the squares of 4,000 rows, float32"),
}


def programs(numpy: Any, top_k: Callable[[Any, int], Any]) -> dict[str, Program]:
    """Return the programs, written with tracer's or jax's NumPy."""
    return {
        "top_k": lambda x: top_k(x, 10),
        "rows": lambda x: numpy.argmax(x, axis=1),
        "columns": lambda x: numpy.argmin(x, axis=0),
        "both": lambda x: (numpy.min(x * x, axis=1), numpy.argmin(x * x, axis=1)),
    }


def main(*, rounds: int = 7) -> None:
    """Check that both agree, time them side by side, print the tables."""
    ours = programs(tnp, tnp.top_k)
    for name, (shape, title) in TITLES.items():
        rows = np.random.default_rng(0).standard_normal(shape, dtype=np.float32)
        array = tnp.asarray(rows)
        runs = {"tracer": _run(tracer.compile(ours[name]), array)}
        if has_jax("largest"):
            import jax

            theirs = programs(jax.numpy, jax.lax.top_k)
            runs["jax.jit"] = _run(jax.jit(theirs[name]), jax.numpy.asarray(rows))
            if not all(map(np.array_equal, runs["tracer"](), runs["jax.jit"]())):
                raise SystemExit(f"{name}: the results differ")
        print_race(title, race(runs, rounds=rounds), ours="tracer")


def _run(program: Program, array: Any) -> Callable[[], list[Any]]:
    def run() -> list[Any]:
        found = program(array)
        results = found if isinstance(found, tuple | list) else (found,)
        return [np.asarray(result) for result in results]

    return run


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    main(rounds=parser.parse_args().rounds)
