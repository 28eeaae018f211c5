"""Hand-chunked JAX: `lax.map(batch_size=...)`, with `jax.checkpoint` where there is a gradient.

Each entry names candidates, forms and batch sizes, of which the fastest is raced. Imported only
where JAX is installed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.peers import by_hand_models, by_hand_pairs
from benchmarks.programs.kernels import matern, rational_quadratic, squared_exponential

Program = Callable[..., Any]
Make = Callable[..., Program]


def by_differences(row: Any, y: Any, norms: Any) -> Any:
    return ((row - y) ** 2).sum(-1)


def by_products(row: Any, y: Any, norms: Any) -> Any:
    return row @ row + norms - 2 * y @ row


FORMS = {"differences": by_differences, "products": by_products}


def _kernel(value: Program, form: Program, batch: int) -> Program:
    def program(x: Any, y: Any, v: Any, *parameters: Any) -> Any:
        norms = (y * y).sum(-1)

        def row(point: Any) -> Any:
            return value(jnp, form(point, y, norms), *parameters) @ v

        return jax.lax.map(row, x, batch_size=batch)

    return program


def _kernel_gradient(value: Program, form: Program, batch: int) -> Program:
    def loss(x: Any, y: Any, v: Any, lengthscales: Any, u: Any, *parameters: Any) -> Any:
        y = y / lengthscales
        norms = (y * y).sum(-1)

        @jax.checkpoint
        def row(point: Any) -> Any:
            return value(jnp, form(point, y, norms), *parameters) @ v

        return (u * jax.lax.map(row, x / lengthscales, batch_size=batch)).sum()

    more = (5,) if value is rational_quadratic else ()
    return jax.grad(loss, argnums=(0, 1, 2, 3, *more))


def _nearest(k: int, form: Program, batch: int) -> Program:
    def program(queries: Any, data: Any) -> Any:
        norms = (data * data).sum(-1)

        def row(query: Any) -> Any:
            found, places = jax.lax.top_k(-form(query, data, norms), k)
            return -found, places

        return jax.lax.map(row, queries, batch_size=batch)

    return program


def absolute(row: Any, y: Any, norms: Any) -> Any:
    return jnp.abs(row - y).sum(-1)


def cosine(row: Any, y: Any, norms: Any) -> Any:
    return 1 - (y @ row) / jnp.sqrt(norms * (row @ row))


def _forms(make: Make, batches: tuple[int, ...], forms: Mapping[str, Program]) -> Any:
    return {
        f"{name}, {batch}": partial(make, form, batch)
        for name, form in forms.items()
        for batch in batches
    }


def _kernels() -> Iterator[tuple[str, Any]]:
    se, batches = squared_exponential, (64, 200)
    products = {"products": by_products}
    for name in ("kernel", "kernel, d = 1", "kernel, f64"):
        yield name, _forms(partial(_kernel, se), batches, FORMS)
    for name in ("kernel, d = 100", "kernel, expanded", "kernel, expanded, d = 100"):
        yield name, _forms(partial(_kernel, se), batches, products)
    for name in ("kernel gradient", "kernel gradient, f64"):
        yield name, _forms(partial(_kernel_gradient, se), batches, FORMS)
    for name in ("kernel gradient, d = 100", "kernel gradient, expanded"):
        yield name, _forms(partial(_kernel_gradient, se), batches, products)
    for name, value in (("Matern-5/2", matern), ("rational quadratic", rational_quadratic)):
        yield name, _forms(partial(_kernel, value), batches, FORMS)
        yield f"{name} gradient", _forms(partial(_kernel_gradient, value), batches, FORMS)


def _neighbours() -> Iterator[tuple[str, Any]]:
    batches = (4, 32)
    for k in (1, 10, 100):
        plural = "s" if k > 1 else ""
        yield f"{k} neighbour{plural}, L2", _forms(partial(_nearest, k), batches, FORMS)
    yield "10 neighbours, 1,000,000", _forms(partial(_nearest, 10), batches, FORMS)
    yield "10 neighbours, L1", _forms(partial(_nearest, 10), batches, {"L1": absolute})
    yield "10 neighbours, cosine", _forms(partial(_nearest, 10), batches, {"cosine": cosine})


def _batches(make: Make, batches: tuple[int, ...]) -> Mapping[str, Callable[[], Program]]:
    return {str(batch): partial(make, batch) for batch in batches}


CANDIDATES: Mapping[str, Mapping[str, Callable[[], Program]]] = {
    **dict(_kernels()),
    **dict(_neighbours()),
    **{
        name: _batches(make, batches)
        for family in (by_hand_pairs.PROGRAMS, by_hand_models.PROGRAMS)
        for name, (make, batches) in family.items()
    },
}
