"""Orders: what XLA's two CPU schedulers take, and what the same program takes in our order.

    python -m benchmarks.schedule [--n 1000] [--count 16] [--repeats 3]

Many independent large values, each reduced to a number (openxla issue 35719), and their gradients.
For each order the table has the peak model's prediction (it knows no scheduler of XLA's: of the
program as written, or in our order), XLA's count and the resident memory of a
fresh process (`benchmarks/measure.py`), all three without the arguments, and the seconds of a run.
"Ours" is the program with barriers, compiled for the memory-optimised scheduler.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tracer
import tracer.numpy as tnp
from benchmarks.measure import measure
from examples.display import Progress, print_table
from tracer import lowering
from tracer.array.trace import trace
from tracer.ir import Graph, ShapeDtype
from tracer.optimizer.final_passes import legalized
from tracer.optimizer.model.liveness import Liveness
from tracer.optimizer.passes import PassLog
from tracer.optimizer.pipeline import Context, PlannerOptions
from tracer.optimizer.planner import Planner
from tracer.optimizer.schedule.control_dependences import force_order
from tracer.units import format_bytes

HEADER = ("program", "order", "predicted", "XLA's count", "measured", "seconds")


def products(a: Any, b: Any) -> Any:
    """Sum of sines of products."""
    terms = [tnp.sin(a @ b[i]) for i in range(b.shape[0])]
    return sum(term.sum() for term in terms)


def running_sums(a: Any, b: Any) -> Any:
    """Sum of squares of running sums."""
    terms = [tnp.cumsum(a * b[i], axis=0) for i in range(b.shape[0])]
    return sum((term**2).sum() for term in terms)


def factors(a: Any, b: Any) -> Any:
    """Sum of the logarithms of the determinants of several covariance matrices."""
    covariances = [a @ a.T + b[i] @ b[i].T for i in range(b.shape[0])]
    identity = tnp.eye(a.shape[0], dtype=a.dtype)
    diagonals = [tnp.diagonal(tnp.linalg.cholesky(c + 10 * identity)) for c in covariances]
    return sum(tnp.log(diagonal).sum() for diagonal in diagonals)


def both_sides(a: Any, b: Any) -> Any:
    """Sum of products of two sorted matrices each."""
    pairs = [(tnp.sort(a @ b[i]), tnp.sort(b[i] @ a)) for i in range(b.shape[0])]
    return sum((x @ y).sum() for x, y in pairs)


FUNCTIONS = {f.__name__: f for f in (products, running_sums, factors, both_sides)}
ORDERS = ("XLA, default", "XLA, memory", "ours")


def graph_of(name: str, n: int, count: int, order: str) -> Graph:
    """Return the optimised graph of a program, `name` ending in ' gradient' for its gradient."""
    function: Callable[..., Any] = FUNCTIONS[name.removesuffix(" gradient")]
    if name.endswith("gradient"):
        function = tracer.value_and_grad(function)
    types = [ShapeDtype((n, n), "float32"), ShapeDtype((count, n, n), "float32")]
    graph = Planner(trace(function, types).graph, PlannerOptions(split=False)).graph
    return force_order(graph, PassLog()) if order == "ours" else graph


def compiled(graph: Graph, order: str) -> lowering.Executable:
    """Compile a graph for the scheduler of an order."""
    options = {} if order == "XLA, default" else lowering.memory_optimized_options()
    return lowering.compile_graph(legalized(graph, Context())[0], options=options)


def program(name: str, n: int, count: int, order: str) -> Callable[[], Any]:
    """Return what `benchmarks/measure.py` runs."""
    execute = compiled(graph_of(name, n, count, order), order)
    generator = np.random.default_rng(0)
    device = lowering.default_device()
    inputs = [
        lowering.to_device(generator.standard_normal(shape, dtype=np.float32), device)
        for shape in ((n, n), (count, n, n))
    ]

    def run() -> Any:
        results = execute(*inputs)
        for result in results:
            lowering.to_host(result)
        return results

    # The libraries' threads and buffers are there before the measurement.
    small = np.ones((64, 64), np.float32)
    tnp.asarray(tnp.sort(tnp.asarray(small) @ tnp.asarray(small))).block_until_ready()
    return run


def row(name: str, n: int, count: int, order: str, repeats: int) -> tuple[str, ...]:
    """Count and measure one program in one order."""
    graph = graph_of(name, n, count, order)
    arguments = sum(type.nbytes for type in graph.input_types)
    memory = compiled(graph, order).memory
    measured = measure(
        f"{Path(__file__).resolve()}:program",
        arguments={"name": name, "n": n, "count": count, "order": order},
        repeats=repeats,
    )
    return (
        name,
        order,
        format_bytes(Liveness(graph).peak_bytes - arguments),
        format_bytes(memory.peak_bytes - memory.argument_bytes),
        format_bytes(measured.peak_bytes) if measured.peak_bytes is not None else measured.reason,
        f"{measured.fastest:.2f}" if measured.fastest is not None else measured.status,
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=1000)
    parser.add_argument("--count", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", action="append", help="a program; may be given several times")
    options = parser.parse_args()
    names = [name + ending for name in FUNCTIONS for ending in ("", " gradient")]
    rows = []
    progress = Progress()
    for name in options.only or names:
        for order in ORDERS:
            progress.say(f"{name}, {order}")
            rows.append(row(name, options.n, options.count, order, options.repeats))
    progress.clear()
    print_table(f"n = {options.n}, {options.count} terms", HEADER, rows)


if __name__ == "__main__":
    main()
