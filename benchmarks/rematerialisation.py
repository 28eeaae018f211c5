"""Training steps under a limit: what is recomputed and split, beside JAX.

    python -m benchmarks.rematerialisation --size small|full [--only perceptron] [--turns 5]

One Adam step of a perceptron and of a 6-layer Transformer, the state donated. The limits are shares
of what the step takes without one (XLA's count and library scratch, arguments included). Measured
is the resident memory of a fresh process, with the arguments (`benchmarks/measure.py`), over four
steps; the ratio is the median over turns of a step's time over that without a limit
(`benchmarks/turns.py`). "recompute only" is the same limit with nothing computed in slices.

The second table asks for the same predicted peak in three ways, and prints the operations: ours,
the heuristic of Kirisame et al. (2021) on the same program, and segments by hand
(`tracer.checkpoint`; Chen et al., 2016), whose peak is the one that is asked for.
"""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import tracer
from benchmarks.framework import jax_framework, tracer_framework
from benchmarks.measure import measure
from benchmarks.peers.dynamic_rematerialisation import DynamicSearch
from benchmarks.programs.training import INPUTS, SIZES, STEPS, leaves, tree_map
from benchmarks.turns import Contender, ratio, take_turns
from benchmarks.warm_up import load_libraries
from examples.display import Progress, print_table
from tracer.array.trace import trace
from tracer.ir import Graph, ShapeDtype
from tracer.optimizer.model.costs import graph_flops
from tracer.optimizer.model.liveness import Liveness
from tracer.optimizer.pipeline import PlannerOptions
from tracer.optimizer.plan import Plan
from tracer.optimizer.planner import Planner
from tracer.optimizer.remat import REMATERIALISE_NAME, RecomputationSearch
from tracer.target import DEFAULT_TARGET
from tracer.units import format_bytes

HEADER = ("program", "way", "limit", "predicted", "count", "measured", "times", "what was done")
FLOPS = ("program", "way", "predicted", "operations", "times")
SHARES = (None, 0.5, 0.25)
REPEATS = 3
HERE = f"{Path(__file__).resolve()}:program"
_SECONDS, _TIMEOUT, _CAP = 60.0, 600.0, 1 << 36


def arrays(name: str, size: str) -> tuple[Any, ...]:
    """Return the state, the inputs and the targets of a program, as NumPy arrays."""
    return INPUTS[name](np.random.default_rng(0), **SIZES[size][name])


def compiled(name: str, limit: int | None, split: str = "auto") -> Any:
    """Return the compiled training step of tracer's."""
    step = STEPS[name](tracer_framework())
    return tracer.compile(step, donate_argnums=0, memory_limit=limit, split=split)


def program(
    name: str, size: str, way: str, limit: int | None = None, split: str = "auto"
) -> Callable[[], Any]:
    """Return what the measurements run: one step, on the state that the last one gave."""
    to_array: Callable[[Any], Any] = tracer.numpy.asarray
    if way == "tracer":
        load_libraries()
        step = compiled(name, limit, split)
        step.plan(*tree_map(_type, arrays(name, size)))
    else:
        step, to_array = _by_jax(name, way)
    state, x, y = tree_map(to_array, arrays(name, size))
    if way != "tracer":
        step = step.lower(state, x, y).compile()

    def run() -> Any:
        nonlocal state
        value, state = step(state, x, y)
        for leaf in leaves(state):
            leaf.block_until_ready()
        return value

    return run


def _type(array: Any) -> ShapeDtype:
    return ShapeDtype(np.shape(array), np.asarray(array).dtype)


def _by_jax(name: str, way: str) -> tuple[Any, Callable[[Any], Any]]:
    framework = jax_framework()
    jax = framework.transforms
    step = STEPS[name](framework, *((jax.checkpoint,) if way == "jax.checkpoint" else ()))
    return jax.jit(step, donate_argnums=0), framework.numpy.asarray


def done(plan: Plan) -> str:
    """Return what a plan does to keep its limit, in a few words."""
    rows = {row.name: row for row in plan.passes}
    words = [f"{len(plan.loops)} loops"] if plan.loops else []
    if REMATERIALISE_NAME in rows:
        words.append(f"{len(rows[REMATERIALISE_NAME].applied)} values again")
    more = plan.passes[-1].flops_after - plan.passes[0].flops_before
    share = more / plan.passes[0].flops_before
    return ", ".join([*words, f"{share:+.1%} operations"])


def ways(name: str, size: str) -> list[tuple[str, dict[str, Any], Plan | str | None]]:
    """Return the rows of a program: a title, what `program` is given, and tracer's plan.

    In the plan's place a refusal, or None for JAX.
    """
    types = tree_map(_type, arrays(name, size))
    unlimited = compiled(name, None).plan(*types).compiled_bytes
    found: list[tuple[str, dict[str, Any], Plan | str | None]] = []
    for share in SHARES:
        limit = None if share is None else int(share * unlimited)
        for title, split in (("tracer", "auto"), ("recompute only", "never")):
            if share is None and split == "never":
                continue
            order = {"way": "tracer", "limit": limit, "split": split}
            try:
                found.append((title, order, compiled(name, limit, split).plan(*types)))
            except tracer.MemoryLimitError as error:
                text = f"refused: smallest {format_bytes(error.minimum_bytes)}"
                found.append((title, order, text))
    if importlib.util.find_spec("jax") is not None:
        found += [(way, {"way": way}, None) for way in ("jax.jit", "jax.checkpoint")]
    return found


def table(name: str, size: str, turns: int, progress: Progress) -> list[tuple[str, ...]]:
    """Plan, measure and time one program in all ways."""
    progress.say(f"{name}: planning")
    rows = ways(name, size)
    runs = {
        str(i): (HERE, {"name": name, "size": size, **order})
        for i, (_, order, plan) in enumerate(rows)
        if not isinstance(plan, str)
    }
    progress.say(f"{name}: timing")
    times = take_turns(runs, turns=turns, enough_seconds=_SECONDS, cap_bytes=_CAP, timeout=_TIMEOUT)
    given = sum(np.asarray(leaf).nbytes for leaf in leaves(arrays(name, size)))
    lines = []
    for i, (title, order, plan) in enumerate(rows):
        progress.say(f"{name}: measuring {title}")
        lines.append(_line(name, title, order, plan, times, str(i), given, runs))
    return lines


def _line(
    name: str,
    title: str,
    order: Mapping[str, Any],
    plan: Plan | str | None,
    times: Mapping[str, Contender],
    key: str,
    given: int,
    runs: Mapping[str, tuple[str, Mapping[str, Any]]],
) -> tuple[str, ...]:
    limit = order.get("limit")
    shown = "none" if limit is None else format_bytes(limit)
    if isinstance(plan, str):
        return name, title, shown, "", "", "", "", plan
    measured = measure(HERE, arguments=runs[key][1], repeats=REPEATS)
    memory = measured.reason if measured.peak_bytes is None else _sum(measured.peak_bytes, given)
    share = ratio(times[key], times["0"])
    seconds = times[key].reason if share is None else f"{share:.2f}"
    if plan is None:
        return name, title, shown, "", "", memory, seconds, ""
    predicted, count = format_bytes(plan.peak_bytes), format_bytes(plan.compiled_bytes)
    return name, title, shown, predicted, count, memory, seconds, done(plan)


def _sum(grown: int, given: int) -> str:
    return format_bytes(grown + given)


def graph_of(name: str, size: str, wrap: Callable[..., Any] | None = None) -> tuple[Graph, int]:
    """Return the optimised graph of a step and how many of its inputs are donated."""
    step = STEPS[name](tracer_framework(), *(() if wrap is None else (wrap,)))
    types = tree_map(_type, arrays(name, size))
    graph = trace(step, [*types]).graph
    return Planner(graph, PlannerOptions(split=False)).graph, len(leaves(types[0]))


def operations(name: str, size: str) -> list[tuple[str, ...]]:
    """Compare three ways to recompute for the same predicted peak."""
    plain, count = graph_of(name, size)
    donated = frozenset(range(count))
    by_hand, _ = graph_of(name, size, tracer.checkpoint)
    limit = Liveness(by_hand, donated).peak_bytes
    flops = graph_flops(plain)
    rows = [
        ("nothing again", Liveness(plain, donated).peak_bytes, flops),
        ("segments by hand", limit, graph_flops(by_hand)),
    ]
    for title, kind in (
        ("dynamic rematerialisation", DynamicSearch),
        ("ours", RecomputationSearch),
    ):
        found = kind(plain, donated, DEFAULT_TARGET).run(limit)
        rows.append((title, found.peak_bytes, graph_flops(found.graph)))
    return [
        (name, title, format_bytes(peak), f"{work:,}", f"{work / flops:.3f}")
        for title, peak, work in rows
    ]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", choices=tuple(SIZES), default="small")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--only", choices=tuple(STEPS), action="append")
    parser.add_argument("--operations", action="store_true", help="the second table alone")
    options = parser.parse_args()
    progress = Progress()
    names = options.only or tuple(STEPS)
    for name in () if options.operations else names:
        lines = table(name, options.size, options.turns, progress)
        progress.clear()
        print_table(f"Adam steps, {name}, {options.size}", HEADER, lines)
    rows = [row for name in names for row in operations(name, options.size)]
    progress.clear()
    print_table("operations for the same predicted peak", FLOPS, rows)


if __name__ == "__main__":
    main()
