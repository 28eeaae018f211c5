"""Queries a second of 10 nearest neighbours, beside the libraries that are made for it.

    python -m benchmarks.neighbours [--data DIR] [--small] [--rounds N] [--json FILE]

Ours is the naive form, with its tensor of queries x points x features, under a limit that holds
little more than the points. scikit-learn's brute force, FAISS IndexFlatL2 and JAX (norms and a
product) are timed where they are installed, each in a fresh process. `--data` is a folder with
fashion_mnist.npz (x_train, x_test); without it only made-up points are searched.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measure import measure
from examples.display import print_table
from tracer.units import format_bytes

K, QUERIES, CHECKED = 10, 1_000, 20
CAP_BYTES = 16_000_000_000
LIMITS = {"fashion-mnist": "256MB", "made up": "128MB"}
Points = np.ndarray[Any, Any]
Search = Callable[[], Any]


def points(case: str, data: str | None, n: int) -> tuple[Points, Points]:
    """Return queries and points as float32; whole numbers, so that distances may be equal."""
    if case == "made up":
        drawn = np.random.default_rng(0).integers(0, 256, (QUERIES + n, 10)).astype(np.float32)
        return drawn[:QUERIES], drawn[QUERIES:]
    assert data is not None
    with np.load(Path(data) / "fashion_mnist.npz", allow_pickle=False) as file:
        test, train = (file[key].astype(np.float32) for key in ("x_test", "x_train"))
    return test[:QUERIES].reshape(-1, 784), train[:n].reshape(-1, 784)


def ours(queries: Points, data: Points, limit: str) -> Search:
    import tracer
    import tracer.numpy as tnp
    from benchmarks.warm_up import load_libraries

    def program(queries: Any, data: Any) -> Any:
        return tnp.top_k(-((queries[:, None, :] - data[None, :, :]) ** 2).sum(-1), K)

    compiled = tracer.compile(program, memory_limit=limit)
    arrays = tnp.asarray(queries), tnp.asarray(data)
    compiled.plan(*arrays)
    load_libraries()
    return lambda: np.asarray(compiled(*arrays)[1])


def scikit_learn(queries: Points, data: Points, limit: str) -> Search:
    from sklearn.neighbors import NearestNeighbors

    index = NearestNeighbors(n_neighbors=K, algorithm="brute").fit(data)
    return lambda: index.kneighbors(queries, return_distance=True)[1]


def faiss_index(queries: Points, data: Points, limit: str) -> Search:
    import faiss

    index = faiss.IndexFlatL2(data.shape[1])
    index.add(data)
    return lambda: index.search(queries, K)[1]


def jax_products(queries: Points, data: Points, limit: str) -> Search:
    import jax

    def program(x: Any, y: Any) -> Any:
        squares = (x * x).sum(-1)[:, None] + (y * y).sum(-1)[None, :] - 2 * x @ y.T
        return jax.lax.top_k(-squares, K)

    compiled = jax.jit(program)
    arrays = jax.numpy.asarray(queries), jax.numpy.asarray(data)
    return lambda: np.asarray(jax.block_until_ready(compiled(*arrays))[1])


SEARCHES = {"tracer": ours, "scikit-learn": scikit_learn, "FAISS": faiss_index, "jax": jax_products}
MODULES = {"tracer": "tracer", "scikit-learn": "sklearn", "FAISS": "faiss", "jax": "jax"}


def prepare(library: str, case: str, n: int, data: str | None = None) -> Search:
    """Return a search by a library, everything loaded (for `measure`)."""
    return SEARCHES[library](*points(case, data, n), LIMITS[case])


def wrong_neighbours(case: str, n: int, data: str | None) -> int:
    """Return how many of our neighbours of some queries are not those of float64, in order."""
    queries, all_points = points(case, data, n)
    found = ours(queries, all_points, LIMITS[case])()[:CHECKED]
    expected = []
    for query in queries[:CHECKED].astype(np.float64):
        squares = np.zeros(len(all_points))
        for place, value in enumerate(query):
            squares += (value - all_points[:, place]) ** 2
        expected.append(np.argsort(squares, kind="stable")[:K])
    return int((found != np.array(expected)).sum())


def search(case: str, n: int, data: str | None, rounds: int) -> list[dict[str, Any]]:
    """Time every library that is installed, alternating."""
    installed = [name for name in SEARCHES if importlib.util.find_spec(MODULES[name])]
    for name in SEARCHES.keys() - set(installed):
        print(f"{name} skipped: not installed")
    found: dict[str, list[Any]] = {name: [] for name in installed}
    for _ in range(rounds):
        for name in installed:
            arguments = {"library": name, "case": case, "n": n, "data": data}
            target = "benchmarks.neighbours:prepare"
            found[name].append(measure(target, arguments=arguments, cap_bytes=CAP_BYTES))
    return [
        {"library": name, "case": case, "n": n} | _figures(runs) for name, runs in found.items()
    ]


def _figures(runs: list[Any]) -> dict[str, Any]:
    bad = next((run for run in runs if not run.fits), None)
    if bad is not None:
        return {"status": f"{bad.status}: {bad.reason}"}
    seconds = statistics.median(run.seconds for run in runs)
    peak = max(run.peak_bytes for run in runs)
    return {"status": "ok", "queries_per_second": QUERIES / seconds, "peak_bytes": peak}


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    if row["status"] != "ok":
        return row["library"], row["status"], "", ""
    peak = format_bytes(row["peak_bytes"])
    return row["library"], f"{row['queries_per_second']:,.0f}", peak, row.get("wrong", "")


def main(arguments: list[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.neighbours", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--data", metavar="DIR", help="the folder of fashion_mnist.npz")
    parser.add_argument("--small", action="store_true", help="a tenth of the points")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--json", metavar="FILE", help="write the rows to this file")
    options = parser.parse_args(arguments)
    cases = {"made up": 1_000_000}
    if options.data is None:
        print("Fashion-MNIST skipped: --data names the folder of fashion_mnist.npz")
    else:
        cases = {"fashion-mnist": 60_000, **cases}
    rows = []
    for case, size in cases.items():
        n = size // 10 if options.small else size
        found = search(case, n, options.data, options.rounds)
        found[0]["wrong"] = f"{wrong_neighbours(case, n, options.data)} of {CHECKED * K}"
        header = ("library", "queries a second", "memory above the points", "wrong neighbours")
        title = f"{K} nearest of {n:,} points, {case}, limit {LIMITS[case]}"
        print_table(title, header, [_cells(row) for row in found])
        rows += found
    if options.json is not None:
        Path(options.json).write_text(json.dumps(rows, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
