"""Sums over all pairs of points, split over rows by hand."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp

from benchmarks.programs.pairs import SINKHORN_EPSILON, SINKHORN_STEPS, SOFTENING

Program = Callable[..., Any]


def _distances(row: Any, y: Any) -> Any:
    return ((row - y) ** 2).sum(-1)


def _log_density(batch: int) -> Program:
    def program(x: Any, queries: Any) -> Any:
        n, d = x.shape
        constant = math.log(n) + 0.5 * d * math.log(2 * math.pi)
        rows = jax.lax.map(
            lambda row: logsumexp(-0.5 * _distances(row, x)), queries, batch_size=batch
        )
        return rows - constant

    return program


def _mean_discrepancy(batch: int) -> Program:
    def mean(a: Any, b: Any) -> Any:
        rows = jax.lax.map(
            lambda row: jnp.exp(-0.5 * _distances(row, b)).mean(), a, batch_size=batch
        )
        return rows.mean()

    return lambda x, y: mean(x, x) + mean(y, y) - 2 * mean(x, y)


def _sinkhorn(batch: int) -> Program:
    def soft_minimum(potential: Any, a: Any, b: Any) -> Any:
        @jax.checkpoint
        def row(point: Any) -> Any:
            return logsumexp((potential - _distances(point, b)) / SINKHORN_EPSILON)

        means = jax.lax.map(row, a, batch_size=batch) - math.log(b.shape[0])
        return -SINKHORN_EPSILON * means

    def program(x: Any, y: Any) -> Any:
        def step(potentials: Any, _: Any) -> tuple[Any, None]:
            of_x = soft_minimum(potentials[1], x, y)
            return (of_x, soft_minimum(of_x, y, x)), None

        start = (jnp.zeros_like(x[:, 0]), jnp.zeros_like(y[:, 0]))
        (of_x, of_y), _ = jax.lax.scan(step, start, None, length=SINKHORN_STEPS)
        return of_x.mean() + of_y.mean()

    return program


def _energy(batch: int) -> Program:
    def program(x: Any, masses: Any) -> Any:
        @jax.checkpoint
        def row(body: Any) -> Any:
            point, mass = body
            return mass * (masses / jnp.sqrt(_distances(point, x) + SOFTENING)).sum()

        return -0.5 * jax.lax.map(row, (x, masses), batch_size=batch).sum()

    return program


def _correlation_maxima(batch: int) -> Program:
    def program(x: Any) -> Any:
        z = (x - x.mean(0)) / x.std(0)

        def row(one: Any) -> Any:
            place, variable = one
            correlations = jnp.abs(variable @ z / x.shape[0])
            return (correlations - (jnp.arange(x.shape[1]) == place)).max()

        places = jnp.arange(x.shape[1])
        return jax.lax.map(row, (places, z.T), batch_size=batch)

    return program


_ROWS = (64, 200)
PROGRAMS: Mapping[str, tuple[Callable[[int], Program], tuple[int, ...]]] = {
    "log density": (_log_density, _ROWS),
    "mean discrepancy": (_mean_discrepancy, _ROWS),
    "Sinkhorn": (_sinkhorn, _ROWS),
    "Sinkhorn gradient": (lambda batch: jax.grad(_sinkhorn(batch), argnums=(0, 1)), _ROWS),
    "N-body energy": (_energy, _ROWS),
    "N-body gradient": (lambda batch: jax.grad(_energy(batch)), _ROWS),
    "correlation maxima": (_correlation_maxima, _ROWS),
}
