"""`plan.minimum_bytes` beside an exhaustive search over cuts, for small random programs.

    python -m benchmarks.smallest [--count 100] [--first 0] [--scale 10] [--markdown FILE]

The search cuts each stored value along each of its axes in slices of each size, and what is left
again, up to three cuts; the programs that are predicted to take least are compiled, with all
options, also with values recomputed and in our order. Both know the same rewrites and emit the same
loops: what is compared is the choice of what to cut, along what, and how small. Target (issue 23):
within 10 %.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

import tracer
import tracer.numpy as tnp
from examples.display import Progress, print_table
from tracer.compilation.candidate_compiler import CandidateCompiler
from tracer.compilation.candidates import CandidateSearch, predicted_for
from tracer.compilation.options import compile_options
from tracer.compilation.signature import read_call
from tracer.compilation.task import read_task
from tracer.ir import Graph
from tracer.optimizer.candidates import Candidate
from tracer.optimizer.loops.split import SplitCache, SplitSettings, driver
from tracer.optimizer.loops.split.region import NO_PIECES, Pieces, Subject
from tracer.optimizer.loops.split.search import RegionSearch
from tracer.optimizer.model.liveness import peak_bytes
from tracer.optimizer.passes import PassLog

Program = tuple[Callable[..., Any], tuple[tracer.ShapeDtype, ...]]
Row = tuple[str, int, int, int]
HEADER = ("program", "as written", "minimum_bytes", "exhaustive", "ratio")
WITHIN = 1.1
CUTS = 3
"""At most so many in a row."""
_WIDTH = 6
"""Programs with the least prediction that are cut again, and compiled."""
_EVERYTHING = SplitSettings(0, 1, 1 << 60, trust_fusion=False, by_time=False)


def random_program(seed: int, scale: int = 1) -> Program:
    """Return a program of a few matrices: built of outer combinations, reductions and products.

    Its axes are `scale` times as long as those of the smallest ones, of 60 to 250.
    """
    rng = np.random.default_rng(seed)
    rows, columns = (scale * int(size) for size in rng.choice([60, 96, 120, 200, 250], 2))
    types = tuple(tracer.ShapeDtype((size,), "float64") for size in (rows, columns))
    steps = [int(step) for step in rng.integers(0, 6, int(rng.integers(2, 5)))]
    ends = [int(end) for end in rng.integers(0, 5, int(rng.integers(1, 4)))]
    is_gradient = bool(rng.integers(0, 3) == 0)

    def program(x: Any, y: Any) -> Any:
        matrix = x[:, None] * y
        for step in steps:
            matrix = _changed(step, matrix, x, y)
        results = [_reduced(end, matrix, x, y) for end in ends]
        return sum(result.sum() for result in results) if is_gradient else results

    return (tracer.grad(program, argnums=(0, 1)) if is_gradient else program), types


def _changed(step: int, matrix: Any, x: Any, y: Any) -> Any:
    ways: list[Callable[[], Any]] = [
        lambda: tnp.tanh(matrix),
        lambda: matrix - matrix.max(1, keepdims=True),
        lambda: matrix * matrix.sum(0),
        lambda: tnp.exp(-(matrix**2)),
        lambda: matrix + tnp.sin(x[:, None] - y),
        lambda: matrix / (1 + (matrix**2).sum(1, keepdims=True)),
    ]
    return ways[step]()


def _reduced(end: int, matrix: Any, x: Any, y: Any) -> Any:
    ways: list[Callable[[], Any]] = [
        lambda: matrix @ y,
        lambda: x @ matrix,
        lambda: matrix.min(0),
        lambda: (matrix @ matrix.T) @ x,
        lambda: tnp.sort(matrix, 1)[:, 0],
    ]
    return ways[end]()


def cut_everywhere(graph: Graph) -> list[Graph]:
    """Return the programs that are predicted to take least, of all that cuts lead to."""
    known = {graph.fingerprint: graph}
    front: list[tuple[Graph, Pieces]] = [(graph, NO_PIECES)]
    for _ in range(CUTS):
        found = {}
        for item in front:
            for after, pieces in _cuts(*item):
                if after.fingerprint not in known:
                    known[after.fingerprint] = after
                    found[after.fingerprint] = after, pieces
        front = sorted(found.values(), key=lambda item: peak_bytes(item[0]))[:_WIDTH]
    return sorted(known.values(), key=peak_bytes)[:_WIDTH]


def _cuts(graph: Graph, pieces: Pieces) -> Iterator[tuple[Graph, Pieces]]:
    """Yield a graph with one more value cut: each, along each axis, in slices of each size."""
    search = RegionSearch(Subject(graph, pieces), _EVERYTHING, {})
    for found in search.cuts():
        for rows in _sizes(found.region.length):
            with _slices_of(rows):
                written = driver.write_candidates(search, [found], PassLog(), SplitCache(), 0)
            after, _, new = written
            yield after, new


def _sizes(length: int) -> list[int]:
    return sorted({size for size in (1, 2, 4, 8, 16, 32, 64) if size <= length // 2})


@contextlib.contextmanager
def _slices_of(rows: int) -> Iterator[None]:
    with (
        mock.patch.object(driver, "choose_chunk", return_value=rows),
        mock.patch.object(driver, "tile_rows", return_value=rows),
    ):
        yield


def smallest_of_all(program: Program) -> int:
    """Return the bytes of the smallest program that the exhaustive search compiles."""
    search = _search(program)
    with predicted_for(search.task.device):
        compiler = search.with_limit(1).plain
        graphs = cut_everywhere(compiler.planner.graph)
        return min(_compiled_bytes(compiler, graph) for graph in graphs)


def _compiled_bytes(compiler: CandidateCompiler, graph: Graph) -> int:
    candidate = Candidate(graph, (), (), peak_bytes(graph))
    again = compiler.planner._rematerialised(candidate, 1)
    found = [compiler._found(item) for item in (candidate, again) if item is not None]
    compiled = [item for item in found if item is not None]
    ordered = [compiler._in_our_order(item, item.nbytes) for item in compiled]
    return min(item.nbytes for item in (*compiled, *ordered) if item is not None)


def _search(program: Program) -> CandidateSearch:
    function, types = program
    options = compile_options(function, 1 << 40, (), (), (), (), None, None, None, "auto")
    call = read_call(function, options.statics, types, {})
    return CandidateSearch(read_task(call, options, "program"))


def measured(seed: int, scale: int = 1) -> Row:
    """Return a program's name, its bytes as written, by the planner and by exhaustive search."""
    function, types = random_program(seed, scale)
    plan = tracer.compile(function).plan(*types)
    return (
        f"{seed}",
        plan.baseline_peak_bytes,
        plan.minimum_bytes,
        smallest_of_all((function, types)),
    )


def cells(row: Row) -> tuple[str, ...]:
    """Return a row of the table."""
    name, written, ours, theirs = row
    return name, f"{written:,}", f"{ours:,}", f"{theirs:,}", f"{ours / theirs:.3f}"


def summary(rows: list[Row]) -> str:
    """Return how many are within the target."""
    ratios = [ours / theirs for _, _, ours, theirs in rows]
    within = sum(ratio <= WITHIN for ratio in ratios)
    return (
        f"{within} of {len(rows)} within 10 % of the exhaustive search; minimum_bytes over it: "
        f"median {statistics.median(ratios):.3f}, most {max(ratios):.3f}"
    )


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.smallest", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--count", type=int, default=100, help="programs (100)")
    parser.add_argument("--first", type=int, default=0, help="the first one's seed (0)")
    parser.add_argument("--scale", type=int, default=10, help="longer axes, so many times (10)")
    parser.add_argument("--markdown", metavar="FILE", help="write the table to this file")
    options = parser.parse_args(arguments)
    progress, rows = Progress(), []
    for seed in range(options.first, options.first + options.count):
        progress.say(f"program {seed}")
        rows.append(measured(seed, options.scale))
    progress.clear()
    print_table("smallest limits (bytes)", HEADER, list(map(cells, rows)))
    print("\n" + summary(rows))
    if options.markdown is not None:
        lines = [HEADER, ("---", *("---:",) * (len(HEADER) - 1)), *map(cells, rows)]
        table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        Path(options.markdown).write_text(f"{table}\n\n{summary(rows)}.\n", encoding="utf-8")


if __name__ == "__main__":
    main()
