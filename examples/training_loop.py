"""A whole training loop in one program: Adam inside, the state donated, one call for all steps.

The state stays in the same memory from the first step to the last: the plan shows which argument
each result takes over, and that nothing is copied on the way. Then the same steps, a call for each.

    python examples/training_loop.py [--steps 500]
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    # Instead of this file's folder: the examples are no installed package.
    sys.path[0] = str(ROOT)

import numpy as np  # noqa: E402 - after the path

import tracer  # noqa: E402
import tracer.numpy as tnp  # noqa: E402
from examples.display import print_table  # noqa: E402

LAYERS = (2, 256, 256, 1)
RATE = 1e-3


def loss(weights, x, y):
    """Return the squared error of a perceptron."""
    for w, b in weights[:-1]:
        x = tnp.tanh(x @ w + b)
    w, b = weights[-1]
    return tnp.mean((x @ w + b - y) ** 2)


def step(state, x, y):
    """Return the state after one step of Adam, and the loss before it."""
    error, slopes = tracer.value_and_grad(loss)(state["weights"], x, y)
    count = state["count"] + 1
    means = tracer.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state["means"], slopes)
    squares = tracer.tree.map(lambda s, g: 0.999 * s + 0.001 * g * g, state["squares"], slopes)
    rate = RATE * tnp.sqrt(1 - 0.999**count) / (1 - 0.9**count)
    weights = tracer.tree.map(
        lambda w, m, s: w - rate * m / (tnp.sqrt(s) + 1e-8), state["weights"], means, squares
    )
    return {"weights": weights, "means": means, "squares": squares, "count": count}, error


def numbered_step(state, number, x, y):
    """Return what `step` does with the rows whose turn it is."""
    rows = (number * 64 + tnp.arange(64)) % x.shape[0]
    return step(state, x[rows], y[rows])


def train(state, x, y, steps):
    """Return the state and the losses after many steps over the rows in order: one program."""
    return tracer.scan(lambda state, i: numbered_step(state, i, x, y), state, tnp.arange(steps))


def new_state() -> dict[str, Any]:
    """Return the state that training begins with."""
    rng = np.random.default_rng(0)
    weights = [
        ((rng.standard_normal((a, b)) / a**0.5).astype("float32"), np.zeros(b, "float32"))
        for a, b in itertools.pairwise(LAYERS)
    ]
    zeros = tracer.tree.map(np.zeros_like, weights)
    state = {"weights": weights, "means": zeros, "squares": zeros, "count": np.float32(0)}
    return tracer.tree.map(tnp.asarray, state)  # type: ignore[no-any-return]


def data() -> tuple[Any, Any]:
    """Return points in a square, and a wave over it."""
    x = np.random.default_rng(1).uniform(-2, 2, (4096, 2)).astype("float32")
    return tnp.asarray(x), tnp.asarray(np.sin(2 * x[:, :1]) * np.cos(x[:, 1:]))


def main() -> int:
    """Train both ways and print what it took; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=500)
    steps = parser.parse_args().steps
    x, y = data()
    loop = tracer.compile(train, donate_argnames="state", static_argnums=3)
    plan = loop.plan(new_state(), x, y, steps)
    print(plan.aliases, end="\n\n")
    rows = []
    start, state = time.perf_counter(), new_state()
    state, losses = loop(state, x, y, steps)
    losses.block_until_ready()
    rows.append(("one program", "1", f"{time.perf_counter() - start:.2f}", f"{losses[-1]:.5f}"))
    single = tracer.compile(numbered_step, donate_argnames="state")
    single.plan(new_state(), np.int64(0), x, y)
    start, other = time.perf_counter(), new_state()
    for number in range(steps):
        other, error = single(other, np.int64(number), x, y)
    error.block_until_ready()
    rows.append(("a call each", str(steps), f"{time.perf_counter() - start:.2f}", f"{error:.5f}"))
    print_table(f"{steps} steps of Adam", ("how", "calls", "seconds", "last loss"), rows)
    copied = plan.aliases.copied_bytes
    print(f"\nbytes that the loop copies: {copied}")
    return 0 if copied == 0 and losses[-1] < losses[0] else 1


if __name__ == "__main__":
    sys.exit(main())
