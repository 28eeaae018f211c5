"""Kernel regression: means of the neighbours' values, weighted by distance.

python examples/recipes/kernel_regression.py [--size small] [--as-written]
"""

import numpy as np
from recipe import Recipe, relative_error

import tracer.numpy as tnp


def data(n):
    rng = np.random.default_rng(0)
    x, new = (rng.uniform(-3, 3, (n, 2)).astype("float32") for _ in range(2))
    y = np.sin(2 * x[:, 0]) * np.cos(x[:, 1]) + rng.normal(size=n)
    return x, y.astype("float32"), new, np.float32(0.2)


def predict(x, y, new, width):
    squared = (((new[:, None, :] - x[None, :, :]) / width) ** 2).sum(-1)
    kernel = tnp.exp(-0.5 * squared)
    return kernel @ y / kernel.sum(1)


def check(inputs, found):
    x, y, new, width = (np.asarray(array, "float64") for array in inputs)
    rows = slice(None, None, -(-len(new) // 50))
    kernel = np.exp(-0.5 * (((new[rows, None] - x) / width) ** 2).sum(-1))
    return f"{len(kernel)} predictions", relative_error(found[rows], kernel @ y / kernel.sum(1))


def picture(figure, inputs, found):
    x, y, new, _ = inputs
    given, fitted = figure.subplots(1, 2, sharey=True)
    for axes, points, values, title in (
        (given, x, y, "the data"),
        (fitted, new, found, "predictions at new points"),
    ):
        axes.scatter(*points[:3000].T, c=values[:3000], s=2, vmin=-1, vmax=1)
        axes.set_title(title)


RECIPE = Recipe(predict, data, ("2MB", 2_000), ("100MB", 30_000), check=check, picture=picture)

if __name__ == "__main__":
    RECIPE.main()
