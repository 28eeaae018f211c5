"""JAX: models as in `examples/sgpr.py` and `transformer.py`, the same text under `jax.jit`."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular

from benchmarks.experiments import inputs
from benchmarks.experiments import transformer_model as model
from benchmarks.experiments.peers.jax_programs import place_on, prepared
from benchmarks.experiments.runs import Run
from benchmarks.experiments.sgpr import JITTER, compared
from benchmarks.experiments.transformer import step_values, values


def _covariance(parameters: dict[str, Any], x: Any, y: Any) -> Any:
    scales = jax.nn.softplus(parameters["lengthscales"])
    squares = ((x[:, None, :] / scales - y[None, :, :] / scales) ** 2).sum(-1)
    return jax.nn.softplus(parameters["variance"]) * jnp.exp(-0.5 * squares)


def _loss(parameters: dict[str, Any], x: Any, y: Any) -> Any:
    z, n = parameters["inducing"], y.shape[0]
    noise = jax.nn.softplus(parameters["noise"])
    identity = jnp.eye(z.shape[0])
    factor = jnp.linalg.cholesky(_covariance(parameters, z, z) + JITTER * identity)
    a = solve_triangular(factor, _covariance(parameters, z, x), lower=True) / jnp.sqrt(noise)
    factor_b = jnp.linalg.cholesky(identity + a @ a.T)
    c = solve_triangular(factor_b, a @ y, lower=True) / jnp.sqrt(noise)
    fit = -0.5 * n * jnp.log(2 * jnp.pi * noise) - jnp.log(jnp.diagonal(factor_b)).sum()
    quadratic = -0.5 * (y @ y) / noise + 0.5 * (c @ c)
    variance = jax.nn.softplus(parameters["variance"])
    trace = -0.5 * n * variance / noise + 0.5 * (a * a).sum()
    return -(fit + quadratic + trace) / n


def sgpr(source: str, n: int, m: int, device: str, cap_bytes: int, data: str | None = None) -> Run:
    """Compute value and gradient."""
    place_on(device)
    problem = inputs.sparse_gp(source, n, m, data)
    keys = ("lengthscales", "variance", "noise")
    parameters = {key: np.log(np.expm1(problem[key])) for key in keys}
    parameters["inducing"] = problem["inducing"]

    return prepared(
        jax.value_and_grad(_loss),
        (parameters, problem["x"], problem["y"]),
        lambda found: compared(found[0], found[1]["inducing"]),
        device,
        cap_bytes,
    )


def transformer(training: bool, device: str, cap_bytes: int, **sizes: int) -> Run:
    """Run the Transformer forward, or take a step of gradient descent."""
    place_on(device)
    shape = model.Shape(**sizes)
    lib = model.Library(
        jnp,
        lambda x: jax.nn.softmax(x, axis=-1),
        lambda x: jax.scipy.special.logsumexp(x, axis=-1),
        lambda x, places: jnp.take_along_axis(x, places[..., None], axis=-1)[..., 0],
    )
    parameters, words = model.make_parameters(shape), model.make_words(shape)
    if not training:

        def forward(parameters: Any, inputs: Any, targets: Any) -> Any:
            return model.logits(lib, shape, parameters, inputs, targets)

        given = (parameters, *words[:2])
        return prepared(forward, given, lambda found: values(shape, found), device, cap_bytes)

    def step(parameters: Any, *words: Any) -> Any:
        value, gradient = jax.value_and_grad(
            lambda parameters: model.loss(lib, shape, parameters, *words)
        )(parameters)
        moved = jax.tree.map(lambda p, g: p - model.RATE * g, parameters, gradient)
        return value, moved, gradient["encoder"][0]["dense"]["hidden"]

    return prepared(
        step,
        (parameters, *words),
        lambda found: step_values(shape, found[0], found[2]),
        device,
        cap_bytes,
    )
