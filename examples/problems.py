"""The problems that the quick start, the tests and the benchmarks share: data, sizes and limits.

"digits" is real: 1797 handwritten digits of 8 x 8 pixels, bundled with scikit-learn. "generated"
is at scale: Gaussian points of a fixed seed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

import tracer
import tracer.numpy as tnp
from examples import references
from examples.programs.kernel_product import kernel_product
from examples.programs.nearest_neighbours import nearest_neighbours
from examples.programs.sparse_gp import value_and_gradient

Inputs = tuple[Any, ...]


@dataclasses.dataclass(frozen=True)
class Problem:
    """A program, its inputs and its limit.

    Attributes
    ----------
    title, data, size : str
        What is computed; "digits" or "generated"; the sizes, as a format of n.
    program : callable
        One of `examples.programs`.
    inputs : callable
        `n -> inputs`, NumPy arrays in tuples and dicts.
    n : int
        Points.
    limit : str
        The `memory_limit` of the demo.
    check : callable
        `(inputs, results) -> Check`, against NumPy in float64.
    """

    title: str
    data: str
    size: str
    program: Callable[..., Any]
    inputs: Callable[[int], Inputs]
    n: int
    limit: str
    check: Callable[[Inputs, Any], references.Check]


def prepare(problem: str, n: int, limit: str | None) -> Callable[[], Any]:
    """Return a run of a problem, compiled, its inputs on the device: a target of measure.py.

    Parameters
    ----------
    problem : str
        A key of `PROBLEMS`.
    n : int
        Points.
    limit : str or None
        The memory limit.
    """
    chosen = PROBLEMS[problem]
    # Loads the libraries that XLA and LAPACK load at the first run: they are not the program.
    _wait(tracer.compile(chosen.program)(*on_device(chosen.inputs(20))))
    inputs = on_device(chosen.inputs(n))
    program = tracer.compile(chosen.program, memory_limit=limit)
    program.plan(*inputs)
    return lambda: _wait(program(*inputs))


def on_device(inputs: Inputs) -> Inputs:
    """Return the inputs as arrays of tracer."""
    return tuple(tracer.tree.map(tnp.asarray, inputs))


def types_of(inputs: Inputs) -> Inputs:
    """Return shapes and dtypes of the inputs: enough for a plan, and nothing is allocated."""
    return tuple(tracer.tree.map(lambda array: tracer.ShapeDtype(array.shape, array.dtype), inputs))


def _wait(results: Any) -> Any:
    for array in tracer.tree.leaves(results):
        array.block_until_ready()
    return results


def digits(n: int) -> tuple[Any, Any]:
    """Return n images (n, 64) with pixels from 0 to 1, and their labels (n,), both float64."""
    from sklearn.datasets import load_digits  # only here: an extra that `make demo` installs

    bundle = load_digits()
    return bundle.data[:n] / 16, bundle.target[:n].astype(np.float64)


def _generated_kernel(n: int) -> Inputs:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, n, 3), dtype=np.float32)
    return x, y, rng.standard_normal(n, dtype=np.float32)


def _digits_kernel(n: int) -> Inputs:
    images, labels = digits(n)
    x = images.astype(np.float32)
    return x, x.copy(), labels.astype(np.float32)


def _generated_neighbours(n: int) -> Inputs:
    rng = np.random.default_rng(1)
    points = rng.standard_normal((n, 10), dtype=np.float32)
    return rng.standard_normal((n // 10, 10), dtype=np.float32), points


def _digits_neighbours(n: int) -> Inputs:
    x = digits(n)[0].astype(np.float32)
    # Every digit, moved by one pixel, among the digits as they are.
    return np.roll(x.reshape(-1, 8, 8), 1, axis=2).reshape(x.shape), x


def _generated_sparse_gp(n: int) -> Inputs:
    rng = np.random.default_rng(2)
    x = rng.standard_normal((n, 3))
    y = np.sin(2 * x[:, 0]) * np.cos(x[:, 1]) + 0.3 * rng.standard_normal(n)
    return parameters(x, inducing=min(200, n // 2), lengthscale=1.0), x, y


def _digits_sparse_gp(n: int) -> Inputs:
    x, labels = digits(n)
    return parameters(x, inducing=min(100, n // 2), lengthscale=2.0), x, labels - labels.mean()


def parameters(x: Any, *, inducing: int, lengthscale: float) -> dict[str, Any]:
    """Return the initial parameters of a sparse Gaussian process for points x (n, d)."""
    return {
        "lengthscales": np.full(x.shape[1], lengthscale),
        "variance": np.array(1.2),
        "noise": np.array(0.2),
        "inducing": x[:inducing].copy(),
    }


_KERNEL = ("kernel product", kernel_product, references.check_kernel_product)
_NEIGHBOURS = ("10 nearest neighbours", nearest_neighbours, references.check_nearest_neighbours)
_SPARSE_GP = ("sparse GP bound, gradient", value_and_gradient, references.check_sparse_gp)


def _problem(
    about: tuple[Any, ...], data: str, inputs: Any, limit: str, size: str, n: int
) -> Problem:
    title, program, check = about
    return Problem(title, data, size, program, inputs, n, limit, check)


PROBLEMS = {
    "kernel-digits": _problem(
        _KERNEL, "digits", _digits_kernel, "8MB", "n = m = {n:,}, d = 64, float32", 1_797
    ),
    "neighbours-digits": _problem(
        _NEIGHBOURS, "digits", _digits_neighbours, "8MB", "{n:,} in {n:,}, d = 64, float32", 1_797
    ),
    "sparse-gp-digits": _problem(
        _SPARSE_GP, "digits", _digits_sparse_gp, "8MB", "n = {n:,}, m = 100, d = 64, float64", 1_797
    ),
    "kernel": _problem(
        _KERNEL, "generated", _generated_kernel, "512MB", "n = m = {n:,}, d = 3, float32", 100_000
    ),
    "neighbours": _problem(
        _NEIGHBOURS, "generated", _generated_neighbours, "512MB",
        "10,000 in {n:,}, d = 10, float32", 100_000,
    ),
    "sparse-gp": _problem(
        _SPARSE_GP, "generated", _generated_sparse_gp, "512MB",
        "n = {n:,}, m = 200, d = 3, float64", 100_000,
    ),
}  # fmt: skip
