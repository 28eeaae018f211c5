"""What a program of the planner's benchmark is: its text, inputs, limits and value check."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.framework import Framework
from tracer import tree

Array = np.ndarray[Any, Any]
Check = Callable[[tuple[Any, ...], Any], float]


@dataclass(frozen=True)
class Size:
    """How large a program's inputs are, and the byte limit it runs under."""

    shape: Mapping[str, int]
    limit: str


@dataclass(frozen=True)
class Workload:
    """A program as a user writes it, without a word about memory.

    Attributes
    ----------
    program : callable
        From a framework to the function; the same text for `tracer` and for JAX.
    inputs : callable
        From a generator and the numbers of a size to the arguments.
    sizes : mapping of str to Size
        "small", "medium" and "full", which is the size in the issue.
    check : callable
        From arguments and results to the largest error, relative to the largest expected value;
        expected values are NumPy's in float64, of some rows where all would take too long.
    tolerance : float
        The largest error that is right.
    """

    program: Callable[[Framework], Callable[..., Any]]
    inputs: Callable[..., tuple[Any, ...]]
    sizes: Mapping[str, Size]
    check: Check
    tolerance: float


def make_inputs(workload: Workload, size: str) -> tuple[Any, ...]:
    """Return the arguments, the same in every process."""
    return workload.inputs(np.random.default_rng(0), **workload.sizes[size].shape)


def sizes(
    small: Mapping[str, int],
    medium: Mapping[str, int],
    full: Mapping[str, int],
    limits: tuple[str, str, str],
) -> dict[str, Size]:
    """Return the three sizes with their limits."""
    shapes = {"small": small, "medium": medium, "full": full}
    return {
        name: Size(shape, limit)
        for (name, shape), limit in zip(shapes.items(), limits, strict=True)
    }


def relative_error(found: Any, expected: Any) -> float:
    """Return the largest difference over the largest expected value; NaN counts as infinite."""
    found, expected = np.asarray(found, np.float64), np.asarray(expected, np.float64)
    if found.shape != expected.shape:
        raise ValueError(f"found {found.shape}, expected {expected.shape}")
    error = float(np.abs(found - expected).max() / (np.abs(expected).max() + 1e-300))
    return float("inf") if np.isnan(error) else error


def some_rows(n: int, count: int = 64) -> Array:
    """Return row numbers spread over all of them, with the first and the last."""
    return np.unique(np.linspace(0, n - 1, min(n, count)).astype(int))


def chunks(n: int, size: int) -> Iterator[slice]:
    """Cut range(n) into slices."""
    return (slice(start, min(start + size, n)) for start in range(0, n, size))


def squared_distances(x: Array, y: Array) -> Array:
    """Return |x_i - y_j|^2 by differences, in float64 and feature by feature."""
    x, y = x.astype(np.float64), y.astype(np.float64)
    total = np.zeros((len(x), len(y)))
    for left, right in zip(x.T, y.T, strict=True):
        total += np.square(left[:, None] - right[None, :])
    return total


def directional_error(
    function: Callable[[Any], float], point: Any, gradient: Any, *, step: float, seed: int = 1
) -> float:
    """Compare a gradient with differences of a float64 function, of fourth order in the step.

    Along one random direction for each array, plus the gradient itself, so that the derivative is
    about as large as the gradient's norm, to which the error is relative.
    """
    rng = np.random.default_rng(seed)
    leaves = [np.asarray(leaf, np.float64) for leaf in tree.leaves(point)]
    slopes = [np.asarray(leaf, np.float64) for leaf in tree.leaves(gradient)]
    _, structure = tree.flatten(point)
    worst = 0.0
    for place, slope in enumerate(slopes):
        norm = float(np.linalg.norm(slope)) + 1e-300
        noise = rng.standard_normal(slope.shape)
        direction = slope / norm + noise / float(np.linalg.norm(noise))
        found = 0.0
        for steps, weight in ((1, 8), (-1, -8), (2, -1), (-2, 1)):
            moved = list(leaves)
            moved[place] = leaves[place] + steps * step * direction
            found += weight * function(tree.unflatten(structure, moved)) / (12 * step)
        worst = max(worst, abs(found - float(np.vdot(slope, direction))) / norm)
    return float("inf") if np.isnan(worst) else worst
