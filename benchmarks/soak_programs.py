"""The functions that benchmarks.soak calls: 50, written once for tracer and for JAX.

Each takes one or two arrays of a shape that changes from call to call.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

Arguments = tuple[Any, ...]


@dataclasses.dataclass(frozen=True)
class Side:
    """What the functions are written with: tracer's names, or JAX's of the same meaning."""

    np: ModuleType
    transforms: ModuleType
    control: ModuleType
    compile: Callable[..., Any]
    errors: tuple[type[Exception], ...]
    """What a wrong argument raises."""


def tracer_side() -> Side:
    """Return tracer's names; half of the functions have a limit, so that some run in slices."""
    import tracer
    import tracer.numpy as tnp

    return Side(tnp, tracer, tracer, tracer.compile, (tracer.TracerError,))


def jax_side() -> Side:
    """Return JAX's names, of which JAX_ENABLE_X64 is expected to be set."""
    import jax
    import jax.numpy as jnp

    def compiled(f: Any, memory_limit: object = None) -> Any:
        del memory_limit
        return jax.jit(f)

    return Side(jnp, jax, jax.lax, compiled, (TypeError, ValueError))


def functions(side: Side) -> dict[str, Callable[..., Any]]:
    """Return the functions by name, not compiled."""
    xp, t = side.np, side.transforms
    return {
        **_elementwise(xp),
        **_reductions(xp),
        **_products(xp),
        **_moved(xp),
        **_algebra(xp),
        **_gradients(xp, t),
        **_loops(xp, t, side.control),
    }


def _elementwise(xp: Any) -> dict[str, Callable[..., Any]]:
    return {
        "sum of two": lambda x, y: x + y,
        "polynomial": lambda x, y: x**3 - 2 * x * y + 1,
        "tanh": lambda x, y: xp.tanh(x) * y,
        "where": lambda x, y: xp.where(x > y, x, -y),
        "clip": lambda x, y: xp.clip(x, -0.5, 0.5) + y,
        "logaddexp": lambda x, y: xp.logaddexp(x, y),
        "floor": lambda x, y: xp.floor(x) + (y > 0),
        "pytree": lambda x, y: {"a": x - y, "b": (x * y, [abs(x)])},
    }


def _reductions(xp: Any) -> dict[str, Callable[..., Any]]:
    return {
        "sum": lambda x, y: (x * y).sum(),
        "mean of rows": lambda x, y: (x + y).mean(0),
        "largest": lambda x, y: (x.max(1), y.min(0)),
        "places": lambda x, y: (x.argmax(1), y.argmin(0)),
        "deviation": lambda x, y: xp.std(x, axis=0) + xp.var(y),
        "norm": lambda x, y: xp.sqrt((x * x).sum(1)) + y[:, 0],
        "softmax": lambda x, y: _softmax(xp, x + y),
        "cumulative": lambda x, y: xp.cumsum(x, axis=0) + y,
        "any": lambda x, y: ((x > 1).any(), (y > -9).all()),
        "logsumexp": lambda x, y: xp.log(xp.exp(x + y).sum(1)),
    }


def _softmax(xp: Any, z: Any) -> Any:
    z = xp.exp(z - z.max(-1, keepdims=True))
    return z / z.sum(-1, keepdims=True)


def _products(xp: Any) -> dict[str, Callable[..., Any]]:
    return {
        "product": lambda x, y: x.T @ y,
        "product with a vector": lambda x, y: x @ y[0],
        "outer": lambda x, y: xp.outer(x[:, 0], y[:, 0]).sum(0),
        "einsum": lambda x, y: xp.einsum("ij,kj->ik", x, y),
        "distances": lambda x, y: ((x[:, None] - y[None]) ** 2).sum(-1),
        "kernel": lambda x, y: xp.exp(-((x[:, None] - y[None]) ** 2).sum(-1)) @ y,
        "layer": lambda x, y: xp.maximum(x @ (x.T @ y), 0),
        "attention": lambda x, y: _softmax(xp, x @ y.T) @ y,
    }


def _moved(xp: Any) -> dict[str, Callable[..., Any]]:
    return {
        "transpose": lambda x, y: x.T.reshape(-1)[: x.shape[0]] + y[:, 0],
        "stacked": lambda x, y: xp.concatenate([x, y])[::2],
        "gather": lambda x, y: x[xp.argsort(y[:, 0])],
        "sort": lambda x, y: xp.sort(x, axis=0) + y,
        "triangle": lambda x, y: xp.tril(x.T @ y),
        "roll": lambda x, y: xp.roll(x, 1, axis=0) - y,
        "padded": lambda x, y: xp.pad(x, ((1, 1), (0, 0))).sum(0) + y.sum(0),
        "update": lambda x, y: x.at[0].set(y[0]).at[:, 1].add(1.0),
    }


def _algebra(xp: Any) -> dict[str, Callable[..., Any]]:
    def positive(x: Any) -> Any:
        return x.T @ x + xp.eye(x.shape[1])

    return {
        "factor": lambda x, y: xp.linalg.cholesky(positive(x)) + y.sum(),
        "solve": lambda x, y: xp.linalg.solve(positive(x), y[0]),
        "eigenvalues": lambda x, y: xp.linalg.eigvalsh(positive(x)) + y[0],
        "spectrum": lambda x, y: abs(xp.fft.rfft(x[:, 0])) + abs(y).sum(),
    }


def _gradients(xp: Any, t: Any) -> dict[str, Callable[..., Any]]:
    def loss(x: Any, y: Any) -> Any:
        return (xp.tanh(x @ x.T) @ y).mean()

    def energy(x: Any, y: Any) -> Any:
        return (1 / (1 + ((x[:, None] - y[None]) ** 2).sum(-1))).sum()

    return {
        "gradient": t.grad(loss),
        "value and gradient": t.value_and_grad(energy),
        "gradient of extremes": t.grad(lambda x, y: (x[:, None] - y[None]).max(1).sum()),
        "tangent": lambda x, y: t.jvp(loss, (x, y), (y, x))[1],
        "jacobian": lambda x, y: t.jacobian(lambda v: xp.sin(v) * v.sum())(x[0]) @ y[0],
        "mapped": lambda x, y: t.vmap(lambda a, b: xp.dot(a, b) * a)(x, y),
    }


def _loops(xp: Any, t: Any, control: Any) -> dict[str, Callable[..., Any]]:
    def rolled(x: Any, y: Any) -> Any:
        return control.scan(lambda c, row: (0.9 * c + row, c.sum()), y[0], x)

    return {
        "scan": rolled,
        "gradient of a scan": t.grad(lambda x, y: rolled(x, y)[1].sum()),
        "fori": lambda x, y: control.fori_loop(0, 5, lambda i, c: xp.sin(c) + i, x) + y,
        "while": lambda x, y: control.while_loop(
            lambda c: c.max() < 50, lambda c: 2 * c + 1, x + y
        ),
        "cond": lambda x, y: control.cond(x.sum() > y.sum(), lambda: x, lambda: y),
        "checkpointed": t.grad(lambda x, y: (t.checkpoint(xp.tanh)(x @ y.T) ** 2).sum()),
    }


def points(rows: int, seed: int) -> Arguments:
    """Return two arrays of so many rows and 4 columns, the same for the same numbers."""
    x, y = np.random.default_rng([rows, seed]).standard_normal((2, rows, 4))
    return x, y


__all__ = ["Side", "functions", "jax_side", "points", "tracer_side"]
