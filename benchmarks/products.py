"""Every layout of a matrix product against the fastest one: `python -m benchmarks.products`.

Each product runs in a loop of its own program, so that no time goes into new pages for its result.
Per layout: GF/s when XLA gets the product as it is written, and in the form that the pass
*lay-out-products* chooses; the last column is the chosen form's time over that of the fastest
layout of the group.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from tracer import lowering, ops
from tracer.ir import Builder, Graph, ShapeDtype, Value
from tracer.optimizer.final_passes import legalized
from tracer.optimizer.pipeline import Context, PlannerOptions

TRIPS, ROUNDS = 8, 10
LAYOUTS = ("mk,kn->mn", "mk,nk->mn", "km,kn->mn", "km,nk->mn")
SIZES = (
    (0, 256, 64, 2048),
    (0, 256, 2048, 64),
    (0, 2048, 256, 64),
    (0, 64, 256, 2048),
    (0, 256, 3, 2048),
    (0, 256, 2048, 3),
    (0, 2048, 256, 3),
    (0, 3, 256, 2048),
    (0, 1024, 1024, 1024),
    (0, 64, 64, 64),
    (8, 256, 64, 2048),
    (8, 256, 2048, 64),
    (8, 2048, 256, 64),
    (8, 64, 2048, 64),
    (8, 2048, 64, 64),
    (8, 64, 64, 2048),
    (64, 128, 128, 64),
    (64, 128, 64, 128),
)
"""Batch (0: none), m, k, n."""


@dataclass(frozen=True)
class Case:
    """One product: subscripts without the batch, and the sizes."""

    layout: str
    batch: int
    m: int
    k: int
    n: int
    dtype: str

    def shape(self, letters: str) -> tuple[int, ...]:
        """Return the shape of an array with these axes."""
        sizes = {"m": self.m, "k": self.k, "n": self.n}
        return ((self.batch,) if self.batch else ()) + tuple(sizes[letter] for letter in letters)

    @property
    def operands(self) -> tuple[str, str]:
        """Subscripts of both operands."""
        left, right = self.layout.split("->")[0].split(",")
        return left, right

    @property
    def flops(self) -> float:
        """Two for each term."""
        return 2.0 * max(1, self.batch) * self.m * self.k * self.n


def multiply(case: Case, x: Value, y: Value) -> Value:
    """Record the product."""
    lead = 1 if case.batch else 0
    batch = tuple(range(lead))
    left, right = case.operands
    return ops.dot_general(  # type: ignore[no-any-return]
        x,
        y,
        lhs_batch=batch,
        rhs_batch=batch,
        lhs_contracting=(lead + left.index("k"),),
        rhs_contracting=(lead + right.index("k"),),
    )


def looped(case: Case) -> Graph:
    """Return a graph that takes the product TRIPS times; a barrier keeps it in the loop.

    The result is carried, so that it lies there in the order of its axes.
    """
    types = [ShapeDtype(case.shape(letters), case.dtype) for letters in (*case.operands, "mn")]
    count = ShapeDtype((), np.int32)
    with Builder() as builder:
        step, *_ = [builder.input(type) for type in (count, *types)]
        limit = ops.constant(value=np.array(TRIPS, np.int32))
        condition = builder.finish([ops.compare(step, limit, direction="LT")])
    with Builder() as builder:
        step, x, y, _ = (builder.input(type) for type in (count, *types))
        now, x_, y_ = ops.optimization_barrier(step, x, y)
        following = ops.add(now, ops.constant(value=np.array(1, np.int32)))
        body = builder.finish([following, x, y, multiply(case, x_, y_)])
    with Builder() as builder:
        operands = [builder.input(type) for type in types[:2]]
        zero = ops.constant(value=np.zeros(types[2].shape, types[2].dtype))
        start = ops.constant(value=np.array(0, np.int32))
        results = ops.while_(start, *operands, zero, condition=condition, body=body)
        return builder.finish([results[3]])


def legal(graph: Graph) -> Graph:
    """Return a graph with its products in the forms that are chosen for this processor."""
    options = PlannerOptions(machine=lowering.target_of())
    return legalized(graph, Context(options))[0]


def prepare(
    case: Case, *, chosen: bool = False, options: Mapping[str, Any] | None = None
) -> Callable[[], float]:
    """Return a call that runs the loop, waits, and returns the seconds of one product."""
    graph = looped(case)
    executable = lowering.compile_graph(legal(graph) if chosen else graph, options=options)
    generator = np.random.default_rng(0)
    dtype = ml_dtypes.bfloat16 if case.dtype == "bfloat16" else case.dtype
    buffers = [
        lowering.to_device(generator.random(case.shape(letters)).astype(dtype))
        for letters in case.operands
    ]

    def run() -> float:
        start = time.perf_counter()
        executable(*buffers)[0].block_until_ready()
        return (time.perf_counter() - start) / TRIPS

    return run


def measure_group(cases: list[Case], rounds: int) -> list[tuple[float, float]]:
    """Return the best seconds of each case as written and as chosen, taken in turns."""
    runs = [prepare(case, chosen=chosen) for case in cases for chosen in (False, True)]
    best = [run() for run in runs]
    for _ in range(rounds):
        best = [min(known, run()) for known, run in zip(best, runs, strict=True)]
    return list(zip(best[::2], best[1::2], strict=True))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dtypes", default="float32,float64,bfloat16")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    arguments = parser.parse_args()
    print("| dtype | batch, m, k, n | layout | as written, GF/s | chosen, GF/s | to best layout |")
    print("|---|---|---|---|---|---|")
    for dtype in arguments.dtypes.split(","):
        for batch, m, k, n in SIZES:
            cases = [Case(layout, batch, m, k, n, dtype) for layout in LAYOUTS]
            found = measure_group(cases, arguments.rounds)
            fastest = min(min(pair) for pair in found)
            for case, (plain, chosen) in zip(cases, found, strict=True):
                rates = [case.flops / seconds / 1e9 for seconds in (plain, chosen)]
                print(
                    f"| {dtype} | {batch or '-'}, {m}, {k}, {n} | {case.layout} "
                    f"| {rates[0]:.1f} | {rates[1]:.1f} | {chosen / fastest:.2f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
