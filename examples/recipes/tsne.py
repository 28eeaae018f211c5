"""t-SNE, exact: all pairs, in the data and in the picture.

python examples/recipes/tsne.py [--size small] [--as-written]
"""

import numpy as np
from recipe import Recipe, relative_error

import tracer
import tracer.numpy as tnp

PERPLEXITY = 30


def data(n):
    rng = np.random.default_rng(0)
    points = 3 * rng.normal(size=(10, 16))[np.arange(n) % 10] + rng.normal(size=(n, 16))
    return points.astype("float32"), (1e-2 * rng.normal(size=(n, 2))).astype("float32")


def distances(x):
    return ((x[:, None, :] - x[None, :, :]) ** 2).sum(-1)


def weights(x, precision):
    others = 1 - tnp.eye(len(x), dtype=x.dtype)
    return others * tnp.exp(-precision[:, None] * distances(x))


def precisions(x):
    """Bisect the logarithm of each precision until its row has the perplexity."""

    def step(bounds, _):
        low, high = bounds
        middle = (low + high) / 2
        w = weights(x, tnp.exp(middle))
        total = w.sum(1)
        entropy = tnp.log(total) + tnp.exp(middle) * (w * distances(x)).sum(1) / total
        is_wide = entropy > np.log(PERPLEXITY)
        return (tnp.where(is_wide, middle, low), tnp.where(is_wide, high, middle)), None

    start = tnp.full_like(x[:, 0], -6), tnp.full_like(x[:, 0], 2)
    return tnp.exp(tracer.scan(step, start, length=20)[0][0])


def divergence(y, x, precision, total, exaggeration):
    """Return the Kullback-Leibler divergence, up to a constant."""
    given = weights(x, precision) / total[:, None]
    given = exaggeration * (given + given.T) / (2 * len(x))
    far = 1 + distances(y)
    return (given * tnp.log(far)).sum() + tnp.log((1 / far).sum() - len(y))


def embed(x, y):
    precision = precisions(x)
    total = weights(x, precision).sum(1)

    def step(carry, exaggeration):
        y, speed = carry
        slope = tracer.grad(divergence)(y, x, precision, total, exaggeration)
        speed = 0.8 * speed - len(x) / 10 * slope
        return (y + speed, speed), None

    exaggerations = tnp.where(tnp.arange(40) < 25, 4.0, 1.0).astype(x.dtype)
    (y, _), _ = tracer.scan(step, (y, tnp.zeros_like(y)), exaggerations)
    return y, precision, divergence(y, x, precision, total, 1)


def check(inputs, results):
    x, (y, precision, found) = inputs[0].astype("float64"), (r.astype("float64") for r in results)

    def squared(x, rows):
        return (x[rows] ** 2).sum(1)[:, None] + (x**2).sum(1) - 2 * x[rows] @ x.T

    value = far = 0.0
    entropies = []
    for rows in np.array_split(np.arange(len(x)), -(-len(x) // 500)):
        apart = squared(x, rows)
        w = np.exp(-precision[rows, None] * apart)
        w[np.arange(len(rows)), rows] = 0
        given = w / w.sum(1)[:, None]
        entropies.append(np.log(w.sum(1)) + precision[rows] * (given * apart).sum(1))
        near = 1 + squared(y, rows)
        value += (given * np.log(near)).sum() / len(x)  # as it is, and transposed, are equal
        far += (1 / near).sum()
    errors = (
        relative_error(found, value + np.log(far - len(x))),
        relative_error(np.exp(np.concatenate(entropies)), np.full(len(x), PERPLEXITY)),
    )
    return "perplexities and divergence", max(errors)


def picture(figure, inputs, results):
    figure.subplots().scatter(
        *results[0][:4000].T, c=np.arange(len(results[0]))[:4000] % 10, s=2, cmap="tab10"
    )


RECIPE = Recipe(embed, data, ("1MB", 500), ("100MB", 8_000), check=check, picture=picture)

if __name__ == "__main__":
    RECIPE.main()
