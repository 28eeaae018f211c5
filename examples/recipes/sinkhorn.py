"""Optimal transport with entropy: Sinkhorn's iterations on logarithms.

python examples/recipes/sinkhorn.py [--size small] [--as-written]
"""

import numpy as np
from recipe import Recipe, relative_error

import tracer
import tracer.numpy as tnp
from tracer.nn import logsumexp


def data(n):
    rng = np.random.default_rng(0)
    angle, bend = rng.uniform(0, 2 * np.pi, n), rng.uniform(-2, 2, n)
    circle = np.stack((np.cos(angle), np.sin(angle)), 1) + 0.1 * rng.normal(size=(n, 2))
    curve = np.stack((bend, np.sin(2 * bend)), 1) + 0.1 * rng.normal(size=(n, 2))
    return circle.astype("float32"), curve.astype("float32"), np.float32(0.1)


def transport(x, y, epsilon):
    cost = ((x[:, None, :] - y[None, :, :]) ** 2).sum(-1) / epsilon

    def step(carry, _):
        f, g = carry
        f = -logsumexp(g[None, :] - cost, axis=1)
        g = -logsumexp(f[:, None] - cost, axis=0)
        return (f, g), None

    (f, g), _ = tracer.scan(step, (tnp.zeros_like(x[:, 0]), tnp.zeros_like(y[:, 0])), length=20)
    plan = tnp.exp(f[:, None] + g[None, :] - cost)
    return f, g, plan @ y / plan.sum(1, keepdims=True)


def check(inputs, results):
    x, y, epsilon = (np.asarray(array, "float64") for array in inputs)
    f, g, moved = (array.astype("float64") for array in results)
    rows, columns = (np.arange(0, len(z), -(-len(z) // 50)) for z in (x, y))
    cost = ((x[:, None, :] - y[columns]) ** 2).sum(-1) / epsilon
    exact_g = -np.log(np.exp(f[:, None] - cost).sum(0))
    plan = np.exp(g - ((x[rows, None, :] - y) ** 2).sum(-1) / epsilon)
    exact_moved = plan @ y / plan.sum(1, keepdims=True)
    errors = relative_error(g[columns], exact_g), relative_error(moved[rows], exact_moved)
    return f"{len(columns)} potentials and {len(rows)} moved points", max(errors)


def picture(figure, inputs, results):
    axes = figure.subplots()
    (x, y, _), moved = inputs, results[-1]
    for points, label in ((x, "x"), (y, "y"), (moved, "x, moved")):
        axes.scatter(*points[:800].T, s=2, label=label)
    axes.legend()


RECIPE = Recipe(transport, data, ("500kB", 600), ("50MB", 15_000), check=check, picture=picture)

if __name__ == "__main__":
    RECIPE.main()
