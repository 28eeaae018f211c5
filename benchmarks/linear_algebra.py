"""Linear algebra as it is written, beside peers: `python -m benchmarks.linear_algebra`.

Twenty expressions after Linnea (Barthels, Psarras, Bientinesi 2021) and the "linear algebra
awareness" benchmark of TensorFlow and PyTorch (Sankaran, Akbari Alashti, Psarras, Bientinesi 2022):
chains, products that occur twice, distributivity, partial access, structure. Every column computes
the same expression with the same inputs in one run, round after round; peers that are not installed
are left out.
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import tracer
import tracer.numpy as tnp
from benchmarks.race import Times, race, short_time
from examples.display import Progress, markdown_table, print_table

TOLERANCE = 2e-3
"""Largest error allowed, relative to the largest element: float32 through inverses."""
Function = Callable[..., Any]
Row = tuple[str, ...]


@dataclass(frozen=True)
class Expression:
    """An expression of a NumPy-like namespace and arrays, and the shapes of these for a size n."""

    kind: str
    text: str
    function: Function
    shapes: Callable[[int], tuple[tuple[int, ...], ...]]


def _square(count: int, vectors: int = 0) -> Callable[[int], tuple[tuple[int, ...], ...]]:
    return lambda n: ((n, n),) * count + ((n,),) * vectors


def _five(n: int) -> tuple[tuple[int, ...], ...]:
    sizes = (n, n // 2, n, n // 10, n, n // 20)
    return tuple(itertools.pairwise(sizes))


def _loop(xp: Any, a: Any, b: Any, v: Any) -> Any:
    total = v
    for _ in range(3):
        total = (a @ b) @ total / a.shape[0]
    return total


def _blocked(xp: Any, a: Any, b: Any, c: Any) -> Any:
    zero = xp.zeros_like(a)
    rows = [xp.concatenate([a, zero], 1), xp.concatenate([zero, b], 1)]
    return xp.concatenate(rows, 0) @ xp.concatenate([c, c], 0)


EXPRESSIONS = (
    Expression("chain", "A B v", lambda xp, a, b, v: a @ b @ v, _square(2, 1)),
    Expression("chain", "A B C D E, uneven", lambda xp, a, b, c, d, e: a @ b @ c @ d @ e, _five),
    Expression("chain", "sum(A B C, 1)", lambda xp, a, b, c: (a @ b @ c).sum(1), _square(3)),
    Expression("chain", "(D C') (A v)", lambda xp, a, c, d, v: (d @ c.T) @ (a @ v), _square(3, 1)),
    Expression(
        "chain", "((A B)' C)' v", lambda xp, a, b, c, v: ((a @ b).T @ c).T @ v, _square(3, 1)
    ),
    Expression("repeated", "(A'B)' A' B", lambda xp, a, b: (a.T @ b).T @ a.T @ b, _square(2)),
    Expression("repeated", "A'B + B'A", lambda xp, a, b: a.T @ b + b.T @ a, _square(2)),
    Expression("repeated", "A A A A", lambda xp, a: a @ a @ a @ a, _square(1)),
    Expression("repeated", "x = A B x, 3 times", _loop, _square(2, 1)),
    Expression("distribute", "A B + A C", lambda xp, a, b, c: a @ b + a @ c, _square(3)),
    Expression("distribute", "(A - H'H) v", lambda xp, a, h, v: (a - h.T @ h) @ v, _square(2, 1)),
    Expression("partial", "(A B)[2, 2]", lambda xp, a, b: (a @ b)[2, 2], _square(2)),
    Expression("partial", "(A B C)[:10]", lambda xp, a, b, c: (a @ b @ c)[:10], _square(3)),
    Expression("partial", "diag(A B)", lambda xp, a, b: xp.diag(a @ b), _square(2)),
    Expression("partial", "trace(A B)", lambda xp, a, b: xp.trace(a @ b), _square(2)),
    Expression("structure", "inv(A) v", lambda xp, a, v: xp.linalg.inv(a) @ v, _square(1, 1)),
    Expression(
        "structure",
        "solve(tril(A), v)",
        lambda xp, a, v: xp.linalg.solve(xp.tril(a), v[:, None]),
        _square(1, 1),
    ),
    Expression("structure", "X' diag(w) X", lambda xp, x, w: x.T @ xp.diag(w) @ x, _square(1, 1)),
    Expression("structure", "X'X", lambda xp, x: x.T @ x, _square(1)),
    Expression("structure", "[[A, 0], [0, B]] [C; C]", _blocked, _square(3)),
)


def inputs(expression: Expression, n: int) -> list[np.ndarray[Any, Any]]:
    """Return float32 arrays of numbers near one; squares are far from singular."""
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape) for shape in expression.shapes(n)]
    square = [array.ndim == 2 and array.shape[0] == array.shape[1] for array in arrays]
    return [
        (a + 2 * n**0.5 * np.eye(n) if s else a).astype(np.float32)
        for a, s in zip(arrays, square, strict=True)
    ]


def our_run(expression: Expression, arrays: list[Any]) -> Function:
    program = tracer.compile(lambda *a: expression.function(tnp, *a))
    given = [tnp.asarray(array) for array in arrays]
    return lambda: program(*given).block_until_ready()


def numpy_run(expression: Expression, arrays: list[Any]) -> Function:
    return lambda: expression.function(np, *arrays)


def jax_run(expression: Expression, arrays: list[Any]) -> Function:
    import jax
    import jax.numpy as jnp

    program = jax.jit(lambda *a: expression.function(jnp, *a))
    given = [jnp.asarray(array) for array in arrays]
    return lambda: program(*given).block_until_ready()


def torch_run(expression: Expression, arrays: list[Any]) -> Function:
    import torch

    # Dynamo counts compilations by code object and gives up after eight of this lambda.
    torch.compiler.reset()
    program = torch.compile(lambda *a: expression.function(torch, *a))
    given = [torch.from_numpy(array) for array in arrays]

    def run() -> Any:
        with torch.no_grad():
            return program(*given)

    return run


PEERS: dict[str, tuple[str, Callable[[Expression, list[Any]], Function]]] = {
    "jax.jit": ("jax", jax_run),
    "torch.compile": ("torch", torch_run),
    "NumPy": ("numpy", numpy_run),
}
OURS = "tracer"


def compare(expression: Expression, n: int, rounds: int) -> dict[str, Times]:
    """Check that all agree with float64, and time them side by side."""
    arrays = inputs(expression, n)
    runs = {OURS: our_run(expression, arrays)}
    for name, (module, make) in PEERS.items():
        if importlib.util.find_spec(module) is not None:
            runs[name] = make(expression, arrays)
    want = expression.function(np, *[array.astype(np.float64) for array in arrays])
    for name, run in runs.items():
        error = np.abs(np.asarray(run(), np.float64) - want).max() / np.abs(want).max()
        if not error <= TOLERANCE:
            raise SystemExit(f"{name}, {expression.text}: off by {error:.2g}")
    return race(runs, rounds=rounds)


def table(results: dict[str, tuple[Expression, dict[str, Times]]]) -> tuple[Row, list[Row]]:
    """Return the header and rows: our time, and every peer's as a multiple of it."""
    peers = [name for name in PEERS if all(name in times for _, times in results.values())]
    rows = []
    for expression, times in results.values():
        ours = times[OURS].median
        ratios = [f"{times[name].median / ours:.2f}" for name in peers]
        rows.append((expression.kind, expression.text, short_time(ours), *ratios))
    ratios_of = {
        name: [times[name].median / times[OURS].median for _, times in results.values()]
        for name in peers
    }
    means = [f"{statistics.geometric_mean(ratios):.2f}" for ratios in ratios_of.values()]
    rows.append(("all", "geometric mean", "", *means))
    return ("kind", "expression", OURS, *[f"{name} / {OURS}" for name in peers]), rows


def main(*, n: int = 1_000, rounds: int = 5, write: str | None = None) -> None:
    """Print the table; also write it as Markdown where asked."""
    progress = Progress()
    results = {}
    for number, expression in enumerate(EXPRESSIONS, 1):
        progress.say(f"{number}/{len(EXPRESSIONS)} {expression.text}")
        results[expression.text] = (expression, compare(expression, n, rounds))
    progress.clear()
    header, rows = table(results)
    print_table(f"linear algebra, n = {n:,}, float32, median of {rounds}", header, rows)
    if write is not None:
        Path(write).write_text(markdown_table(header, rows))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.linear_algebra")
    parser.add_argument("--n", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", metavar="FILE.md", help="write the table as Markdown, too")
    main(**vars(parser.parse_args()))
