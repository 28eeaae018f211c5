"""k-means: Lloyd's steps, all in one program.

python examples/recipes/k_means.py [--size small] [--as-written]
"""

import numpy as np
from recipe import Recipe, relative_error

import tracer
import tracer.numpy as tnp


def data(n, k):
    rng = np.random.default_rng(0)
    centres = rng.uniform(-4, 4, (20, 16))
    points = centres[rng.integers(20, size=n)] + 0.5 * rng.normal(size=(n, 16))
    return points.astype("float32"), points[:k].astype("float32")


def nearest(points, centres):
    return ((points[:, None, :] - centres[None, :, :]) ** 2).sum(-1).argmin(1)


def k_means(points, centres):
    def step(centres, _):
        labels, k = nearest(points, centres), len(centres)
        sums = tracer.segment_sum(points, labels, k)
        counts = tracer.segment_sum(tnp.ones_like(points[:, :1]), labels, k)
        return sums / tnp.maximum(counts, 1), None

    centres, _ = tracer.scan(step, centres, length=5)
    return centres, nearest(points, centres)


def check(inputs, results):
    points, centres = (array.astype("float64") for array in inputs)

    def exact_nearest(points, centres):
        half = (centres**2).sum(1) / 2
        parts = np.array_split(points, -(-len(points) // 50_000))
        return np.concatenate([(half - part @ centres.T).argmin(1) for part in parts])

    for _ in range(5):
        labels, k = exact_nearest(points, centres), len(centres)
        counts = np.maximum(np.bincount(labels, minlength=k), 1)
        sums = [np.bincount(labels, axis, minlength=k) for axis in points.T]
        centres = np.stack(sums, 1) / counts[:, None]
    found, labels = results
    exact = ((points - centres[exact_nearest(points, centres)]) ** 2).sum()
    own = exact_nearest(points, found.astype("float64"))
    error = relative_error(((points - found[own]) ** 2).sum(), exact)
    return "sum of squared distances", error if np.mean(labels == own) > 0.999 else np.inf


def picture(figure, inputs, results):
    axes = figure.subplots()
    axes.scatter(*inputs[0][:4000, :2].T, s=1, label="points")
    axes.scatter(*results[0][:, :2].T, color="black", s=4, label="centres")
    axes.set_title("the first two features")
    axes.legend()


RECIPE = Recipe(
    k_means,
    data,
    ("600kB", 5_000, 50),
    ("100MB", 500_000, 500),
    check=check,
    picture=picture,
)

if __name__ == "__main__":
    RECIPE.main()
