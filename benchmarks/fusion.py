"""What each fusion pass buys in seconds and memory, with the pass on and off.

Both forms are compiled in one process and called in turns; ratios are of medians. Memory is what a
fresh process grows by, results included, and XLA's count of temporaries, without them::

    python -m benchmarks.fusion
    python -m benchmarks.fusion --size small
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import tracer
import tracer.numpy as tnp
from benchmarks.measure import measure
from benchmarks.race import race, short_time
from examples.display import print_table

SIZES = {
    "small": {"n": 600, "count": 40, "rounds": 3},
    "full": {"n": 3_000, "count": 200, "rounds": 15},
}
MERGER, CONCATENATE = "fusion-merger", "reduce-through-concatenate"
HORIZONTAL, SHARED = "horizontal-fusion", "store-shared-values"
HEADER = ("pass", "program", "off", "on", "off / on", "measured off", "on", "XLA's count off", "on")


@dataclass(frozen=True)
class Row:
    """One program with one pass off and on: seconds, resident memory, bytes of temporaries."""

    option: str
    program: str
    seconds: tuple[float, float]
    measured_bytes: tuple[int | None, int | None]
    temporary_bytes: tuple[int, int]

    @property
    def ratio(self) -> float:
        """Seconds without the pass over those with it."""
        return self.seconds[0] / self.seconds[1]


def sums_both_ways(x: Any) -> Any:
    """Return sums over rows and columns of an exponential."""
    y = tnp.exp(x)
    return y.sum(1), y.sum(0)


def moments_of_quotient(x: Any) -> Any:
    """Return three sums of a quotient."""
    y = 1 / (1 + x * x)
    return y.sum(1), y.sum(0), (y * y).sum(1)


def normalised(x: Any) -> Any:
    """Return a softmax: its exponential lies where the result will, so it stays stored."""
    shares = tnp.exp(x - x.max(1, keepdims=True))
    return shares / shares.sum(1, keepdims=True)


def moments_of_joined(x: Any) -> Any:
    """Return sums of a concatenation and of its squares."""
    both = tnp.concatenate([x * 2, x + 1], 1)
    return both.sum(1), (both * both).sum(1)


def extremes_of_joined(x: Any) -> Any:
    """Return sums and extremes of rows that are stacked."""
    both = tnp.concatenate([x * 2, x + 1], 0)
    return both.sum(1), both.max(1)


def statistics_of_noise(x: Any, key: Any) -> Any:
    """Return three statistics of as many normal numbers as there are elements."""
    noise = tracer.random.normal(key, x.shape, dtype="float32")
    return noise.mean(), noise.std(), noise.max()


def sums_with_noise(x: Any, key: Any) -> Any:
    """Return sums over rows and columns of an array with noise, and of their product."""
    noise = tracer.random.normal(key, x.shape, dtype="float32")
    return (x + noise).sum(0), (x + noise).sum(1), (x * noise).sum()


def products_of_rows(x: Any, y: Any) -> Any:
    """Return the products of matrices in two stacks, one by one."""
    return tnp.stack([x[i] @ y[i] for i in range(x.shape[0])])


def functions_of_rows(x: Any) -> Any:
    """Return an element-wise function of each matrix of a stack, one by one."""
    return tnp.stack([tnp.tanh(x[i]) * 2 + x[i] for i in range(x.shape[0])])


def networks(x: Any, first: Any, second: Any) -> Any:
    """Return an ensemble of small networks on the same points."""
    return [tnp.tanh(x @ w) @ v for w, v in zip(first, second, strict=True)]


def descent(parameters: Any, targets: Any) -> Any:
    """Take 2,000 steps of gradient descent with momentum for many arrays."""

    def step(_: Any, state: Any) -> Any:
        now, speed = state
        speed = [0.9 * v + (p - t) for p, v, t in zip(now, speed, targets, strict=True)]
        return [p - 0.01 * v for p, v in zip(now, speed, strict=True)], speed

    zeros = [tnp.zeros_like(p) for p in parameters]
    return tracer.fori_loop(0, 2_000, step, (parameters, zeros))


def programs(n: int, count: int) -> list[tuple[str, Callable[..., Any], tuple[Any, ...]]]:
    """Return a pass, a program that it is for, and arguments."""
    rng = np.random.default_rng(0)

    def random(*shape: int) -> Any:
        return tnp.asarray(rng.standard_normal(shape).astype(np.float32))

    x, stack, other = random(n, n), random(count, 16, 16), random(count, 16, 16)
    arrays = [[random(4 + i % 60) for i in range(count)] for _ in range(2)]
    ensemble = (random(10, 16), [random(16, 16) for _ in range(count)])
    return [
        (MERGER, sums_both_ways, (x,)),
        (MERGER, moments_of_quotient, (x,)),
        (MERGER, normalised, (x,)),
        (CONCATENATE, moments_of_joined, (x,)),
        (CONCATENATE, extremes_of_joined, (x,)),
        (SHARED, statistics_of_noise, (x, tracer.random.key(0))),
        (SHARED, sums_with_noise, (x, tracer.random.key(0))),
        (HORIZONTAL, products_of_rows, (stack, other)),
        (HORIZONTAL, functions_of_rows, (stack,)),
        (HORIZONTAL, networks, (*ensemble, [random(16, 4) for _ in range(count)])),
        (HORIZONTAL, descent, (arrays[0], arrays[1])),
    ]


def table(*, n: int, count: int, rounds: int) -> list[Row]:
    """Compile each program with its pass off and on, check that they agree, and time both."""
    rows = []
    for index, (option, function, arguments) in enumerate(programs(n, count)):
        # Whole programs: what slices do to these is another table (benchmarks.planner).
        off, on = (
            tracer.compile(function, split="never", passes=passes)
            for passes in (f"-{option}", None)
        )
        _check(off(*arguments), on(*arguments))
        runs = {"off": partial(off, *arguments), "on": partial(on, *arguments)}
        times = race(runs, rounds=rounds)
        seconds = times["off"].median, times["on"].median
        memory = _temporary_bytes(off, arguments), _temporary_bytes(on, arguments)
        resident = _measured(index, n, count, f"-{option}"), _measured(index, n, count, None)
        rows.append(Row(option, function.__name__, seconds, resident, memory))
    return rows


def whole(index: int, n: int, count: int, passes: str | None) -> Callable[[], Any]:
    """Return the call of a program, as `benchmarks.measure` wants it."""
    _, function, arguments = programs(n, count)[index]
    compiled = tracer.compile(function, split="never", passes=passes)
    compiled.plan(*arguments)
    return lambda: compiled(*arguments)


def _measured(index: int, n: int, count: int, passes: str | None) -> int | None:
    """Return by how much a fresh process grows when it runs the program."""
    order = {"index": index, "n": n, "count": count, "passes": passes}
    return measure("benchmarks.fusion:whole", arguments=order).peak_bytes


def _check(first: Any, second: Any) -> None:
    pairs = zip(*(tracer.tree.flatten(values)[0] for values in (first, second)), strict=True)
    for one, other in pairs:
        scale = float(np.abs(np.asarray(one)).max())
        np.testing.assert_allclose(np.asarray(one), np.asarray(other), atol=1e-4 * scale)


def _temporary_bytes(compiled: Any, arguments: Any) -> int:
    plan = compiled.plan(*arguments)
    leaves = tracer.tree.flatten(arguments)[0]
    graph = compiled.graph(*arguments)
    results = sum(type.nbytes for type in graph.output_types)
    counted: int = plan.compiled_bytes
    return max(0, counted - sum(int(leaf.type.nbytes) for leaf in leaves) - int(results))


def _megabytes(nbytes: int | None) -> str:
    return "failed" if nbytes is None else f"{nbytes / 1e6:.3g} MB"


def main(size: str = "full") -> list[Row]:
    """Print the table."""
    rows = table(**SIZES[size])
    cells = [
        (
            row.option,
            row.program,
            *map(short_time, row.seconds),
            f"{row.ratio:.2f}",
            *map(_megabytes, (*row.measured_bytes, *row.temporary_bytes)),
        )
        for row in rows
    ]
    print_table("Fusion passes off and on", HEADER, cells)
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=SIZES, default="full")
    main(parser.parse_args().size)
