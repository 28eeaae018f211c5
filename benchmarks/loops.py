"""Loops around large values: Sinkhorn, conjugate gradients, N-body by scan, and their gradients.

Each program is written plainly: the n x n matrix is made before the loop. For every program one
line with the limit, XLA's count, the measured growth of resident memory in a fresh process
(`measure.py`), seconds with and without the limit, and the relative error of the value against
NumPy in float64, of gradients along a random direction against differences of it::

    python -m benchmarks.loops                     # all
    python -m benchmarks.loops sinkhorn --only-limited
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.measure import measure

_LARGEST_REFERENCE = 10_000
"""Points; NumPy keeps several matrices of float64."""
Array = np.ndarray[Any, Any]
Loss = Callable[..., Any]


def squared_distances(x: Any, y: Any) -> Any:
    """Return all squared distances of two clouds."""
    return ((x[:, None, :] - y[None, :, :]) ** 2).sum(-1)


def without_gradient(x: Any) -> Any:
    """Return the array as a constant of differentiation, as log-sum-exp treats its maximum."""
    if isinstance(x, np.ndarray):
        return x
    import tracer

    return tracer.stop_gradient(x)


def sinkhorn(np_: Any, scan: Any, x: Any, y: Any) -> Any:
    """Return the cost of entropic transport between two clouds, after 50 iterations of scaling."""
    cost = squared_distances(x, y)
    k = np_.exp(-2.0 * cost)
    a, b = np_.ones_like(x[:, 0]) / len(x), np_.ones_like(y[:, 0]) / len(y)

    def step(scales: Any, _: None) -> Any:
        u = a / (k @ scales[1])
        return (u, b / (k.T @ u)), None

    (u, v), _ = scan(step, (np_.ones_like(a), np_.ones_like(b)), None, 50)
    return (u * ((k * cost) @ v)).sum()


def sinkhorn_in_logarithms(np_: Any, scan: Any, x: Any, y: Any) -> Any:
    """Compute the same with potentials and log-sum-exp."""
    cost = squared_distances(x, y)
    a, b = np_.log(np_.ones_like(x[:, 0]) / len(x)), np_.log(np_.ones_like(y[:, 0]) / len(y))

    def log_sum(z: Any, axis: int) -> Any:
        most = without_gradient(z.max(axis=axis, keepdims=True))
        return np_.log(np_.exp(z - most).sum(axis)) + most.squeeze(axis)

    def step(potentials: Any, _: None) -> Any:
        f = 0.5 * (a - log_sum((potentials[1][None, :] - cost) * 2.0, 1))
        return (f, 0.5 * (b - log_sum((f[:, None] - cost) * 2.0, 0))), None

    (f, g), _ = scan(step, (np_.zeros_like(a), np_.zeros_like(b)), None, 50)
    return (np_.exp((f[:, None] + g[None, :] - cost) * 2.0) * cost).sum()


def conjugate_gradients(np_: Any, scan: Any, x: Any) -> Any:
    """Take ten steps towards the solution of (K + n I / 10) z = b; return b z."""
    k = np_.exp(-0.5 * squared_distances(x, x))
    b = np_.sin(x[:, 0])
    noise = 0.1 * len(x)

    def step(state: Any, _: None) -> Any:
        z, r, p = state
        q = k @ p + noise * p
        rate = (r @ r) / (p @ q)
        rest = r - rate * q
        return (z + rate * p, rest, rest + ((rest @ rest) / (r @ r)) * p), None

    (z, _, _), _ = scan(step, (np_.zeros_like(b), b, b), None, 10)
    return z @ b


def bodies(np_: Any, scan: Any, x: Any) -> Any:
    """Return an energy of motion and place after 20 steps of an N-body simulation."""

    def step(state: Any, _: None) -> Any:
        place, speed = state
        apart = place[None, :, :] - place[:, None, :]
        near = ((apart**2).sum(-1) + 0.01) ** -1.5
        speed = speed + 0.05 * (apart * near[:, :, None]).sum(1) / len(x)
        return (place + 0.05 * speed, speed), None

    (place, speed), _ = scan(step, (x, np_.zeros_like(x)), None, 20)
    return (place**2).sum() + (speed**2).sum()


@dataclass(frozen=True)
class Program:
    """A loss over some clouds of `n` points each, and the limit in bytes."""

    loss: Loss
    clouds: int
    n: int
    limit: int


PROGRAMS = {
    "sinkhorn": Program(sinkhorn, 2, 10_000, 64_000_000),
    "sinkhorn_in_logarithms": Program(sinkhorn_in_logarithms, 2, 5_000, 32_000_000),
    "conjugate_gradients": Program(conjugate_gradients, 1, 20_000, 64_000_000),
    "bodies": Program(bodies, 1, 5_000, 64_000_000),
}


def points(program: Program, n: int) -> tuple[Array, ...]:
    """Return the clouds, the same in every process."""
    rng = np.random.default_rng(0)
    return tuple(0.5 * rng.standard_normal((n, 3)) for _ in range(program.clouds))


def compiled(name: str, gradient: bool, limit: int | None) -> Any:
    """Return the compiled program."""
    import tracer
    import tracer.numpy as tnp

    loss = PROGRAMS[name].loss

    def whole(*clouds: Any) -> Any:
        return loss(tnp, tracer.scan, *clouds)

    wrt = tuple(range(PROGRAMS[name].clouds))
    function = tracer.value_and_grad(whole, argnums=wrt) if gradient else whole
    return tracer.compile(function, memory_limit=limit)


def run(name: str, gradient: bool, limit: int | None, n: int) -> Callable[[], Any]:
    """Set up for `measure`: returns what computes everything."""
    import tracer

    clouds = [cloud.astype(np.float32) for cloud in points(PROGRAMS[name], n)]
    compiled(name, gradient, limit)(*(cloud[:200] for cloud in clouds))  # loads XLA's libraries
    arrays = [tracer.numpy.asarray(cloud) for cloud in clouds]
    function = compiled(name, gradient, limit)
    function.plan(*arrays)
    return lambda: [np.asarray(leaf) for leaf in tracer.tree.leaves(function(*arrays))]


def scan_in_numpy(step: Any, state: Any, xs: None, length: int) -> tuple[Any, None]:
    """Do what `tracer.scan` does, for the reference."""
    for _ in range(length):
        state, _ = step(state, xs)
    return state, None


def error(name: str, found: list[Array], n: int) -> float:
    """Return the relative error of the value, or of the gradient along a direction."""
    program = PROGRAMS[name]
    clouds = points(program, n)

    def reference(amount: float, directions: list[Array]) -> float:
        moved = [c + amount * d for c, d in zip(clouds, directions, strict=True)]
        return float(program.loss(np, scan_in_numpy, *moved))

    if len(found) == 1:
        wanted = reference(0.0, list(clouds))
        return abs(float(found[0]) - wanted) / abs(wanted)
    # Along the gradient itself: differences of a sum of many small terms lose least there.
    directions = [g / np.abs(g).max() for g in map(np.float64, found[1:])]
    slope = sum(float((g * d).sum()) for g, d in zip(found[1:], directions, strict=True))
    wanted = (reference(1e-3, directions) - reference(-1e-3, directions)) / 2e-3
    return abs(slope - wanted) / abs(wanted)


def report(name: str, gradient: bool, n: int, limit: int, only_limited: bool) -> None:
    """Print one line."""
    function = compiled(name, gradient, limit)
    arrays = [cloud.astype(np.float32) for cloud in points(PROGRAMS[name], n)]
    plan = function.plan(*arrays)
    import tracer

    found = [np.asarray(leaf) for leaf in tracer.tree.leaves(function(*arrays))]
    order = {"name": name, "gradient": gradient, "n": n}
    target = "benchmarks.loops:run"
    limited = measure(target, arguments={**order, "limit": limit}, repeats=1)
    parts = [
        f"{name}{' gradient' if gradient else ''}, n = {n:,}: limit {limit / 1e6:.0f} MB",
        f"count {plan.compiled_bytes / 1e6:.1f} MB",
        f"measured {(limited.peak_bytes or 0) / 1e6:.1f} MB ({limited.status})",
        f"{limited.seconds:.2f} s" if limited.seconds else limited.reason,
    ]
    if not only_limited:
        whole = measure(target, arguments={**order, "limit": None}, repeats=1)
        shown = f"{whole.seconds:.2f} s" if whole.seconds else whole.reason
        parts.append(f"without limit {(whole.peak_bytes or 0) / 1e6:.1f} MB, {shown}")
    if n <= _LARGEST_REFERENCE:
        parts.append(f"relative error {error(name, found, n):.1e}")
    print("; ".join(parts), flush=True)


def main() -> None:
    """Print a line for each program and its gradient."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", choices=[*PROGRAMS, []], default=[])
    parser.add_argument("--n", type=int)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--kind", choices=["value", "gradient", "both"], default="both")
    parser.add_argument("--only-limited", action="store_true")
    options = parser.parse_args()
    kinds = {"value": [False], "gradient": [True], "both": [False, True]}[options.kind]
    for name in options.names or PROGRAMS:
        program = PROGRAMS[name]
        for gradient in kinds:
            n, limit = options.n or program.n, options.limit or program.limit
            report(name, gradient, n, limit, options.only_limited)


if __name__ == "__main__":
    main()
