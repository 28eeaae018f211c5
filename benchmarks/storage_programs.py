"""Programs of an array in a file: ours, NumPy's and JAX's in blocks by hand, dask's and cubed's.

`x` are float32 points, `q` others, 100 unless asked otherwise: in memory, or in
another file where the name says so. A side that is missing has no short way to write the program.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import tracer
import tracer.numpy as tnp

BLOCK, TILE, CENTRES, NEAREST, INDUCING, RANK = 20_000, 1000, 16, 10, 32, 8
NOISE, BINS, ITERATIONS = 0.1, 64, 5
BATCHES, OF_BATCH = 100, 1000
EDGES = np.linspace(-4, 4, BINS + 1, dtype=np.float32)
Program = Callable[..., Any]


def _blocks(x: Any) -> Iterator[Any]:
    for start in range(0, len(x), BLOCK):
        yield np.array(x[start : start + BLOCK])


# Ours: three lines of NumPy each.


def _k_means(x: Any, centres: Any) -> Any:
    def step(_: Any, c: Any) -> Any:
        nearest = ((x[:, None] - c) ** 2).sum(-1).argmin(1)
        chosen = tnp.asarray(nearest[:, None] == tnp.arange(CENTRES), "float32")
        return (chosen.T @ x) / tnp.maximum(chosen.sum(0), 1)[:, None]

    return tracer.fori_loop(0, 3, step, centres)


def _loss(w: Any, x: Any) -> Any:
    z = x @ w
    return tnp.mean(tnp.logaddexp(0, z) - (x[:, 0] > 0) * z)


def _components(x: Any, _: Any) -> Any:
    away = x - x.mean(0)
    return tnp.linalg.eigh(away.T @ away / len(x))


def _singular_values(x: Any, q: Any) -> Any:
    """Two power iterations on a random basis: Halko, Martinsson, Tropp (2011), algorithm 4.4."""
    basis = q[:RANK].T
    for _ in range(2):
        basis = tnp.linalg.qr(x.T @ (x @ basis))[0]
    along = x @ basis
    return tnp.sqrt(tnp.linalg.eigvalsh(along.T @ along))


def _kernel(x: Any, y: Any, length: Any) -> Any:
    return tnp.exp(-((x[:, None] - y[None]) ** 2).sum(-1) / (2 * length**2))


def _bound(parameters: Any, x: Any) -> Any:
    """Titsias' bound for a sparse Gaussian process; the first feature is the target."""
    places, length = parameters
    y, between = tnp.sin(x[:, 0]), _kernel(x, places, length)
    own = _kernel(places, places, length) + 1e-4 * tnp.eye(INDUCING, dtype=x.dtype)
    mixed = own + between.T @ between / NOISE
    seen = between.T @ y / NOISE
    fit = (y**2).sum() / NOISE - seen @ tnp.linalg.solve(mixed, seen)
    spare = (len(x) - tnp.trace(tnp.linalg.solve(own, between.T @ between))) / NOISE
    logdet = tnp.linalg.slogdet(mixed)[1] - tnp.linalg.slogdet(own)[1]
    return (logdet + len(x) * np.log(NOISE) + fit + spare) / (2 * len(x))


def _kernel_product(x: Any, q: Any) -> Any:
    return tnp.exp(-((q[:, None] - x[None]) ** 2).sum(-1) / 64) @ x[:, 0]


@cache
def _batches(rows: int) -> Any:
    """Return the rows of random batches."""
    return np.random.default_rng(2).integers(0, rows, (BATCHES, OF_BATCH))


def _descent(x: Any, q: Any) -> Any:
    """Stochastic gradient descent of the logistic loss, on random batches."""

    def step(w: Any, batch: Any) -> Any:
        return w - 0.1 * tracer.grad(_loss)(w, x[batch]), None

    return tracer.scan(step, q[0], tnp.asarray(_batches(len(x))))[0]


OURS: dict[str, Program] = {
    "column statistics": lambda x, _: (x.mean(0), x.std(0), x.min(0), x.max(0)),
    "histogram": lambda x, _: tnp.histogram(x[:, 0], EDGES)[0],
    "Gram matrix": lambda x, _: x.T @ x,
    "principal components": _components,
    "randomised SVD": _singular_values,
    "10 nearest": lambda x, q: tracer.lax.top_k(-((q[:, None] - x[None]) ** 2).sum(-1), NEAREST),
    "kernel product": _kernel_product,
    "kernel product, both stored": _kernel_product,
    "k-means, 3 steps": lambda x, q: _k_means(x, q[:CENTRES]),
    "logistic gradient": lambda x, q: tracer.value_and_grad(_loss)(q[0], x),
    "100 random batches": _descent,
    "sparse GP gradient": lambda x, q: tracer.value_and_grad(_bound)(
        (q[:INDUCING], tnp.float32(5.0)), x
    ),
    "normalised, stored": lambda x, _: (x - x.mean(0)) / x.std(0),
}
COMPARED: dict[str, Callable[[Any], Any]] = {
    "10 nearest": lambda found: np.sort(np.asarray(found[1]), 1),
    "principal components": lambda found: found[0],
}
"""What of the results is the same on all sides; the whole of the others."""
OPTIMISED = "logistic, L-BFGS"
"""The gradient that SciPy's L-BFGS-B calls, five iterations."""


def minimised(gradient: Program, q: Any) -> Any:
    """Return what SciPy finds with a function that returns value and gradient."""
    from scipy.optimize import minimize

    def both(w: Any) -> Any:
        value, slope = gradient(w.astype(np.float32))
        return float(value), np.asarray(slope, np.float64)

    options = {"maxiter": ITERATIONS}
    return minimize(both, q[0] * 0.0, jac=True, method="L-BFGS-B", options=options).x


# NumPy by hand, in blocks.


def _statistics(x: Any) -> tuple[Any, ...]:
    total = sum(block.sum(0, dtype=np.float64) for block in _blocks(x)) / len(x)
    squares = sum(((block - total) ** 2).sum(0) for block in _blocks(x)) / len(x)
    least = np.min([block.min(0) for block in _blocks(x)], 0)
    return total, np.sqrt(squares), least, np.max([block.max(0) for block in _blocks(x)], 0)


def _nearest(x: Any, q: Any) -> Any:
    best = [np.zeros((len(q), 0)), np.zeros((len(q), 0), int)]
    start = 0
    for block in _blocks(x):
        tiles = [_nearest_in(block, q[i : i + TILE], start) for i in range(0, len(q), TILE)]
        both = [
            np.hstack([a, np.vstack(b)])
            for a, b in zip(best, zip(*tiles, strict=True), strict=True)
        ]
        order = np.argsort(both[0], 1)[:, :NEAREST]
        best = [np.take_along_axis(a, order, 1) for a in both]
        start += len(block)
    return tuple(best)


def _nearest_in(block: Any, q: Any, start: int) -> tuple[Any, Any]:
    away = (q**2).sum(1)[:, None] - 2 * q @ block.T + (block**2).sum(1)
    own = np.argpartition(away, NEAREST, 1)[:, :NEAREST]
    return np.take_along_axis(away, own, 1), own + start


def _product(x: Any, q: Any) -> Any:
    total = np.zeros(len(q))
    for block in _blocks(x):
        for i in range(0, len(q), TILE):
            tile = q[i : i + TILE]
            away = (tile**2).sum(1)[:, None] - 2 * tile @ block.T + (block**2).sum(1)
            total[i : i + TILE] += np.exp(-away / 64) @ block[:, 0]
    return total


def _lloyd(x: Any, q: Any) -> Any:
    centres = q[:CENTRES]
    for _ in range(3):
        sums, counts = np.zeros_like(centres), np.zeros(CENTRES, np.float32)
        for block in _blocks(x):
            away = (centres**2).sum(1) - 2 * block @ centres.T
            chosen = (away.argmin(1)[:, None] == np.arange(CENTRES)).astype(np.float32)
            sums += chosen.T @ block
            counts += chosen.sum(0)
        centres = sums / np.maximum(counts, 1)[:, None]
    return centres


def logistic_by_hand(x: Any, w: Any) -> Any:
    """Return the logistic loss and its gradient."""
    loss, gradient = 0.0, np.zeros(x.shape[1])
    for block in _blocks(x):
        z, target = block @ w, block[:, 0] > 0
        loss += (np.logaddexp(0, z) - target * z).sum()
        gradient += (1 / (1 + np.exp(-z)) - target) @ block
    return loss / len(x), gradient / len(x)


def _descent_by_hand(x: Any, q: Any) -> Any:
    w = q[0]
    for batch in _batches(len(x)):
        w = w - 0.1 * logistic_by_hand(x[np.sort(batch)], w)[1].astype(np.float32)
    return w


def _spectrum(x: Any, _: Any) -> Any:
    mean = sum(block.sum(0, dtype=np.float64) for block in _blocks(x)) / len(x)
    away = (block - mean.astype(np.float32) for block in _blocks(x))
    return np.linalg.eigh(sum(block.T @ block for block in away) / len(x))


def _ranged(x: Any, q: Any) -> Any:
    basis = q[:RANK].T
    for _ in range(2):
        basis = np.linalg.qr(sum(block.T @ (block @ basis) for block in _blocks(x)))[0]
    along = (block @ basis for block in _blocks(x))
    return np.sqrt(np.linalg.eigvalsh(sum(part.T @ part for part in along)))


def _normalised(x: Any, _: Any) -> Any:
    mean, deviation, *_ = _statistics(x)
    out = np.lib.format.open_memmap("out.numpy.npy", "w+", np.float32, x.shape)
    for i, block in enumerate(_blocks(x)):
        out[i * BLOCK : (i + 1) * BLOCK] = (block - mean) / deviation
    out.flush()
    Path("out.numpy.npy").unlink()


NUMPY: dict[str, Program] = {
    "column statistics": lambda x, _: _statistics(x),
    "histogram": lambda x, _: sum(np.histogram(block[:, 0], EDGES)[0] for block in _blocks(x)),
    "Gram matrix": lambda x, _: sum(block.T @ block for block in _blocks(x)),
    "principal components": _spectrum,
    "randomised SVD": _ranged,
    "10 nearest": _nearest,
    "kernel product": _product,
    "kernel product, both stored": _product,
    "k-means, 3 steps": _lloyd,
    "logistic gradient": lambda x, q: logistic_by_hand(x, q[0]),
    "100 random batches": _descent_by_hand,
    OPTIMISED: lambda x, q: minimised(lambda w: logistic_by_hand(x, w), q),
    "normalised, stored": _normalised,
}


# JAX by hand: a compiled function of a block, and a loop over blocks in Python.


def _jax_sum(function: Callable[..., Any]) -> Program:
    """Return the sum over blocks of a function of a block and of `q`."""

    def run(x: Any, q: Any) -> Any:
        import jax

        compiled = jax.jit(lambda t, b, q: jax.tree.map(lambda a, c: a + c, t, function(b, q)))
        total: Any = jax.tree.map(lambda a: np.zeros(a.shape, a.dtype), jax.eval_shape(
            function, jax.ShapeDtypeStruct((BLOCK, x.shape[1]), x.dtype), q
        ))  # fmt: skip
        for block in _blocks(x):
            total = compiled(total, block, q)
        return total

    return run


def _jax_logistic(block: Any, q: Any) -> Any:
    import jax
    import jax.numpy as jnp

    def loss(w: Any) -> Any:
        z = block @ w
        return (jnp.logaddexp(0, z) - (block[:, 0] > 0) * z).sum()

    return jax.value_and_grad(loss)(q[0])


def _jax_product(block: Any, q: Any) -> Any:
    import jax.numpy as jnp

    away = (q**2).sum(1)[:, None] - 2 * q @ block.T + (block**2).sum(1)
    return jnp.exp(-away / 64) @ block[:, 0]


JAX: dict[str, Program] = {
    "Gram matrix": _jax_sum(lambda block, _: block.T @ block),
    "kernel product": _jax_sum(_jax_product),
    "logistic gradient": lambda x, q: [t / len(x) for t in _jax_sum(_jax_logistic)(x, q)],
}


# dask.array: NumPy's words, computed in chunks by a scheduler of threads.


class _Sliced:
    """The slices of an array alone.

    `dask.array.from_array` copies what has `copy` into memory, and pickles what it is to name.
    """

    def __init__(self, x: Any) -> None:
        self._x = x
        self.shape, self.dtype, self.ndim = x.shape, x.dtype, x.ndim

    def __getitem__(self, key: Any) -> Any:
        return np.array(self._x[key])


def _dask(x: Any) -> Any:
    import dask.array

    return dask.array.from_array(_Sliced(x), chunks=(BLOCK, x.shape[1]), name=False)


def _dask_statistics(x: Any, _: Any) -> Any:
    import dask

    d = _dask(x)
    return dask.compute(d.mean(0), d.std(0), d.min(0), d.max(0))


def _dask_histogram(x: Any, _: Any) -> Any:
    import dask.array

    return dask.array.histogram(_dask(x)[:, 0], EDGES)[0].compute()


def _dask_product(x: Any, q: Any) -> Any:
    import dask.array

    d = _dask(x)
    away = (q**2).sum(1)[:, None] - 2 * q @ d.T + (d**2).sum(1)
    return (dask.array.exp(-away / 64) @ d[:, 0]).compute()


def _dask_normalised(x: Any, _: Any) -> Any:
    d = _dask(x)
    out = np.lib.format.open_memmap("out.dask.npy", "w+", np.float32, x.shape)
    ((d - d.mean(0)) / d.std(0)).store(out)
    out.flush()
    Path("out.dask.npy").unlink()


DASK: dict[str, Program] = {
    "column statistics": _dask_statistics,
    "histogram": lambda x, _: (
        __import__("dask.array").array.histogram(_dask(x)[:, 0], EDGES)[0].compute()
    ),
    "Gram matrix": lambda x, _: (_dask(x).T @ _dask(x)).compute(),
    "kernel product": _dask_product,
    "normalised, stored": _dask_normalised,
}


# cubed: the array API, computed in chunks under a bound of memory for each task.


def _cubed(x: Any) -> Any:
    import cubed

    spec = cubed.Spec(work_dir="cubed", allowed_mem="500MB")
    return cubed.from_array(x, chunks=(BLOCK, x.shape[1]), spec=spec)


def _cubed_statistics(x: Any, _: Any) -> Any:
    import cubed
    import cubed.array_api as xp

    d = _cubed(x)
    found = xp.mean(d, axis=0), xp.var(d, axis=0), xp.min(d, axis=0), xp.max(d, axis=0)
    mean, variance, least, most = cubed.compute(*found)
    return mean, np.sqrt(variance), least, most


def _cubed_gram(x: Any, _: Any) -> Any:
    import cubed.array_api as xp

    d = _cubed(x)
    return xp.matmul(xp.permute_dims(d, (1, 0)), d).compute()


def _cubed_normalised(x: Any, _: Any) -> Any:
    import cubed
    import cubed.array_api as xp

    d = _cubed(x)
    scaled = (d - xp.mean(d, axis=0)) / xp.sqrt(xp.var(d, axis=0))
    cubed.to_zarr(scaled, "out.cubed.zarr")
    shutil.rmtree("out.cubed.zarr")


CUBED: dict[str, Program] = {
    "column statistics": _cubed_statistics,
    "Gram matrix": _cubed_gram,
    "normalised, stored": _cubed_normalised,
}
SIDES = {"NumPy": NUMPY, "JAX": JAX, "dask": DASK, "cubed": CUBED}

__all__ = ["BLOCK", "COMPARED", "OPTIMISED", "OURS", "SIDES", "minimised"]
