"""Loops over steps whose states are independent, or whose gradients add up over a batch.

Each is cut along its trajectories, paths, rows or batch under a limit. For every program one line:
the limit (the arguments and results, and a tenth of what the program takes beside them), XLA's
count, the measured growth of resident memory in fresh processes (`measure.py`) with and without the
limit, the time under the limit over the time without, and the largest difference between the two,
relative to the largest element::

    python -m benchmarks.steps                     # all
    python -m benchmarks.steps recurrent_gradient --share 0.3
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np

import tracer
import tracer.numpy as tnp
from benchmarks.measure import Measurement, measure

Program = Callable[..., Any]


def _normal(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).standard_normal(shape)


def mandelbrot(x: Any, y: Any) -> Any:
    """Return in how many of 50 steps each point of a grid stays near."""
    c = x[None, :] + 1j * y[:, None]

    def step(_: Any, state: Any) -> Any:
        z, count = state
        z = tnp.where(tnp.abs(z) <= 2, z * z + c, z)
        return z, count + (tnp.abs(z) <= 2)

    start = tnp.zeros_like(c), tnp.zeros(c.shape, dtype="int32")
    return tracer.fori_loop(0, 50, step, start)[1]


def _runge_kutta(slope: Callable[[Any], Any], state: Any, width: float) -> Any:
    first = slope(state)
    second = slope(state + width / 2 * first)
    third = slope(state + width / 2 * second)
    fourth = slope(state + width * third)
    return state + width / 6 * (first + 2 * second + 2 * third + fourth)


def _lorenz(state: Any) -> Any:
    x, y, z = state[..., 0], state[..., 1], state[..., 2]
    return tnp.stack([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z], -1)


def lorenz(start: Any) -> Any:
    """Return the mean square of states after 100 steps."""

    def step(state: Any, _: None) -> Any:
        return _runge_kutta(_lorenz, state, 0.01), None

    state, _ = tracer.scan(step, start, None, length=100)
    return (state**2).sum(-1).mean()


def all_of_lorenz(start: Any) -> Any:
    """Return means over time and the largest of the first coordinates, of all 100 steps."""

    def step(state: Any, _: None) -> Any:
        state = state + 0.01 * _lorenz(state)
        return state, state[:, 0]

    _, found = tracer.scan(step, start, None, length=100)
    return (found**2).mean(0), found.max(0)


def diffusion(x: Any) -> Any:
    """Return the largest of rows, each of which takes 30 steps of diffusion along itself."""

    def step(_: Any, u: Any) -> Any:
        return u + 0.1 * (tnp.roll(u, 1, 1) + tnp.roll(u, -1, 1) - 2 * u)

    return tracer.fori_loop(0, 30, step, tnp.exp(-x[:, None] * x)).max(1)


def recurrent(weights: Any, inputs: Any, x: Any) -> Any:
    """Return the loss of a recurrent network over a batch."""

    def step(h: Any, x: Any) -> Any:
        return tnp.tanh(h @ weights + x @ inputs), None

    start = tnp.zeros((x.shape[1], len(weights)), dtype=x.dtype)
    return (tracer.scan(step, start, x)[0] ** 2).mean()


def gated(weights: Any, inputs: Any, x: Any) -> Any:
    """Return the loss of a network of gated recurrent units over a batch."""

    def step(h: Any, x: Any) -> Any:
        update, reset, new = x @ inputs[0], x @ inputs[1], x @ inputs[2]
        update = tracer.nn.sigmoid(update + h @ weights[0])
        reset = tracer.nn.sigmoid(reset + h @ weights[1])
        new = tnp.tanh(new + (reset * h) @ weights[2])
        return (1 - update) * new + update * h, None

    start = tnp.zeros((x.shape[1], weights.shape[1]), dtype=x.dtype)
    return (tracer.scan(step, start, x)[0] ** 2).mean()


def neural_equation(first: Any, second: Any, start: Any) -> Any:
    """Return the loss of a neural differential equation over a batch, after 20 steps."""

    def step(state: Any, _: None) -> Any:
        return _runge_kutta(lambda s: tnp.tanh(s @ first) @ second, state, 0.1), None

    state, _ = tracer.scan(step, start, None, length=20)
    return ((state - 1) ** 2).mean()


def _recurrent_inputs(gates: tuple[int, ...], batch: int) -> tuple[Any, ...]:
    return _normal(*gates, 64, 64) / 8, _normal(*gates, 16, 64) / 4, _normal(30, batch, 16)


PROGRAMS: dict[str, tuple[Program, Callable[[], tuple[Any, ...]]]] = {
    "mandelbrot": (mandelbrot, lambda: (np.linspace(-2, 1, 3000), np.linspace(-1, 1, 2000))),
    "lorenz": (lorenz, lambda: (_normal(1_000_000, 3),)),
    "all_of_lorenz": (all_of_lorenz, lambda: (_normal(300_000, 3),)),
    "lorenz_gradient": (tracer.grad(lorenz), lambda: (_normal(20_000, 3),)),
    "diffusion": (diffusion, lambda: (np.linspace(0, 1, 4000),)),
    "recurrent_gradient": (
        tracer.grad(recurrent, argnums=(0, 1)),
        lambda: _recurrent_inputs((), 8000),
    ),
    "gated_gradient": (
        tracer.grad(gated, argnums=(0, 1)),
        lambda: _recurrent_inputs((3,), 4000),
    ),
    "neural_equation_gradient": (
        tracer.grad(neural_equation, argnums=(0, 1)),
        lambda: (_normal(8, 32) / 3, _normal(32, 8) / 6, _normal(20_000, 8)),
    ),
}


def run(name: str, limit: int | None) -> Callable[[], Any]:
    """Set up for `measure`: returns what computes everything."""
    program, inputs = PROGRAMS[name]
    arrays = [tnp.asarray(array) for array in inputs()]
    function = tracer.compile(program, memory_limit=limit)
    function.plan(*arrays)
    return lambda: [np.asarray(leaf) for leaf in tracer.tree.leaves(function(*arrays))]


def difference(name: str, limit: int) -> float:
    """Return the largest difference between the program under a limit and without."""
    found, wanted = run(name, limit)(), run(name, None)()
    pairs = zip(found, wanted, strict=True)
    return max(float(np.abs(x - y).max() / np.abs(y).max()) for x, y in pairs)


def _measured(name: str, limit: int | None) -> Measurement:
    return measure("benchmarks.steps:run", arguments={"name": name, "limit": limit})


def report(name: str, share: float) -> None:
    """Print one line."""
    program, inputs = PROGRAMS[name]
    arrays = inputs()
    plan = tracer.compile(program).plan(*arrays)
    fixed = plan.argument_bytes + plan.output_bytes
    limit = int(fixed + share * (plan.compiled_bytes - fixed))
    limited = tracer.compile(program, memory_limit=limit).plan(*arrays)
    inside, free = _measured(name, limit), _measured(name, None)
    ratio = inside.seconds / free.seconds if inside.seconds and free.seconds else float("nan")
    print(
        f"{name}: {plan.compiled_bytes / 1e6:.1f} MB, limit {limit / 1e6:.1f} MB "
        f"(arguments and results {fixed / 1e6:.1f}); count {limited.compiled_bytes / 1e6:.1f} MB; "
        f"measured beside arguments {(inside.peak_bytes or 0) / 1e6:.1f} MB, "
        f"without limit {(free.peak_bytes or 0) / 1e6:.1f}; {ratio:.2f} of the time; "
        f"difference {difference(name, limit):.1e}",
        flush=True,
    )


def main() -> None:
    """Print a line for each program."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", choices=[*PROGRAMS, []], default=[])
    parser.add_argument("--share", type=float, default=0.1, help="of the program's own memory")
    options = parser.parse_args()
    for name in options.names or PROGRAMS:
        report(name, options.share)


if __name__ == "__main__":
    main()
