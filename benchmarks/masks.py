"""Reductions over masked values, beside the same without a mask, and beside jax.

python -m benchmarks.masks [--rounds N]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np

import tracer
from benchmarks.framework import Framework, jax_framework, tracer_framework
from benchmarks.race import has_jax, print_race, race

SHAPE = (2, 1024, 1024)


def programs(f: Framework) -> dict[str, tuple[float, Callable[[Any], Any]]]:
    """Return what is put in below the mask, and what is computed, by title."""
    return {
        "row maxima": (-np.inf, lambda x: x.max(-1)),
        "row maxima of scaled values": (-np.inf, lambda x: (x * 0.5).max(-1)),
        "row sums": (0, lambda x: x.sum(-1)),
        "row products": (1, lambda x: x.prod(-1)),
        "log-sum-exp": (-np.inf, lambda x: f.scipy.special.logsumexp(x, axis=-1)),
        "softmax": (-np.inf, lambda x: f.nn.softmax(x, axis=-1)),
    }


def main(*, rounds: int = 15) -> None:
    """Check that all agree, time them side by side, print the tables."""
    frameworks = {"tracer": (tracer_framework(), tracer.compile)}
    if has_jax("masks"):
        import jax

        frameworks["jax.jit"] = (jax_framework(), jax.jit)
    x = np.random.default_rng(0).standard_normal(SHAPE, dtype=np.float32)
    for title in programs(tracer_framework()):
        runs: dict[str, Callable[[], Any]] = {}
        for name, (framework, compile) in frameworks.items():
            fill, compute = programs(framework)[title]
            array = framework.numpy.asarray(x)
            runs[name] = _run(compile(_masked(framework.numpy, fill, compute)), array)
            runs[f"{name}, no mask"] = _run(compile(compute), array)
        if "jax.jit" in runs and not np.allclose(
            runs["tracer"](), runs["jax.jit"](), rtol=1e-4, atol=1e-4
        ):
            raise SystemExit(f"{title}: the results differ")
        print_race(f"{title} of {SHAPE}, float32", race(runs, rounds=rounds), ours="tracer")


def _masked(numpy: Any, fill: float, compute: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def program(x: Any) -> Any:
        places = numpy.arange(x.shape[-1])
        return compute(numpy.where(places[:, None] >= places[None, :], x, fill))

    return program


def _run(program: Callable[[Any], Any], array: Any) -> Callable[[], Any]:
    return lambda: np.asarray(program(array))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    main(**vars(parser.parse_args()))
