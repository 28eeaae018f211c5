"""Programs that are interrupted: what a user does, from a new function to its values.

Each is made with a folder of its own, and returns a function that does all of it again, whatever
an interrupted call has left, and returns arrays.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tracer
import tracer.numpy as tnp

Again = Callable[[], Any]
X = np.random.default_rng(5).normal(size=(60, 3))
ROWS = np.random.default_rng(6).normal(size=(4000, 8)).astype(np.float32)


def kernel(x: Any) -> Any:
    """Distances, which a limit cuts."""
    return tnp.exp(-((x[:, None] - x[None]) ** 2).sum(-1)).sum(1)


def loss(w: Any, x: Any) -> Any:
    """A scan and a choice."""
    carry, ys = tracer.scan(lambda c, row: (tnp.tanh(c * w + row), c.sum()), w, x)
    return (carry * ys.mean()).sum() + tracer.cond(ys[0] > 0, tnp.sum, tnp.max, x)


def traced(_: Path) -> Again:
    """Graphs, types and counts."""

    def again() -> Any:
        graph = tracer.make_graph(lambda x: tracer.fori_loop(0, 3, lambda _, c: c * 2, kernel(x)))
        kind = tracer.eval_shape(tracer.grad(loss), X[0], X)
        return np.array([len(graph(X).nodes), *kind.shape])

    return again


def compiled(_: Path) -> Again:
    """A new function under a limit, and its gradient."""

    def again() -> Any:
        small = tracer.compile(lambda x: kernel(x), memory_limit="30kB")
        slope = tracer.compile(tracer.value_and_grad(lambda x: (kernel(x) ** 2).sum()))
        return small(X), *slope(X)

    return again


def called(_: Path) -> Again:
    """Functions that are compiled already, and one of new shapes."""
    double = tracer.compile(lambda x: {"twice": x + x, "sum": x.sum()})
    given = tnp.asarray(X)

    def again() -> Any:
        found = [double(given)["twice"] for _ in range(20)]
        return found[-1], double(X)["sum"]

    return again


def budgeted(_: Path) -> Again:
    """Eager and compiled programs that share a budget."""
    double = tracer.compile(lambda x: x + x)

    def again() -> Any:
        tracer.memory_budget("200MB", timeout=5)
        try:
            x = tnp.asarray(X)
            return tracer.compile(lambda x: kernel(x))(x), double(x), (x * 2).sum()
        finally:
            tracer.memory_budget(None)

    return again


def budget_kept(_: Path) -> Again:
    """One budget for all calls, those that are interrupted too."""
    double = tracer.compile(lambda x: x + x)
    tracer.memory_budget("200MB", timeout=5)

    def again() -> Any:
        x = tnp.asarray(X)
        return double(x), tnp.exp(x).sum(), double(X)

    return again


def cached(folder: Path) -> Again:
    """A program that is written to the folder of programs, and read again."""
    tracer.set_cache_dir(folder / "programs")

    def again() -> Any:
        for file in folder.glob("programs/*.program"):
            file.unlink()
        return [tracer.compile(lambda x: kernel(x), memory_limit="30kB")(X) for _ in range(2)]

    return again


def stored(folder: Path) -> Again:
    """An argument in a file, read ahead."""
    np.save(folder / "rows.npy", ROWS)
    opened = tracer.open(folder / "rows.npy")
    made = tracer.compile(lambda x: (tnp.tanh(x) ** 2).sum(0), memory_limit="40kB")

    def again() -> Any:
        new = tracer.compile(lambda x: x.T @ x, memory_limit="60kB")
        return made(opened), new(tracer.open(folder / "rows.npy")), opened[5:7]

    return again


def written(folder: Path) -> Again:
    """Results in files."""
    np.save(folder / "rows.npy", ROWS)
    opened = tracer.open(folder / "rows.npy")
    paths = folder / "out.npy", folder / "sum.npy"
    made = tracer.compile(lambda x: (tnp.exp(x) * 2, x.sum(1)), memory_limit="80kB").into(*paths)

    def again() -> Any:
        for path in paths:
            path.unlink(missing_ok=True)
        made(opened)
        return [_content(path) for path in paths]

    return again


def checkpointed(folder: Path) -> Again:
    """A loop that is kept on the disk after each trip, whose result is in a file."""
    np.save(folder / "rows.npy", ROWS)
    opened, path = tracer.open(folder / "rows.npy"), folder / "out.npy"
    options: Any = {"checkpoint": folder / "kept", "checkpoint_seconds": 0.0}
    total = tracer.compile(lambda x: tnp.sin(x).sum(0), memory_limit="40kB", **options)
    made = tracer.compile(tnp.exp, memory_limit="80kB", **options).into(path)

    def again() -> Any:
        path.unlink(missing_ok=True)
        made(opened)
        return total(opened), _content(path)

    return again


def looped(_: Path) -> Again:
    """Loops of which each step can be interrupted."""
    collatz = tracer.compile(
        tracer.debug.interruptible(
            lambda n: tracer.while_loop(
                lambda s: s[0] != 1,
                lambda s: (tnp.where(s[0] % 2 == 0, s[0] // 2, 3 * s[0] + 1), s[1] + 1),
                (n, 0),
            )[1]
        )
    )

    def again() -> Any:
        return collatz(27), collatz(97), tracer.map(lambda row: row.max(), X)

    return again


def differentiated(_: Path) -> Again:
    """Every kind of derivative."""

    @tracer.custom_vjp
    def cube(x: Any) -> Any:
        return x**3

    cube.defvjp(lambda x: (x**3, x), lambda x, ct: (3 * x**2 * ct,))

    def again() -> Any:
        value, pullback = tracer.vjp(lambda x: cube(x) * tnp.sin(x), X[0])
        rows = tracer.vmap(tracer.grad(tracer.checkpoint(lambda x: cube(x).sum())))(X[:4])
        curved = tracer.hessian(lambda x: (x**4).sum())(X[0])
        return value, *pullback(value), rows, curved, tracer.jacfwd(cube)(X[0])

    return again


def eager(_: Path) -> Again:
    """Operations one by one."""

    def again() -> Any:
        x = tnp.asarray(X)
        y = tnp.linalg.solve(x.T @ x, x.T @ tnp.ones(60))
        return y, tnp.sort(x, axis=0)[:2], tnp.einsum("ij,ik->jk", x, x), tnp.fft.fft(x[0])

    return again


def calling(_: Path) -> Again:
    """Programs that call Python."""
    kind = tracer.ShapeDtype((3,), "float64")
    seen: list[Any] = []

    @tracer.compile
    def program(x: Any) -> Any:
        tracer.debug.callback(seen.append, x.sum())
        return tracer.pure_callback(lambda v: np.sin(v), kind, x) * 2

    def again() -> Any:
        seen.clear()
        return program(X[0]), program(X[1])

    return again


def trained(_: Path) -> Again:
    """Steps of an optimizer, whose state is given away."""
    optimizer = tracer.optimizers.adam(0.1)

    @tracer.compile(donate_argnums=(0, 1))
    def step(w: Any, state: Any) -> Any:
        slope = tracer.grad(loss)(w, X)
        updates, state = optimizer.update(slope, state, w)
        return tracer.optimizers.apply_updates(w, updates), state

    def again() -> Any:
        w = tnp.asarray(X[0])
        state = optimizer.init(w)
        for _ in range(3):
            w, state = step(w, state)
        return w

    return again


def tuned(_: Path) -> Again:
    """Programs with a tuned heap, LAPACK on one thread, and rare collections of Python's."""
    tracer.tune_host_allocator()

    def again() -> Any:
        solve = tracer.compile(lambda x: tnp.linalg.solve(x.T @ x, x[:3].T @ tnp.exp(x[:3])))
        return solve(X), tracer.compile(lambda x: kernel(x), memory_limit="30kB")(X)

    return again


def _content(path: Path) -> Any:
    """Return the bytes of a file; `np.load` makes a TypeError of an interrupt."""
    return np.frombuffer(path.read_bytes(), np.uint8)


PROGRAMS: dict[str, Callable[[Path], Again]] = {
    made.__name__: made
    for made in (
        *(traced, compiled, called, budgeted, budget_kept, cached, stored, written, checkpointed),
        *(looped, differentiated, eager, calling, trained, tuned),
    )
}


def values(found: Any) -> list[bytes]:
    """Return the bytes of all arrays of a result."""
    leaves = tracer.tree.leaves(found)
    return [np.asarray(leaf).tobytes() for leaf in leaves]


@contextlib.contextmanager
def closed() -> Any:
    """Give up afterwards what a program has asked for in this process."""
    try:
        yield
    finally:
        tracer.memory_budget(None)
        tracer.set_cache_dir(None)
