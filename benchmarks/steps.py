"""Loops over steps whose states are independent, or whose gradients add up over a batch.

Each is cut along its trajectories, paths, rows or batch under a limit, and without one where that
is faster. Every program is measured as it is left whole (`split="never"`), without a limit, under
one of the arguments and results and a tenth of what it takes beside them, and by `jax.jit`, where
jax is installed. A line has XLA's count, the growth of resident memory beside the arguments in
fresh processes (`measure.py`), the time over that of the whole program, and the largest difference
from it, relative to the largest element::

    python -m benchmarks.steps                     # all
    python -m benchmarks.steps recurrent_gradient --share 0.3
"""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np

import tracer
import tracer.numpy as tnp
from benchmarks.framework import Framework, jax_framework, tracer_framework
from benchmarks.measure import Measurement, measure

Make = Callable[[Framework], Callable[..., Any]]
"""Gives a program of a framework."""
WHOLE = {"split": "never"}


def _normal(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).standard_normal(shape)


def mandelbrot(f: Framework) -> Callable[..., Any]:
    """Count in how many of 50 steps each point of a grid stays near."""

    def program(x: Any, y: Any) -> Any:
        c = x[None, :] + 1j * y[:, None]

        def step(_: Any, state: Any) -> Any:
            z, count = state
            z = f.numpy.where(f.numpy.abs(z) <= 2, z * z + c, z)
            return z, count + (f.numpy.abs(z) <= 2)

        start = f.numpy.zeros_like(c), f.numpy.zeros(c.shape, dtype="int32")
        return f.control.fori_loop(0, 50, step, start)[1]

    return program


def _runge_kutta(slope: Callable[[Any], Any], state: Any, width: float) -> Any:
    first = slope(state)
    second = slope(state + width / 2 * first)
    third = slope(state + width / 2 * second)
    fourth = slope(state + width * third)
    return state + width / 6 * (first + 2 * second + 2 * third + fourth)


def _slope_of_lorenz(f: Framework, state: Any) -> Any:
    x, y, z = state[..., 0], state[..., 1], state[..., 2]
    return f.numpy.stack([10 * (y - x), x * (28 - z) - y, x * y - 8 / 3 * z], -1)


def lorenz(f: Framework) -> Callable[..., Any]:
    """Compute the mean square of states after 100 steps."""

    def program(start: Any) -> Any:
        def step(state: Any, _: None) -> Any:
            return _runge_kutta(lambda s: _slope_of_lorenz(f, s), state, 0.01), None

        state, _ = f.control.scan(step, start, None, length=100)
        return (state**2).sum(-1).mean()

    return program


def all_of_lorenz(f: Framework) -> Callable[..., Any]:
    """Compute means over time and the largest of the first coordinates, of all 100 steps."""

    def program(start: Any) -> Any:
        def step(state: Any, _: None) -> Any:
            state = state + 0.01 * _slope_of_lorenz(f, state)
            return state, state[:, 0]

        _, found = f.control.scan(step, start, None, length=100)
        return (found**2).mean(0), found.max(0)

    return program


def diffusion(f: Framework) -> Callable[..., Any]:
    """Find the largest of rows, each of which takes 30 steps of diffusion along itself."""

    def program(x: Any) -> Any:
        def step(_: Any, u: Any) -> Any:
            return u + 0.1 * (f.numpy.roll(u, 1, 1) + f.numpy.roll(u, -1, 1) - 2 * u)

        return f.control.fori_loop(0, 30, step, f.numpy.exp(-x[:, None] * x)).max(1)

    return program


def recurrent(f: Framework) -> Callable[..., Any]:
    """Compute the loss of a recurrent network over a batch."""

    def program(weights: Any, inputs: Any, x: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            return f.numpy.tanh(h @ weights + x @ inputs), None

        start = f.numpy.zeros((x.shape[1], len(weights)), dtype=x.dtype)
        return (f.control.scan(step, start, x)[0] ** 2).mean()

    return program


def gated(f: Framework) -> Callable[..., Any]:
    """Compute the loss of a network of gated recurrent units over a batch."""

    def program(weights: Any, inputs: Any, x: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            update, reset, new = x @ inputs[0], x @ inputs[1], x @ inputs[2]
            update = f.nn.sigmoid(update + h @ weights[0])
            reset = f.nn.sigmoid(reset + h @ weights[1])
            new = f.numpy.tanh(new + (reset * h) @ weights[2])
            return (1 - update) * new + update * h, None

        start = f.numpy.zeros((x.shape[1], weights.shape[1]), dtype=x.dtype)
        return (f.control.scan(step, start, x)[0] ** 2).mean()

    return program


def neural_equation(f: Framework) -> Callable[..., Any]:
    """Compute the loss of a neural differential equation over a batch, after 20 steps."""

    def program(first: Any, second: Any, start: Any) -> Any:
        def slope(state: Any) -> Any:
            return f.numpy.tanh(state @ first) @ second

        def step(state: Any, _: None) -> Any:
            return _runge_kutta(slope, state, 0.1), None

        state, _ = f.control.scan(step, start, None, length=20)
        return ((state - 1) ** 2).mean()

    return program


def _gradient(make: Make, argnums: int | tuple[int, ...] = (0, 1)) -> Make:
    return lambda f: f.transforms.grad(make(f), argnums=argnums)


def _recurrent_inputs(gates: tuple[int, ...], batch: int) -> tuple[Any, ...]:
    return _normal(*gates, 64, 64) / 8, _normal(*gates, 16, 64) / 4, _normal(30, batch, 16)


PROGRAMS: dict[str, tuple[Make, Callable[[], tuple[Any, ...]]]] = {
    "mandelbrot": (mandelbrot, lambda: (np.linspace(-2, 1, 3000), np.linspace(-1, 1, 2000))),
    "lorenz": (lorenz, lambda: (_normal(1_000_000, 3),)),
    "all_of_lorenz": (all_of_lorenz, lambda: (_normal(300_000, 3),)),
    "lorenz_gradient": (_gradient(lorenz, 0), lambda: (_normal(20_000, 3),)),
    "diffusion": (diffusion, lambda: (np.linspace(0, 1, 4000),)),
    "recurrent_gradient": (_gradient(recurrent), lambda: _recurrent_inputs((), 8000)),
    "gated_gradient": (_gradient(gated), lambda: _recurrent_inputs((3,), 4000)),
    "neural_equation_gradient": (
        _gradient(neural_equation),
        lambda: (_normal(8, 32) / 3, _normal(32, 8) / 6, _normal(20_000, 8)),
    ),
}


def run(name: str, options: dict[str, Any]) -> Callable[[], Any]:
    """Set up for `measure`: returns what computes everything."""
    make, inputs = PROGRAMS[name]
    arrays = [tnp.asarray(array) for array in inputs()]
    function = tracer.compile(make(tracer_framework()), **options)
    function.plan(*arrays)
    return lambda: [np.asarray(leaf) for leaf in tracer.tree.leaves(function(*arrays))]


def run_jax(name: str) -> Callable[[], Any]:
    """Set up the same for JAX."""
    import jax

    make, inputs = PROGRAMS[name]
    function = make(jax_framework())
    arrays = [jax.numpy.asarray(array) for array in inputs()]
    compiled = jax.jit(function).lower(*arrays).compile()
    return lambda: [np.asarray(leaf) for leaf in jax.tree.leaves(compiled(*arrays))]


def difference(found: Any, name: str) -> float:
    """Return the largest difference of results from those of the program that is left whole."""
    pairs = zip(found, run(name, WHOLE)(), strict=True)
    return max(float(np.abs(x - y).max() / np.abs(y).max()) for x, y in pairs)


def _measured(name: str, options: dict[str, Any]) -> Measurement:
    return measure("benchmarks.steps:run", arguments={"name": name, "options": options})


def report(name: str, share: float) -> None:
    """Print the lines of one program."""
    make, inputs = PROGRAMS[name]
    program, arrays = make(tracer_framework()), inputs()
    plan = tracer.compile(program, **WHOLE).plan(*arrays)
    fixed = plan.argument_bytes + plan.output_bytes
    limit = int(fixed + share * (plan.compiled_bytes - fixed))
    print(f"{name}: arguments and results {fixed / 1e6:.1f} MB")
    whole = _measured(name, WHOLE)
    for title, options in (
        ("left whole", WHOLE),
        ("no limit", {}),
        (f"limit {limit / 1e6:.1f} MB", {"memory_limit": limit}),
    ):
        count = tracer.compile(program, **options).plan(*arrays).compiled_bytes
        found = whole if options is WHOLE else _measured(name, options)
        away = difference(run(name, options)(), name)
        print(f"  {title}: count {count / 1e6:.1f} MB, {_line(found, whole, away)}", flush=True)
    if importlib.util.find_spec("jax") is not None:
        found = measure("benchmarks.steps:run_jax", arguments={"name": name})
        print(f"  jax: {_line(found, whole, difference(run_jax(name)(), name))}", flush=True)


def _line(found: Measurement, whole: Measurement, away: float) -> str:
    ratio = found.seconds / whole.seconds if found.seconds and whole.seconds else float("nan")
    peak = (found.peak_bytes or 0) / 1e6
    return f"measured {peak:.1f} MB, {ratio:.2f} of the time, difference {away:.1e}"


def main() -> None:
    """Print what each program takes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", choices=[*PROGRAMS, []], default=[])
    parser.add_argument("--share", type=float, default=0.1, help="of the program's own memory")
    options = parser.parse_args()
    for name in options.names or PROGRAMS:
        report(name, options.share)


if __name__ == "__main__":
    main()
