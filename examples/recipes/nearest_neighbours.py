"""Nearest neighbours: a vote of the ten nearest of many points.

python examples/recipes/nearest_neighbours.py [--size small] [--as-written]
"""

import numpy as np
from recipe import Recipe, relative_error

import tracer.numpy as tnp


def data(n, m):
    rng = np.random.default_rng(0)
    centres = 2 * rng.normal(size=(10, 16))
    labels = rng.integers(10, size=n + m)
    points = (centres[labels] + 4 * rng.normal(size=(n + m, 16))).astype("float32")
    return points[:n], labels[:n].astype("int32"), points[n:]


def classify(points, labels, queries):
    squared = ((queries[:, None, :] - points[None, :, :]) ** 2).sum(-1)
    negative, nearest = tnp.top_k(-squared, 10)
    votes = (labels[nearest][:, :, None] == tnp.arange(10)).sum(1)
    return votes.argmax(1), tnp.sqrt(-negative)


def check(inputs, results):
    points, labels, queries = inputs
    points, (found, distances) = points.astype("float64"), results
    rows = np.arange(0, len(queries), -(-len(queries) // 50))
    exact = np.sqrt(((queries[rows, None] - points) ** 2).sum(-1))
    nearest = np.argsort(exact, axis=1)[:, :10]
    votes = [np.bincount(labels[row], minlength=10).argmax() for row in nearest]
    error = relative_error(distances[rows], np.take_along_axis(exact, nearest, 1))
    return f"labels and distances of {len(rows)} queries", max(error, np.mean(votes != found[rows]))


RECIPE = Recipe(classify, data, ("1MB", 2_000, 500), ("100MB", 50_000, 20_000), check=check)

if __name__ == "__main__":
    RECIPE.main()
